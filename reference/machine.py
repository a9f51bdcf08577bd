"""An interpreter of machine blocks that consumes and produces the token stream of docs/machine.md.

The state is a function of the tokens that were *fed*: a forged value is what the register holds afterwards, a forged
outcome is where the lanes go. So a model's own stream can be checked token by token, each against what the tokens
before it call for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from qgpu.errors import FaultError

from .block import Block, StageTrace, good_address, read_block, run_stages
from .tokens import FELL, MASK, TAKEN, UNTOUCHED, Record, Sizes, chunk_of, decode, encode, value_of


@dataclass(frozen=True)
class Item:
    """What the machine still owes after an EXEC: a value (for a register, or as store data: register None), or a MEM."""

    kind: str  # "value" or "mem"
    number: int  # the value, or the word number
    lane: int
    register: int | None = None


@dataclass
class Execution:
    """The last EXEC: its block, active lanes, every stage's operands and results, and the lanes with a bad address."""

    block: int
    warp: int
    active: tuple[bool, ...]
    program: Block
    stages: list[StageTrace]
    bad_lanes: tuple[int, ...]


class MachineInterpreter:
    """Steps one token at a time. sizes: a dict or an object with the fields of `Sizes`.

    State to look at: `registers[warp][lane][r]`, `memory[word]`, `program[block][word]`, `targets[warp][lane]`, `warps`,
    `last_threads`, `warp`, `block`, `active[lane]`, `last_exec` (Execution or None), `position` (tokens fed so far),
    `expected` (id of the token that the machine must write next, or None), `running`, `ended` ("", "END" or "TRAP").
    """

    def __init__(self, sizes: Any) -> None:
        self.sizes = Sizes.of(sizes)
        self.reset()

    def reset(self) -> None:
        """Back to the state before the first token."""
        s = self.sizes
        self.registers = [[[0] * (s.registers + 1) for _ in range(s.lanes)] for _ in range(s.warps)]
        self.memory = [0] * s.global_words
        self.program = [[0] * (2 + 3 * s.stages) for _ in range(s.blocks)]
        self.targets = [[0] * s.lanes for _ in range(s.warps)]
        self.warps = self.last_threads = 0
        self.warp = self.block = 0
        self.active = [False] * s.lanes
        self.last_exec: Execution | None = None
        self.position = 0
        self.expected: int | None = None
        self.running = False
        self.ended = ""
        self._chunks: list[int] = []  # of the value being sent
        self._value: int | None = None  # completed, not yet used
        self._items: list[Item] = []
        self._blocks: dict[int, Block] = {}  # decoded program words, until they change

    def copy(self) -> "MachineInterpreter":
        """An independent interpreter in the same state."""
        other = copy.copy(self)
        for name in ("registers", "memory", "program", "targets", "active"):
            setattr(other, name, copy.deepcopy(getattr(self, name)))
        other._chunks, other._items, other._blocks = list(self._chunks), list(self._items), dict(self._blocks)
        return other

    # ---- stepping -------------------------------------------------------------------------------------------------
    def feed(self, token_id: int) -> int | None:
        """Step one token; returns the id of the token the machine must write next, None where the host writes.

        Raises FaultError, naming the position, for a token that the stream cannot have there and for a program
        that docs/machine.md gives no meaning. The state is then as before the token.
        """
        try:
            record = decode(self.sizes, token_id)
            getattr(self, "_" + record.kind.lower())(record)
            self.expected = self._next() if self.running else None
        except FaultError as e:
            raise FaultError(e.what, where=f"token {self.position}", why=e.why, fix=e.fix) from None
        self.position += 1
        return self.expected

    def _need(self, ok: bool, record: Record, why: str) -> None:
        if not ok:
            raise FaultError(f"{record} cannot come here: {why}")

    def _setup_only(self, record: Record) -> None:
        self._need(not self.running, record, "a launch is running")
        self._need(not self._chunks, record, "a value is not complete")

    def _nop(self, record: Record) -> None:
        self._setup_only(record)
        self._need(self._value is None, record, "the value just completed needs PROG or MEM")

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
            self.registers[self.warp][item.lane][item.register] = value

    def _value_expected(self, record: Record) -> None:
        if self.running:
            self._need(bool(self._items) and self._items[0].kind == "value", record, "no value is due")
        else:
            self._need(self._value is None, record, "the value just completed needs PROG or MEM")

    def _prog(self, record: Record) -> None:
        self._setup_only(record)
        word, block = divmod(record.payload, self.sizes.blocks)
        self.program[block][word] = self._take_value(record)
        self._blocks.pop(block, None)

    def _mem(self, record: Record) -> None:
        if self.running:
            self._need(bool(self._items) and self._items[0].kind == "mem", record, "no store is due")
            self._items.pop(0)
        else:
            self._setup_only(record)
        self.memory[record.payload] = self._take_value(record)

    def _take_value(self, record: Record) -> int:
        self._need(self._value is not None, record, "no value was completed just before")
        value, self._value = self._value, None
        return value

    def _config(self, record: Record) -> None:
        self._nop(record)
        warps, threads = divmod(record.payload, self.sizes.lanes)
        self.warps, self.last_threads = warps + 1, threads + 1

    def _control(self, record: Record) -> None:
        """WARP, EXEC, END and TRAP come where the block before owes nothing more."""
        self._need(not self._items, record, "values or stores of the block before are still due")

    def _warp(self, record: Record) -> None:
        if self.running:
            self._control(record)
        else:
            self._nop(record)
            self._need(self.warps > 0, record, "CONFIG has not said how many warps there are")
        self.warp = record.payload
        threads = (self.warps - 1) * self.sizes.lanes + self.last_threads
        first = self.warp * self.sizes.lanes
        self.targets[self.warp] = [0 if first + lane < threads else self.sizes.exit for lane in range(self.sizes.lanes)]
        self.active = [False] * self.sizes.lanes
        self.last_exec = None
        self.running, self.ended = True, ""

    def _exec(self, record: Record) -> None:
        self._need(self.running, record, "no launch is running")
        self._control(record)
        s, targets = self.sizes, list(self.targets[self.warp])
        if any(record.outcome):
            before = self._decoded(self.block)
            for lane, o in enumerate(record.outcome):
                if o != UNTOUCHED:
                    targets[lane] = before.taken if o == TAKEN else before.fall
        program = self._decoded(record.payload)
        self.targets[self.warp] = targets
        self.block = record.payload
        self.active = [target == self.block for target in targets]
        stages = run_stages(s, program, self.registers[self.warp], self.warp, self.memory)
        bad = tuple(lane for lane in range(s.lanes) if self.active[lane] and any(
            not good_address(s, trace.a[lane] + trace.b[lane] & MASK)
            for trace, instruction in zip(stages, program.instructions) if instruction.lines & {"ld", "st"}))
        self.last_exec = Execution(self.block, self.warp, tuple(self.active), program, stages, bad)
        self._items = [] if bad else self._owed(self.last_exec)

    def _decoded(self, block: int) -> Block:
        if block not in self._blocks:
            self._blocks[block] = read_block(self.sizes, self.program[block], block)
        return self._blocks[block]

    def _owed(self, run: Execution) -> list[Item]:
        """The items of section 2, Order, 2: live results stage by stage, then store data each with its word."""
        lanes = [lane for lane, on in enumerate(run.active) if on]
        items = [Item("value", run.stages[stage].result[lane], lane, run.program.dest[stage])
                 for stage, live in enumerate(run.program.live) if live for lane in lanes]
        if run.program.store_stage is not None:
            store = run.stages[run.program.store_stage]
            for lane in lanes:
                word = (store.result[lane] - self.sizes.global_base) // 4
                items += [Item("value", store.c[lane], lane), Item("mem", word, lane)]
        return items

    def _end(self, record: Record) -> None:
        self._need(self.running, record, "no launch is running")
        self._control(record)
        self.running, self.ended = False, record.kind

    _trap = _end

    # ---- what the machine writes next -----------------------------------------------------------------------------
    def _next(self) -> int:
        return encode(self.sizes, self._next_record())

    def _next_record(self) -> Record:
        lanes = range(self.sizes.lanes)
        run = self.last_exec
        if run is None:  # right after WARP
            return Record("EXEC", 0, (UNTOUCHED,) * self.sizes.lanes)
        if run.bad_lanes:
            return Record("TRAP")
        if self._items:
            item = self._items[0]
            return chunk_of(self.sizes, item.number, len(self._chunks)) if item.kind == "value" else Record("MEM", item.number)
        targets, outcome = list(self.targets[self.warp]), [UNTOUCHED] * self.sizes.lanes
        for lane in lanes:
            if run.active[lane]:
                taken = run.program.branch and run.stages[-1].result[lane] & 1
                outcome[lane] = TAKEN if taken else FELL
                targets[lane] = run.program.taken if taken else run.program.fall
        smallest = min(targets)
        if smallest != self.sizes.exit:
            return Record("EXEC", smallest, tuple(outcome))
        return Record("WARP", self.warp + 1) if self.warp + 1 < self.warps else Record("END")

    # ---- whole streams --------------------------------------------------------------------------------------------
    def run(self, setup_ids: Iterable[int], max_tokens: int = 1_000_000) -> list[int]:
        """Feed a setup that ends in WARP, then the machine's own tokens; returns those, END or TRAP last.

        Raises FaultError for an illegal setup and where END does not come within max_tokens.
        """
        for token_id in setup_ids:
            self.feed(token_id)
        if not self.running:
            raise FaultError("the setup does not start a launch", where=f"token {self.position}", fix="end it with WARP(0)")
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
