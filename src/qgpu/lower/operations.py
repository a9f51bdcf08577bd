"""How each PTX opcode becomes operations: one table, `HANDLERS`.

A handler takes the translator and the instruction and writes the destination, or raises Refused with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from ..ptx.model import Instruction, Pair, Reg, Sink, Vector
from . import wide
from .ir import EQ, GE, GT, LE, LT, NE, Value
from .memory_ops import cvta, fence, load, store
from .shuffle import shfl
from .unit import Refused

if TYPE_CHECKING:
    from .translate import Translator

Handler = Callable[["Translator", Instruction], None]

COMPARISONS = {"eq": (EQ, None), "ne": (NE, None), "lt": (LT, None), "le": (LE, None), "gt": (GT, None), "ge": (GE, None),
               "lo": (LT, False), "ls": (LE, False), "hi": (GT, False), "hs": (GE, False)}


def integer(ins: Instruction, *widths: int) -> tuple[int, bool]:
    """(bits, signed) of the instruction's type. Raises Refused for another width or for floating point."""
    kind = ins.raw_type
    if kind == "pred" and 1 in widths:
        return 1, False
    if kind is None or kind[0] not in "bus" or "x" in kind or ins.has("sat"):
        raise Refused(f"{ins.name}: only integer arithmetic without saturation is supported")
    if ins.bits not in widths:
        raise Refused(f"{ins.name}: {ins.bits}-bit values are not supported here")
    return ins.bits, kind[0] == "s"


def bitwise(kind: str) -> Handler:
    def handler(t: Translator, ins: Instruction) -> None:
        integer(ins, 1, 16, 32, 64)
        d, a, b = ins.operands
        low = t.op(kind, t.low(a), t.low(b))
        t.write(d, low, t.op(kind, t.high(a), t.high(b)) if ins.bits == 64 else 0)
    return handler


def not_(t: Translator, ins: Instruction) -> None:
    bits, _ = integer(ins, 1, 16, 32, 64)
    d, a = ins.operands
    ones = 1 if bits == 1 else 0xFFFFFFFF
    t.write(d, t.op("xor", t.low(a), ones), t.op("xor", t.high(a), ones) if bits == 64 else 0)


def cnot(t: Translator, ins: Instruction) -> None:
    bits, _ = integer(ins, 16, 32)
    d, a = ins.operands
    t.write(d, t.equal(t.extended(a, bits, False), 0))


def add(t: Translator, ins: Instruction) -> None:
    bits, _ = integer(ins, 16, 32, 64)
    if ins.has("cc"):
        raise Refused("the carry flag is not supported")
    d, a, b = ins.operands
    t.write(d, *(wide.add(t, t.pair(a), t.pair(b)) if bits == 64 else (t.op("add", t.low(a), t.low(b)),)))


def sub(t: Translator, ins: Instruction) -> None:
    bits, _ = integer(ins, 16, 32, 64)
    if ins.has("cc"):
        raise Refused("the carry flag is not supported")
    d, a, b = ins.operands
    t.write(d, *(wide.sub(t, t.pair(a), t.pair(b)) if bits == 64 else (t.op("sub", t.low(a), t.low(b)),)))


def multiply(t: Translator, ins: Instruction) -> None:
    """mul and mad: .lo, .hi, .wide."""
    bits, signed = integer(ins, 16, 32, 64)
    d, a, b, *c = ins.operands
    if ins.has("cc"):
        raise Refused("the carry flag is not supported")
    if ins.has("wide"):
        product = wide.product(t, a, b, bits, signed)
        if bits == 16:
            t.write(d, t.op("add", product[0], t.low(c[0])) if c else product[0])
        else:
            t.write(d, *(wide.add(t, product, t.pair(c[0])) if c else product))
    elif ins.has("hi"):
        if bits == 64:
            raise Refused("128-bit products are not supported")
        if bits == 16:
            high = t.op("shr", t.op("mul", t.extended(a, 16, signed), t.extended(b, 16, signed), 0), 16)
        else:
            high = t.op("mulhi", t.low(a), t.low(b), signed=signed)
        t.write(d, t.op("add", high, t.low(c[0])) if c else high)
    elif ins.has("lo"):
        if bits == 64:
            product = wide.multiply(t, t.pair(a), t.pair(b))
            t.write(d, *(wide.add(t, product, t.pair(c[0])) if c else product))
        else:
            t.write(d, t.op("mul", t.low(a), t.low(b), t.low(c[0]) if c else 0))
    else:
        raise Refused(f"{ins.name} needs .lo, .hi or .wide")


def mul24(t: Translator, ins: Instruction) -> None:
    """mul24.lo and mad24.lo: the low 32 bits of the product of 24-bit numbers."""
    _, signed = integer(ins, 32)
    if not ins.has("lo"):
        raise Refused(f"{ins.name} is not supported")
    d, a, b, *c = ins.operands
    t.write(d, t.op("mul", t.extended(a, 24, signed), t.extended(b, 24, signed), t.low(c[0]) if c else 0))


def divide(kind: str) -> Handler:
    def handler(t: Translator, ins: Instruction) -> None:
        bits, signed = integer(ins, 16, 32)
        d, a, b = ins.operands
        t.write(d, t.op(kind, t.extended(a, bits, signed), t.extended(b, bits, signed), signed=signed))
    return handler


def shift(t: Translator, ins: Instruction) -> None:
    bits, signed = integer(ins, 16, 32, 64)
    d, a, n = ins.operands
    kind = "shl" if ins.opcode == "shl" else "sar" if signed else "shr"
    amount = t.low(n)
    if bits == 64:
        t.write(d, *wide.shift(t, kind, t.pair(a), amount))
    else:
        t.write(d, t.op(kind, t.low(a) if kind == "shl" else t.extended(a, bits, signed), amount))


def funnel_shift(t: Translator, ins: Instruction) -> None:
    """shf.l / shf.r: 32 bits of the pair (high b, low a) shifted."""
    if ins.bits != 32:
        raise Refused(f"{ins.name} is not supported")
    d, a, b, n = ins.operands
    low, high, amount = t.low(a), t.low(b), t.low(n)
    if ins.has("wrap"):
        amount = t.op("and", amount, 31)
    else:
        amount = t.op("minmax", amount, 32, relation=LT)
    back = t.op("sub", 32, amount)
    if ins.has("l"):
        t.write(d, t.op("or", t.op("shl", high, amount), t.op("shr", low, back)))
    else:
        t.write(d, t.op("or", t.op("shr", low, amount), t.op("shl", high, back)))


def bit_field(t: Translator, ins: Instruction) -> None:
    """bfe with constant position and length."""
    bits, signed = integer(ins, 32)
    d, a, p, n = ins.operands
    position, length = t.low(p), t.low(n)
    if not isinstance(position, int) or not isinstance(length, int):
        raise Refused("bfe needs a constant position and length")
    position, length = position & 0xFF, length & 0xFF
    if length == 0:
        t.write(d, 0)
    elif signed:
        top = min(position + length, bits)
        up = t.op("shl", t.low(a), bits - top)
        t.write(d, t.op("sar", up, min(31, bits - top + position)))
    else:
        down = t.op("shr", t.low(a), position)
        t.write(d, t.op("and", down, (1 << length) - 1) if length < 32 else down)


def min_max(t: Translator, ins: Instruction) -> None:
    bits, signed = integer(ins, 16, 32, 64)
    d, a, b = ins.operands
    relation = LT if ins.opcode == "min" else GT
    if bits == 64:
        first = wide.compare(t, t.pair(a), t.pair(b), relation, signed)
        t.write(d, t.op("sel", t.low(a), t.low(b), first), t.op("sel", t.high(a), t.high(b), first))
    else:
        t.write(d, t.op("minmax", t.extended(a, bits, signed), t.extended(b, bits, signed), relation=relation, signed=signed))


def neg(t: Translator, ins: Instruction) -> None:
    bits, _ = integer(ins, 16, 32, 64)
    d, a = ins.operands
    t.write(d, *(wide.sub(t, (0, 0), t.pair(a)) if bits == 64 else (t.op("sub", 0, t.low(a)),)))


def abs_(t: Translator, ins: Instruction) -> None:
    bits, _ = integer(ins, 16, 32)
    d, a = ins.operands
    value = t.extended(a, bits, True)
    t.write(d, t.op("minmax", value, t.op("sub", 0, value), relation=GT, signed=True))


def sad(t: Translator, ins: Instruction) -> None:
    bits, signed = integer(ins, 16, 32)
    d, a, b, c = ins.operands
    x, y = t.extended(a, bits, signed), t.extended(b, bits, signed)
    high = t.op("minmax", x, y, relation=GT, signed=signed)
    low = t.op("minmax", x, y, relation=LT, signed=signed)
    t.write(d, t.op("add", t.op("sub", high, low), t.low(c)))


def mov(t: Translator, ins: Instruction) -> None:
    d, a = ins.operands
    if isinstance(a, Vector):
        _pack(t, d, a)
    elif isinstance(d, Vector):
        _unpack(t, d, a)
    else:
        t.write(d, *t.pair(a))


def _pack(t: Translator, d: Reg, a: Vector) -> None:
    total = t.width(d.name)
    each = total // len(a.items)
    if each == 32:
        t.write(d, t.low(a.items[0]), t.low(a.items[1]))
    elif each == 16 and total == 32:
        t.write(d, t.op("or", t.extended(a.items[0], 16, False), t.op("shl", t.low(a.items[1]), 16)))
    else:
        raise Refused("packing values of this size is not supported")


def _unpack(t: Translator, d: Vector, a: Reg) -> None:
    total = t.width(a.name) if isinstance(a, Reg) else 64
    each = total // len(d.items)
    if each == 32:
        low, high = t.pair(a)
        t.write(d.items[0], low)
        t.write(d.items[1], high)
    elif each == 16 and total == 32:
        value = t.low(a)
        t.write(d.items[0], value)
        t.write(d.items[1], t.op("shr", value, 16))
    else:
        raise Refused("unpacking values of this size is not supported")


def convert(t: Translator, ins: Instruction) -> None:
    """cvt between integer types: extend from the source type, cut to the destination type."""
    if len(ins.types) != 2 or any(k[0] not in "bus" or "x" in k for k in ins.types) or ins.has("sat"):
        raise Refused(f"{ins.name}: only conversions between integers are supported")
    to, source = ins.types
    to_bits, from_bits = int(to[1:]), int(source[1:])
    d, a = ins.operands
    if from_bits == 64:
        low, high = t.pair(a)
    else:
        low = t.extended(a, from_bits, source[0] == "s")
        high = t.op("sar", low, 31) if source[0] == "s" else 0
    if to_bits < min(from_bits, 32) and isinstance(d, Reg) and t.width(d.name) > to_bits:
        if to[0] == "s":
            low = t.op("sar", t.op("shl", low, 32 - to_bits), 32 - to_bits)
        else:
            low = t.op("and", low, (1 << to_bits) - 1)
    if to_bits < 64 and isinstance(d, Reg) and t.width(d.name) == 64:
        high = t.op("sar", low, 31) if to[0] == "s" else 0
    t.write(d, low, high)


def select(t: Translator, ins: Instruction) -> None:
    integer_or_bits(ins)
    d, a, b, p = ins.operands
    predicate = t.low(Reg(p.name)) if isinstance(p, Reg) else t.low(p)
    if isinstance(p, Reg) and p.negated:
        a, b = b, a
    t.write(d, t.op("sel", t.low(a), t.low(b), predicate), t.op("sel", t.high(a), t.high(b), predicate) if ins.bits == 64 else 0)


def integer_or_bits(ins: Instruction) -> None:
    """Selections move bits, so 32-bit floating-point values pass too."""
    if ins.raw_type not in ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64"):
        raise Refused(f"{ins.name} is not supported")


def slct(t: Translator, ins: Instruction) -> None:
    if len(ins.types) != 2 or ins.types[0] not in ("b32", "u32", "s32") or ins.types[1] != "s32":
        raise Refused(f"{ins.name} is not supported")
    d, a, b, c = ins.operands
    t.write(d, t.op("sel", t.low(a), t.low(b), t.op("set", t.low(c), 0, relation=GE, signed=True)))


def compare(t: Translator, ins: Instruction) -> Value:
    """The comparison of setp or set, before any combination with another predicate."""
    bits, signed = integer(ins, 16, 32, 64)
    name = next((m for m in ins.modifiers if m in COMPARISONS), None)
    if name is None:
        raise Refused(f"{ins.name}: this comparison is not supported")
    relation, forced = COMPARISONS[name]
    signed = signed if forced is None else forced
    a, b = ins.operands[1], ins.operands[2]
    if bits == 64:
        return wide.compare(t, t.pair(a), t.pair(b), relation, signed)
    return t.op("set", t.extended(a, bits, signed), t.extended(b, bits, signed), relation=relation, signed=signed)


def combine(t: Translator, ins: Instruction, result: Value) -> Value:
    """`.and`, `.or`, `.xor` with the third source, a predicate."""
    logic = next((m for m in ins.modifiers if m in ("and", "or", "xor")), None)
    return t.op(logic, result, t.low(ins.operands[3])) if logic else result


def setp(t: Translator, ins: Instruction) -> None:
    result = compare(t, ins)
    d = ins.operands[0]
    if not isinstance(d, Pair):
        t.write(d, combine(t, ins, result))
        return
    first, second = combine(t, ins, result), combine(t, ins, t.negated(result)) if not isinstance(d.second, Sink) else 0
    t.write(d.first, first)
    t.write(d.second, second)


def set_(t: Translator, ins: Instruction) -> None:
    """set.cmp.dtype.stype: all ones where the comparison holds."""
    if ins.types[0] not in ("u32", "s32"):
        raise Refused(f"{ins.name} is not supported")
    t.write(ins.operands[0], t.op("sub", 0, combine(t, ins, compare(t, ins))))


def nothing(t: Translator, ins: Instruction) -> None:
    """Hints that change no value."""


def refuse(reason: str) -> Handler:
    def handler(t: Translator, ins: Instruction) -> None:
        raise Refused(reason)
    return handler


HANDLERS: dict[str, Handler] = {
    "mov": mov, "cvt": convert, "selp": select, "slct": slct, "cvta": cvta, "ld": load, "ldu": load, "st": store, "shfl": shfl,
    "add": add, "sub": sub, "mul": multiply, "mad": multiply, "mul24": mul24, "mad24": mul24, "neg": neg, "abs": abs_,
    "min": min_max, "max": min_max, "sad": sad, "div": divide("div"), "rem": divide("rem"),
    "and": bitwise("and"), "or": bitwise("or"), "xor": bitwise("xor"), "not": not_, "cnot": cnot,
    "shl": shift, "shr": shift, "shf": funnel_shift, "bfe": bit_field, "setp": setp, "set": set_,
    "membar": fence, "fence": fence, "prefetch": nothing, "prefetchu": nothing, "nanosleep": nothing,
    "bar": fence, "barrier": fence,
    "brx": refuse("indexed branches are not supported"), "call": refuse("calls are not supported; let the compiler inline it"),
    "atom": refuse("atomics are not supported"), "red": refuse("atomics are not supported"),
    "vote": refuse("votes are not supported"), "activemask": refuse("votes are not supported"),
    "match": refuse("votes are not supported"), "trap": refuse("trap is not supported"),
}
