"""Refuse the kernel if anything in it cannot be lowered, listing every place at once."""

from __future__ import annotations

from ..ptx.opcodes import Unsupported, unsupported_error
MISSING = ("ldparam",)
from .unit import Unit

REASONS = {
    "div": "division is not supported, except by a constant power of 2",
    "rem": "remainders are not supported, except by a constant power of 2",
    "ldparam": "a parameter is read at an address that is not a constant of the launch",
}


def run(unit: Unit) -> None:
    """Raise UnsupportedError with every refused instruction (line, text, reason); return if there is none."""
    found = {(r.instruction.pos, r.reason): r for r in unit.refusals}
    for op in unit.function.ops():
        if op.kind in MISSING:
            ins = next(i for i in unit.kernel.instructions if i.pos.line == op.origin.ptx_line)
            found.setdefault((ins.pos, REASONS[op.kind]), Unsupported(ins, REASONS[op.kind]))
    if found:
        raise unsupported_error([found[key] for key in sorted(found)], unit.kernel.short_name)
