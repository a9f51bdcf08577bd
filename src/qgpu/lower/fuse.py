"""Use what one instruction can do: multiply-add, and the sum in an address."""

from __future__ import annotations

from .ir import Op, substitute, use_counts
from .simplify import drop_dead
from .unit import Unit


def run(unit: Unit) -> None:
    function = unit.function
    for _ in range(8):
        counts = use_counts(function)
        replaced: dict[Op, Op] = {}
        for block in function.blocks:
            for op in block.ops:
                if op.kind in ("ld", "st"):
                    _address(op, counts)
                elif op.kind == "add":
                    fused = _multiply_add(op, counts)
                    if fused is not None:
                        block.ops[block.ops.index(op)] = fused
                        replaced[op] = fused
        if not replaced:
            break
        substitute(function, replaced)
    drop_dead(function)


def _address(op: Op, counts: dict[Op, int]) -> None:
    """ld [x + 0] with x = y + c becomes ld [y + c]; any sum does if the address is its only use."""
    a, b = op.args[:2]
    if b == 0 and isinstance(a, Op) and a.kind == "add" and (isinstance(a.args[1], int) or counts.get(a) == 1):
        op.args[0], op.args[1] = a.args


def _multiply_add(op: Op, counts: dict[Op, int]) -> Op | None:
    """x*y + z as one instruction, where the product has no other use. Shifts count as products."""
    for first, second in (op.args, op.args[::-1]):
        if not isinstance(first, Op) or counts.get(first) != 1 or isinstance(second, int):
            continue
        if first.kind == "mul" and first.args[2] == 0:
            factors = first.args[:2]
        elif first.kind == "shl" and isinstance(first.args[1], int):
            factors = [first.args[0], 1 << first.args[1]]
        else:
            continue
        return Op("mul", [*factors, second], origin=op.origin, name=op.name)
    return None
