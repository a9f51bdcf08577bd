"""Operations across threads: shuffles, votes, matches, reductions, barriers (PTX ISA 9.7.9.6, 9.7.13).

A thread that reaches one brings its operands and waits. A warp operation goes on when every thread of its member mask
that has not exited waits at one with the same qualifiers and mask; a barrier when the block's threads have arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qgpu.ptx.model import Instruction, Pair, Sink

from .ptx_data import Execute
from .ptx_integer import entry
from .ptx_operands import Scope, defined, destinations, reader
from .ptx_thread import BARRIER, SYNC, Thread, Trouble, Value, Waiting
from .ptx_values import PRED, TYPES, U32, Modifiers, Undefined, Unsupported

WARP: dict[str, Callable[[Instruction, Scope], Execute]] = {}
B32 = TYPES["b32"]
# Lanes that take part -> result of each of them (a tuple, one for each destination).
Combine = Callable[[dict[int, Thread]], dict[int, tuple]]


def _deliver(writers: list) -> Callable[[Thread, Any], None]:
    def deliver(thread: Thread, results: tuple) -> None:
        for write, result in zip(writers, results):
            write(thread, result)
    return deliver


def collective(i: Instruction, scope: Scope, writers: list, readers: list, mask_operand, combine: Combine) -> Execute:
    """A warp operation. mask_operand: the member mask, or None for the forms without .sync (lanes that run together)."""
    read_mask = reader(mask_operand, B32, scope) if mask_operand is not None else None
    deliver, name = _deliver(writers), i.name

    def run(threads: list[Thread]) -> None:
        together = sum(1 << thread.lane for thread in threads)
        for thread in threads:
            mask = together
            if read_mask:
                mask = defined(thread, read_mask(thread), f"the member mask of {i.opcode}")
                mask &= thread.warp.block.launch.lane_mask
                if not mask >> thread.lane & 1:
                    raise Trouble(thread, f"a thread runs {name} without being in its member mask {mask:#x}",
                                  "only threads named in the mask may run it", "name every thread that gets here")
            operands = tuple(read(thread) for read in readers)
            thread.wait(SYNC, Waiting((name, mask), operands, deliver, combine, mask))
        threads[0].warp.complete_collectives()
    return run


def _first_undefined(values) -> Undefined | None:
    return next((v for v in values if isinstance(v, Undefined)), None)


def _operand(threads: dict[int, Thread], k: int) -> dict[int, Value]:
    return {lane: thread.waiting.operands[k] for lane, thread in threads.items()}


def shuffle_source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """(source lane, whether it was in range) of `shfl`, by the ISA's own pseudo-code."""
    b_value, c_value, segment = b & 31, c & 31, c >> 8 & 31
    max_lane = lane & segment | c_value & ~segment & 31
    min_lane = lane & segment
    if mode == "up":
        j = lane - b_value
        in_range = j >= max_lane
    elif mode == "down":
        j = lane + b_value
        in_range = j <= max_lane
    elif mode == "bfly":
        j = lane ^ b_value
        in_range = j <= max_lane
    else:
        j = min_lane | b_value & ~segment & 31
        in_range = j <= max_lane
    return (j if in_range else lane), in_range


@entry(WARP, "shfl")
def _shfl(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    sync = m.flag("sync")
    mode = m.one_of("up", "down", "bfly", "idx")
    t = m.type("b32 u32 s32 f32")
    m.done()
    if len(i.operands) != (5 if sync else 4):
        raise Unsupported(f"it has {len(i.operands)} operands")
    target, a, b, c = i.operands[:4]
    writers = destinations(target, (t, PRED), scope)
    readers = [reader(a, TYPES["b32"], scope), reader(b, U32, scope), reader(c, U32, scope)]
    where = i.where

    def combine(threads: dict[int, Thread]) -> dict[int, tuple]:
        results: dict[int, tuple] = {}
        for lane, thread in threads.items():
            _, b_value, c_value = thread.waiting.operands
            unknown = _first_undefined((b_value, c_value))
            if unknown:
                results[lane] = (unknown, unknown)
                continue
            source, in_range = shuffle_source(mode, lane, b_value, c_value)
            value = threads[source].waiting.operands[0] if source in threads else Undefined(
                f"what {i.opcode} at {where} read from lane {source}, which is not active there")
            results[lane] = (value, int(in_range))
        return results
    return collective(i, scope, writers, readers, i.operands[4] if sync else None, combine)


@entry(WARP, "vote")
def _vote(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    sync = m.flag("sync")
    mode = m.one_of("all", "any", "uni", "ballot")
    t = m.type("b32" if mode == "ballot" else "pred")
    m.done()
    if len(i.operands) != (3 if sync else 2):
        raise Unsupported(f"it has {len(i.operands)} operands")

    def combine(threads: dict[int, Thread]) -> dict[int, tuple]:
        votes = _operand(threads, 0)
        result: Value | None = _first_undefined(votes.values())
        if result is None:
            yes = sum(votes.values())
            result = {"all": int(yes == len(votes)), "any": int(yes > 0), "uni": int(yes in (0, len(votes))),
                      "ballot": sum(1 << lane for lane, vote in votes.items() if vote)}[mode]
        return dict.fromkeys(threads, (result,))
    return collective(i, scope, destinations(i.operands[0], (t,), scope), [reader(i.operands[1], PRED, scope)],
                      i.operands[2] if sync else None, combine)


@entry(WARP, "match")
def _match(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    mode, _ = m.one_of("any", "all"), m.one_of("sync")
    t = m.type("b32 b64")
    m.done()
    if len(i.operands) != 3:
        raise Unsupported(f"it has {len(i.operands)} operands")

    def combine(threads: dict[int, Thread]) -> dict[int, tuple]:
        values = _operand(threads, 0)
        unknown = _first_undefined(values.values())
        if unknown:
            return dict.fromkeys(threads, (unknown, unknown))
        equal = {lane: sum(1 << other for other, v in values.items() if v == value) for lane, value in values.items()}
        if mode == "any":
            return {lane: (mask,) for lane, mask in equal.items()}
        everyone = sum(1 << lane for lane in values)
        same = all(mask == everyone for mask in equal.values())
        return dict.fromkeys(threads, (everyone if same else 0, int(same)))
    writers = destinations(i.operands[0], (B32, PRED) if mode == "all" else (B32,), scope)
    return collective(i, scope, writers, [reader(i.operands[1], t, scope)], i.operands[2], combine)


REDUCTIONS: dict[str, Callable[[list[int]], int]] = {"add": sum, "min": min, "max": max}


def _bitwise(name: str, values: list[int]) -> int:
    result = values[0]
    for value in values[1:]:
        result = result & value if name == "and" else result | value if name == "or" else result ^ value
    return result


@entry(WARP, "redux")
def _redux(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    m.one_of("sync")
    name = m.one_of("add", "min", "max", "and", "or", "xor")
    t = m.type("u32 s32" if name in REDUCTIONS else "b32")
    m.done()
    if len(i.operands) != 3:
        raise Unsupported(f"it has {len(i.operands)} operands")

    def combine(threads: dict[int, Thread]) -> dict[int, tuple]:
        values = list(_operand(threads, 0).values())
        result = _first_undefined(values) or (REDUCTIONS[name](values) if name in REDUCTIONS else _bitwise(name, values))
        return dict.fromkeys(threads, (result,))
    return collective(i, scope, destinations(i.operands[0], (t,), scope), [reader(i.operands[1], t, scope)],
                      i.operands[2], combine)


@entry(WARP, "elect")
def _elect(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    m.one_of("sync")
    m.done()
    if len(i.operands) != 2 or not isinstance(i.operands[0], (Pair, Sink)):
        raise Unsupported("its operands have a form that is not supported here")

    def combine(threads: dict[int, Thread]) -> dict[int, tuple]:
        leader = min(threads)
        return {lane: (leader, int(lane == leader)) for lane in threads}
    return collective(i, scope, destinations(i.operands[0], (B32, PRED), scope), [], i.operands[1], combine)


@entry(WARP, "activemask")
def _activemask(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    m.type("b32")
    m.done()
    if len(i.operands) != 1:
        raise Unsupported(f"it has {len(i.operands)} operands")
    writers = destinations(i.operands[0], (B32,), scope)

    def combine(threads: dict[int, Thread]) -> dict[int, tuple]:
        return dict.fromkeys(threads, (sum(1 << lane for lane in threads),))
    return collective(i, scope, writers, [], None, combine)


@entry(WARP, "bar", "barrier")
def _bar(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    if i.opcode == "bar" and m.flag("warp"):
        m.one_of("sync")
        m.done()
        if len(i.operands) != 1:
            raise Unsupported(f"it has {len(i.operands)} operands")
        return collective(i, scope, [], [], i.operands[0], lambda threads: dict.fromkeys(threads, ()))
    m.flag("cta")
    kind = m.one_of("sync", "arrive", "red")
    aligned = m.flag("aligned") or i.opcode == "bar"
    return _red(i, scope, m, aligned) if kind == "red" else _barrier(i, scope, m, kind, aligned)


def _barrier(i: Instruction, scope: Scope, m: Modifiers, kind: str, aligned: bool) -> Execute:
    m.done()
    if len(i.operands) not in ((1, 2) if kind == "sync" else (2,)):
        raise Unsupported(f"it has {len(i.operands)} operands")
    count = i.operands[1] if len(i.operands) == 2 else None
    return _arrival(scope, i.operands[0], count, None, [], kind, aligned, None)


def _red(i: Instruction, scope: Scope, m: Modifiers, aligned: bool) -> Execute:
    """`bar.red`: a barrier that also counts, ands or ors a predicate of all threads that arrive."""
    name = m.one_of("popc", "and", "or")
    t = m.type("u32" if name == "popc" else "pred")
    m.done()
    if len(i.operands) not in (3, 4):
        raise Unsupported(f"it has {len(i.operands)} operands")
    target, number, *count, predicate = i.operands
    return _arrival(scope, number, count[0] if count else None, reader(predicate, PRED, scope),
                    destinations(target, (t,), scope), name, aligned, name)


def _arrival(scope: Scope, number, count, read_vote, writers: list, kind: str, aligned: bool, reduction: str | None) -> Execute:
    read_number = reader(number, U32, scope)
    read_count = reader(count, U32, scope) if count is not None else None
    deliver = _deliver(writers)

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            barrier = defined(thread, read_number(thread), "the number of a barrier")
            if barrier > 15:
                raise Trouble(thread, f"barrier {barrier} does not exist", "barriers are numbered 0 to 15")
            expected = defined(thread, read_count(thread), "the thread count of a barrier") if read_count else None
            if expected is not None and (expected == 0 or expected % thread.warp.block.launch.warp_size):
                raise Trouble(thread, f"a barrier for {expected} threads", "the count must be a multiple of the warp size")
            votes = (read_vote(thread),) if read_vote else ()
            waiting = Waiting((kind, aligned, reduction), votes, deliver, number=barrier, count=expected)
            if kind == "arrive":
                thread.warp.block.arrived.setdefault(barrier, []).append((thread, expected))
            else:
                thread.wait(BARRIER, waiting)
        if read_count:
            threads[0].warp.block.complete_counted_barriers()
    return run


def reduce_votes(name: str, votes: list[Value]) -> Value:
    """The result of `bar.red` over all threads that arrived."""
    unknown = _first_undefined(votes)
    if unknown:
        return unknown
    return {"popc": sum(votes), "and": int(all(votes)), "or": int(any(votes))}[name]

