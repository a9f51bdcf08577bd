"""Leave static single assignment: put a phi and its arguments into one register class, and copy where they cannot share.

A copy goes to the end of the predecessor, or onto the edge, as a block of its own, where the predecessor has another way to go
that does not want it.
"""

from __future__ import annotations

from .ir import Block, Function, Op, Value, dominates, immediate_dominators, loop_depths
from .liveness import Liveness, interference, liveness


class Classes:
    """Sets of values that share a register."""

    def __init__(self) -> None:
        self.root: dict[Op, Op] = {}
        self.members: dict[Op, list[Op]] = {}

    def of(self, v: Op) -> Op:
        """The class of a value, as one of its members."""
        while (up := self.root.get(v, v)) is not v:
            v = up
        return v

    def all(self, v: Op) -> list[Op]:
        r = self.of(v)
        return self.members.get(r, [r])

    def join(self, a: Op, b: Op) -> None:
        a, b = self.of(a), self.of(b)
        if a is not b:
            self.members[a] = self.all(a) + self.all(b)
            self.root[b] = a


def run(function: Function, weak: bool, isolate: bool) -> Classes:
    """Insert copies and return the classes. weak: see `interference`. isolate: every phi gets copies through temporaries."""
    _open_edges(function)
    _rotate(function)
    _share_starts(function)
    classes = Classes()
    live = liveness(function)
    clashes = interference(function, live, weak)
    depths = loop_depths(function.blocks[0])
    idom = immediate_dominators(function.blocks[0])
    wanted: dict[tuple[Block, Block], list[tuple[Op, int]]] = {}
    for block in sorted(function.blocks, key=lambda b: -depths[b]):
        back_first = sorted(range(len(block.predecessors)),
                            key=lambda k: not dominates(idom, block, block.predecessors[k]))
        for phi in block.phis:
            for k in back_first:
                a = phi.args[k]
                if not isolate and isinstance(a, Op) and _may_join(classes, clashes, phi, a):
                    classes.join(phi, a)
                elif a is not phi:
                    wanted.setdefault((block.predecessors[k], block), []).append((phi, k))
    for (source, target), copies in wanted.items():
        place = _place(function, live, classes, source, target, [p for p, _ in copies], dominates(idom, target, source))
        temporaries: dict[Op, Value] = {}
        if isolate:
            for phi, k in copies:
                temporary = _copy(phi.args[k], phi, place)
                place.ops.append(temporary)
                temporaries[phi] = temporary
        for phi, k in copies:
            copy = _copy(temporaries.get(phi, phi.args[k]), phi, place)
            place.ops.append(copy)
            phi.args[k] = copy
            classes.join(phi, copy)
    return classes


def _open_edges(function: Function) -> None:
    """An empty block behind every block that must stay as it is and leads to phis, for their copies."""
    for source in list(function.blocks):
        target = source.fall
        if source.whole and target is not None and target.phis:
            edge = Block(f"{source.label}>{target.label}", fall=target, predecessors=[source], origin=source.origin)
            source.fall = edge
            target.predecessors[target.predecessors.index(source)] = edge
            function.blocks.insert(function.blocks.index(source) + 1, edge)


def _rotate(function: Function) -> None:
    """Where a loop hands one of its variables on to another (a = b; b = ...), copy before the branch, and read the copy from there on.

    Otherwise b would still be needed after the loop while its register already holds the next round's value.
    """
    idom = immediate_dominators(function.blocks[0])
    for header in function.blocks:
        for k, source in enumerate(header.predecessors):
            if not dominates(idom, header, source):
                continue
            copies: dict[Op, Op] = {}
            for phi in header.phis:
                a = phi.args[k]
                if a in header.phis and a is not phi:
                    copies.setdefault(a, _copy(a, phi, source))
            if not copies:
                continue
            source.ops += copies.values()
            for block in function.blocks:
                if block is not source and dominates(idom, source, block):
                    for op in block.ops:
                        op.args = [copies.get(a, a) if isinstance(a, Op) else a for a in op.args]
                    if isinstance(block.condition, Op):
                        block.condition = copies.get(block.condition, block.condition)
            for block in function.blocks:
                for j, p in enumerate(block.predecessors):
                    if dominates(idom, source, p):
                        for phi in block.phis:
                            phi.args[j] = copies.get(phi.args[j], phi.args[j])


def _share_starts(function: Function) -> None:
    """Where a branch leads to phis on both sides that take the same constant and can share a register, set it before the branch."""
    clashes = interference(function, liveness(function), weak=False)
    idom = immediate_dominators(function.blocks[0])
    for source in function.blocks:
        if len(source.successors()) != 2 or any(dominates(idom, s, source) for s in source.successors()):
            continue
        one, other = source.successors()
        at, other_at = one.predecessors.index(source), other.predecessors.index(source)
        for phi in one.phis:
            value = phi.args[at]
            if isinstance(value, Op):
                continue
            for twin in other.phis:
                same = twin.args[other_at] is value or isinstance(value, int) and twin.args[other_at] == value
                if same and twin not in clashes[phi]:
                    copy = _copy(value, phi, source)
                    source.ops.append(copy)
                    phi.args[at] = twin.args[other_at] = copy
                    break


def _copy(value: Value, phi: Op, place: Block) -> Op:
    origin = value.origin if isinstance(value, Op) else place.origin
    return Op("or", [value, 0], origin=origin if origin.ptx_line else phi.origin, name=phi.name)


def _may_join(classes: Classes, clashes: dict[Op, set[Op]], a: Op, b: Op) -> bool:
    if classes.of(a) is classes.of(b):
        return True
    others = set(classes.all(b))
    return not any(clashes[x] & others for x in classes.all(a))


def _place(function: Function, live: Liveness, classes: Classes, source: Block, target: Block, phis: list[Op],
           is_back_edge: bool) -> Block:
    """Where copies for the edge go: the source's end, or a new block on the edge."""
    if len(source.successors()) == 1:
        return source
    if is_back_edge:
        others = [s for s in source.successors() if s is not target]
        needed = set().union(*(live.along(source, s) for s in others)) if others else set()
        if not any(needed & set(classes.all(p)) for p in phis):
            return source
    edge = Block(f"{source.label}>{target.label}", fall=target, predecessors=[source], origin=source.origin)
    if source.taken is target:
        source.taken = edge
    else:
        source.fall = edge
    target.predecessors[target.predecessors.index(source)] = edge
    function.blocks.insert(function.blocks.index(source) + 1, edge)
    return edge
