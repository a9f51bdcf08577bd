"""Division: by constants as products, by variables as loops that subtract.

A loop starts at the first digit that the quotient can have. A zero divisor gives a quotient of all ones, and the dividend as remainder.
"""

from __future__ import annotations

from . import wide
from .blocks import Maker
from .evaluate import bounds
from .ir import EQ, GE, LT, MASK, NE, Block, Function, Op, Value
from .unit import Unit

NARROW = frozenset({"div", "rem"})
WIDE = frozenset({"divlo", "divhi", "remlo", "remhi"})
KINDS = NARROW | WIDE


def by_constant(op: Op) -> bool:
    """A division that `constant_quotient` can do without a loop."""
    return op.kind in NARROW and isinstance(op.args[1], int) and op.args[1] != 0


# ---- by a constant ----------------------------------------------------------------------------------------------------


def constant_quotient(make: Maker, a: Value, d: int, high: int) -> Value:
    """a // d for unsigned a of at most `high` and 1 < d: a product with 2^s / d, rounded up, where the error cannot show."""
    if high < d:
        return 0
    for shift in range(1, 32):
        m = -(-(1 << shift) // d)
        if high * m <= MASK and high * (m * d - (1 << shift)) < 1 << shift:
            return make("shr", make("mul", a, m, 0), shift)
    for shift in range(32, 64):
        m = -(-(1 << shift) // d)
        if m <= MASK and high * (m * d - (1 << shift)) < 1 << shift:
            return make("shr", make("mulhi", a, m), shift - 32)
    k = d.bit_length()  # the factor has 33 bits: add a once more, halving first so that nothing is lost
    m = -(-(1 << (32 + k)) // d) - (1 << 32)
    t = make("mulhi", a, m)
    return make("shr", make("add", make("shr", make("sub", a, t), 1), t), k - 1)


def divide_by_constant(make: Maker, op: Op, threads: int) -> Value:
    """The quotient or remainder of `div` or `rem` by a constant."""
    a, d = op.args
    if op.signed:
        negative = d >> 31
        size = (-d & MASK) if negative else d
        sign = make("sar", a, 31)
        absolute: Value = make("sub", make("xor", a, sign), sign)
        quotient = _unsigned(make, absolute, size, 1 << 31)
        if op.kind == "rem":
            rest = make("sub", absolute, make("mul", quotient, size, 0))
            return make("sub", make("xor", rest, sign), sign)
        if negative:
            sign = make("xor", sign, MASK)
        return make("sub", make("xor", quotient, sign), sign)
    quotient = _unsigned(make, a, d, bounds(a, threads)[1])
    return quotient if op.kind == "div" else make("sub", a, make("mul", quotient, d, 0))


def _unsigned(make: Maker, a: Value, d: int, high: int) -> Value:
    if d == 1:
        return a
    if d & (d - 1) == 0:
        return make("shr", a, d.bit_length() - 1)
    return constant_quotient(make, a, d, high)


# ---- by a variable ----------------------------------------------------------------------------------------------------


def expand(unit: Unit, function: Function, head: Block, tail: Block, op: Op) -> dict[Op, Value]:
    """Loop between head and tail for a division and those of the same numbers further on; returns what they are replaced by."""
    family = WIDE if op.kind in WIDE else NARROW
    group = [op] + [o for o in tail.ops if o.kind in family and o.signed == op.signed and _same(o.args, op.args)]
    tail.ops = [o for o in tail.ops if o not in group]
    before, after = Maker(head, op), Maker(Block(""), op)
    if family is WIDE:
        a, b = (op.args[0], op.args[1]), (op.args[2], op.args[3])
        if op.signed:
            sign_a, sign_b = before("sar", a[1], 31), before("sar", b[1], 31)
            a, b = wide.absolute(before, a, sign_a), wide.absolute(before, b, sign_b)
        q, r = _wide_loop(function, head, tail, op, a, b)
        if op.signed:
            q, r = wide.absolute(after, q, after("xor", sign_a, sign_b)), wide.absolute(after, r, sign_a)
        results = {"divlo": q[0], "divhi": q[1], "remlo": r[0], "remhi": r[1]}
    else:
        a, b = op.args
        if op.signed:
            sign_a, sign_b = before("sar", a, 31), before("sar", b, 31)
            a, b = (before("sub", before("xor", v, s), s) for v, s in ((a, sign_a), (b, sign_b)))
        loop = _narrow_loop if unit.machine.stage_bits else _restoring_loop
        q, r = loop(unit, function, head, tail, op, a, b)
        if op.signed:
            sign = after("xor", sign_a, sign_b)
            q, r = after("sub", after("xor", q, sign), sign), after("sub", after("xor", r, sign_a), sign_a)
        results = {"div": q, "rem": r}
    tail.ops = after.block.ops + tail.ops
    return {o: results[o.kind] for o in group}


def _same(a: list[Value], b: list[Value]) -> bool:
    return all(x is y or isinstance(x, int) and isinstance(y, int) and x == y for x, y in zip(a, b))


def _loop_block(function: Function, head: Block, tail: Block, op: Op, starts: list[Value]) -> tuple[Block, list[Op]]:
    """A block between head and tail that repeats, and a phi for each of its variables."""
    loop = Block(f"{head.label}/divide", predecessors=[head], origin=op.origin)
    phis = [Op("phi", [s], origin=op.origin, name=op.name) for s in starts]
    loop.phis = phis
    loop.predecessors.append(loop)
    loop.taken, loop.fall = loop, tail
    function.blocks.insert(function.blocks.index(head) + 1, loop)
    return loop, phis


def _meet(tail: Block, op: Op, *values: Value) -> Op:
    """A phi at the tail, one value for each predecessor."""
    phi = Op("phi", list(values), origin=op.origin, name=op.name)
    tail.phis.append(phi)
    return phi


def _narrow_loop(unit: Unit, function: Function, head: Block, tail: Block, op: Op, a: Value, b: Value) -> tuple[Value, Value]:
    make = Maker(head, op)
    ones = make("sub", 0, make("set", b, 0, relation=EQ))
    start = make("sub", make("clz", b), make("clz", a))
    head.condition = make("set", a, b, relation=LT)
    loop, (r, q, s) = _loop_block(function, head, tail, op, [a, ones, start])
    head.taken, head.fall = tail, loop
    tail.predecessors = [head, loop]
    make = Maker(loop, op)
    d = make("shl", b, s)
    digit = make("set", r, d, relation=GE)
    rest = make("minmax", r, make("sub", r, d), relation=LT)  # r - d wraps to more than r where d is larger
    quotient = make("mul", q, 2, digit)
    for phi, value in ((r, rest), (q, quotient), (s, make("sub", s, 1))):
        phi.args.append(value)
    loop.condition = make("set", s, 0, relation=NE)
    return _meet(tail, op, ones, quotient), _meet(tail, op, a, rest)


def _restoring_loop(unit: Unit, function: Function, head: Block, tail: Block, op: Op, a: Value, b: Value) -> tuple[Value, Value]:
    """Digit by digit, for machines that do not count leading zeros: the quotient moves in where the dividend moves out."""
    digits = max(1, bounds(a, unit.launch.threads)[1].bit_length())
    make = Maker(head, op)
    first = make("shl", a, 32 - digits) if digits < 32 else a
    loop, (r, x, s) = _loop_block(function, head, tail, op, [0, first, digits])
    head.fall = loop
    tail.predecessors = [loop]
    make = Maker(loop, op)
    more = make("mul", r, 2, make("shr", x, 31))
    digit = make("or", make("set", more, b, relation=GE), make("shr", r, 31))
    rest = make("sel", make("sub", more, b), more, digit)
    left = make("sub", s, 1)
    quotient = make("mul", x, 2, digit)
    for phi, value in ((r, rest), (x, quotient), (s, left)):
        phi.args.append(value)
    loop.condition = make("set", left, 0, relation=NE)
    return quotient, rest


def _wide_loop(function: Function, head: Block, tail: Block, op: Op, a: wide.Pair, b: wide.Pair) -> tuple[wide.Pair, wide.Pair]:
    make = Maker(head, op)

    def zeros(v: wide.Pair) -> Value:
        return make("sel", make("clz", v[1]), make("add", make("clz", v[0]), 32), make("set", v[1], 0, relation=NE))
    ones = make("sub", 0, make("set", make("or", b[0], b[1]), 0, relation=EQ))
    start = make("sub", zeros(b), zeros(a))
    first = wide.shift(make, "shl", b, start)
    head.condition = wide.compare(make, a, b, LT, False)
    loop, (r0, r1, q0, q1, d0, d1, s) = _loop_block(function, head, tail, op, [*a, ones, ones, *first, start])
    head.taken, head.fall = tail, loop
    tail.predecessors = [head, loop]
    make = Maker(loop, op)
    less = wide.compare(make, (r0, r1), (d0, d1), LT, False)
    difference = wide.sub(make, (r0, r1), (d0, d1))
    rest = make("sel", r0, difference[0], less), make("sel", r1, difference[1], less)
    quotient = make("mul", q0, 2, make("xor", less, 1)), make("mul", q1, 2, make("shr", q0, 31))
    half = make("or", make("shr", d0, 1), make("shl", d1, 31)), make("shr", d1, 1)
    for phi, value in zip((r0, r1, q0, q1, d0, d1, s), (*rest, *quotient, *half, make("sub", s, 1))):
        phi.args.append(value)
    loop.condition = make("set", s, 0, relation=NE)
    q = tuple(_meet(tail, op, ones, v) for v in quotient)
    r = tuple(_meet(tail, op, before, v) for before, v in zip(a, rest))
    return q, r
