"""64-bit arithmetic on (low, high) pairs of 32-bit values. What nothing reads is dead code and costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.model import Operand
from .ir import EQ, GT, LT, NE, Value
from .unit import Refused

if TYPE_CHECKING:
    from .blocks import Maker
    from .translate import Translator

Pair = tuple[Value, Value]


def add(t: Maker | Translator, a: Pair, b: Pair) -> Pair:
    low = t.op("add", a[0], b[0])
    carry = t.less(low, a[0])
    return low, t.op("add", t.op("add", a[1], b[1]), carry)


def sub(t: Maker | Translator, a: Pair, b: Pair) -> Pair:
    borrow = t.less(a[0], b[0])
    return t.op("sub", a[0], b[0]), t.op("sub", t.op("sub", a[1], b[1]), borrow)


def product(t: Maker | Translator, a: Operand, b: Operand, bits: int, signed: bool) -> Pair:
    """The whole product of two numbers of 16 or 32 bits (mul.wide)."""
    if bits == 64:
        raise Refused("128-bit products are not supported")
    x, y = t.extended(a, bits, signed), t.extended(b, bits, signed)
    return t.op("mul", x, y, 0), t.op("mulhi", x, y, signed=signed) if bits == 32 else 0


def multiply(t: Maker | Translator, a: Pair, b: Pair) -> Pair:
    """The low 64 bits of a product."""
    high = t.op("mulhi", a[0], b[0])
    return t.op("mul", a[0], b[0], 0), t.op("mul", a[0], b[1], t.op("mul", a[1], b[0], high))


def high_product(t: Maker | Translator, a: Pair, b: Pair, signed: bool) -> Pair:
    """The high 64 bits of a product."""
    low = t.op("mulhi", a[0], b[0])
    first = add(t, (t.op("mul", a[1], b[0], 0), t.op("mulhi", a[1], b[0])), (low, 0))
    second = add(t, (t.op("mul", a[0], b[1], 0), t.op("mulhi", a[0], b[1])), (first[0], 0))
    high = add(t, (t.op("mul", a[1], b[1], 0), t.op("mulhi", a[1], b[1])), add(t, (first[1], 0), (second[1], 0)))
    for x, y in ((a, b), (b, a)) if signed else ():
        sign = t.op("sar", x[1], 31)  # a negative factor counts 2^64 too much of the other one
        high = sub(t, high, (t.op("and", sign, y[0]), t.op("and", sign, y[1])))
    return high


def absolute(t: Maker | Translator, v: Pair, sign: Value) -> Pair:
    """v, negated where sign is all ones and not 0."""
    return sub(t, (t.op("xor", v[0], sign), t.op("xor", v[1], sign)), (sign, sign))


def compare(t: Maker | Translator, a: Pair, b: Pair, relation: frozenset[str], signed: bool) -> Value:
    """1 where the relation holds, else 0."""
    if relation in (EQ, NE):
        difference = t.op("or", t.op("xor", a[0], b[0]), t.op("xor", a[1], b[1]))
        return t.op("set", difference, 0, relation=relation)
    strict = LT if "lt" in relation else GT
    low = t.op("set", a[0], b[0], relation=relation)
    high = t.op("set", a[1], b[1], relation=strict, signed=signed)
    return t.op("sel", low, high, t.equal(a[1], b[1]))


def shift(t: Maker | Translator, kind: str, a: Pair, n: Value) -> Pair:
    """Shift by a 32-bit amount; 64 and more shift everything out, as PTX has it.

    The machine's own shifts clamp, so each half is the sum of parts of which all but one or two are 0.
    """
    low, high = a
    back, beyond = t.op("sub", 32, n), t.op("sub", n, 32)
    if kind == "shl":
        upper = t.op("or", t.op("shl", high, n), t.op("shr", low, back))
        return t.op("shl", low, n), t.op("or", upper, t.op("shl", low, beyond))
    lower = t.op("or", t.op("shr", low, n), t.op("shl", high, back))
    if kind == "shr":
        return t.op("or", lower, t.op("shr", high, beyond)), t.op("shr", high, n)
    return t.op("sel", lower, t.op("sar", high, beyond), t.less(n, 32)), t.op("sar", high, n)
