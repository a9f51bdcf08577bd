"""The order of basic blocks, which is the order in which diverged lanes run: the lowest-numbered block first.

Every block comes after its predecessors except along back edges, and a loop's blocks stay together, so that lanes wait for each
other where their ways meet. Among several that could come next, PTX's own order decides.
"""

from __future__ import annotations

from .ir import Block, dominates, immediate_dominators, natural_loops, reverse_postorder


def ordered(blocks: list[Block]) -> list[Block]:
    """The blocks that can be reached, entry first, in that order."""
    entry = blocks[0]
    reached = set(reverse_postorder(entry))
    given = {b: k for k, b in enumerate(blocks)}
    idom = immediate_dominators(entry)
    loops = natural_loops(entry)
    waiting = {b: sum(not dominates(idom, b, p) for p in b.predecessors if p in reached) for b in reached}
    out: list[Block] = []
    placed: set[Block] = set()
    open_loops: list[set[Block]] = []
    ready = {entry}
    while len(out) < len(reached):
        while open_loops and open_loops[-1] <= placed:
            open_loops.pop()
        inside = [b for b in ready if not open_loops or b in open_loops[-1]]
        if not inside:  # an irreducible loop: there is no such order, take PTX's
            inside = list(ready) or [b for b in reached if b not in placed]
        block = min(inside, key=given.__getitem__)
        ready.discard(block)
        out.append(block)
        placed.add(block)
        if block in loops:
            open_loops.append(loops[block])
        for s in block.successors():
            if s not in placed and not dominates(idom, s, block):
                waiting[s] -= 1
                if waiting[s] <= 0:
                    ready.add(s)
    return out
