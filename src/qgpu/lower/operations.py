"""How each PTX opcode becomes operations: one table, `HANDLERS`.

A handler takes the translator and the instruction and writes the destination, or raises Refused with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from ..ptx.model import Instruction, Operand, Pair, Reg, Sink, Vector
from . import bits, wide
from .ir import EQ, GE, GT, LE, LT, NE, Value
from .memory_ops import atomic, cvta, fence, isspacep, load, store
from .shuffle import shfl
from .unit import Refused
from .warp_ops import activemask, barrier, elect, match, redux, vote

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
    bits, _ = integer(ins, 16, 32, 64)
    d, a = ins.operands
    low = t.extended(a, bits, False)
    t.write(d, t.equal(t.op("or", low, t.high(a)) if bits == 64 else low, 0))


def add(t: Translator, ins: Instruction) -> None:
    """add, sub, addc, subc; `.cc` leaves the carry (of subtractions: the borrow) in the flag, which the c forms read."""
    kind = ins.opcode[:3]
    d, a, b = ins.operands
    if ins.has("sat"):
        _saturating(t, ins, kind)
        return
    bits, _ = integer(ins, 16, 32, 64)
    t.write(d, *_with_carry(t, ins, kind, t.pair(a), t.pair(b), bits))


def _with_carry(t: Translator, ins: Instruction, kind: str, a: wide.Pair, b: wide.Pair, bits: int) -> wide.Pair:
    reads, writes = ins.opcode.endswith("c"), ins.has("cc")
    combine = wide.add if kind == "add" else wide.sub
    if not reads and not writes:
        return combine(t, a, b) if bits == 64 else (t.op(kind, a[0], b[0]), 0)
    carry = t.registers.read(t.block, "%carry") if reads else 0

    def word(x: Value, y: Value, carry: Value) -> tuple[Value, Value]:
        """One word and its carry."""
        first = t.op(kind, x, y)
        whole = t.op(kind, first, carry)
        if kind == "add":
            return whole, t.op("or", t.less(first, x), t.less(whole, first))
        return whole, t.op("or", t.less(x, y), t.less(first, carry))
    low, carry = word(a[0], b[0], carry)
    high: Value = 0
    if bits == 64:
        high, carry = word(a[1], b[1], carry)
    if writes:
        t.set_register("%carry", carry)
    return low, high


def _saturating(t: Translator, ins: Instruction, kind: str) -> None:
    """add.sat and sub.sat of s32: the nearest number."""
    if ins.raw_type != "s32":
        raise Refused(f"{ins.name} is not supported")
    d, a, b = ins.operands
    t.write(d, _saturated(t, kind, t.low(a), t.low(b)))


def _saturated(t: Translator, kind: str, x: Value, y: Value) -> Value:
    whole = t.op(kind, x, y)
    # An addition overflows if both terms have the other sign than the sum; x - y if x and y differ in sign, and x and the difference.
    other = t.op("xor", whole, y) if kind == "add" else t.op("xor", x, y)
    over = t.op("shr", t.op("and", t.op("xor", whole, x), other), 31)
    limit = t.op("xor", t.op("sar", x, 31), 0x7FFFFFFF)
    return t.op("sel", limit, whole, over)


def multiply(t: Translator, ins: Instruction) -> None:
    """mul, mad and madc: .lo, .hi, .wide."""
    saturate = ins.has("sat")
    bits, signed = (32, True) if saturate else integer(ins, 16, 32, 64)
    d, a, b, *c = ins.operands
    if ins.has("wide"):
        product = wide.product(t, a, b, bits, signed)
        if bits == 16:
            t.write(d, t.op("add", product[0], t.low(c[0])) if c else product[0])
        else:
            t.write(d, *(wide.add(t, product, t.pair(c[0])) if c else product))
        return
    if ins.has("hi"):
        if bits == 64:
            product = wide.high_product(t, t.pair(a), t.pair(b), signed)
        elif bits == 16:
            product = t.op("shr", t.op("mul", t.extended(a, 16, signed), t.extended(b, 16, signed), 0), 16), 0
        else:
            product = t.op("mulhi", t.low(a), t.low(b), signed=signed), 0
    elif ins.has("lo"):
        if bits < 64 and c and not ins.has("cc") and ins.opcode == "mad":
            t.write(d, t.op("mul", t.low(a), t.low(b), t.low(c[0])))
            return
        product = wide.multiply(t, t.pair(a), t.pair(b)) if bits == 64 else (t.op("mul", t.low(a), t.low(b), 0), 0)
    else:
        raise Refused(f"{ins.name} needs .lo, .hi or .wide")
    if not c:
        t.write(d, *product)
    elif saturate:
        t.write(d, _saturated(t, "add", product[0], t.low(c[0])))
    else:
        t.write(d, *_with_carry(t, ins, "add", product, t.pair(c[0]), bits))


def mul24(t: Translator, ins: Instruction) -> None:
    """mul24 and mad24: the low 32 bits of the product of 24-bit numbers, or bits 16 to 47."""
    saturate = ins.has("sat")
    signed = True if saturate else integer(ins, 32)[1]
    d, a, b, *c = ins.operands
    x, y = t.extended(a, 24, signed), t.extended(b, 24, signed)
    if ins.has("lo"):
        t.write(d, t.op("mul", x, y, t.low(c[0]) if c else 0))
        return
    high = t.op("or", t.op("shr", t.op("mul", x, y, 0), 16), t.op("shl", t.op("mulhi", x, y, signed=signed), 16))
    if c:
        high = _saturated(t, "add", high, t.low(c[0])) if saturate else t.op("add", high, t.low(c[0]))
    t.write(d, high)


def divide(kind: str) -> Handler:
    def handler(t: Translator, ins: Instruction) -> None:
        bits, signed = integer(ins, 16, 32, 64)
        d, a, b = ins.operands
        if bits < 64:
            t.write(d, t.op(kind, t.extended(a, bits, signed), t.extended(b, bits, signed), signed=signed))
            return
        numbers = [*t.pair(a), *t.pair(b)]
        t.write(d, t.op(kind + "lo", *numbers, signed=signed), t.op(kind + "hi", *numbers, signed=signed))
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


def min_max(t: Translator, ins: Instruction) -> None:
    relu = ins.has("relu")
    bits, signed = (32, True) if relu else integer(ins, 16, 32, 64)
    d, a, b = ins.operands
    relation = LT if ins.opcode == "min" else GT
    if bits == 64:
        first = wide.compare(t, t.pair(a), t.pair(b), relation, signed)
        t.write(d, t.op("sel", t.low(a), t.low(b), first), t.op("sel", t.high(a), t.high(b), first))
        return
    value = t.op("minmax", t.extended(a, bits, signed), t.extended(b, bits, signed), relation=relation, signed=signed)
    t.write(d, t.op("minmax", value, 0, relation=GT, signed=True) if relu else value)


def neg(t: Translator, ins: Instruction) -> None:
    bits, _ = integer(ins, 16, 32, 64)
    d, a = ins.operands
    t.write(d, *(wide.sub(t, (0, 0), t.pair(a)) if bits == 64 else (t.op("sub", 0, t.low(a)),)))


def abs_(t: Translator, ins: Instruction) -> None:
    bits, _ = integer(ins, 16, 32, 64)
    d, a = ins.operands
    if bits == 64:
        t.write(d, *wide.absolute(t, t.pair(a), t.op("sar", t.high(a), 31)))
        return
    value = t.extended(a, bits, True)
    t.write(d, t.op("minmax", value, t.op("sub", 0, value), relation=GT, signed=True))


def sad(t: Translator, ins: Instruction) -> None:
    bits, signed = integer(ins, 16, 32, 64)
    d, a, b, c = ins.operands
    if bits == 64:
        less = wide.compare(t, t.pair(a), t.pair(b), LT, signed)
        difference = wide.absolute(t, wide.sub(t, t.pair(a), t.pair(b)), t.op("sub", 0, less))
        t.write(d, *wide.add(t, difference, t.pair(c)))
        return
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
        return
    words: list[Value] = [0, 0]
    for k, item in enumerate(a.items):
        at, shift = divmod(each * k, 32)
        words[at] = t.op("or", words[at], t.op("shl", t.extended(item, each, False), shift))
    t.write(d, *words)


def _unpack(t: Translator, d: Vector, a: Operand) -> None:
    each = max((t.width(item.name) for item in d.items if isinstance(item, Reg)), default=32)
    if isinstance(a, Reg):
        each = t.width(a.name) // len(d.items)
    words = t.pair(a)
    for k, item in enumerate(d.items):
        at, shift = divmod(each * k, 32)
        t.write(item, t.op("shr", words[at], shift) if shift else words[at])


def convert(t: Translator, ins: Instruction) -> None:
    """cvt between integer types: extend from the source type, cut (or with .sat bring) to the destination type."""
    if len(ins.types) != 2 or any(k[0] not in "bus" or "x" in k for k in ins.types):
        raise Refused(f"{ins.name}: only conversions between integers are supported")
    to, source = ins.types
    to_bits, from_bits = int(to[1:]), int(source[1:])
    d, a = ins.operands
    if from_bits == 64:
        low, high = t.pair(a)
    else:
        low = t.extended(a, from_bits, source[0] == "s")
        high = t.op("sar", low, 31) if source[0] == "s" else 0
    if ins.has("sat"):
        low, high = _nearest(t, (low, high), source[0] == "s", to[0] == "s", to_bits)
    elif to_bits < 32 and isinstance(d, Reg) and t.width(d.name) > to_bits and not _fits(to, source):
        if to[0] == "s":
            low = t.op("sar", t.op("shl", low, 32 - to_bits), 32 - to_bits)
        else:
            low = t.op("and", low, (1 << to_bits) - 1)
    if to_bits < 64 and isinstance(d, Reg) and t.width(d.name) == 64:
        high = t.op("sar", low, 31) if to[0] == "s" else 0
    t.write(d, low, high)


def _fits(to: str, source: str) -> bool:
    """Whether every number of one type is one of the other."""
    to_bits, bits = int(to[1:]), int(source[1:])
    return bits <= to_bits if (to[0] == "s") == (source[0] == "s") else to[0] == "s" and bits < to_bits


def _nearest(t: Translator, v: wide.Pair, signed: bool, to_signed: bool, bits: int) -> wide.Pair:
    """The number of `bits` bits nearest to a 64-bit one."""
    least = -(1 << (bits - 1)) if to_signed else 0
    most = (1 << (bits - 1)) - 1 if to_signed else (1 << bits) - 1
    for limit, relation, never in ((least, LT, not signed), (most, GT, not signed and most >= 1 << 63)):
        if never or signed and limit >= 1 << 63:
            continue
        end = limit & 0xFFFFFFFF, limit >> 32 & 0xFFFFFFFF
        beyond = wide.compare(t, v, end, relation, signed)
        v = t.op("sel", end[0], v[0], beyond), t.op("sel", end[1], v[1], beyond)
    return v


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
    if len(ins.types) != 2 or ins.types[1] != "s32" or ins.types[0][0] not in "bus":
        raise Refused(f"{ins.name} is not supported")
    d, a, b, c = ins.operands
    first = t.op("set", t.low(c), 0, relation=GE, signed=True)
    t.write(d, t.op("sel", t.low(a), t.low(b), first), t.op("sel", t.high(a), t.high(b), first))


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
    if ins.types[0][0] not in "bus":
        raise Refused(f"{ins.name} is not supported")
    ones = t.op("sub", 0, combine(t, ins, compare(t, ins)))
    t.write(ins.operands[0], ones, ones)


def trap(t: Translator, ins: Instruction) -> None:
    """A store to a bad address stops the launch."""
    t.op("st", 0, 0, 0)


def nothing(t: Translator, ins: Instruction) -> None:
    """Hints that change no value."""


def refuse(reason: str) -> Handler:
    def handler(t: Translator, ins: Instruction) -> None:
        raise Refused(reason)
    return handler


HANDLERS: dict[str, Handler] = {
    "mov": mov, "cvt": convert, "selp": select, "slct": slct, "cvta": cvta, "isspacep": isspacep, "ld": load, "ldu": load, "st": store,
    "atom": atomic, "red": atomic, "shfl": shfl, "vote": vote, "activemask": activemask, "match": match, "redux": redux, "elect": elect,
    "add": add, "sub": add, "addc": add, "subc": add, "mul": multiply, "mad": multiply, "madc": multiply, "mul24": mul24,
    "mad24": mul24, "neg": neg, "abs": abs_, "min": min_max, "max": min_max, "sad": sad, "div": divide("div"), "rem": divide("rem"),
    "dp4a": bits.dot, "dp2a": bits.dot,
    "and": bitwise("and"), "or": bitwise("or"), "xor": bitwise("xor"), "not": not_, "cnot": cnot, "lop3": bits.lop3,
    "shl": shift, "shr": shift, "shf": bits.funnel_shift, "bfe": bits.bfe, "bfi": bits.bfi, "bfind": bits.bfind, "bmsk": bits.bmsk,
    "szext": bits.szext, "popc": bits.popc, "clz": bits.clz, "brev": bits.brev, "prmt": bits.permute, "setp": setp, "set": set_,
    "membar": fence, "fence": fence, "prefetch": nothing, "prefetchu": nothing, "nanosleep": nothing,
    "bar": barrier, "barrier": barrier, "trap": trap,
    "fns": refuse("this instruction is not supported"), "brkpt": refuse("breakpoints are not supported"),
}
