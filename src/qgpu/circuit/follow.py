"""What runs after this block: the warp's next group, its next block, the next warp, the next thread block.

All of it is decided beside the stages, from lane targets alone. The smallest target of every group is kept in a row a group, each
group in dims of its own, so that one read of all the warp's rows gives them side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.description import Machine
from .control import Front, outcome
from .core import Circuit, Form, MemoryHead, Signal, all_of, binary, not_
from .latch import address, increment, latch
from .records import Records


@dataclass
class Following:
    """What may come after the last run, held until its results are sent, and what comes after a control record, now.

    blocks[case]: smallest target of the warp (bits, then EXIT) if the active lanes all fall through, all take the branch, or do both.
    has_next, next_group: a later group has this block to run. barrier: the block is a barrier.
    smallest: smallest target of the warp, complete at PARK and WARP. resume: a WARP goes on with it. start: block 0 starts.
    next_init: the next group has to be started. to_warp, to_round, to_block, to_end: after PARK or WARP comes the next warp, a new
    round, the next thread block, the end; parked: that WARP's flag.
    """

    blocks: dict[str, list[Signal]]
    has_next: Signal
    next_group: list[Signal]
    barrier: Signal
    smallest: list[Signal]
    resume: Signal
    start: Signal
    next_init: Signal
    init_group: list[Signal]
    to_warp: Signal
    to_round: Signal
    to_block: Signal
    to_end: Signal
    parked: Signal


def minimum(c: Circuit, x: list, y: list, name: str, bits: int) -> list[Signal]:
    """The smaller of two numbers given as bit lists (signals or forms), in two levels; `bits` bits of it."""
    less = c.signal(f"{name}.less")
    width = max(len(x), len(y))
    x_all, y_all = [*x, *[0] * (width - len(x))], [*y, *[0] * (width - len(y))]
    for k in range(len(y)):                       # the highest bit in which they differ
        higher = binary(y_all[k + 1:]) - binary(x_all[k + 1:])
        c.equal(higher, 0, less, f"first is smaller from bit {k} on", [y_all[k], not_(x_all[k])])
    out = c.bits(f"{name}.", bits)
    for k in range(bits):
        if k < len(x):
            c.all_of([less, x[k]], out[k], "first")
        if k < len(y):
            c.all_of([not_(less), y[k]], out[k], "second")
    return out


def smallest_of(c: Circuit, numbers: list[list], name: str, bits: int) -> list:
    """Smallest of several numbers, pairwise."""
    level = 0
    while len(numbers) > 1:
        level += 1
        pairs = [minimum(c, numbers[i], numbers[i + 1], f"{name}{level}_{i // 2}", bits) for i in range(0, len(numbers) - 1, 2)]
        numbers = pairs + ([numbers[-1]] if len(numbers) % 2 else [])
    return numbers[0]


def build_following(c: Circuit, m: Machine, rec: Records, front: Front) -> Following:
    """Everything that does not depend on the results of the stages."""
    n = m.target_bits
    idle = [[*t, a] for t, a in zip(front.targets, front.active)]     # active lanes count as beyond every target
    smallest = smallest_of(c, idle, "idle", n + 1)
    later: list[Signal] = []
    if m.groups > 1:
        others, later = other_groups(c, m, rec, front)
        smallest = minimum(c, smallest, others, "all_groups", n + 1)
    fall, taken = front.header["fall"], front.header["taken"]
    with_fall = minimum(c, smallest, fall, "if_fall", n)
    with_taken = minimum(c, smallest, taken, "if_taken", n)
    with_both = minimum(c, with_fall, taken, "if_both", n)
    cases = {"fall": with_fall, "taken": with_taken, "both": with_both}
    flat = [b for bits in cases.values() for b in bits]
    more = [front.header["barrier"][0], Form.total(later), *encode(m, later)]
    held = latch(c, "next", front.run, [*flat, *more], "next block, three cases; barrier; next group",
                 names=[f"next_{b.name.split('.', 1)[-1]}" for b in flat] + ["next_barrier", "has_next_group"]
                 + [f"next_group{k}" for k in range(m.group_bits)])
    blocks = {case: held[i * n:(i + 1) * n] for i, case in enumerate(cases)}
    barrier, has_next, *next_group = held[3 * n:]
    return Following(blocks, has_next, next_group, barrier, smallest, *after_control(c, m, rec, front, smallest))


def encode(m: Machine, hot: list[Signal]) -> list[Form]:
    """Bits of the number of the one signal that is 1."""
    return [Form.total(s for g, s in enumerate(hot) if g >> k & 1) for k in range(m.group_bits)]


def other_groups(c: Circuit, m: Machine, rec: Records, front: Front):
    """(smallest target of the warp's groups without the one that runs, lowest later group with this block to run: one-hot)."""
    n, place, kind = m.target_bits, front.place, rec.kind
    fresh = smallest_of(c, front.written_targets, "written", n)
    told = outcome(rec) + kind["WARP"] + kind["INIT"]
    kept = [c.bits(f"group{g}_target", n) for g in range(m.groups)]
    rows = [(w, g) for w in range(m.warps) for g in range(m.groups)]
    last = len(rows)
    c.add_head(MemoryHead(
        c._full("group_targets"),
        {**{i: all_of(told, *address(place.warp, w), *address(place.written_group, g)) for i, (w, g) in enumerate(rows)},
         last: not_(told)},
        {**{i: all_of(*address(place.warp, w)) for i, (w, _) in enumerate(rows)}, last: Form.of(1)},
        [all_of(told, fresh[k], *address(place.written_group, g)) for g in range(m.groups) for k in range(n)],
        [Form.of(1)] * (m.groups * n), [((s, 1),) for bits in kept for s in bits],
        "smallest target of every group, each in its own dims", const_form=not_(told),
        row_names={**{i: f"warp {w} group {g}" for i, (w, g) in enumerate(rows)}, last: "constants"}))
    run, numbers, waiting = front.run, [], []
    for g in range(m.groups):
        own = c.signal(f"runs{g}")
        c.all_of([run, *address(place.group, g)], own, f"group {g} runs now")
        numbers.append([*kept[g], own])
        wait = c.signal(f"waits{g}")
        if g:
            behind = c.signal(f"behind{g}")
            c.at_least(g - binary(place.group), 1, behind, f"group {g} comes later")
            c.equal(binary(kept[g]) - binary(place.block), 0, wait, f"group {g} has this block to run", [run, behind])
        waiting.append(wait)
    others = smallest_of(c, numbers, "groups", n + 1)
    later = [c.signal(f"later{g}") for g in range(m.groups)]
    for g in range(1, m.groups):
        c.unit(waiting[g] - Form.total(waiting[1:g]), 1, later[g], f"group {g} is the next to run it")
    c.one_hot(later)
    return others, later


def after_control(c: Circuit, m: Machine, rec: Records, front: Front, smallest: list):
    """What comes after PARK, WARP and INIT."""
    kind, place = rec.kind, front.place
    first = rec.field["WARP", "first"][0]
    gone = smallest[m.target_bits - 1]            # the EXIT flag: every lane of the warp has left
    resume, start, more = c.signal("resume"), c.signal("start"), c.signal("next_init")
    c.all_of([kind["WARP"], not_(first), not_(gone)], resume, "the warp goes on")
    init_group: list[Signal] = []
    if m.groups == 1:
        c.all_of([kind["WARP"], first], start, "the warp's only group has started")
    else:
        c.all_of([kind["WARP"], first], more, "group 1 starts next")
        c.unit(kind["INIT"], 1, more, "another group follows")
        c.all_of([kind["INIT"], *place.group], {more: -1}, "unless this is the last")
        c.all_of([kind["INIT"], *place.group], start, "the last group has started")
        init_group = increment(c, place.group, "init_group")
    parked, moves = c.signal("parks"), c.signal("moves")
    c.unit(place.parked, 1, parked, "a warp of this round is parked")
    c.all_of([kind["PARK"], not_(gone), not_(place.parked)], parked, "this warp parks")
    c.unit(kind["PARK"], 1, moves, "the warp stops")
    c.all_of([kind["WARP"], not_(first), gone], moves, "the warp has nothing left to run")
    to_warp, to_round = c.signal("to_warp"), c.signal("to_round")
    to_block, to_end = c.signal("to_block"), c.signal("to_end")
    c.all_of([moves, not_(place.is_last_warp)], to_warp, "the next warp")
    c.all_of([moves, place.is_last_warp, parked], to_round, "a new round over the warps")
    over = [moves, place.is_last_warp, not_(parked)]
    c.all_of([*over, *place.is_last], to_end, "the last thread block is done")
    c.all_of(over, to_block, "the thread block is done")
    c.all_of([*over, *place.is_last], {to_block: -1}, "but no other follows")
    return resume, start, more, init_group, to_warp, to_round, to_block, to_end, parked
