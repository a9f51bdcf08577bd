"""Basic blocks of a PTX body, still holding PTX instructions.

A guard stays on instructions whose result can be chosen afterwards; one that touches memory or other lanes is branched around.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import PtxError
from ..ptx.model import Guard, Instruction, Kernel, Label, Symbol

BRANCHED_AROUND = frozenset({"ld", "ldu", "st", "atom", "red", "shfl", "vote", "match", "redux", "activemask", "elect", "bar", "barrier",
                             "fence", "membar", "trap"})


@dataclass(eq=False)
class PtxBlock:
    """Instructions that run together. guard chooses taken; without one all lanes go to fall. None is the end."""

    label: str
    instructions: list[Instruction] = field(default_factory=list)
    guard: Guard | None = None
    taken: str | None = None
    fall: str | None = None
    end: Instruction | None = None


def _is_end(ins: Instruction) -> bool:
    return ins.opcode in ("ret", "exit")


def basic_blocks(kernel: Kernel) -> list[PtxBlock]:
    """The kernel's basic blocks in PTX order, the entry first. Raises PtxError for a branch to a label that is not there."""
    blocks: list[PtxBlock] = [PtxBlock("$entry")]
    fresh = 0

    def start(label: str) -> None:
        """Begin a block that the one before falls into."""
        blocks[-1].fall = label
        blocks.append(PtxBlock(label))

    def after(ins: Instruction) -> None:
        nonlocal fresh
        fresh += 1
        blocks.append(PtxBlock(f"$after{fresh}"))
        blocks[-2].end = ins

    for statement in kernel.body:
        if isinstance(statement, Label):
            start(statement.name)
            continue
        ins = statement
        here = blocks[-1]
        if ins.opcode == "bra" or _is_end(ins):
            target = None
            if ins.opcode == "bra":
                if not ins.operands or not isinstance(ins.operands[0], Symbol):
                    raise PtxError(f"bra needs a label: {ins.text}", where=ins.where)
                target = ins.operands[0].name
            after(ins)
            if ins.guard is None:
                here.fall = target
            else:
                here.guard, here.taken, here.fall = ins.guard, target, blocks[-1].label
        elif ins.guard is not None and ins.opcode in BRANCHED_AROUND:
            after(ins)
            do, skip = blocks[-1], f"$skip{fresh}"
            here.guard = Guard(ins.guard.reg, not ins.guard.negated)
            here.taken, here.fall = skip, do.label
            do.instructions.append(ins)
            start(skip)
        else:
            here.instructions.append(ins)
    known = {b.label for b in blocks}
    for b in blocks:
        for target in (b.taken, b.fall):
            if target is not None and target not in known:
                where = b.end.where if b.end else kernel.name
                raise PtxError(f"no label {target} in this kernel", where=where)
    return blocks
