"""Give every operation the form that an instruction has.

An instruction has one immediate, as operand A or B; only operand A can be tid or another special source; C is a register or a
result. What does not fit goes through a copy, `or x, 0`, which the packing puts beside its reader.
"""

from __future__ import annotations

from .ir import COMMUTATIVE, Block, Op, Special, Value
from .unit import Unit

_MIRROR = {"lt": "gt", "eq": "eq", "gt": "lt"}


def copy_of(value: Value, like: Op) -> Op:
    return Op("or", [value, 0], origin=like.origin, name=like.name)


def run(unit: Unit) -> None:
    for block in unit.function.blocks:
        legalise_block(block)


def legalise_block(block: Block) -> None:
    copies: dict[int | Special, Op] = {}
    out: list[Op] = []

    def via_copy(op: Op, k: int) -> None:
        v = op.args[k]
        if v not in copies:
            copies[v] = copy_of(v, op)
            out.append(copies[v])
        op.args[k] = copies[v]

    for op in block.ops:
        if op.kind == "fence":
            out.append(op)
            continue
        _swap(op)
        for k in (1, 2):
            if k < len(op.args) and (isinstance(op.args[k], Special) or k == 2 and _immediate(op.args[k])):
                via_copy(op, k)
        used = op.kind == "shfl"
        for k in range(min(2, len(op.args))):
            if _immediate(op.args[k]):
                if used:
                    via_copy(op, k)
                used = True
        out.append(op)
    block.ops = out
    if isinstance(block.condition, (int, Special)):
        copy = Op("or", [block.condition, 0], origin=block.origin)
        block.ops.append(copy)
        block.condition = copy


def _immediate(v: Value) -> bool:
    return isinstance(v, int) and v != 0


def _swap(op: Op) -> None:
    """Put a special source first where the order of the operands does not matter."""
    if len(op.args) < 2 or not isinstance(op.args[1], Special) or isinstance(op.args[0], Special):
        return
    a, b = op.args[:2]
    if op.kind in COMMUTATIVE or op.kind in ("ld", "st"):
        op.args[:2] = [b, a]
    elif op.kind == "set":
        op.args[:2] = [b, a]
        op.relation = frozenset(_MIRROR[r] for r in op.relation)
    elif op.kind == "minmax" and len(op.relation & {"lt", "gt"}) == 1:
        op.args[:2] = [b, a]
