"""Operations that take blocks of their own: barriers, votes, what changes memory in one step, divisions.

A block that is `whole` reads and writes memory in one pass, so nothing comes between for its group; groups run it one after the
other. The lanes of a group run it one at a time, each through a copy of its own.
"""

from __future__ import annotations

from . import divide, wide
from .blocks import Maker, split
from .ir import EQ, GE, GT, LT, NE, TID, Block, Function, Op, Value, substitute, use_counts
from .unit import Unit

KINDS = frozenset({"bar", "vote", "atom", "atom64", "narrow"}) | divide.KINDS


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
        elif op.kind == "atom64":
            replaced |= _wide_atomic(unit, function, block, tail, op)
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
    single = lone_lane(head, unit, unit.machine.lanes) or _apart(op, unit)
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


def _wide_atomic(unit: Unit, function: Function, head: Block, tail: Block, op: Op) -> dict[Op, Value]:
    """An atomic on two words: one lane of the warp at a time, by a loop over its lanes; no other warp runs meanwhile."""
    highs = [o for o in tail.ops if o.kind == "atomhi" and o.args[0] is op]
    tail.ops = [o for o in tail.ops if o not in highs]
    lanes = min(unit.machine.warp_size, unit.launch.threads)
    at = function.blocks.index(head) + 1
    if lone_lane(head, unit, unit.machine.warp_size):
        low, high = _wide_step(head, op)
        return {op: low} | dict.fromkeys(highs, high)
    turn, step, after = (Block(f"{head.label}/{name}", origin=op.origin) for name in ("turn", "step64", "after64"))
    function.blocks[at:at] = [turn, step, after]
    head.fall, turn.taken, turn.fall, step.fall, after.taken, after.fall = turn, step, after, after, turn, tail
    turn.predecessors, step.predecessors, after.predecessors, tail.predecessors = [head, after], [turn], [turn, step], [after]
    number, low, high = (Op("phi", [0], origin=op.origin, name=op.name) for _ in range(3))
    turn.phis = [number, low, high]
    turn.condition = Maker(turn, op)("set", Maker(turn, op)("and", TID, unit.machine.warp_size - 1), number, relation=EQ)
    mine = _wide_step(step, op)
    olds = [Op("phi", [before, now], origin=op.origin, name=op.name) for before, now in zip((low, high), mine)]
    after.phis = olds
    make = Maker(after, op)
    following = make("add", number, 1)
    after.condition = make("set", following, lanes, relation=NE)
    for phi, value in ((number, following), (low, olds[0]), (high, olds[1])):
        phi.args.append(value)
    return {op: olds[0]} | dict.fromkeys(highs, olds[1])


def _wide_step(block: Block, op: Op) -> wide.Pair:
    """Load, change and store two words, in as many blocks as it takes; returns the old words."""
    make = Maker(block, op)
    address, value, more = op.args[0], (op.args[1], op.args[2]), (op.args[3], op.args[4])
    upper = make("add", address, 4)
    old = make("ld", address, 0), make("ld", upper, 0)
    if op.atomic == "exch":
        new: wide.Pair = value
    elif op.atomic == "cas":
        same = wide.compare(make, old, more, EQ, False)
        new = make("sel", value[0], old[0], same), make("sel", value[1], old[1], same)
    elif op.atomic in ("min", "max"):
        first = wide.compare(make, old, value, LT if op.atomic == "min" else GT, op.signed)
        new = make("sel", old[0], value[0], first), make("sel", old[1], value[1], first)
    elif op.atomic == "add":
        new = wide.add(make, old, value)
    else:
        new = make(op.atomic, old[0], value[0]), make(op.atomic, old[1], value[1])
    for o in (*old, make("st", address, 0, new[0]), make("st", upper, 0, new[1])):
        o.space = op.space
    return old


def lone_lane(block: Block, unit: Unit, lanes: int) -> bool:
    """Whether at most one of so many neighbouring lanes gets here: behind a comparison of the thread's number with a constant."""
    if unit.launch.threads == 1:
        return True
    seen: set[Block] = set()
    while len(block.predecessors) == 1 and block not in seen:
        seen.add(block)
        before = block.predecessors[0]
        c = before.condition
        if before.branches and isinstance(c, Op) and c.kind == "set" and _one_of(c.args[0], lanes) and isinstance(c.args[1], int):
            if before.taken is block and before.fall is not block and c.relation == EQ:
                return True
            if before.fall is block and before.taken is not block and c.relation == NE:
                return True
            if before.fall is block and before.taken is not block and c.relation == GT and c.args[1] == 0:
                return True
        block = before
    return False


def _one_of(v: Value, lanes: int) -> bool:
    """A value that differs between neighbouring lanes."""
    if v is TID:
        return True
    return isinstance(v, Op) and v.kind == "and" and v.args[0] is TID and isinstance(v.args[1], int) \
        and v.args[1] & (lanes - 1) == lanes - 1


def _apart(op: Op, unit: Unit) -> bool:
    """Whether the lanes of a group surely change different words: base + tid * (a multiple of 4), never around 2^32."""
    address = op.args[0]
    if isinstance(address, Op) and address.kind == "add" and isinstance(address.args[1], int):
        address = address.args[0]
    if not isinstance(address, Op) or not address.args or not _one_of(address.args[0], unit.machine.lanes):
        return False
    return address.kind == "shl" and address.args[1] == 2 or address.kind == "shl" and isinstance(address.args[1], int) \
        and 2 < address.args[1] < 24
