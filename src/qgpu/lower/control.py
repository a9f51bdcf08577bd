"""Operations that take blocks of their own: barriers, votes, what changes memory in one step, divisions.

A block that is `whole` reads and writes memory in one pass, so nothing comes between for its group; groups run it one after the other. The
lanes of a group run it one at a time, each through a copy of its own.
"""

from __future__ import annotations

from . import divide
from .blocks import Maker, split
from .ir import EQ, GE, GT, LT, NE, TID, Block, Function, Op, Value, substitute, use_counts
from .unit import Unit

KINDS = frozenset({"bar", "vote", "atom", "narrow"}) | divide.KINDS


def run(unit: Unit) -> None:
    function = unit.function
    uses, there = use_counts(function), set(function.ops())
    work = list(function.blocks)
    replaced: dict[Op, Value] = {}
    while work:
        block = work.pop()
        at = next((k for k, op in enumerate(block.ops) if op.kind in KINDS and not divide.by_constant(op)), None)
        if at is None:
            continue
        op = block.ops[at]
        op.args = [_final(a, replaced) for a in op.args]
        tail = split(function, block, at)
        tail.ops.pop(0)
        if op.kind == "bar":
            block.barrier = True
        elif op.kind == "vote":
            ballot = Op("ballot", origin=op.origin, name=op.name)
            tail.ops.insert(0, ballot)
            block.condition, block.votes = op.args[0], True
            replaced[op] = ballot
        elif op.kind in divide.KINDS:
            replaced |= divide.expand(unit, function, block, tail, op)
        elif op.kind == "atom" and op.atomic in ("inc", "dec"):
            result, body = _by_exchange(function, block, tail, op)
            replaced[op] = result
            work.append(body)
        else:
            old = _one_at_a_time(unit, function, block, tail, op, op not in there or bool(uses.get(op)))
            if old is not None:
                replaced[op] = old
        work.append(tail)
    substitute(function, replaced)


def _final(v: Value, replaced: dict[Op, Value]) -> Value:
    while isinstance(v, Op) and v in replaced:
        v = replaced[v]
    return v


# ---- memory in one step -----------------------------------------------------------------------------------------------


def _one_at_a_time(unit: Unit, function: Function, head: Block, tail: Block, op: Op, wanted: bool) -> Op | None:
    """Branches from head to a copy of the step for each lane of the group, and from there to tail; returns the old value."""
    lanes = min(unit.machine.lanes, unit.launch.threads)
    single = lone_lane(head, unit) or _apart(op, unit)
    tail.predecessors.clear()
    olds: list[Value] = []
    here, place = head, function.blocks.index(head) + 1
    for lane in range(1 if single else lanes):
        step = Block(f"{head.label}/step{lane}", predecessors=[here], fall=tail, whole=True, origin=op.origin)
        olds.append(_step(step, op))
        tail.predecessors.append(step)
        last = single or lane == lanes - 1
        if last:
            here.fall = step
        else:
            make = Maker(here, op)
            here.condition = make("set", make("and", TID, unit.machine.lanes - 1), lane, relation=EQ)
            after = Block(f"{head.label}/after{lane}", predecessors=[here], origin=op.origin)
            here.taken, here.fall = step, after
        new = [step] if last else [step, after]
        function.blocks[place:place] = new
        place += len(new)
        if not last:
            here = after
    if not wanted:
        return None
    if len(olds) == 1:
        return olds[0]
    phi = Op("phi", olds, origin=op.origin, name=op.name)
    tail.phis.append(phi)
    return phi


def _step(block: Block, op: Op) -> Op:
    """Load, change and store in one block; returns the load."""
    make = Maker(block, op)
    address, value, more = op.args
    base, offset = address, 0
    if isinstance(address, Op) and address.kind == "add" and isinstance(address.args[1], int):
        base, offset = address.args
    old = make("ld", base, offset)
    old.space = op.space
    if op.kind == "narrow":
        new: Value = make("or", make("and", old, value), more)
    elif op.atomic == "exch":
        new = value
    elif op.atomic == "cas":
        new = make("sel", value, old, make("set", old, more, relation=EQ))
    elif op.atomic in ("min", "max"):
        new = make("minmax", old, value, relation=LT if op.atomic == "min" else GT, signed=op.signed)
    else:
        new = make(op.atomic, old, value)
    store = make("st", base, offset, new)
    store.space = op.space
    return old


def _by_exchange(function: Function, head: Block, tail: Block, op: Op) -> tuple[Op, Block]:
    """inc and dec as a loop around cas: returns the old value and the loop's block, whose cas is still to be expanded."""
    address, limit, _ = op.args
    first = Maker(head, op)("ld", address, 0)
    first.space = op.space
    loop = Block(f"{head.label}/exchange", predecessors=[head], origin=op.origin)
    head.fall = loop
    seen = Op("phi", [first], origin=op.origin, name=op.name)
    loop.phis.append(seen)
    make = Maker(loop, op)
    if op.atomic == "inc":
        new = make("sel", 0, make("add", seen, 1), make("set", seen, limit, relation=GE))
    else:
        less = make("sub", seen, 1)  # 0 - 1 is not below any limit
        new = make("sel", limit, less, make("set", less, limit, relation=GE))
    found = make("atom", address, new, seen)
    found.atomic, found.space = "cas", op.space
    loop.condition = make("set", found, seen, relation=NE)
    seen.args.append(found)
    loop.taken, loop.fall = loop, tail
    loop.predecessors.append(loop)
    tail.predecessors[:] = [loop]
    function.blocks.insert(function.blocks.index(head) + 1, loop)
    return found, loop


def lone_lane(block: Block, unit: Unit) -> bool:
    """Whether at most one lane of a group gets here: behind a comparison of the thread's number with a constant."""
    if unit.launch.threads == 1:
        return True
    seen: set[Block] = set()
    while len(block.predecessors) == 1 and block not in seen:
        seen.add(block)
        before = block.predecessors[0]
        c = before.condition
        if before.branches and isinstance(c, Op) and c.kind == "set" and _one_of_group(c.args[0], unit) and isinstance(c.args[1], int):
            if before.taken is block and before.fall is not block and c.relation == EQ:
                return True
            if before.fall is block and before.taken is not block and c.relation == NE:
                return True
            if before.fall is block and before.taken is not block and c.relation == GT and c.args[1] == 0:
                return True
        block = before
    return False


def _one_of_group(v: Value, unit: Unit) -> bool:
    """A value that differs between the lanes of a group."""
    if v is TID:
        return True
    return isinstance(v, Op) and v.kind == "and" and v.args[0] is TID and isinstance(v.args[1], int) \
        and v.args[1] & (unit.machine.lanes - 1) == unit.machine.lanes - 1


def _apart(op: Op, unit: Unit) -> bool:
    """Whether the lanes of a group surely change different words: base + tid * (a multiple of 4), never around 2^32."""
    address = op.args[0]
    if isinstance(address, Op) and address.kind == "add" and isinstance(address.args[1], int):
        address = address.args[0]
    if not isinstance(address, Op) or not address.args or not _one_of_group(address.args[0], unit):
        return False
    return address.kind == "shl" and address.args[1] == 2 or address.kind == "shl" and isinstance(address.args[1], int) \
        and 2 < address.args[1] < 24
