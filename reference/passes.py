"""One pass of the machine as the judge sees it: a block run for one group of lanes, and what is to be written after it.

docs/machine.md section 2, Order, 2 and the outcome of 3.
"""

from __future__ import annotations

from typing import NamedTuple

from .block import Block, StageTrace, run_stages, word_of
from .tokens import FELL, MASK, TAKEN, UNTOUCHED, Sizes


class Item(NamedTuple):
    """What the machine still owes before its next control token.

    kind: "value" (number: the value; it goes to a register of a lane, or with register None to the item after it), "mem"
    (number: the word) or "block" (number: the axis).
    """

    kind: str
    number: int
    lane: int = 0
    register: int | None = None


class Execution(NamedTuple):
    """A pass (EXEC or NEXT): block, warp, group, active lanes, each stage's operands and results, lanes with a bad address."""

    block: int
    warp: int
    group: int
    active: tuple[bool, ...]
    program: Block
    stages: list[StageTrace]
    bad_lanes: tuple[int, ...]

    @property
    def lanes(self) -> list[int]:
        """Active lanes, lowest first."""
        return [lane for lane, on in enumerate(self.active) if on]

    @property
    def outcome(self) -> tuple[int, ...]:
        """Outcome by lane that the next control token records."""
        chooses, last = self.program.branch or self.program.vote, self.stages[-1].result
        return tuple(UNTOUCHED if not on else TAKEN if chooses and last[lane] & 1 else FELL
                     for lane, on in enumerate(self.active))


def run_pass(sizes: Sizes, block: int, program: Block, warp: int, group: int, active: list[bool], registers: list[list[int]],
             index: list[int], ballot: int, memory: list[int]) -> Execution:
    """Run a block for a group. registers: [lane][register] of that group; index: of the thread block, along x, y, z."""
    start = (warp * sizes.groups + group) * sizes.lanes
    specials = {"tid": list(range(start, start + sizes.lanes)), "ballot": [ballot] * sizes.lanes}
    for axis, i in zip("xyz", index):
        specials[f"cta{axis}"] = [i] * sizes.lanes
    stages = run_stages(sizes, program, registers, specials, memory)
    bad = set()
    for trace, instruction in zip(stages, program.instructions):
        if "ld" in instruction.lines or "st" in instruction.lines:
            bad.update(lane for lane, on in enumerate(active)
                       if on and word_of(sizes, trace.a[lane] + trace.b[lane] & MASK) is None)
    return Execution(block, warp, group, tuple(active), program, stages, tuple(sorted(bad)))


def owed(sizes: Sizes, run: Execution) -> list[Item]:
    """Items of a pass without bad addresses: live results stage by stage, then store data each with its word."""
    lanes = run.lanes
    items = [Item("value", run.stages[stage].result[lane], lane, run.program.dest[stage])
             for stage, live in enumerate(run.program.live) if live for lane in lanes]
    if run.program.store_stage is not None:
        store = run.stages[run.program.store_stage]
        for lane in lanes:
            items += [Item("value", store.c[lane], lane), Item("mem", word_of(sizes, store.result[lane]), lane)]
    return items
