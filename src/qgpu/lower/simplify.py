"""Fold constants and identities, propagate copies, share equal values, drop dead code and branches that cannot go both ways."""

from __future__ import annotations

from . import rules
from .ir import (EFFECTS, UNREPEATABLE, Block, Function, Op, Value, drop_edge, immediate_dominators, reverse_postorder,
                 substitute)
from .unit import Unit

ROUNDS = 60


def run(unit: Unit) -> None:
    """Repeat until nothing changes (every rule makes the program smaller or more canonical; ROUNDS is a safety net)."""
    function = unit.function
    for _ in range(ROUNDS):
        changed = fold(unit)
        changed |= fold_branches(function)
        changed |= drop_unreachable(function)
        changed |= share(function)
        changed |= drop_dead(function)
        changed |= merge_chains(function)
        changed |= skip_empty(function)
        if not changed:
            return


def fold(unit: Unit) -> bool:
    """Apply `rules` to every operation."""
    function = unit.function
    replaced: dict[Op, Value] = {}
    changed = False

    def final(v: Value) -> Value:
        while isinstance(v, Op) and v in replaced:
            v = replaced[v]
        return v
    for block in function.blocks:
        for phi in block.phis:
            phi.args = [final(a) for a in phi.args]
            others = [a for a in phi.args if a is not phi]
            if others and all(_same(a, others[0]) for a in others):
                replaced[phi] = others[0]
        new_ops: list[Op] = []
        for op in block.ops:
            op.args = [final(a) for a in op.args]
            before = len(new_ops)

            def make(kind: str, *args: Value, relation: frozenset[str] = frozenset(), signed: bool = False,
                     pattern: tuple[int, ...] = (), like: Op = op) -> Op:
                made = Op(kind, list(args), relation, signed, pattern, like.origin, like.name)
                new_ops.append(made)
                return made
            value = rules.simpler(op, unit, make)
            if value is None:
                del new_ops[before:]
                new_ops.append(op)
            else:
                replaced[op] = value
        block.ops = new_ops
    changed |= bool(replaced)
    substitute(function, replaced)
    return changed


def _same(a: Value, b: Value) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def fold_branches(function: Function) -> bool:
    """Constant conditions, negated conditions, and branches whose two ways are one."""
    changed = False
    for block in function.blocks:
        c = block.condition
        if block.votes:
            continue
        if c is not None and (bit := rules.low_bit_of(c)) is not c:
            block.condition = c = bit
            changed = True
        if isinstance(c, Op) and c.kind == "xor" and c.args[1] == 1:
            block.condition, block.taken, block.fall = c.args[0], block.fall, block.taken
            changed = True
            c = block.condition
        if isinstance(c, int):
            kept, dropped = (block.taken, block.fall) if c & 1 else (block.fall, block.taken)
            if dropped is not None:
                drop_edge(block, dropped)
            block.condition, block.taken, block.fall = None, None, kept
            changed = True
        elif c is not None and block.taken is block.fall:
            if block.fall is not None:
                target = block.fall
                first = target.predecessors.index(block)
                second = target.predecessors.index(block, first + 1)
                if any(not _same(p.args[first], p.args[second]) for p in target.phis):
                    continue
                drop_edge(block, target)
            block.condition, block.taken = None, None
            changed = True
    return changed


def drop_unreachable(function: Function) -> bool:
    reached = set(reverse_postorder(function.blocks[0]))
    gone = [b for b in function.blocks if b not in reached]
    for block in gone:
        for target in block.successors():
            if target in reached:
                drop_edge(block, target)
    function.blocks = [b for b in function.blocks if b in reached]
    return bool(gone)


def share(function: Function) -> bool:
    """Two equal pure operations, one dominating the other, become one."""
    entry = function.blocks[0]
    idom = immediate_dominators(entry)
    children: dict[Block, list[Block]] = {}
    for b, d in idom.items():
        if b is not d:
            children.setdefault(d, []).append(b)
    replaced: dict[Op, Value] = {}

    def final(v: Value) -> Value:
        while isinstance(v, Op) and v in replaced:
            v = replaced[v]
        return v
    stack: list[tuple[Block, dict[tuple, Op]]] = [(entry, {})]
    while stack:
        block, outer = stack.pop()
        table = dict(outer)
        for op in block.ops:
            op.args = [final(a) for a in op.args]
            if op.kind in UNREPEATABLE:
                continue
            key = op.key()
            if key in table:
                replaced[op] = table[key]
            else:
                table[key] = op
        stack += [(c, table) for c in children.get(block, [])]
    substitute(function, replaced)
    return bool(replaced)


def drop_dead(function: Function) -> bool:
    """Operations that no store and no branch needs."""
    live: set[Op] = set()
    work: list[Value | None] = [b.condition for b in function.blocks]
    work += [op for op in function.ops() if op.kind in EFFECTS]
    while work:
        v = work.pop()
        if isinstance(v, Op) and v not in live:
            live.add(v)
            work += v.args
    dead = False
    for block in function.blocks:
        for name in ("phis", "ops"):
            kept = [o for o in getattr(block, name) if o in live]
            dead |= len(kept) != len(getattr(block, name))
            setattr(block, name, kept)
    return dead


def merge_chains(function: Function) -> bool:
    """A block with one successor, which has no other predecessor, takes it in."""
    changed = False
    for block in function.blocks:
        while (nxt := block.fall) is not None and block.condition is None and len(nxt.predecessors) == 1 and nxt is not block:
            if nxt is function.blocks[0] or block.barrier or block.whole or nxt.whole:
                break
            substitute(function, {p: p.args[0] for p in nxt.phis})
            block.ops += nxt.ops
            block.condition, block.taken, block.fall = nxt.condition, nxt.taken, nxt.fall
            block.origin, block.barrier, block.votes = nxt.origin, nxt.barrier, nxt.votes
            for target in block.successors():
                target.predecessors[target.predecessors.index(nxt)] = block
            nxt.ops, nxt.phis, nxt.predecessors, nxt.fall, nxt.condition = [], [], [], None, None
            changed = True
    if changed:
        function.blocks = [b for b in function.blocks if b is function.blocks[0] or b.predecessors]
    return changed




def skip_empty(function: Function) -> bool:
    """Predecessors of a block that does nothing go straight to its successor."""
    changed = False
    for block in function.blocks[1:]:
        target = block.fall
        if block.ops or block.phis or block.condition is not None or target is block or block.barrier or block.whole:
            continue
        for source in list(block.predecessors):
            if source.branches and source.taken is source.fall or target is not None and source in target.predecessors:
                continue
            if source.taken is block and source.branches:
                source.taken = target
            else:
                source.fall = target
            block.predecessors.remove(source)
            if target is not None:
                at = target.predecessors.index(block)
                target.predecessors.append(source)
                for phi in target.phis:
                    phi.args.append(phi.args[at])
            changed = True
    return changed
