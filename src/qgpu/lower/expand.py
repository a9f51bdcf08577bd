"""Operations that the machine lacks, as short sequences of those it has.

The high half of a product is put together from four products of 16-bit halves, none of which, with its carries, exceeds 32 bits.
"""

from __future__ import annotations

from .blocks import Maker
from .divide import by_constant, divide_by_constant
from .ir import LT, Block, Op, Value, substitute
from .unit import Unit


def run(unit: Unit) -> None:
    replaced: dict[Op, Value] = {}
    for block in unit.function.blocks:
        done = Block("")
        for op in block.ops:
            make = Maker(done, op)
            if op.kind == "ldparam" and not isinstance(op.args[0], int):
                load = make("ld", make("add", op.args[0], unit.variables.parameters(unit.parameters)), 0)
                load.space = "const"
                replaced[op] = load
            elif by_constant(op):
                start = len(done.ops)
                replaced[op] = divide_by_constant(make, op, unit.launch.threads)
                made, done.ops[start:] = done.ops[start:], []
                for piece in made:
                    _one(unit, piece, done, replaced)
            else:
                _one(unit, op, done, replaced)
        block.ops = done.ops
    substitute(unit.function, replaced)


def _one(unit: Unit, op: Op, done: Block, replaced: dict[Op, Value]) -> None:
    """Append an operation, or what it is made of."""
    machine, make = unit.machine, Maker(done, op)
    if op.kind == "mulhi" and (op.signed or not machine.stage_mulhi):
        replaced[op] = _high_product(make, op, bool(machine.stage_mulhi))
    elif op.kind in ("popc", "clz", "brev") and not machine.stage_bits:
        replaced[op] = {"popc": _popc, "clz": _clz, "brev": _brev}[op.kind](make, op.args[0])
    else:
        done.ops.append(op)


def _high_product(make: Maker, op: Op, has_mulhi: bool) -> Op:
    a, b = op.args

    def halves(v: Value) -> tuple[Value, Value]:
        return (v & 0xFFFF, v >> 16) if isinstance(v, int) else (make("and", v, 0xFFFF), make("shr", v, 16))
    if has_mulhi:
        high = make("mulhi", a, b)
    else:
        (a0, a1), (b0, b1) = halves(a), halves(b)
        low = make("mul", a0, b0, 0)
        middle = make("mul", a1, b0, make("shr", low, 16))
        other = make("mul", a0, b1, make("and", middle, 0xFFFF))
        high = make("add", make("mul", a1, b1, make("shr", middle, 16)), make("shr", other, 16))
    if not op.signed:
        return high
    # A negative factor counts 2^32 too much of the other one.
    high = make("sub", high, make("and", make("sar", a, 31), b))
    return make("sub", high, make("and", make("sar", b, 31), a))


def _popc(make: Maker, x: Value) -> Op:
    """Sums of neighbours: of 1, 2 and 4 bits, and of the four bytes by a product."""
    x = make("sub", x, make("and", make("shr", x, 1), 0x55555555))
    x = make("add", make("and", x, 0x33333333), make("and", make("shr", x, 2), 0x33333333))
    x = make("and", make("add", x, make("shr", x, 4)), 0x0F0F0F0F)
    return make("shr", make("mul", x, 0x01010101, 0), 24)


def _clz(make: Maker, x: Value) -> Op:
    """Shift left by 16, 8, ... where that loses nothing, and count."""
    count: Value = 0
    for step in (16, 8, 4, 2, 1):
        by = make("mul", make("set", x, 1 << (32 - step), relation=LT), step, 0)
        x, count = make("shl", x, by), make("add", count, by)
    return make("add", count, make("set", x, 1 << 31, relation=LT))


def _brev(make: Maker, x: Value) -> Op:
    for step, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        x = make("or", make("and", make("shr", x, step), mask), make("shl", make("and", x, mask), step))
    return make("or", make("shr", x, 16), make("shl", x, 16))
