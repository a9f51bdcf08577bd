"""Where the machine is: thread block, warp, group, block of the program, and what comes after each."""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.description import AXES, Machine
from .core import Circuit, Form, Signal, all_of, binary, not_
from .latch import increment, latch
from .records import Records


@dataclass
class Place:
    """Signals of the current place.

    warp, group, block: bits. parked, first: flags of the last WARP. next_warp: warp + 1. is_last_warp: no warp follows.
    running: 1 from EXEC or NEXT until the next control record. written_group: the group whose targets this token may
    change. beyond, at_last: the current group lies behind, is, the last one with threads (in the last warp);
    missing: lanes without a thread in that one.
    index[axis], next_index[axis] (0 after the last), is_last[axis]: thread block. after_control, after_block[axis]: the token
    before this one was PARK or WARP, was BLOCK(axis).
    """

    warp: list[Signal]
    parked: Signal
    first: Signal
    next_warp: list[Signal]
    is_last_warp: Signal
    group: list[Signal]
    written_group: list[Signal]
    block: list[Signal]
    running: Signal
    beyond: Signal
    at_last: Signal
    missing: list[Signal]
    index: list[list[Signal]]
    next_index: list[list[Signal]]
    is_last: list[Signal]
    after_control: Signal
    after_block: list[Signal]


def build_place(c: Circuit, m: Machine, rec: Records, run_now: Signal) -> Place:
    """Latches of the control records. run_now: 1 at EXEC and NEXT; no latch sits in its layer or below."""
    ready = (run_now,)
    kind, field = rec.kind, rec.field
    state = latch(c, "warp", kind["WARP"], field["WARP", "warp"] + field["WARP", "parked"] + field["WARP", "first"],
                  "current warp, and whether a warp of this round is parked, whether this is the first round", after=ready)
    warp, parked, first = state[:m.warp_bits], state[-2], state[-1]
    config = latch(c, "config", kind["CONFIG"],
                   field["CONFIG", "last_warp"] + field["CONFIG", "last_group"] + field["CONFIG", "missing"],
                   "last warp, its last group, that group's missing lanes", after=ready)
    last_warp = config[:m.warp_bits]
    last_group, missing = config[m.warp_bits:m.warp_bits + m.group_bits], config[m.warp_bits + m.group_bits:]
    is_last_warp = c.signal("is_last_warp")
    c.equal(binary(warp) - binary(last_warp), 0, is_last_warp, "current warp is the last")
    control = Form.total(kind[k] for k in ("PARK", "WARP", "INIT", "BLOCK", "CONFIG"))
    run = kind["EXEC"] + kind["NEXT"]
    running = latch(c, "running", run + control, [run], "a block is being run or its results sent", after=ready)[0]
    block = latch(c, "block", kind["EXEC"], field["EXEC", "block"], "current block of the program", after=ready)
    group, written, beyond, at_last = build_group(c, m, rec, last_group, ready)
    after_control = c.signal("after_control")
    c.unit(kind["PARK"] + kind["WARP"], 1, after_control, "the token before was PARK or WARP", tap=1)
    index, following, is_last, after_block = [], [], [], []
    n = m.chunk_bits - 1
    for a, axis in enumerate(AXES):
        here = all_of(kind["BLOCK"], field["BLOCK", "axis"][a])
        size = latch(c, f"grid_{axis}", all_of(kind["GRID"], field["GRID", "axis"][a]), rec.value[:n],
                     f"last thread block along {axis}", value_tap=1)
        at = latch(c, f"index_{axis}", here, rec.value[:n], f"thread block's index along {axis}", value_tap=1)
        last = c.signal(f"is_last_{axis}")
        c.equal(binary(at) - binary(size), 0, last, f"last thread block along {axis}")
        before = c.signal(f"after_block_{axis}")
        c.unit(here, 1, before, f"the token before was BLOCK({axis})", tap=1)
        index.append(at)
        is_last.append(last)
        after_block.append(before)
        following.append(increment(c, at, f"next_{axis}", [not_(last)]))
    return Place(warp, parked, first, increment(c, warp, "next_warp"), is_last_warp, group, written, block, running, beyond,
                 at_last, missing, index, following, is_last, after_control, after_block)


def build_group(c: Circuit, m: Machine, rec: Records, last_group: list[Signal], ready: tuple[Signal, ...]):
    """Current group; the group whose targets change: the one before at EXEC and NEXT, else the current one."""
    kind, field = rec.kind, rec.field
    beyond, at_last = c.signal("beyond"), c.signal("at_last")
    if m.groups == 1:
        c.unit(1, 1, at_last, "the only group")
        return [], [], beyond, at_last
    given = kind["NEXT"] + kind["INIT"]
    write = Form.total(kind[k] for k in ("WARP", "INIT", "EXEC", "NEXT"))
    group = latch(c, "group", write, [all_of(given, b) for b in field["NEXT", "group"]], "current group", after=ready)
    before = c.bits("group_before", m.group_bits)
    written = c.bits("written_group", m.group_bits)
    run = kind["EXEC"] + kind["NEXT"]
    for k in range(m.group_bits):
        c.unit(group[k], 1, before[k], "group at the token before", tap=1)
        c.all_of([run, before[k]], written[k], "the group that ran before")
        c.all_of([not_(run), group[k]], written[k], "the current group")
    c.equal(binary(group) - binary(last_group), 0, at_last, "the last group with threads")
    c.at_least(binary(group) - binary(last_group), 1, beyond, "behind the last group with threads")
    return group, written, beyond, at_last
