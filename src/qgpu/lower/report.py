"""Refuse the kernel if anything in it cannot be lowered, listing every place at once."""

from __future__ import annotations

from ..errors import UnsupportedError
from .ir import MISSING, Op
from .unit import Refusal, Unit

REASONS = {
    "div": "division is not supported, except by a constant power of 2",
    "rem": "remainders are not supported, except by a constant power of 2",
    "ldparam": "a parameter is read at an address that is not a constant of the launch",
}


def run(unit: Unit) -> None:
    """Raise UnsupportedError with every refused instruction (line, text, reason); return if there is none."""
    refusals = list(unit.refusals)
    for op in unit.function.ops():
        if op.kind in MISSING:
            refusals.append(_of_op(unit, op))
    if not refusals:
        return
    lines: dict[str, None] = {}
    for r in sorted(refusals, key=lambda r: r.ins.pos.line if r.ins else r.line):
        where = r.ins.where if r.ins else r.where
        text = f"{r.ins.text}: " if r.ins and r.ins.text else ""
        lines[f"{where}: {text}{r.reason}"] = None
    n = len(lines)
    raise UnsupportedError(f"{n} place{'s' if n > 1 else ''} in kernel {unit.kernel.short_name} that this machine cannot run\n"
                           + "\n".join("  " + line for line in lines))


def _of_op(unit: Unit, op: Op) -> Refusal:
    for ins in unit.kernel.instructions:
        if ins.pos.line == op.origin.ptx_line:
            return Refusal(ins, REASONS[op.kind])
    return Refusal(None, REASONS[op.kind], str(op.origin), op.origin.ptx_line)
