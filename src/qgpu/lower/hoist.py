"""Compute in the block before what shrinks the number of values that live across the branch.

An operation of a block with one predecessor, whose operands are read nowhere else and are at least two, moves up: then one value
lives across the branch instead of two. Only operations without effects move, so computing them for more lanes than need them
is harmless.
"""

from __future__ import annotations

from .ir import UNREPEATABLE, Block, Function, Op, loop_depths
from .unit import Unit


def run(unit: Unit) -> None:
    function = unit.function
    home = {op: b for b in function.blocks for op in b.phis + b.ops}
    depths = loop_depths(function.blocks[0])
    moved = True
    while moved:
        moved = False
        for block in function.blocks:
            if len(block.predecessors) != 1:
                continue
            before = block.predecessors[0]
            if depths[before] > depths[block] or before.whole or block.whole:
                continue
            for op in list(block.ops):
                operands = {a for a in op.args if isinstance(a, Op)}
                if op.kind in UNREPEATABLE or any(home[a] is block for a in operands):
                    continue
                if sum(readers_beyond(function, a, before) == {op} for a in operands) >= 2:
                    block.ops.remove(op)
                    before.ops.append(op)
                    home[op] = before
                    moved = True


def readers_beyond(function: Function, value: Op, block: Block) -> set[Op]:
    """Operations outside a block that read a value; a phi or another block's branch counts as the value itself."""
    readers: set[Op] = set()
    for other in function.blocks:
        if any(value in phi.args for phi in other.phis) or other is not block and other.condition is value:
            readers.add(value)
        if other is not block:
            readers |= {op for op in other.ops if value in op.args}
    return readers
