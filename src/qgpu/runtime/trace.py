"""A token stream in words: one record a token, with what it means where it stands.

The stream alone says which value is whose: a block's header words name the live stages and their registers, an outcome says where
the lanes of the group that ran before went. Nothing is computed here but that bookkeeping; values are those in the stream.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import UsageError
from ..files import whole_file
from ..machine.description import AXES, Machine, as_dict
from ..machine.tokens import Token, Vocabulary

UNKNOWN = "out of place"
VALUES = ("result", "data", "index")


class Due(NamedTuple):
    """What the model owes next. kind: a value ("result" of a stage, "data" of a store, "index" of the next thread block along an
    axis), or "mem" or "block", which say what a value was for. number: the stage or the axis."""

    kind: str
    number: int
    lane: int


class Narrator:
    """Says what each token of a stream means. Feed it every token from the first on.

    lines: block number -> place in the kernel's source, for EXEC and NEXT records; may be empty.
    A stream that breaks the rules is described too: what has no place in it is called "out of place".
    """

    def __init__(self, machine: Machine, lines: Mapping[int, str] | None = None) -> None:
        self.machine = m = machine
        self.lines = dict(lines or {})
        self.program: dict[int, list[int]] = {}
        self.targets = [[[m.exit_target] * m.lanes for _ in range(m.groups)] for _ in range(m.warps)]
        self.warps = self.threads = 0
        self.grid, self.index = [1] * len(AXES), [0] * len(AXES)
        self.warp = self.group = 0
        self.parked = False
        self.block: int | None = None
        self.running = False
        self.value, self.chunks = 0, 0  # of the value being sent
        self.due: deque[Due] = deque()

    def meaning(self, token: Token) -> str:
        """What this token says, given all tokens before it."""
        return getattr(self, "_" + token.kind.lower())(token)

    # ---- values ---------------------------------------------------------------------------------------------------
    def _val(self, token: Token) -> str:
        bits = self.machine.chunk_bits
        low = bits * self.chunks
        self.value |= token.fields[0] << low
        self.chunks += 1
        return f"bits {low} to {low + bits - 1} of {self._whose()}; more follow"

    def _sval(self, token: Token) -> str:
        bits, chunk = self.machine.chunk_bits, token.fields[0]
        if chunk >> (bits - 1):
            chunk -= 1 << bits
        value = self.value | chunk << (bits * self.chunks)
        self.value, self.chunks = value & 0xFFFFFFFF, 0
        text = f"{self._whose()} = {self._number()}"
        if self.running and self.due and self.due[0].kind in VALUES:
            if self.due.popleft().kind == "result":
                self.value = 0
        return text

    def _whose(self) -> str:
        """Whose value is being sent."""
        if not self.running:
            return "a value"
        if not self.due or self.due[0].kind not in VALUES:
            return f"a value {UNKNOWN}"
        kind, number, lane = self.due[0]
        if kind == "index":
            return f"the next thread block's index along {AXES[number]}"
        if kind == "data":
            return f"store data of {self._lane(lane)}"
        register = self._field("dest%d" % number)
        return f"stage {number} result of {self._lane(lane)}{', register r%d' % register if register else ''}"

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
        self.warps, last = token.fields
        self.threads = (self.warps - 1) * self.machine.warp_size + last
        return f"{self.threads} threads in {self.warps} warps, {last} of them in the last"

    def _grid(self, token: Token) -> str:
        axis = token.fields[0]
        self.grid[axis] = self.value + 1
        self.value = 0
        return f"the grid has {self.grid[axis]} thread blocks along {AXES[axis]}"

    def _mem(self, token: Token) -> str:
        m, word = self.machine, token.fields[0]
        space, number, base = \
            ("global", word, m.global_base) if word < m.global_words else ("shared", word - m.global_words, m.shared_base)
        text = f"{space} word {number} (address {base + 4 * number}) becomes {self._number()}" + self._in_place("mem", ", stored by lane {}")
        self.value = 0
        return text

    def _in_place(self, kind: str, text: str) -> str:
        """While the model writes: the text with its lane if that item is due now, else "out of place"."""
        if not self.running:
            return ""
        return text.format(self.due.popleft().lane) if self.due and self.due[0].kind == kind else f", {UNKNOWN}"

    # ---- control --------------------------------------------------------------------------------------------------
    def _block(self, token: Token) -> str:
        axis = token.fields[0]
        self.index[axis], self.value = self.value, 0
        text = f"the thread block's index along {AXES[axis]} becomes {self.index[axis]}" + self._in_place("block", "")
        if self.running and not self.index[axis] and axis + 1 < len(AXES):
            self.due.extend((Due("index", axis + 1, 0), Due("block", axis + 1, 0)))
        return text

    def _warp(self, token: Token) -> str:
        self.warp, self.parked, first = token.fields[0], bool(token.fields[1]), token.fields[2]
        self.running, self.block, self.group = True, None, 0
        self.due.clear()
        if first:
            text = f"warp {self.warp} starts" + self._enter(0)
        else:
            waits = self._smallest() != self.machine.exit_target
            text = f"warp {self.warp} goes on" if waits else f"warp {self.warp} has ended before"
            if not waits:
                self._advance()
        return text + ("; a warp before it waits at a barrier" if self.parked else "")

    def _init(self, token: Token) -> str:
        return f"group {token.fields[0]} of warp {self.warp} starts" + self._enter(token.fields[0])

    def _enter(self, group: int) -> str:
        """A group's lanes get block 0 as their target. Which threads these are."""
        m, self.group = self.machine, group
        first = self.warp * m.warp_size + group * m.lanes
        self.targets[self.warp][group] = [0 if first + lane < self.threads else m.exit_target for lane in range(m.lanes)]
        last = min(first + m.lanes, self.threads) - 1
        return f", threads {first} to {last}" if last >= first else ", no thread"

    def _exec(self, token: Token) -> str:
        moved = self._moved(token.fields[1])
        self.block, self.group = token.fields[0], 0
        return self._run(moved)

    def _next(self, token: Token) -> str:
        moved = self._moved(token.fields[1])
        self.group = token.fields[0]
        return self._run(moved)

    def _park(self, token: Token) -> str:
        moved = self._moved(token.fields[0])
        ended = self._smallest() == self.machine.exit_target
        self.parked |= not ended
        self._advance()
        return "; ".join([f"warp {self.warp} " + ("ends" if ended else "waits at the barrier"), *moved])

    def _smallest(self) -> int:
        return min(map(min, self.targets[self.warp]))

    def _advance(self) -> None:
        """After a warp's turn; only the next thread block's index is a value."""
        self.due.clear()
        more = any(i + 1 < size for i, size in zip(self.index, self.grid))
        if self.warp + 1 >= self.warps and not self.parked and more:
            self.due.extend((Due("index", 0, 0), Due("block", 0, 0)))

    def _moved(self, outcome: Sequence[int]) -> list[str]:
        """Where the lanes of the group that ran last go, or what they vote; their targets change."""
        vote, moved = self._field("vote"), []
        for o, one, more, field in ((1, "goes on", "go on", "fall"), (2, "branches", "branch", "taken")):
            lanes = [lane for lane, which in enumerate(outcome) if which == o]
            if not lanes:
                continue
            target = self._field(field)
            for lane in lanes:
                self.targets[self.warp][self.group][lane] = target
            alone = len(lanes) == 1
            does = f"vote{'s' * alone} {o - 1} and go{'es' * alone} on" if vote else one if alone else more
            moved.append(f"{_lanes(lanes)}{self._of_group()} {does} to {self._place(target)}")
        return moved

    def _run(self, moved: list[str]) -> str:
        """The current block runs for the current group."""
        m, targets = self.machine, self.targets[self.warp][self.group]
        active = [lane for lane in range(m.lanes) if targets[lane] == self.block]
        self.due.clear()
        for stage in range(1, m.stages + 1):
            if self._field("live") >> (stage - 1) & 1:
                self.due.extend(Due("result", stage, lane) for lane in active)
        if self._field("store"):
            for lane in active:
                self.due.extend((Due("data", 0, lane), Due("mem", 0, lane)))
        text = f"block {self.block} runs for {_lanes(active)}{self._of_group()} of warp {self.warp}"
        if self.block in self.lines:
            text += f", {self.lines[self.block]}"
        return "; ".join([text, *moved])

    def _end(self, token: Token) -> str:
        self.running = False
        return "the launch ends"

    def _trap(self, token: Token) -> str:
        self.running = False
        return f"block {self.block} used an address that is no aligned word of memory; the launch stops"

    # ---- names ----------------------------------------------------------------------------------------------------
    def _lane(self, lane: int) -> str:
        m = self.machine
        return f"lane {lane}{self._of_group()} (thread {(self.warp * m.groups + self.group) * m.lanes + lane})"

    def _of_group(self) -> str:
        return f" of group {self.group}" if self.machine.groups > 1 else ""

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


def record_of(vocabulary: Vocabulary, narrator: Narrator, position: int, token_id: int, by: str) -> dict:
    """One token's record, without what only the first one has. The narrator has heard every token before it, and hears this one."""
    token = vocabulary.token(token_id)
    fields = [list(f) if isinstance(f, tuple) else f for f in token.fields]
    record = {"position": position, "id": token_id, "kind": token.kind, "fields": fields, "by": by, "meaning": narrator.meaning(token)}
    if token.kind in ("EXEC", "NEXT") and narrator.block in narrator.lines:
        record["place"] = narrator.lines[narrator.block]
    return record


def records(machine: Machine, ids: Sequence[int], setup: int, lines: Mapping[int, str] | None = None,
            launch: Mapping | None = None) -> Iterator[dict]:
    """One record a token: position, id, kind, fields, by ("host" or "model"), meaning. setup: how many the host wrote.

    The first record has the machine's fields too ("machine"), and `launch` if it is given: what the stream is bound to
    (qgpu.audit.binding). A record of a pass has the place of its block ("place"), where lines has it.
    """
    vocabulary, narrator = Vocabulary(machine), Narrator(machine, lines)
    for position, token_id in enumerate(ids):
        record = record_of(vocabulary, narrator, position, token_id, "host" if position < setup else "model")
        if position == 0:
            record |= {"machine": as_dict(machine)} | ({"launch": dict(launch)} if launch is not None else {})
        yield record


def write_trace(path: str | Path, machine: Machine, ids: Sequence[int], setup: int,
                lines: Mapping[int, str] | None = None, launch: Mapping | None = None) -> None:
    """Write the records as JSON lines; the file appears complete or not at all. launch: as for `records`. Raises UsageError."""
    try:
        path = Path(path).resolve()
        if path.exists() and not path.is_file():
            raise OSError("there is something that is not a file")
        with whole_file(path) as out:
            for record in records(machine, ids, setup, lines, launch):
                out.write((json.dumps(record) + "\n").encode())
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot write the trace: {getattr(e, 'strerror', None) or e}", where=str(path)) from None
