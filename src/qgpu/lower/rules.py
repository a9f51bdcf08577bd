"""Local simplification rules: one function an operation kind, all of them exact for every input."""

from __future__ import annotations

from typing import Callable

from .evaluate import bounds, evaluate, is_bool, parameter_word
from .ir import COMMUTATIVE, EFFECTS, EQ, LT, MASK, NE, Op, Value
from .unit import Unit

Make = Callable[..., Op]
Rule = Callable[[Op, Unit, Make], "Value | None"]

_ORDER = frozenset({"lt", "eq", "gt"})
_MIRROR = {"lt": "gt", "eq": "eq", "gt": "lt"}


def simpler(op: Op, unit: Unit, make: Make) -> Value | None:
    """A simpler value equal to op's, perhaps through new operations, or None."""
    if op.kind in EFFECTS or op.kind == "phi":
        return None
    if op.kind == "ldparam":
        return parameter_word(unit.parameters, op.args[0]) if isinstance(op.args[0], int) else None
    if op.kind != "ld" and all(isinstance(a, int) for a in op.args):
        value = evaluate(op, op.args)
        if value is not None:
            return value
    if op.kind in COMMUTATIVE and _rank(op.args[0]) > _rank(op.args[1]):
        return make(op.kind, op.args[1], op.args[0], *op.args[2:], signed=op.signed)
    rule = RULES.get(op.kind)
    return rule(op, unit, make) if rule else None


def _rank(v: Value) -> int:
    """Constants last."""
    return 1 if isinstance(v, int) else 0


def _is(v: Value, kind: str) -> bool:
    return isinstance(v, Op) and v.kind == kind


def low_bit_of(v: Value) -> Value:
    """A value with the same bit 0, without a mask that keeps it."""
    while _is(v, "and") and isinstance(v.args[1], int) and v.args[1] & 1:
        v = v.args[0]
    return v


def low_bits(v: Value, depth: int = 6) -> int | None:
    """v modulo 4 if it is bound to be one number."""
    if isinstance(v, int):
        return v & 3
    if not isinstance(v, Op) or depth == 0:
        return None
    match v.kind:
        case "add" | "sub":
            a, b = low_bits(v.args[0], depth - 1), low_bits(v.args[1], depth - 1)
            return None if a is None or b is None else (a + b if v.kind == "add" else a - b) & 3
        case "shl":
            return 0 if isinstance(v.args[1], int) and v.args[1] >= 2 else None
        case "mul":
            a, b, c = (low_bits(x, depth - 1) for x in v.args)
            product = 0 if 0 in (a, b) else a * b if a is not None and b is not None else None
            return None if product is None or c is None else (product + c) & 3
        case "and":
            return 0 if isinstance(v.args[1], int) and v.args[1] & 3 == 0 else None
        case "phi":
            found = {low_bits(a, min(depth - 1, 2)) for a in v.args if a is not v}
            return found.pop() if len(found) == 1 else None
    return None


def _add(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if b == 0:
        return a
    if isinstance(b, int) and _is(a, "add") and isinstance(a.args[1], int):
        return make("add", a.args[0], (a.args[1] + b) & MASK)
    if _is(a, "add") and isinstance(a.args[1], int):  # (x + c) + y: the constant goes outside
        return make("add", make("add", a.args[0], b), a.args[1])
    if _is(b, "add") and isinstance(b.args[1], int):
        return make("add", make("add", a, b.args[0]), b.args[1])
    return None


def _sub(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if isinstance(b, int):
        return make("add", a, -b & MASK)
    if a is b:
        return 0
    if _is(a, "add") and isinstance(a.args[1], int):  # (x + c) - y: the constant goes outside
        return make("add", make("sub", a.args[0], b), a.args[1])
    if _is(b, "add") and isinstance(b.args[1], int):
        return make("add", make("sub", a, b.args[0]), -b.args[1] & MASK)
    return None


def _mul(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b, c = op.args
    if b == 0:
        return c
    if b == 1:
        return make("add", a, c)
    if isinstance(b, int) and b & (b - 1) == 0 and c == 0:
        return make("shl", a, b.bit_length() - 1)
    if isinstance(b, int) and _is(a, "add") and isinstance(a.args[1], int):  # (x + k) * b: the constant goes outside
        return make("add", make("mul", a.args[0], b, c), (a.args[1] * b) & MASK)
    if isinstance(b, int) and c == 0 and _is(a, "mul") and isinstance(a.args[1], int) and a.args[2] == 0:
        return make("mul", a.args[0], (a.args[1] * b) & MASK, 0)
    if isinstance(b, int) and c == 0 and _is(a, "shl") and isinstance(a.args[1], int):
        return make("mul", a.args[0], (b << a.args[1]) & MASK, 0)
    if isinstance(c, int) and c != 0:
        return make("add", make("mul", a, b, 0), c)
    if _is(c, "add") and isinstance(c.args[1], int):
        return make("add", make("mul", a, b, c.args[0]), c.args[1])
    return None


def _and(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if a is b or b == MASK:
        return a
    if b == 0:
        return 0
    if isinstance(b, int):
        if _is(a, "and") and isinstance(a.args[1], int):
            return make("and", a.args[0], a.args[1] & b)
        if (b <= 3 or b >= MASK - 3) and (low := low_bits(a)) is not None:
            return low & b if b <= 3 else make("sub", a, low & ~b & 3) if low & ~b & 3 else a
        if b <= 3 and _is(a, "add") and low_bits(a.args[0]) == 0:
            return make("and", a.args[1], b)
        if b <= 3 and _is(a, "add") and low_bits(a.args[1]) == 0:
            return make("and", a.args[0], b)
        if b & (b + 1) == 0 and (bounds(a, unit.launch.threads)[1] <= b or b == 1 and is_bool(a)):
            return a
    return None


def _or(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if a is b or b == 0:
        return a
    if b == MASK:
        return MASK
    if isinstance(b, int) and _is(a, "or") and isinstance(a.args[1], int):
        return make("or", a.args[0], a.args[1] | b)
    return None


def _xor(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if b == 0:
        return a
    if a is b:
        return 0
    if isinstance(b, int) and _is(a, "xor") and isinstance(a.args[1], int):
        return make("xor", a.args[0], a.args[1] ^ b)
    if b == 1 and _is(a, "set"):
        return make("set", *a.args, relation=_ORDER - a.relation, signed=a.signed)
    return None


def _shift(op: Op, unit: Unit, make: Make) -> Value | None:
    a, n = op.args
    if n == 0:
        return a
    if a == 0:
        return 0
    if not isinstance(n, int):
        return None
    if n > 31:
        return make("sar", a, 31) if op.kind == "sar" and n != 31 else 0
    if _is(a, op.kind) and isinstance(a.args[1], int):
        total = n + a.args[1]
        if op.kind == "sar":
            return make("sar", a.args[0], min(31, total))
        return make(op.kind, a.args[0], total) if total < 32 else 0
    if op.kind == "shl" and _is(a, "add") and isinstance(a.args[1], int):  # (x + c) << n: the constant goes outside
        return make("add", make("shl", a.args[0], n), (a.args[1] << n) & MASK)
    if op.kind == "shl" and _is(a, "mul") and isinstance(a.args[1], int) and a.args[2] == 0:
        return make("mul", a.args[0], (a.args[1] << n) & MASK, 0)
    low, high = bounds(a, unit.launch.threads)
    if op.kind != "shl" and high >> n == low >> n and (op.kind == "shr" or high < 1 << 31):
        return high >> n
    if op.kind == "sar" and high < 1 << 31:
        return make("shr", a, n)
    if op.kind in ("shr", "sar") and _is(a, "shl") and a.args[1] == n:
        inner_high = bounds(a.args[0], unit.launch.threads)[1]
        if inner_high < 1 << (32 - n) and (op.kind == "shr" or inner_high < 1 << (31 - n)):
            return a.args[0]
        if op.kind == "shr":
            return make("and", a.args[0], (1 << (32 - n)) - 1)
    return None


def _set(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if op.relation == _ORDER:
        return 1
    if not op.relation:
        return 0
    if a is b:
        return int("eq" in op.relation)
    if isinstance(a, int):
        return make("set", b, a, relation=frozenset(_MIRROR[r] for r in op.relation), signed=op.signed)
    if op.signed and op.relation in (EQ, NE):
        return make("set", a, b, relation=op.relation)
    (low_a, high_a), (low_b, high_b) = bounds(a, unit.launch.threads), bounds(b, unit.launch.threads)
    if op.signed and high_a < 1 << 31 and high_b < 1 << 31:
        return make("set", a, b, relation=op.relation)
    if not op.signed:
        possible = {r for r, can in (("lt", low_a < high_b), ("gt", high_a > low_b),
                                     ("eq", low_a <= high_b and low_b <= high_a)) if can}
        if possible <= op.relation:
            return 1
        if not possible & op.relation:
            return 0
        wanted = EQ if possible & op.relation == EQ else NE if possible - op.relation == EQ else op.relation
        if wanted != op.relation:
            return make("set", a, b, relation=wanted)
    if b == 0 and op.relation in (EQ, NE) and is_bool(a):
        return a if op.relation == NE else make("xor", a, 1)
    if b == 1 and op.relation in (EQ, NE) and is_bool(a):
        return a if op.relation == EQ else make("xor", a, 1)
    if isinstance(b, int) and op.relation in (EQ, NE) and _is(a, "add") and isinstance(a.args[1], int):
        return make("set", a.args[0], (b - a.args[1]) & MASK, relation=op.relation)
    return None


def _minmax(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if a is b:
        return a
    strict = op.relation - EQ
    if len(strict) != 1:
        return None
    if isinstance(a, int):
        return make("minmax", b, a, relation=op.relation, signed=op.signed)
    (low_a, high_a), (low_b, high_b) = bounds(a, unit.launch.threads), bounds(b, unit.launch.threads)
    if op.signed and max(high_a, high_b) < 1 << 31:
        return make("minmax", a, b, relation=op.relation)
    if not op.signed and high_a <= low_b:
        return a if strict == LT else b
    if not op.signed and high_b <= low_a:
        return b if strict == LT else a
    return None


def _sel(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b, c = op.args
    if isinstance(c, int):
        return a if c & 1 else b
    if a is b or (isinstance(a, int) and isinstance(b, int) and a == b):
        return a
    if _is(c, "xor") and isinstance(c.args[1], int):
        return make("sel", b, a, c.args[0]) if c.args[1] & 1 else make("sel", a, b, c.args[0])
    if (bit := low_bit_of(c)) is not c:
        return make("sel", a, b, bit)
    if a == 1 and b == 0 and is_bool(c):
        return c
    if a == 0 and b == 1 and is_bool(c):
        return make("xor", c, 1)
    return None


def _shfl(op: Op, unit: Unit, make: Make) -> Value | None:
    if op.pattern == tuple(range(unit.machine.lanes)):
        return op.args[0]
    return None


def _mulhi(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if b == 0:
        return 0
    high_a, high_b = bounds(a, unit.launch.threads)[1], bounds(b, unit.launch.threads)[1]
    if op.signed and high_a < 1 << 31 and high_b < 1 << 31:
        return make("mulhi", a, b)
    if op.signed and isinstance(b, int) and b < 1 << 31 and b & (b - 1) == 0:
        return make("sar", a, 33 - b.bit_length()) if b > 1 else make("sar", a, 31)
    if op.signed:
        return None
    if high_a * high_b < 1 << 32:
        return 0
    if isinstance(b, int) and b & (b - 1) == 0:
        return make("shr", a, 33 - b.bit_length())
    return None


def _divide(op: Op, unit: Unit, make: Make) -> Value | None:
    a, b = op.args
    if not isinstance(b, int) or b == 0:
        return None
    if op.signed:
        if bounds(a, unit.launch.threads)[1] < 1 << 31 and b < 1 << 31:
            return make(op.kind, a, b)
        return None
    if b & (b - 1) == 0:
        return make("shr", a, b.bit_length() - 1) if op.kind == "div" else make("and", a, b - 1)
    if bounds(a, unit.launch.threads)[1] < b:
        return 0 if op.kind == "div" else a
    return None


RULES: dict[str, Rule] = {
    "add": _add, "sub": _sub, "mul": _mul, "and": _and, "or": _or, "xor": _xor, "shl": _shift, "shr": _shift, "sar": _shift,
    "set": _set, "minmax": _minmax, "sel": _sel, "shfl": _shfl, "mulhi": _mulhi, "div": _divide, "rem": _divide,
}
