"""An interpreter of machine blocks that consumes and produces the token stream of docs/machine.md.

The state is a function of the tokens that were *fed*: a forged value is what the register holds afterwards, a forged
outcome is where the lanes go. So a model's own stream can be checked token by token, each against what the tokens
before it call for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from qgpu.errors import FaultError

from .block import Block, read_block
from .passes import Execution, Item, owed, run_pass
from .tokens import MASK, TAKEN, UNTOUCHED, Record, Sizes, chunk_of, decode, encode, value_of


class MachineInterpreter:
    """Steps one token at a time. sizes: a dict or an object with the fields of `Sizes`.

    State to look at: `registers[warp][group][lane][r]`, `memory[word]` (global words, then shared ones),
    `program[block][word]`, `targets[warp][group][lane]`, `ballots[warp]`, `warps`, `last_threads`, `grid` (sizes by axis),
    `index` (of the thread block), `warp`, `parked`, `first`, `group`, `block`, `active[lane]` (of the group), `last_exec`
    (Execution or None right after WARP and INIT), `position` (tokens fed so far), `expected` (id of the token that the machine
    must write next, or None), `running`, `ended` ("", "END" or "TRAP").
    """

    def __init__(self, sizes: Any) -> None:
        self.sizes = Sizes.of(sizes)
        self.reset()

    def reset(self) -> None:
        """Back to the state before the first token."""
        s = self.sizes
        self.registers = [[[[0] * (s.registers + 1) for _ in range(s.lanes)] for _ in range(s.groups)] for _ in range(s.warps)]
        self.memory = [0] * s.words
        self.program = [[0] * (2 + 3 * s.stages) for _ in range(s.blocks)]
        self.targets = [[[0] * s.lanes for _ in range(s.groups)] for _ in range(s.warps)]
        self.ballots = [0] * s.warps
        self.warps = self.last_threads = 0
        self.grid, self.index = [1, 1, 1], [0, 0, 0]
        self.warp = self.group = self.block = 0
        self.parked = self.first = False
        self.active = [False] * s.lanes
        self.last_exec: Execution | None = None
        self.position = 0
        self.expected: int | None = None
        self.running = False
        self.ended = ""
        self._chunks: list[int] = []  # of the value being sent
        self._value: int | None = None  # completed, not yet used
        self._items: list[Item] = []
        self._then: int | None = None  # id of the control token after the items
        self._blocks: dict[int, Block] = {}  # decoded program words, until they change
        self._handlers = {kind: "_" + kind.lower() for kind, _ in s.kinds}

    def copy(self) -> "MachineInterpreter":
        """An independent interpreter in the same state."""
        other = copy.copy(self)
        other.registers = [[[list(lane) for lane in group] for group in warp] for warp in self.registers]
        other.targets = [[list(group) for group in warp] for warp in self.targets]
        other.program = [list(words) for words in self.program]
        for name in ("memory", "ballots", "grid", "index", "active", "_chunks", "_items"):
            setattr(other, name, list(getattr(self, name)))
        other._blocks = dict(self._blocks)
        return other

    # ---- stepping -------------------------------------------------------------------------------------------------
    def feed(self, token_id: int) -> int | None:
        """Step one token; returns the id of the token the machine must write next, None where the host writes.

        Raises FaultError, naming the position, for a token that the stream cannot have there and for a program
        that docs/machine.md gives no meaning. The state is then as before the token.
        """
        try:
            record = decode(self.sizes, token_id)
            getattr(self, self._handlers[record.kind])(record)
        except FaultError as e:
            raise FaultError(e.what, where=f"token {self.position}", why=e.why, fix=e.fix) from None
        self.expected = self._due() if self.running else None
        self.position += 1
        return self.expected

    def _due(self) -> int | None:
        if not self._items:
            return self._then
        item = self._items[0]
        if item.kind == "value":
            return encode(self.sizes, chunk_of(self.sizes, item.number, len(self._chunks)))
        return encode(self.sizes, Record(item.kind.upper(), item.number))

    def _go_on(self, kind: str, payload: int = 0, outcome: Sequence[int] = ()) -> None:
        """Say which control token comes after the items."""
        self._then = encode(self.sizes, Record(kind, payload, tuple(outcome)))

    def _need(self, ok: bool, record: Record, why: str) -> None:
        if not ok:
            raise FaultError(f"{record} cannot come here: {why}")

    # ---- values and what uses them --------------------------------------------------------------------------------
    def _setup_only(self, record: Record) -> None:
        self._need(not self.running, record, "a launch is running")
        self._need(not self._chunks, record, "a value is not complete")

    def _nop(self, record: Record) -> None:
        self._setup_only(record)
        self._need(self._value is None, record, "the value just completed needs PROG, GRID, MEM or BLOCK")

    def _val(self, record: Record) -> None:
        self._value_expected(record)
        self._need(len(self._chunks) < self.sizes.chunks - 1, record, f"a value has at most {self.sizes.chunks} chunks")
        self._chunks.append(record.payload)

    def _sval(self, record: Record) -> None:
        self._value_expected(record)
        value = value_of(self.sizes, [*self._chunks, record.payload])
        self._chunks = []
        if not self.running:
            self._value = value
            return
        item = self._items.pop(0)
        if item.register is None:
            self._value = value
        elif item.register:
            self.registers[self.warp][self.group][item.lane][item.register] = value

    def _value_expected(self, record: Record) -> None:
        if self.running:
            self._need(bool(self._items) and self._items[0].kind == "value", record, "no value is due")
        else:
            self._need(self._value is None, record, "the value just completed needs PROG, GRID, MEM or BLOCK")

    def _take_value(self, record: Record, kind: str = "") -> int:
        """The value just completed, for a token of the setup, or for an item of that kind."""
        if self.running and kind:
            self._need(bool(self._items) and self._items[0].kind == kind, record, "it is not due")
            self._items.pop(0)
        else:
            self._setup_only(record)
            self._need(self._value is not None, record, "no value was completed just before")
        value, self._value = self._value, None
        return value

    def _prog(self, record: Record) -> None:
        value = self._take_value(record)
        word, block = divmod(record.payload, self.sizes.blocks)
        self.program[block][word] = value
        self._blocks.pop(block, None)

    def _mem(self, record: Record) -> None:
        self.memory[record.payload] = self._take_value(record, "mem")

    def _config(self, record: Record) -> None:
        self._nop(record)
        warps, threads = divmod(record.payload, self.sizes.warp_size)
        self.warps, self.last_threads = warps + 1, threads + 1

    def _grid(self, record: Record) -> None:
        if self._value is not None:
            self._need(self._value <= self.sizes.largest_index, record,
                       f"a grid has at most {self.sizes.largest_index + 1} thread blocks along an axis")
        self.grid[record.payload] = self._take_value(record) + 1

    def _block(self, record: Record) -> None:
        axis = record.payload
        self.index[axis] = self._take_value(record, "block")
        if self.running:
            if self.index[axis] == 0 and axis < 2:
                self._turn(axis + 1)
            else:
                self._go_on("WARP", 1)

    # ---- control --------------------------------------------------------------------------------------------------
    def _control(self, record: Record) -> None:
        """WARP to TRAP come where nothing more is due, or in place of the next thread block's index."""
        self._need(self.running, record, "no launch is running")
        turning = len(self._items) == 2 and self._items[1].kind == "block" and not self._chunks
        self._need(turning or not self._items, record, "values or stores of the block before are still due")
        self._items = []

    def _warp(self, record: Record) -> None:
        if self.running:
            self._control(record)
        else:
            self._nop(record)
            self._need(self.warps > 0, record, "CONFIG has not said how many warps there are")
        self.running, self.ended = True, ""
        self.warp, self.parked, self.first = record.payload >> 2, bool(record.payload & 2), bool(record.payload & 1)
        self._enter(0, initialize=self.first)
        if self.first:
            self._after_init()
            return
        smallest = self._smallest_target()
        if smallest == self.sizes.exit:
            self._advance(self.parked)
        else:
            self._go_on("EXEC", smallest, [UNTOUCHED] * self.sizes.lanes)

    def _init(self, record: Record) -> None:
        self._control(record)
        self._enter(record.payload, initialize=True)
        self._after_init()

    def _enter(self, group: int, initialize: bool) -> None:
        s = self.sizes
        self.group, self.active, self.last_exec = group, [False] * s.lanes, None
        if initialize:
            threads = (self.warps - 1) * s.warp_size + self.last_threads
            start = self.warp * s.warp_size + group * s.lanes
            self.targets[self.warp][group] = [0 if tid < threads else s.exit for tid in range(start, start + s.lanes)]

    def _after_init(self) -> None:
        if self.group + 1 < self.sizes.groups:
            self._go_on("INIT", self.group + 1)
        else:
            self._go_on("EXEC", 0, [UNTOUCHED] * self.sizes.lanes)

    def _exec(self, record: Record) -> None:
        program = self._decoded(record.payload)
        self._record_outcome(record)
        if program.clear:
            self.ballots[self.warp] = 0
        self.block = record.payload
        self._pass(0, program)

    def _next(self, record: Record) -> None:
        program = self._decoded(self.block)
        self._record_outcome(record)
        self._pass(record.payload, program)

    def _park(self, record: Record) -> None:
        self._record_outcome(record)
        self.active = [False] * self.sizes.lanes
        self._advance(self.parked or self._smallest_target() != self.sizes.exit)

    def _end(self, record: Record) -> None:
        self._control(record)
        self.running, self.ended = False, record.kind

    _trap = _end

    def _record_outcome(self, record: Record) -> None:
        """Section 2, Outcome: of the current group in the current block, both as they were before this token."""
        before = self._decoded(self.block)
        self._control(record)
        targets = self.targets[self.warp][self.group]
        for lane, o in enumerate(record.outcome):
            if o != UNTOUCHED:
                targets[lane] = before.taken if o == TAKEN else before.fall
            if before.vote:
                bit = 1 << self.group * self.sizes.lanes + lane
                self.ballots[self.warp] = self.ballots[self.warp] & ~bit | bit * (o == TAKEN)

    def _decoded(self, block: int) -> Block:
        if block not in self._blocks:
            self._blocks[block] = read_block(self.sizes, self.program[block], block)
        return self._blocks[block]

    # ---- a pass ---------------------------------------------------------------------------------------------------
    def _pass(self, group: int, program: Block) -> None:
        """Run the current block for a group, and say what the machine writes then."""
        self.group = group
        self.active = [target == self.block for target in self.targets[self.warp][group]]
        self.last_exec = run = run_pass(self.sizes, self.block, program, self.warp, group, self.active,
                                        self.registers[self.warp][group], self.index, self.ballots[self.warp], self.memory)
        if run.bad_lanes:
            self._go_on("TRAP")
        else:
            self._items = owed(self.sizes, run)
            self._terminate(run)

    def _terminate(self, run: Execution) -> None:
        """Section 2, Order, 3."""
        program, groups, outcome = run.program, self.targets[self.warp], run.outcome
        for group in range(run.group + 1, self.sizes.groups):
            if run.block in groups[group]:
                self._go_on("NEXT", group, outcome)
                return
        after = [(target, program.fall, program.taken)[o] for target, o in zip(groups[run.group], outcome)]
        smallest = min(min(after if group == run.group else groups[group]) for group in range(self.sizes.groups))
        if smallest == self.sizes.exit or program.barrier:
            self._go_on("PARK", 0, outcome)
        else:
            self._go_on("EXEC", smallest, outcome)

    def _smallest_target(self) -> int:
        return min(map(min, self.targets[self.warp]))

    # ---- from warp to warp and from thread block to thread block --------------------------------------------------
    def _advance(self, parked: bool) -> None:
        """Section 2, Order, 4 and 5. parked: whether a warp of this round waits at a barrier."""
        if self.warp + 1 < self.warps:
            self._go_on("WARP", (self.warp + 1) * 4 + parked * 2 + self.first)
        elif parked:
            self._go_on("WARP", 0)
        elif all(i + 1 == size for i, size in zip(self.index, self.grid)):
            self._go_on("END")
        else:
            self._turn(0)

    def _turn(self, axis: int) -> None:
        """Owe the next index along an axis."""
        following = self.index[axis] + 1
        self._items = [Item("value", 0 if following == self.grid[axis] else following & MASK), Item("block", axis)]

    # ---- whole streams --------------------------------------------------------------------------------------------
    def run(self, setup_ids: Iterable[int], max_tokens: int = 1_000_000) -> list[int]:
        """Feed a setup that ends in WARP, then the machine's own tokens; returns those, END or TRAP last.

        Raises FaultError for an illegal setup and where END does not come within max_tokens.
        """
        for token_id in setup_ids:
            self.feed(token_id)
        if not self.running:
            raise FaultError("the setup does not start a launch", where=f"token {self.position}",
                             fix="end it with WARP(0, 0, 1)")
        generated: list[int] = []
        while self.running:
            if len(generated) >= max_tokens:
                raise FaultError(f"the launch did not end within {max_tokens} tokens", where=f"block {self.block}",
                                 why="an endless loop, or more work than the limit allows", fix="raise the step limit")
            generated.append(self.expected)
            self.feed(self.expected)
        return generated

    def describe(self, token_id: int) -> str:
        """A token id in words, for messages: `EXEC(3, .FT.)`."""
        return str(decode(self.sizes, token_id))


def check_stream(sizes: Any, ids: Sequence[int], setup_count: int,
                 machine: MachineInterpreter | None = None) -> list[tuple[int, int | None, int | None]]:
    """Compare a stream with what the machine must write: (position, expected id, found id) for every difference.

    ids[:setup_count] are the host's. Each later token is judged by the tokens that were found before it. A found token that
    the stream cannot have there ends the comparison after it is listed; tokens after the end have expected None,
    a stream that stops before its end lists found None at its length. machine: an interpreter that has seen the
    tokens before these, for a later launch of the same stream; it is advanced. Raises FaultError for an illegal setup.
    """
    judge = MachineInterpreter(sizes) if machine is None else machine
    for token_id in ids[:setup_count]:
        judge.feed(token_id)
    differences: list[tuple[int, int | None, int | None]] = []
    for position in range(setup_count, len(ids)):
        found, expected = ids[position], judge.expected
        if found != expected:
            differences.append((position, expected, found))
        if expected is None:
            break
        try:
            judge.feed(found)
        except FaultError:
            if found == expected:
                raise
            return differences
    else:
        if judge.expected is not None:
            differences.append((len(ids), judge.expected, None))
    return differences
