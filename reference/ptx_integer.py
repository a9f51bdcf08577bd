"""Integer arithmetic, comparison and conversion of PTX: one table from opcode to meaning (PTX ISA 9.7.1, 9.7.5, 9.7.8, 9.7.9).

Each entry reads an instruction's modifiers and returns a `Pure`: a function on Python numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from .ptx_values import PRED, TYPES, U32, Modifiers, Pure, Type, Undefined, Unsupported

INTEGER: dict[str, Callable[[Modifiers], Pure]] = {}

INTS = "u16 u32 u64 s16 s32 s64"
# LLVM 20 and later write .bN wherever the sign makes no difference.
ANY_INTS = INTS + " b16 b32 b64"


def entry(table: dict, *opcodes: str):
    """Decorator: put a function into a table under these opcodes."""
    def put(function):
        table.update(dict.fromkeys(opcodes, function))
        return function
    return put


def wide(t: Type) -> Type:
    """The type of twice the width (`mul.wide`)."""
    return TYPES[f"{t.kind}{2 * t.bits}"]


def saturate(value: int, t: Type) -> int:
    """The nearest number of an integer type."""
    low, high = (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.kind == "s" else (0, (1 << t.bits) - 1)
    return max(low, min(high, value))


def divide(a: int, b: int) -> int:
    """Quotient rounded towards zero."""
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


@entry(INTEGER, "add", "sub")
def _add(m: Modifiers) -> Pure:
    function = {"add": operator.add, "sub": operator.sub}[m.instruction.opcode]
    sat = m.flag("sat")
    t = m.type("s32" if sat else ANY_INTS)
    return Pure((lambda a, b: saturate(function(a, b), t)) if sat else function, (t,), (t, t))


@entry(INTEGER, "mul", "mad")
def _mul(m: Modifiers) -> Pure:
    part = m.one_of("lo", "hi", "wide")
    sat = m.instruction.opcode == "mad" and part == "hi" and m.flag("sat")
    t = m.type("s32" if sat else ANY_INTS if part == "lo" else "u16 u32 s16 s32" if part == "wide" else INTS)
    shift = t.bits if part == "hi" else 0
    result = wide(t) if part == "wide" else t
    if m.instruction.opcode == "mul":
        return Pure(lambda a, b: a * b >> shift, (result,), (t, t))
    if sat:
        return Pure(lambda a, b, c: saturate((a * b >> shift) + c, t), (t,), (t, t, t))
    return Pure(lambda a, b, c: (a * b >> shift) + c, (result,), (t, t, result))


@entry(INTEGER, "mul24", "mad24")
def _mul24(m: Modifiers) -> Pure:
    part = m.one_of("lo", "hi")
    sat = m.flag("sat") if m.instruction.opcode == "mad24" and part == "hi" else False
    t = m.type("s32" if sat else "u32 s32")
    narrow = Type("", t.kind, 24)
    shift = 16 if part == "hi" else 0

    def product(a: int, b: int) -> int:
        """32 bits of the 48-bit product."""
        return t.number(narrow.number(a) * narrow.number(b) >> shift)
    if m.instruction.opcode == "mul24":
        return Pure(product, (t,), (t, t))
    return Pure(lambda a, b, c: saturate(product(a, b) + c, t) if sat else product(a, b) + c, (t,), (t, t, t))


@entry(INTEGER, "sad")
def _sad(m: Modifiers) -> Pure:
    t = m.type(INTS)
    return Pure(lambda a, b, c: c + abs(a - b), (t,), (t, t, t))


@entry(INTEGER, "div", "rem")
def _div(m: Modifiers) -> Pure:
    t = m.type(INTS)
    where = m.instruction.where
    zero = Undefined(f"the result of the division by zero at {where}")

    def quotient(a: int, b: int):
        return divide(a, b) if b else zero

    def remainder(a: int, b: int):
        return a - b * divide(a, b) if b else zero
    return Pure(quotient if m.instruction.opcode == "div" else remainder, (t,), (t, t))


@entry(INTEGER, "abs", "neg")
def _abs(m: Modifiers) -> Pure:
    t = m.type("s16 s32 s64" if m.instruction.opcode == "abs" else "s16 s32 s64 b16 b32 b64")
    return Pure(abs if m.instruction.opcode == "abs" else operator.neg, (t,), (t,))


@entry(INTEGER, "min", "max")
def _min(m: Modifiers) -> Pure:
    choose = {"min": min, "max": max}[m.instruction.opcode]
    relu = m.flag("relu")
    t = m.type("s32" if relu else INTS)
    return Pure((lambda a, b: max(0, choose(a, b))) if relu else (lambda a, b: choose(a, b)), (t,), (t, t))


@entry(INTEGER, "and", "or", "xor")
def _logic(m: Modifiers) -> Pure:
    t = m.type("pred b16 b32 b64")
    function = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[m.instruction.opcode]
    absorbs = {"and": 0, "or": (1 << t.bits) - 1}.get(m.instruction.opcode)
    return Pure(function, (t,), (t, t), absorbs)


@entry(INTEGER, "not")
def _not(m: Modifiers) -> Pure:
    t = m.type("pred b16 b32 b64")
    return Pure(operator.invert, (t,), (t,))


@entry(INTEGER, "cnot")
def _cnot(m: Modifiers) -> Pure:
    t = m.type("b16 b32 b64")
    return Pure(lambda a: int(a == 0), (t,), (t,))


@entry(INTEGER, "shl", "shr")
def _shift(m: Modifiers) -> Pure:
    t = m.type("b16 b32 b64" if m.instruction.opcode == "shl" else ANY_INTS)
    # An amount above the width counts as the width: a right shift of a negative number gives -1 for any such amount.
    if m.instruction.opcode == "shl":
        return Pure(lambda a, n: a << min(n, t.bits), (t,), (t, U32))
    return Pure(lambda a, n: a >> min(n, t.bits), (t,), (t, U32))


RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}
BOOLEAN = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _comparison(m: Modifiers) -> tuple[Callable[[int, int], bool], Callable[[int, int], int] | None, str]:
    """Relation, boolean operation, and the types it may have; ordered relations need a sign (lo, ls, hi, hs: unsigned)."""
    relation = m.one_of(*RELATIONS)
    combine = m.maybe(*BOOLEAN)
    types = {"eq": ANY_INTS, "ne": ANY_INTS}.get(relation, "u16 u32 u64 b16 b32 b64" if relation in ("lo", "ls", "hi", "hs") else INTS)
    return RELATIONS[relation], BOOLEAN[combine] if combine else None, types


@entry(INTEGER, "setp")
def _setp(m: Modifiers) -> Pure:
    relation, combine, types = _comparison(m)
    t = m.type(types)
    if combine is None:
        return Pure(lambda a, b: (int(relation(a, b)), int(not relation(a, b))), (PRED, PRED), (t, t))
    return Pure(lambda a, b, c: (combine(int(relation(a, b)), c), combine(int(not relation(a, b)), c)),
                (PRED, PRED), (t, t, PRED))


@entry(INTEGER, "set")
def _set(m: Modifiers) -> Pure:
    relation, combine, types = _comparison(m)
    result = m.type("u32 s32 b32")
    t = m.type(types)
    if combine is None:
        return Pure(lambda a, b: -int(relation(a, b)), (result,), (t, t))
    return Pure(lambda a, b, c: -combine(int(relation(a, b)), c), (result,), (t, t, PRED))


@entry(INTEGER, "slct")
def _slct(m: Modifiers) -> Pure:
    t = m.type(ANY_INTS)
    return Pure(lambda a, b, c: a if c >= 0 else b, (t,), (t, t, m.type("s32")))


@entry(INTEGER, "cvt")
def _cvt(m: Modifiers) -> Pure:
    integers = "u8 u16 u32 u64 s8 s16 s32 s64 b8 b16 b32 b64"
    sat = m.flag("sat")
    for rounding in ("rni", "rzi", "rmi", "rpi"):
        if m.flag(rounding):
            raise Unsupported("conversions of floating-point numbers are not supported")
    result, source = m.type(integers), m.type(integers)
    return Pure((lambda a: saturate(a, result)) if sat else (lambda a: a), (result,), (source,))
