"""Which values are still needed at the end of each basic block, and which pairs of values cannot share a register."""

from __future__ import annotations

from dataclasses import dataclass, field

from .ir import Block, Function, Op


@dataclass
class Liveness:
    """into[b]: values that b or what follows reads, its phis excepted. out[b]: values needed after b, the arguments of
    its successors' phis included."""

    into: dict[Block, set[Op]] = field(default_factory=dict)
    out: dict[Block, set[Op]] = field(default_factory=dict)

    def along(self, source: Block, target: Block) -> set[Op]:
        """Values needed on one edge."""
        at = target.predecessors.index(source)
        return self.into[target] | {p.args[at] for p in target.phis if isinstance(p.args[at], Op)}


def liveness(function: Function) -> Liveness:
    result = Liveness({b: set() for b in function.blocks}, {b: set() for b in function.blocks})
    changed = True
    while changed:
        changed = False
        for block in reversed(function.blocks):
            out: set[Op] = set()
            for s in block.successors():
                out |= result.along(block, s)
            into = set(out)
            if isinstance(block.condition, Op):
                into.add(block.condition)
            for op in reversed(block.ops):
                into.discard(op)
                into |= {a for a in op.args if isinstance(a, Op)}
            into -= set(block.phis)
            if out != result.out[block] or into != result.into[block]:
                result.out[block], result.into[block] = out, into
                changed = True
    return result


def interference(function: Function, live: Liveness, weak: bool) -> dict[Op, set[Op]]:
    """value -> values that are needed while it is in a register.

    weak: a value that is only read further down in the block that makes the other one does not count, because the packing
    can put those readers into the same machine block or an earlier one (registers are read as they were before a block).
    """
    edges: dict[Op, set[Op]] = {op: set() for op in function.ops()}

    def clash(x: Op, y: Op) -> None:
        if x is not y:
            edges[x].add(y)
            edges[y].add(x)
    for block in function.blocks:
        out = live.out[block]
        now = set(out)
        if isinstance(block.condition, Op):
            now.add(block.condition)
        for op in reversed(block.ops):
            for y in now:
                if not weak or y in out or y not in live.into[block] and y not in block.phis:
                    clash(op, y)
            now.discard(op)
            now |= {a for a in op.args if isinstance(a, Op)}
        now |= set(block.phis)
        for phi in block.phis:
            for y in now:
                clash(phi, y)
    return edges
