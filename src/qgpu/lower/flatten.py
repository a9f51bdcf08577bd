"""One flat body for a kernel: device functions in place of their calls, comparisons in place of indexed branches.

A call's parameters stay variables of the caller (`call_params`); in the callee's copy its own parameter names become theirs. Every copy
has registers, labels and variables of its own, marked with its number.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..ptx.model import (Addr, ArgList, Function, Guard, Imm, Instruction, Kernel, Label, Module, Operand, Pair, Reg, Symbol,
                         Vector)
from ..ptx.opcodes import Unsupported

DEPTH = 64
"""Calls within calls beyond which the recursion cannot be meant to end."""

HEAP = frozenset({"malloc", "free"})


@dataclass
class _Names:
    """How names of one copy of a function are called in the flat body."""

    number: int
    renamed: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str:
        return self.renamed.get(name, name)

    def operand(self, o: Operand) -> Operand:
        match o:
            case Reg():
                return replace(o, name=self.of(o.name))
            case Symbol():
                return replace(o, name=self.of(o.name))
            case Addr() if o.base is not None:
                return replace(o, base=self.operand(o.base))
            case Vector() | ArgList():
                return replace(o, items=tuple(self.operand(i) for i in o.items))
            case Pair():
                return replace(o, first=self.operand(o.first), second=self.operand(o.second))
        return o

    def instruction(self, ins: Instruction) -> Instruction:
        guard = Guard(self.operand(ins.guard.reg), ins.guard.negated) if ins.guard is not None else None
        return replace(ins, operands=tuple(self.operand(o) for o in ins.operands), guard=guard)


def _why_no_call(callee: Operand | None) -> str:
    name = callee.name if isinstance(callee, Symbol) else ""
    if isinstance(callee, Reg):
        return "calls through pointers are not supported"
    if name == "vprintf":
        return "there is no printf: write results into an array"
    if name in HEAP or name.startswith(("_Zn", "_Zd")):  # operators new and delete
        return "there is no heap: use a local array or an argument"
    return "this function is not in the file"


class _Flattener:
    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module = module
        self.out = replace(kernel, body=[], regs=dict(kernel.regs), shared=dict(kernel.shared), locals=dict(kernel.locals),
                           consts=dict(kernel.consts), call_params=dict(kernel.call_params))
        self.copies = 0
        self.refusals: list[Unsupported] = []

    def refuse(self, ins: Instruction, reason: str) -> None:
        self.refusals.append(Unsupported(ins, reason))

    def put(self, function: Function, names: _Names, stack: tuple[str, ...], back: str | None) -> None:
        """Append a function's body. back: label to go to at `ret`; None in the kernel."""
        for statement in function.body:
            if isinstance(statement, Label):
                self.out.body.append(replace(statement, name=names.of(statement.name)))
                continue
            ins = names.instruction(statement)
            if ins.opcode == "call":
                self.call(ins, stack)
            elif ins.opcode == "brx":
                self.indexed(ins, [names.of(t) for t in function.branch_targets.get(statement.operands[1].name, ())])
            elif ins.opcode == "ret" and back is not None:
                self.out.body.append(replace(ins, opcode="bra", modifiers=(), operands=(Symbol(back),)))
            else:
                self.out.body.append(ins)

    def call(self, ins: Instruction, stack: tuple[str, ...]) -> None:
        at = next((k for k, o in enumerate(ins.operands) if not isinstance(o, ArgList)), None)
        callee = ins.operands[at] if at is not None else None
        function = self.module.functions.get(callee.name) if isinstance(callee, Symbol) else None
        if function is None or function.is_declaration:
            self.refuse(ins, _why_no_call(callee))
            return
        if function.name in stack or len(stack) > DEPTH:
            self.refuse(ins, f"{function.short_name} calls itself; recursion is not supported")
            return
        lists = [list(o.items) if isinstance(o, ArgList) else [] for o in (ins.operands[0] if at else None, *ins.operands[at + 1:at + 2])]
        given = dict(zip([p.name for p in function.returns], lists[0])) | dict(
            zip([p.name for p in function.params], lists[1] if len(lists) > 1 else []))
        if not all(isinstance(o, Symbol) for o in given.values()) or len(given) != len(function.returns) + len(function.params):
            self.refuse(ins, "the arguments do not fit the function's parameters")
            return
        self.copies += 1
        names = _Names(self.copies)
        for name, kind in function.regs.items():
            names.renamed[name] = f"{name}@{names.number}"
            self.out.regs[f"{name}@{names.number}"] = kind
        for label in [s.name for s in function.body if isinstance(s, Label)]:
            names.renamed[label] = f"{label}@{names.number}"
        for mine, theirs in ((function.locals, self.out.locals), (function.call_params, self.out.call_params)):
            for name, variable in mine.items():
                names.renamed[name] = f"{name}@{names.number}"
                theirs[f"{name}@{names.number}"] = replace(variable, name=f"{name}@{names.number}")
        self.out.shared |= function.shared
        self.out.consts |= function.consts
        names.renamed |= {mine: symbol.name for mine, symbol in given.items()}
        back = f"$return@{names.number}"
        self.around(ins, lambda: self.put(function, names, (*stack, function.name), back))
        self.out.body.append(Label(back, ins.pos))

    def around(self, ins: Instruction, body) -> None:
        """Run body, whose statements an instruction's guard skips."""
        if ins.guard is None:
            body()
            return
        self.copies += 1
        past = f"$past@{self.copies}"
        self.jump(ins, past, Guard(ins.guard.reg, not ins.guard.negated))
        body()
        self.out.body.append(Label(past, ins.pos))

    def jump(self, ins: Instruction, label: str, guard: Guard | None) -> None:
        self.out.body.append(replace(ins, opcode="bra", modifiers=(), operands=(Symbol(label),), guard=guard))

    def indexed(self, ins: Instruction, targets: list[str]) -> None:
        """brx.idx as one comparison for each target but the last."""
        if not targets:
            self.refuse(ins, "its list of labels is missing")
            return

        def compare() -> None:
            for k, label in enumerate(targets[:-1]):
                predicate = f"%brx@{self.copies}"
                self.copies += 1
                self.out.regs[predicate] = "pred"
                self.out.body.append(replace(ins, opcode="setp", modifiers=("eq", "u32"), guard=None,
                                             operands=(Reg(predicate), ins.operands[0], Imm(k))))
                self.jump(ins, label, Guard(Reg(predicate), False))
            self.jump(ins, targets[-1], None)
        self.around(ins, compare)


def flatten(module: Module, kernel: Kernel) -> tuple[Kernel, list[Unsupported]]:
    """The flat kernel, and the calls that cannot be replaced."""
    if not any(ins.opcode in ("call", "brx") for ins in kernel.instructions):
        return kernel, []
    f = _Flattener(module, kernel)
    f.put(kernel, _Names(0), (kernel.name,), None)
    return f.out, f.refusals


def addressed(kernel: Kernel) -> set[str]:
    """Call parameters whose address is taken: they must lie in memory."""
    out: set[str] = set()
    for ins in kernel.instructions:
        for o in ins.operands:
            if isinstance(o, Symbol) and o.name in kernel.call_params and ins.opcode != "call":
                out.add(o.name)
    return out
