"""What memory heads hold and read, from the reference interpreter's registers, memory, program, targets and ballots, by the head's name."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..machine.description import WORD, Machine
from .architecture import Architecture
from .architecture_stage import loaded_word, ports

F64 = NDArray[np.float64]
PORT = re.compile(r"s(\d+)\.(?:port_r([abc])|class(\d+))_(\d+)\.(\d+)")
MEMORY = re.compile(r"s(\d+)\.l(\d+)\.memory(\d+)")
LATCH = re.compile(r"tail\.latch_")
ITEM = re.compile(r"s(\d+)_l(\d+)|data(\d+)|word(\d+)")
ROM = re.compile(r"(?:front|s\d+)\.rom(\d+)\.0")
TARGETS = re.compile(r"front\.(?:targets|writtens)(\d+)\.0")
BALLOTS = re.compile(r"front\.ballots(\d+)")


def spell(words, n: int) -> F64:
    """(n, ...) bits of words (...), lowest first."""
    words = np.asarray(words, np.int64)
    return (words[None] >> np.arange(n).reshape(-1, *[1] * words.ndim) & 1).astype(np.float64)


class Banks:
    """Reads of heads whose signals other ops add to as well: register ports, memory, the tail's latches. Word by word, per token.

    heads: name -> value dims of the map's memory heads.
    """

    def __init__(self, m: Machine, heads: dict[str, int]) -> None:
        self.m, self.room = m, m.head_dim - 2
        self.heads = {name: width for name, width in heads.items() if PORT.fullmatch(name) or MEMORY.fullmatch(name) or LATCH.match(name)}
        self.n, self.runs = 0, []                                    # tokens so far, those of them that are an EXEC or NEXT
        self.words: dict[str, list[list[int]]] = {name: [] for name in self.heads}           # at the runs
        self.latched = {name: [0] * len(self.pieces(name)) for name in self.heads if LATCH.match(name)}
        self.ports = [(name, int(f[1]), "abc".index(f[2]) if f[2] else int(f[3]), int(f[4]), int(f[5]), self.registers_of(f[2], f[3]))
                      for name in self.heads if (f := PORT.fullmatch(name))]
        self.memories = [(name, *map(int, f.groups())) for name in self.heads if (f := MEMORY.fullmatch(name))]

    def pieces(self, name: str) -> list[tuple[str, int, int, int]]:
        """(what, stage, lane, bits) of a latch's words in order."""
        out = []
        for s, lane, data, word in ITEM.findall(name.split("latch_", 1)[1]):
            what = "s" if s else "data" if data else "word"
            out.append((what, int(s or 0), int(lane or data or word), self.m.window_bits - 1 if what == "word" else WORD))
        return out

    def registers_of(self, port: str, k: str) -> list[int]:
        """Registers that a port's heads hold, in the order of their rows."""
        every = range(1, self.m.registers + 1)
        return list(every) if port else [r for r in every if r % self.m.register_classes == int(k)]

    def feed(self, at: Architecture, run: bool) -> None:
        """Note what every such head's queried row holds at the token that `at` was just fed. run: whether it is an EXEC or NEXT."""
        self.n += 1
        if not run:
            return
        self.runs.append(self.n - 1)
        m, judge = self.m, at.judge
        for name in self.latched:
            self.words[name].append([self._result(at, *piece) for piece in self.pieces(name)])
        program, registers = judge.program[judge.block], judge.registers[judge.warp][judge.group]
        fields = [ports(m, program[3 * s - 1]) for s in range(1, m.stages + 1)]
        group = judge.warp * m.groups + judge.group
        for name, stage, port, lane, bank, held in self.ports:
            number = fields[stage - 1][port]
            here = number and (group * len(held) + held.index(number)) // self.room == bank
            self.words[name].append([registers[lane][number] if here else 0])
        loaded = {}
        for name, stage, lane, bank in self.memories:
            if (stage, lane) not in loaded:
                loaded[stage, lane] = self._load(at, stage, lane)
            word = loaded[stage, lane]
            self.words[name].append([judge.memory[word] if word is not None and word // self.room == bank else 0])

    def _result(self, at: Architecture, what: str, stage: int, lane: int, bits: int) -> int:
        store = at.last.program.store_stage
        if what == "s":
            return at.last.stages[stage - 1].result[lane]
        if store is None:
            return 0
        return at.last.stages[store].c[lane] if what == "data" else at.store_word(lane)

    def _load(self, at: Architecture, stage: int, lane: int) -> int | None:
        """Number of the word that a stage loads, or None."""
        trace, instruction = at.last.stages[stage - 1], at.last.program.instructions[stage - 1]
        return loaded_word(at.judge, trace.a[lane] + trace.b[lane] & 0xFFFFFFFF) if "ld" in instruction.lines else None

    def take(self) -> dict[str, F64]:
        """head -> (value dims, n) since the last call: 0 where nothing runs; latches keep the last run's."""
        out, runs = {}, np.array(self.runs, int)
        for name, width in self.heads.items():
            latch = self.latched.get(name)
            words = np.zeros((self.n, len(latch or [0])), np.int64)                          # (n, words)
            if latch is None:
                words[runs] = np.array(self.words[name], np.int64).reshape(-1, 1)
            else:
                held = np.array([latch, *self.words[name]], np.int64)
                words[:] = held[np.searchsorted(runs, np.arange(self.n), "right")]
                self.latched[name] = held[-1].tolist()
            bits = [WORD] if latch is None else [p[3] for p in self.pieces(name)]
            out[name] = np.concatenate([spell(words[:, k], n) for k, n in enumerate(bits)])
            if len(out[name]) != width:
                raise CheckpointError(f"memory head {name} has {width} value dims where {len(out[name])} are expected")
            self.words[name] = []
        self.n, self.runs = 0, []
        return out


def state_rows(at: Architecture, name: str, width: int) -> F64 | None:
    """What an addressed store's rows must hold now: (rows, width), from row 0; None for heads that are no such store."""
    m, judge = at.m, at.judge
    room = m.head_dim - 2
    part = lambda words, bank: words[int(bank) * room:(int(bank) + 1) * room]
    if found := PORT.fullmatch(name):
        _, port, k, lane, bank = found.groups()
        held = [r for r in range(1, m.registers + 1) if port or r % m.register_classes == int(k)]
        words = [judge.registers[w][g][int(lane)][r] for w in range(m.warps) for g in range(m.groups) for r in held]
        return spell(part(words, bank), width).T
    if found := MEMORY.fullmatch(name):
        return spell(part(judge.memory, found[3]), width).T
    if found := ROM.fullmatch(name):
        return spell([words[int(found[1])] for words in judge.program], width).T
    if found := TARGETS.fullmatch(name):
        return spell([judge.targets[w][g][int(found[1])] for w in range(m.warps) for g in range(m.groups)], width).T
    if found := BALLOTS.fullmatch(name):
        return spell([judge.ballots[w] >> int(found[1]) * m.lanes for w in range(m.warps)], width).T
    return None
