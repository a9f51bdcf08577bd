"""Refuse the kernel if anything in it cannot be lowered, listing every place at once."""

from __future__ import annotations

from ..ptx.opcodes import unsupported_error
from .unit import Unit


def run(unit: Unit) -> None:
    """Raise UnsupportedError with every refused instruction (line, text, reason); return if there is none."""
    found = {(r.instruction.pos, r.reason): r for r in unit.refusals}
    if found:
        raise unsupported_error([found[key] for key in sorted(found)], unit.kernel.short_name)
