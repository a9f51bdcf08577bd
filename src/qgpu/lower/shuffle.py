"""shfl.sync.

PTX (9.7.9.6) computes, from lane b and the control word c, a source lane for each lane and whether it is in the lane's segment;
a lane whose source is outside keeps its own value. Where every source is in the lane's own group, at the same place in every group, that
is one instruction. Otherwise each lane leaves its value in a word of its own, and takes the word of its source: the machine runs
the first block for all groups of the warp before the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.model import Instruction, Pair, Sink
from .evaluate import parameter_word
from .ir import GE, LE, Op, Value
from .unit import Refused

if TYPE_CHECKING:
    from .translate import Translator

MODES = ("up", "down", "bfly", "idx")


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """(source lane, predicate) of one lane, as PTX defines them for warps of 32."""
    segment, clamp = (c >> 8) & 31, c & 31
    b &= 31
    high = (lane & segment) | (clamp & ~segment)
    low = lane & segment
    if mode == "up":
        j, ok = lane - b, lane - b >= high
    elif mode == "down":
        j, ok = lane + b, lane + b <= high
    elif mode == "bfly":
        j, ok = lane ^ b, (lane ^ b) <= high
    else:
        j = low | (b & ~segment)
        ok = j <= high
    return (j, True) if ok else (lane, False)


def shfl(t: Translator, ins: Instruction) -> None:
    mode = next((m for m in ins.modifiers if m in MODES), None)
    if mode is None or ins.raw_type not in ("b32", "u32", "s32", "f32"):
        raise Refused(f"{ins.name} is not supported")
    d, a, b, c = ins.operands[:4]
    m, threads = t.unit.machine, t.unit.launch.threads
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    value, lane_operand, control = t.low(a), t.low(b), t.low(c)
    known_lane, known_control = constant(t, lane_operand), constant(t, control)
    width = 32 - (known_control >> 8 & 31) if known_control is not None else 32
    if width > m.warp_size and threads > m.warp_size:
        raise Refused(f"this shuffle is {width} lanes wide, and a warp of machine {m.name!r} has {m.warp_size} lanes; "
                      f"give the shuffle a width of {m.warp_size} as its last argument")
    if known_lane is not None and known_control is not None:
        result, ok = _fixed(t, mode, value, known_lane, known_control)
    else:
        result, ok = _by_register(t, mode, value, lane_operand, control)
    t.write(first, result)
    if not isinstance(second, Sink):
        t.write(second, ok)


def constant(t: Translator, value: Value) -> int | None:
    """The number that a value is bound to be, if its chain of copies ends in one."""
    if isinstance(value, Op) and value.kind == "ldparam" and isinstance(value.args[0], int):
        return parameter_word(t.unit.parameters, value.args[0])
    return value if isinstance(value, int) else None


def _fixed(t: Translator, mode: str, value: Value, b: int, c: int) -> tuple[Value, Value]:
    m = t.unit.machine
    lanes, size = m.lanes, m.warp_size
    sources = [source_lane(mode, lane, b, c) for lane in range(size)]
    moves = [j % lanes if j // lanes == lane // lanes else None for lane, (j, _) in enumerate(sources)]
    pattern = moves[:lanes]
    if None not in pattern and moves == pattern * m.groups:
        result: Value = t.op("shfl", value, pattern=tuple(pattern))
    elif m.groups == 1:  # a source beyond the warp: there is no such thread, so any value will do
        result = t.op("shfl", value, pattern=tuple(lane if p is None else p for lane, p in enumerate(pattern)))
    else:
        result = move(t, value, _by_register(t, mode, None, b, c)[0])
    mask = sum(1 << lane for lane, (_, ok) in enumerate(sources) if ok)
    if mask in (0, (1 << size) - 1):
        return result, int(mask != 0)
    return result, t.op("and", t.op("shr", mask, t.lane()), 1)


def move(t: Translator, value: Value, source: Value) -> Value:
    """Every lane's value of its source lane, a number below the size of a warp."""
    m = t.unit.machine
    if m.groups > 1:
        base = t.unit.variables.scratch("shuffle", m.warp_size)
        t.store_scratch(t.op("add", t.op("shl", t.lane(), 2), base), value)
        return t.load_word(t.op("add", t.op("shl", source, 2), base), 0, "scratch")
    result: Value = t.op("shfl", value, pattern=(0,) * m.lanes)
    for k in range(1, m.lanes):
        result = t.op("sel", t.op("shfl", value, pattern=(k,) * m.lanes), result, t.equal(source, k))
    return result


def _by_register(t: Translator, mode: str, value: Value | None, b: Value, c: Value) -> tuple[Value, Value]:
    """The source lane as a value, and the value from there (without a value: the source lane itself)."""
    m = t.unit.machine
    lane = t.lane()
    b, clamp = t.op("and", b, 31), t.op("and", c, 31)
    segment = t.op("and", t.op("shr", c, 8), 31)
    low = t.op("and", lane, segment)
    beyond = t.op("xor", segment, 31)
    high = t.op("or", low, t.op("and", clamp, beyond))
    if mode == "up":
        j: Value = t.op("sub", lane, b)
        ok = t.op("set", j, high, relation=GE, signed=True)
    elif mode == "idx":
        j = t.op("or", low, t.op("and", b, beyond))
        ok = t.op("set", j, high, relation=LE, signed=True)
    else:
        j = t.op("add" if mode == "down" else "xor", lane, b)
        ok = t.op("set", j, high, relation=LE, signed=True)
    source = t.op("sel", j, lane, ok)
    if m.warp_size < 32:  # sources beyond the warp: there is no such thread
        source = t.op("and", source, m.warp_size - 1)
    return (source if value is None else move(t, value, source)), ok
