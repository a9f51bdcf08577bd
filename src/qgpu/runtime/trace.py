"""A token stream in words: one record a token, with what it means where it stands.

The stream alone says which value is whose: a block's header words name the live stages and their registers, an EXEC's outcome
says where the lanes of the block before went. Nothing is computed here but that bookkeeping; values are those in the stream.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import UsageError
from ..machine.description import Machine
from ..machine.tokens import Token, Vocabulary

UNKNOWN = "out of place"


class Narrator:
    """Says what each token of a stream means. Feed it every token from the first on.

    lines: block number -> place in the kernel's source, for EXEC records; may be empty.
    A stream that breaks the rules is described too: what has no place in it is called "out of place".
    """

    def __init__(self, machine: Machine, lines: Mapping[int, str] | None = None) -> None:
        self.machine, self.lines = machine, dict(lines or {})
        self.program: dict[int, list[int]] = {}
        self.targets = [machine.exit_target] * machine.lanes
        self.threads = 0
        self.warp = 0
        self.block: int | None = None
        self.running = False
        self.value, self.chunks = 0, 0  # of the value being sent
        self.due: deque[tuple[str, int, int]] = deque()  # ("result", stage, lane), ("data", 0, lane), ("mem", 0, lane)

    def meaning(self, token: Token) -> str:
        """What this token says, given all tokens before it."""
        return getattr(self, "_" + token.kind.lower())(token)

    # ---- values ---------------------------------------------------------------------------------------------------
    def _val(self, token: Token) -> str:
        bits = self.machine.chunk_bits
        low = bits * self.chunks
        self.value |= token.fields[0] << low
        self.chunks += 1
        return f"bits {low} to {low + bits - 1} of {self._whose(False)}; more follow"

    def _sval(self, token: Token) -> str:
        bits, chunk = self.machine.chunk_bits, token.fields[0]
        if chunk >> (bits - 1):
            chunk -= 1 << bits
        value = self.value | chunk << (bits * self.chunks)
        self.value, self.chunks = value & 0xFFFFFFFF, 0
        text = f"{self._whose(True)} = {self._number()}"
        if self.running and self.due and self.due[0][0] != "mem":
            if self.due.popleft()[0] == "result":
                self.value = 0
        return text

    def _whose(self, done: bool) -> str:
        """Whose value is being sent."""
        if not self.running:
            return "a value"
        if not self.due or self.due[0][0] == "mem":
            return f"a value {UNKNOWN}"
        kind, stage, lane = self.due[0]
        thread = self.warp * self.machine.lanes + lane
        if kind == "data":
            return f"store data of lane {lane} (thread {thread})"
        register = self._field("dest%d" % stage)
        return f"stage {stage} result of lane {lane} (thread {thread}){', register r%d' % register if register else ''}"

    def _number(self) -> str:
        signed = self.value - (1 << 32) if self.value >> 31 else self.value
        return f"{signed}" if signed == self.value else f"{signed} ({self.value:#x})"

    # ---- setup ----------------------------------------------------------------------------------------------------
    def _nop(self, token: Token) -> str:
        return "nothing"

    def _prog(self, token: Token) -> str:
        word, block = token.fields
        self.program.setdefault(block, [0] * self.machine.words_per_block)[word] = self.value
        name = f"header word {word}" if word < 2 else \
            f"stage {(word - 2) // 3 + 1}'s {('operand', 'operation', 'immediate')[(word - 2) % 3]} word"
        text = f"block {block}'s {name} is {self.value:#010x}"
        self.value = 0
        return text

    def _config(self, token: Token) -> str:
        warps, last = token.fields
        self.threads = (warps - 1) * self.machine.lanes + last
        return f"{self.threads} threads in {warps} warps, {last} of them in the last"

    def _mem(self, token: Token) -> str:
        word = token.fields[0]
        text = f"global word {word} (address {self.machine.global_base + 4 * word}) becomes {self._number()}"
        if self.running:
            text += f", stored by lane {self.due.popleft()[2]}" if self.due and self.due[0][0] == "mem" else f", {UNKNOWN}"
        self.value = 0
        return text

    # ---- control --------------------------------------------------------------------------------------------------
    def _warp(self, token: Token) -> str:
        m, self.warp = self.machine, token.fields[0]
        first = self.warp * m.lanes
        self.targets = [0 if first + lane < self.threads else m.exit_target for lane in range(m.lanes)]
        self.running, self.block = True, None
        self.due.clear()
        return f"warp {self.warp} starts, threads {first} to {min(first + m.lanes, self.threads) - 1}"

    def _exec(self, token: Token) -> str:
        m = self.machine
        block, outcome = token.fields
        moved = []
        for o, one, more, field in ((1, "goes on", "go on", "fall"), (2, "branches", "branch", "taken")):
            lanes = [lane for lane in range(m.lanes) if outcome[lane] == o]
            target = self._field(field)
            for lane in lanes:
                self.targets[lane] = target
            if lanes:
                moved.append(f"{_lanes(lanes)} {one if len(lanes) == 1 else more} to {self._place(target)}")
        active = [lane for lane in range(m.lanes) if self.targets[lane] == block]
        self.block = block
        self.due.clear()
        for stage in range(1, m.stages + 1):
            if self._field("live") >> (stage - 1) & 1:
                self.due.extend(("result", stage, lane) for lane in active)
        if self._field("store"):
            for lane in active:
                self.due.extend((("data", 0, lane), ("mem", 0, lane)))
        text = f"block {block} runs for {_lanes(active)} of warp {self.warp}"
        if block in self.lines:
            text += f", {self.lines[block]}"
        return "; ".join([text, *moved])

    def _end(self, token: Token) -> str:
        self.running = False
        return "the launch ends"

    def _trap(self, token: Token) -> str:
        self.running = False
        return f"block {self.block} used an address that is not an aligned word of global memory; the launch stops"

    def _place(self, target: int) -> str:
        return "the exit" if target == self.machine.exit_target else f"block {target}"

    def _field(self, name: str) -> int:
        """A header field of the current block; 0 where its program words were never sent."""
        word, low, width = self.machine.header_fields[name]
        words = self.program.get(self.block if self.block is not None else -1)
        return words[word] >> low & ((1 << width) - 1) if words else 0


def _lanes(lanes: Sequence[int]) -> str:
    """"lane 2", "lanes 0, 3" or "no lane"."""
    return f"lane{'s' * (len(lanes) > 1)} {', '.join(map(str, lanes))}" if lanes else "no lane"


def records(machine: Machine, ids: Sequence[int], setup: int, lines: Mapping[int, str] | None = None) -> Iterator[dict]:
    """One record a token: position, id, kind, fields, by ("host" or "model"), meaning. setup: how many the host wrote."""
    vocabulary, narrator = Vocabulary(machine), Narrator(machine, lines)
    for position, token_id in enumerate(ids):
        token = vocabulary.token(token_id)
        fields = [list(f) if isinstance(f, tuple) else f for f in token.fields]
        yield {"position": position, "id": token_id, "kind": token.kind, "fields": fields,
               "by": "host" if position < setup else "model", "meaning": narrator.meaning(token)}


def write_trace(path: str | Path, machine: Machine, ids: Sequence[int], setup: int,
                lines: Mapping[int, str] | None = None) -> None:
    """Write the records as JSON lines; the file appears complete or not at all. Raises UsageError where it cannot."""
    temporary = None
    try:
        path = Path(path).resolve()
        if path.exists() and not path.is_file():
            raise OSError("there is something that is not a file")
        handle, temporary = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            for record in records(machine, ids, setup, lines):
                out.write(json.dumps(record) + "\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot write the trace: {e}", where=str(path)) from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
