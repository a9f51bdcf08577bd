"""Keep values in the thread's own memory where registers do not suffice.

A spilled value is stored where it is made, and loaded again in front of its readers. A phi shares its slot with those of its
arguments that are spilled too and are never needed at the same time; other arguments are stored at the end of the predecessor.
Slot k of thread t is word k * threads + t, so that an address is tid * 4 and a constant.
"""

from __future__ import annotations

from .blocks import Maker
from .ir import TID, Block, Function, Op, Value, loop_depths
from .legalise import copy_of
from .liveness import interference, liveness
from .variables import Variables

NEAR = 6
"""Operations for which a loaded value is kept in the same block."""


def choose(function: Function, classes: list[list[Op]], count: int) -> list[Op]:
    """Which of the values that are live where they are most should go: those read and written least, loops counted. classes: the
    operations of the function that share each register."""
    depths = loop_depths(function.blocks[0])
    home = {op: b for b in function.blocks for op in b.phis + b.ops}
    cost: dict[Op, float] = dict.fromkeys(home, 0.0)
    fixed: set[Op] = {op for op in home if op.space == "spill" or home[op].whole}
    for block in function.blocks:
        weight = 8.0 ** depths.get(block, 0)
        for op in block.phis + block.ops:
            if op in cost:
                cost[op] += weight
            for a in op.args:
                if isinstance(a, Op):
                    cost[a] += weight
                    if block.whole or op.space == "spill" and op.kind == "st":
                        fixed.add(a)
        if isinstance(block.condition, Op):
            cost[block.condition] += weight
    options = []
    for members in classes:
        members = [m for m in members if m in home and m not in fixed and _travels(function, m, home[m])]
        if members:
            options.append((sum(cost[m] for m in members), len(options), members))
    options.sort()
    return [m for _, _, members in options[:count] for m in members]


def _travels(function: Function, v: Op, block: Block) -> bool:
    """Whether a value is read in another block than where it is made, or far behind."""
    if v.kind == "phi":
        return True
    at = block.ops.index(v)
    if any(v in op.args for op in block.ops[at + NEAR + 1:]):
        return True
    for other in function.blocks:
        if other is not block and (other.condition is v or any(v in op.args for op in other.ops)):
            return True
        if any(v in phi.args for phi in other.phis):
            return True
    return False


def run(function: Function, values: list[Op], variables: Variables) -> None:
    """Give each value a slot."""
    clashes = interference(function, liveness(function), weak=False)
    groups = {v: [v] for v in values}
    for phi in values:
        for a in phi.args if phi.kind == "phi" else ():
            if a in groups and groups[a] is not groups[phi] and not any(clashes[x] & set(groups[a]) for x in groups[phi]):
                groups[phi] += groups[a]
                for member in groups[a]:
                    groups[member] = groups[phi]
    slots: dict[Op, int] = {}
    for v in values:
        if v not in slots:
            slots |= dict.fromkeys(groups[v], variables.spill_base() + 4 * variables.threads * variables.spill_slots)
            variables.spill_slots += 1
    _store_phis(function, slots)
    for block in list(function.blocks):
        _rewrite(block, slots)
    for block in function.blocks:
        block.phis = [p for p in block.phis if p not in slots]


def _load(make: Maker, slot: int) -> Op:
    op = make("ld", make("shl", TID, 2), slot)
    op.space = "spill"
    return op


def _store(make: Maker, slot: int, value: Value) -> None:
    make("st", make("shl", TID, 2), slot, value).space = "spill"


def _store_phis(function: Function, slots: dict[Op, int]) -> None:
    """At the end of each predecessor: arguments of spilled phis into their slots, other phis' spilled arguments into registers."""
    for block in list(function.blocks):
        if not any(p in slots or any(a in slots for a in p.args) for p in block.phis):
            continue
        for k in range(len(block.predecessors)):
            place = block.predecessors[k]
            if place.whole or len(place.successors()) > 1:
                place = _on_edge(function, place, block)
            stores = []
            for phi in block.phis:
                make, a = Maker(place, phi), phi.args[k]
                if phi in slots and a in slots and slots[a] == slots[phi]:
                    continue
                if a in slots:
                    a = _load(make, slots[a])
                elif phi in slots and not isinstance(a, Op):
                    a = copy_of(a, phi)
                    place.ops.append(a)
                if phi in slots:
                    stores.append((make, slots[phi], a))
                phi.args[k] = a
            for make, slot, a in stores:
                _store(make, slot, a)


def _on_edge(function: Function, source: Block, target: Block) -> Block:
    edge = Block(f"{source.label}>{target.label}", fall=target, predecessors=[source], origin=source.origin)
    if source.branches and source.taken is target:
        source.taken = edge
    else:
        source.fall = edge
    target.predecessors[target.predecessors.index(source)] = edge
    function.blocks.insert(function.blocks.index(source) + 1, edge)
    return edge


def _rewrite(block: Block, slots: dict[Op, int]) -> None:
    """Loads in front of readers, stores behind what is spilled here."""
    done = Block("")
    loaded: dict[Op, tuple[Op, int]] = {}
    made: dict[Op, int] = {}

    def value(a: Value, reader: Op, at: int) -> Value:
        if a not in slots or a in made and at - made[a] <= NEAR:
            return a
        if a not in loaded or at - loaded[a][1] > NEAR:
            loaded[a] = (_load(Maker(done, reader), slots[a]), at)
        return loaded[a][0]
    for at, op in enumerate(block.ops):
        if not (op.kind == "st" and op.space == "spill"):
            op.args = [value(a, op, at) for a in op.args]
        done.ops.append(op)
        if op in slots:
            made[op] = at
            _store(Maker(done, op), slots[op], op)
    if block.condition in slots:
        block.condition = value(block.condition, block.condition, len(block.ops))
    block.ops = done.ops
