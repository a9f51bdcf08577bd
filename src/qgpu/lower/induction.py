"""Keep one counter in each loop: variables that advance in step with it are computed from it where they are read.

A variable that lives from one round of a loop to the next costs tokens for every lane in every round, and an address costs two.
If q starts at q0 and advances by s, and p starts at p0 and advances by m*s, then p = m*q + (p0 - m*q0), modulo 2^32.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ir import MASK, TID, Block, Function, Op, Value, natural_loops
from .evaluate import to_signed
from .unit import Unit


@dataclass
class Counter:
    """A phi that starts at `start` and advances by the constant `step`."""

    phi: Op
    start: Value
    step: int


def run(unit: Unit) -> None:
    function = unit.function
    for header, body in sorted(natural_loops(function.blocks[0]).items(), key=lambda item: len(item[1])):
        counters = [c for phi in header.phis if (c := _counter(header, body, phi)) is not None]
        if len(counters) > 1:
            _merge(function, header, body, counters)


def _counter(header: Block, body: set[Block], phi: Op) -> Counter | None:
    start: Value | None = None
    step: int | None = None
    for source, value in zip(header.predecessors, phi.args):
        if source in body:
            if not (isinstance(value, Op) and value.kind == "add" and value.args[0] is phi and isinstance(value.args[1], int)):
                return None
            if step not in (None, value.args[1]):
                return None
            step = value.args[1]
        elif start is None or start is value or isinstance(start, int) and isinstance(value, int) and start == value:
            start = value
        else:
            return None
    return Counter(phi, start, step) if start is not None and step else None


def _merge(function: Function, header: Block, body: set[Block], counters: list[Counter]) -> None:
    """Express every counter that can be by one: the simplest start and smallest step decide which."""
    outside = [p for p in header.predecessors if p not in body]

    def preference(c: Counter) -> tuple:
        kind = 0 if isinstance(c.start, int) else 1 if c.start is TID else 2
        return kind, abs(to_signed(c.step)), abs(to_signed(c.start)) if isinstance(c.start, int) else 0
    base = min(counters, key=preference)
    made: list[Op] = []
    replaced: dict[Op, Op] = {}
    for c in counters:
        if c is base or to_signed(c.step) % to_signed(base.step):
            continue
        constant = isinstance(c.start, int) and isinstance(base.start, int)
        if not constant and len(outside) != 1:
            continue
        factor = to_signed(c.step) // to_signed(base.step) & MASK

        def make(kind: str, *args: Value, where: list[Op], like: Op = c.phi) -> Op:
            op = Op(kind, list(args), origin=like.origin, name=like.name)
            where.append(op)
            return op
        if constant:
            rest: Value = (c.start - factor * base.start) & MASK
        else:
            place = outside[0].ops
            rest = make("sub", c.start, make("mul", base.start, factor, 0, where=place), where=place)
        product = make("mul", base.phi, factor, 0, where=made)
        replaced[c.phi] = make("add", product, rest, where=made)
    for block in function.blocks:
        for op in block.phis + block.ops:
            op.args = [replaced.get(a, a) if isinstance(a, Op) else a for a in op.args]
        if isinstance(block.condition, Op):
            block.condition = replaced.get(block.condition, block.condition)
    header.phis = [p for p in header.phis if p not in replaced]
    header.ops = made + header.ops
