"""shfl.sync on a warp of few lanes.

PTX (9.7.9.6) computes, from lane b and the control word c, a source lane for each lane and whether it is in the lane's segment;
a lane whose source is outside keeps its own value. With constants that is one fixed pattern. A lane number from a register becomes
one broadcast a lane and selections between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.model import Instruction, Pair, Sink
from .evaluate import parameter_word
from .ir import EQ, GE, LE, TID, Op, Value
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
    control = t.low(c)
    control = constant(t, control)
    if control is None:
        raise Refused("the width of a shuffle must be a constant")
    lanes = t.unit.machine.lanes
    width = 32 - ((control >> 8) & 31)
    if width > lanes:
        raise Refused(f"this shuffle is {width} lanes wide, and a warp of machine {t.unit.machine.name!r} has {lanes} lanes; "
                      f"give the shuffle a width of {lanes} as its last argument")
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    value, lane_operand = t.low(a), t.low(b)
    if (known := constant(t, lane_operand)) is not None:
        result, ok = _fixed(t, mode, value, known, control)
    else:
        result, ok = _by_register(t, mode, value, lane_operand, width, control & 31)
    t.write(first, result)
    if not isinstance(second, Sink):
        t.write(second, ok)


def constant(t: Translator, value: Value) -> int | None:
    """The number that a value is bound to be, if its chain of copies ends in one."""
    if isinstance(value, Op) and value.kind == "ldparam" and isinstance(value.args[0], int):
        return parameter_word(t.unit.parameters, value.args[0])
    return value if isinstance(value, int) else None


def _fixed(t: Translator, mode: str, value: Value, b: int, c: int) -> tuple[Value, Value]:
    lanes = t.unit.machine.lanes
    sources = [source_lane(mode, lane, b, c) for lane in range(lanes)]
    # A source in the segment but beyond the machine's warp cannot be: segments are at most `lanes` wide.
    result = t.op("shfl", value, pattern=tuple(j for j, _ in sources))
    mask = sum(1 << lane for lane, (_, ok) in enumerate(sources) if ok)
    if mask in (0, (1 << lanes) - 1):
        return result, int(mask != 0)
    lane = t.op("and", TID, lanes - 1)
    return result, t.op("and", t.op("shr", mask, lane), 1)


def _by_register(t: Translator, mode: str, value: Value, b: Value, width: int, clamp: int) -> tuple[Value, Value]:
    """The source lane as a value: broadcasts of every lane, and the one whose number matches."""
    lanes = t.unit.machine.lanes
    lane = t.op("and", TID, lanes - 1)
    b = t.op("and", b, 31)
    segment = t.op("and", lane, 31 & ~(width - 1))
    high = t.op("or", segment, clamp & (width - 1))
    if mode == "up":
        j = t.op("sub", lane, b)
        ok = t.op("set", j, high, relation=GE, signed=True)
    elif mode == "idx":
        j = t.op("or", segment, t.op("and", b, width - 1))
        ok = t.op("set", j, high, relation=LE, signed=True)
    else:
        j = t.op("add" if mode == "down" else "xor", lane, b)
        ok = t.op("set", j, high, relation=LE, signed=True)
    source = t.op("sel", j, lane, ok)
    result: Value = t.op("shfl", value, pattern=(0,) * lanes)
    for k in range(1, lanes):
        result = t.op("sel", t.op("shfl", value, pattern=(k,) * lanes), result, t.op("set", source, k, relation=EQ))
    return result, ok
