"""An engine for tests alone: the reference machine interpreter in the model's place, with faults to order."""

import copy

from qgpu.machine.description import Machine
from qgpu_reference.machine import MachineInterpreter


class ReferenceEngine:
    """Speaks the Engine protocol. wrong: generated token number (from 0) -> the id written instead of the right one."""

    def __init__(self, machine: Machine, wrong: dict[int, int] | None = None, wrong_word: tuple[int, int] | None = None) -> None:
        self.machine, self.wrong, self.wrong_word = machine, wrong or {}, wrong_word
        self.reset()

    def reset(self) -> None:
        self.judge, self.generated = MachineInterpreter(self.machine), 0

    def feed(self, ids) -> int:
        for token in ids:
            self.judge.feed(token)
        token = self.wrong.get(self.generated, self.judge.expected)
        self.generated += 1
        return token

    def read_global(self, words: int) -> list[int]:
        memory = self.judge.memory[:words]
        if self.wrong_word:
            memory[self.wrong_word[0]] = self.wrong_word[1]
        return memory

    def fork(self) -> "ReferenceEngine":
        return copy.deepcopy(self)
