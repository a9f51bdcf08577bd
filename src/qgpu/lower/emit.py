"""Machine blocks out of packed basic blocks: numbers, targets, registers, operand sources."""

from __future__ import annotations

from ..errors import LoweringError
from ..machine import encoding as enc
from ..machine.description import Machine
from . import allocate
from .ir import MASK, Block, Op, Special, Value
from .leave_ssa import Classes
from .legalise import copy_of
from .packing import Packed

LINES = {"add": ("add",), "sub": ("sub",), "xor": ("xor",), "and": ("and",), "or": ("xor", "and"), "mul": ("mul",),
         "shl": ("shl",), "shr": ("shr",), "sar": ("sar",), "sel": ("sel",), "ld": ("add", "ld"), "st": ("add", "st"),
         "shfl": ("shfl",), "popc": ("popc",), "clz": ("clz",), "brev": ("brev",), "mulhi": ("mulhi",), "ballot": ("add",),
         "set": ("set",), "minmax": ("minmax",)}


class TooManyBlocks(LoweringError):
    """The program ROM does not hold the kernel. needed: how many blocks it takes."""

    def __init__(self, machine: Machine, kernel: str, needed: int) -> None:
        self.needed = needed
        super().__init__(f"kernel {kernel} needs {needed} blocks", fix="make the kernel smaller, or use a machine with more blocks",
                         why=f"machine {machine.name!r} holds {machine.blocks} blocks of up to {machine.stages} instructions")


class PortClash(Exception):
    """Instructions that would read two registers of one class. reads: (operation, number of the operand) to copy first."""

    def __init__(self, reads: list[tuple[Op, int]]) -> None:
        self.reads = reads


def run(machine: Machine, kernel: str, layout: list[Block], packed: dict[Block, list[Packed]], classes: Classes) -> list[enc.Block]:
    """The program. Raises LoweringError where it needs more blocks or registers than there are, PortClash where registers of
    the same class meet in an instruction and no stage is free to copy one."""
    first: dict[Block, int] = {}
    chain: list[tuple[Block, int]] = []
    if not packed[layout[0]] and _needs_entry(layout, packed):
        packed[layout[0]] = [Packed([])]
    for block in layout:
        if block.barrier and not packed[block]:
            packed[block] = [Packed([])]
        if packed[block]:
            first[block] = len(chain)
        chain += [(block, k) for k in range(len(packed[block]))]
    if len(chain) > machine.blocks:
        raise TooManyBlocks(machine, kernel, len(chain))

    def number(target: Block | None) -> int:
        seen: set[Block] = set()
        while target is not None and not packed[target]:
            if target in seen:
                raise LoweringError("the kernel has an endless loop that does nothing", where=str(target.origin) or kernel)
            seen.add(target)
            target = target.fall
        return machine.exit_target if target is None else first[target]

    nodes = [allocate.Node(packed[block][k]) for block, k in chain]
    targets: list[tuple[int, int, bool]] = []
    for at, (block, k) in enumerate(chain):
        if k + 1 < len(packed[block]):
            targets.append((at + 1, 0, False))
        elif not block.branches:
            targets.append((number(block.fall), 0, False))
        else:
            targets.append((number(block.fall), number(block.taken), True))
        fall, taken, branch = targets[-1]
        nodes[at].successors = [nodes[t] for t in ({fall, taken} if branch else {fall}) if t != machine.exit_target]
    registers = allocate.run(machine, nodes, classes, kernel)
    if machine.register_classes:
        _mend(machine, nodes, classes, registers)
    out = []
    for (block, k), node, (fall, taken, branch) in zip(chain, nodes, targets):
        stages = tuple(_instruction(machine, node.packed, s, op, classes, registers) if op else None
                       for s, op in enumerate(node.packed.stages, 1))
        dest = tuple(registers[classes.of(op)] if op in node.packed.live else 0 for op in node.packed.stages)
        label, last = block.label if k == 0 else "", k + 1 == len(packed[block])
        votes = block.votes and last
        out.append(enc.Block(stages, dest, fall, fall if votes else taken, branch, label, block.barrier and last, votes, votes))
    if not out:
        out.append(enc.Block((), (), machine.exit_target))
    for k, b in enumerate(out):
        enc.check_block(machine, b, f"block {k} of {kernel}")
    return out


def _mend(machine: Machine, nodes: list[allocate.Node], classes: Classes, registers: dict[Op, int]) -> None:
    """Copy one of two registers of the same class in an earlier, empty stage of the same machine block."""
    clashes: list[tuple[Op, int]] = []
    for node in nodes:
        stages = node.packed.stages
        for s, op in enumerate(stages):
            ports: dict[int, int] = {}
            for k, a in enumerate(op.args if op is not None else []):
                if not isinstance(a, Op) or a in stages[:s]:
                    continue
                number = registers[classes.of(a)]
                if ports.setdefault(number % machine.register_classes, number) == number:
                    continue
                empty = next((e for e in range(s) if stages[e] is None), None)
                if empty is None:
                    clashes.append((op, k))
                else:
                    stages[empty] = copy_of(a, op)
                    op.args[k] = stages[empty]
    if clashes:
        raise PortClash(clashes)


def _needs_entry(layout: list[Block], packed: dict[Block, list[Packed]]) -> bool:
    """Whether an empty entry does not simply lead to the first block that is not empty."""
    target: Block | None = layout[0]
    seen: set[Block] = set()
    while target is not None and not packed[target]:
        if target in seen:
            return True
        seen.add(target)
        target = target.fall
    nonempty = [b for b in layout if packed[b]]
    return bool(nonempty) and target is not nonempty[0]


def _instruction(machine: Machine, packed: Packed, stage: int, op: Op, classes: Classes, registers: dict[Op, int]) -> enc.Instruction:
    immediate = 0

    def source(v: Value) -> enc.Operand:
        nonlocal immediate
        if isinstance(v, Special):
            return enc.Source(v.value)
        if isinstance(v, int):
            if v == 0:
                return enc.Source.ZERO
            immediate = v & MASK
            return enc.Source.IMMEDIATE
        at = packed.stage_of(v)
        return enc.Result(at) if at is not None and at < stage else enc.Register(registers[classes.of(v)])
    lines, args = LINES[op.kind], [Special.BALLOT] if op.kind == "ballot" else list(op.args)
    if op.kind == "shl" and not machine.has(stage, "shl"):
        lines, args[1] = ("mul",), 1 << args[1]
    if op.kind in ("set", "minmax"):
        lines += tuple(op.relation) + (("signed",) if op.signed else ())
    operands = [source(a) for a in args]
    if op.kind == "shfl":
        immediate = enc.shuffle_pattern(machine, list(op.pattern))
    return enc.Instruction(frozenset(lines), *operands, immediate=immediate, origin=op.origin)
