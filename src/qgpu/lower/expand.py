"""Operations that the machine lacks, as short sequences of those it has.

The high half of a product is put together from four products of 16-bit halves, none of which, with its carries, exceeds 32 bits.
"""

from __future__ import annotations

from .ir import Op, Value, substitute
from .unit import Unit


def run(unit: Unit) -> None:
    machine = unit.machine
    replaced: dict[Op, Value] = {}
    for block in unit.function.blocks:
        out: list[Op] = []
        for op in block.ops:
            if op.kind == "mulhi" and (op.signed or not machine.stage_mulhi):
                replaced[op] = _high_product(op, out, bool(machine.stage_mulhi))
            else:
                out.append(op)
        block.ops = out
    substitute(unit.function, replaced)


def _high_product(op: Op, out: list[Op], has_mulhi: bool) -> Op:
    a, b = op.args

    def make(kind: str, *args: Value) -> Op:
        made = Op(kind, list(args), origin=op.origin, name=op.name)
        out.append(made)
        return made

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
