"""Compute cheap values again where they are read, instead of keeping them in registers from another basic block.

A result that lives beyond its block costs at least one token a lane; a recomputation costs a quarter of one block at most. So
values made of tid and constants alone, in one or two steps, are cloned into every block that reads them and that is in no deeper
loop.
"""

from __future__ import annotations

from .ir import UNREPEATABLE, Block, Function, Op, Special, Value, loop_depths
from .simplify import drop_dead

MOST_STEPS = 2


def steps(v: Value, limit: int = MOST_STEPS) -> int:
    """Operations needed to make v out of tid and constants; more than `limit` if that is impossible or too long."""
    if isinstance(v, (int, Special)):
        return 0
    if not isinstance(v, Op) or v.kind in UNREPEATABLE or limit == 0:
        return limit + 1
    return 1 + sum(steps(a, limit - 1) for a in v.args)


def run(function: Function, most_steps: int = MOST_STEPS, into_loops: bool = False) -> None:
    """Clone values of at most `most_steps` operations; into_loops: also where that repeats the work in every round."""
    depths = loop_depths(function.blocks[0])
    home: dict[Op, Block] = {op: b for b in function.blocks for op in b.ops}
    for block in function.blocks:
        if block.whole:
            continue
        clones: dict[Op, Op] = {}
        made: list[Op] = []

        def local(v: Value) -> Value:
            """v itself, or its clone in this block."""
            if not isinstance(v, Op) or home.get(v) in (None, block) or steps(v, most_steps) > most_steps:
                return v
            if depths[block] > depths[home[v]] and not into_loops:
                return v
            if v not in clones:
                clone = v.copy()
                clone.args = [local(a) for a in v.args]
                clones[v] = clone
                made.append(clone)
            return clones[v]
        for op in block.ops:
            op.args = [local(a) for a in op.args]
        if block.condition is not None:
            block.condition = local(block.condition)
        block.ops = made + block.ops
        home |= {op: block for op in made}
    drop_dead(function)
