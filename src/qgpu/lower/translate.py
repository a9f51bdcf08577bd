"""PTX instructions to 32-bit operations in static single assignment.

A 64-bit register is two values, low and high; where nothing reads a high half, as in address arithmetic, it disappears
later as dead code. A predicate is 0 or 1. A register of 16 bits holds whatever above bit 15; readers that care extend it.
Guarded instructions compute and then choose between the new value and the register's old one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.encoding import Origin
from ..ptx.mangling import demangle
from ..ptx.model import TYPE_BYTES, Addr, Imm, Instruction, Operand, Reg, Sink, Special, Symbol
from ..ptx.opcodes import Unsupported, judge
from . import cfg
from .ir import CTA, EQ, LT, MASK, TID, Block, Function, Op, Value, reverse_postorder
from .operations import HANDLERS
from .ssa import Registers
from .unit import Refused, Unit


@dataclass
class Translator:
    """What a handler of `operations` sees: reading and writing registers, making operations, the instruction at hand."""

    unit: Unit
    registers: Registers
    block: Block
    ins: Instruction

    # ---- making operations ----------------------------------------------------------------------------------------
    def op(self, kind: str, *args: Value, relation: frozenset[str] = frozenset(), signed: bool = False,
           pattern: tuple[int, ...] = ()) -> Op:
        op = Op(kind, list(args), relation, signed, pattern, origin_of(self.ins))
        self.block.ops.append(op)
        return op

    def less(self, a: Value, b: Value, signed: bool = False) -> Op:
        return self.op("set", a, b, relation=LT, signed=signed)

    def equal(self, a: Value, b: Value) -> Op:
        return self.op("set", a, b, relation=EQ)

    def negated(self, predicate: Value) -> Value:
        return self.op("xor", predicate, 1)

    # ---- reading --------------------------------------------------------------------------------------------------
    def width(self, register: str) -> int:
        """Declared bits of a register: 1 for a predicate."""
        kind = self.unit.kernel.regs.get(register)
        if kind is None:
            raise Refused(f"register {register} is not declared")
        return 8 * TYPE_BYTES[kind] or 1

    def low(self, operand: Operand) -> Value:
        """Bits 0..31 of an operand."""
        match operand:
            case Reg(name, negated):
                if self.width(name) > 64:
                    raise Refused(f"{name} has more than 64 bits")
                value = self.registers.read(self.block, name)
                return self.negated(value) if negated else value
            case Imm(value, kind):
                if kind == "f64":
                    raise Refused("floating-point numbers are not supported")
                return value & MASK
            case Special(name):
                return self.special(name)
            case Symbol(name, offset):
                return self.symbol(name, offset)
        raise Refused(f"operand {operand} is not supported here")

    def high(self, operand: Operand) -> Value:
        """Bits 32..63 of a 64-bit operand."""
        match operand:
            case Reg(name):
                if self.width(name) != 64:
                    return 0
                return self.registers.read(self.block, name + ".hi")
            case Imm(value):
                return (value >> 32) & MASK
        return 0

    def pair(self, operand: Operand) -> tuple[Value, Value]:
        return self.low(operand), self.high(operand)

    def extended(self, operand: Operand, bits: int, signed: bool) -> Value:
        """An operand's low `bits` (at most 32) as a whole 32-bit number."""
        value = self.low(operand)
        if bits >= 32:
            return value
        if signed:
            return self.op("sar", self.op("shl", value, 32 - bits), 32 - bits)
        return self.op("and", value, (1 << bits) - 1)

    def address(self, operand: Operand) -> Value:
        """The byte address that `[base+offset]` names, without its high half."""
        if not isinstance(operand, Addr):
            raise Refused("an address was expected")
        if operand.base is None:
            return operand.offset & MASK
        base = self.low(operand.base)
        return self.op("add", base, operand.offset & MASK) if operand.offset else base

    def symbol(self, name: str, offset: int) -> Value:
        """The address of a variable; of a parameter, its place in the parameter space."""
        variables = self.unit.variables
        for p in self.unit.kernel.params:
            if p.name == name:
                return (p.offset + offset) & MASK
        if name in self.unit.module.functions:
            raise Refused(f"it takes the address of function {demangle(name)}: function pointers and virtual functions are not supported")
        if name not in variables.at:
            raise Refused(f"{name} is not a variable that the kernel can use")
        space, address = variables.at[name]
        if space == "local":
            frame = self.op("add", self.op("mul", TID, variables.frame_bytes, 0), variables.frames)
            return self.op("add", frame, (address + offset) & MASK)
        return (address + offset) & MASK

    def load_word(self, address: Value, offset: int, space: str) -> Op:
        op = self.op("ld", self.op("add", address, offset) if offset else address, 0)
        op.space = space
        return op

    def lane(self) -> Value:
        """The thread's lane in its warp."""
        return self.op("and", TID, self.unit.machine.warp_size - 1)

    def store_scratch(self, address: Value, value: Value, space: str = "scratch") -> None:
        self.op("st", address, 0, value).space = space

    def call_word(self, name: str, number: int) -> Value:
        """A word of a call's parameter, which lives in registers."""
        return self.registers.read(self.block, f"{name}[{number}]")

    def set_call_word(self, name: str, number: int, value: Value) -> None:
        self.set_register(f"{name}[{number}]", value)

    def special(self, name: str) -> Value:
        m, launch = self.unit.machine, self.unit.launch
        fixed = {"WARP_SZ": 32, "%smid": 0, "%nsmid": 1, "%gridid": 0}
        for k, axis in enumerate("xyz"):
            fixed["%ntid." + axis] = launch.block[k]
            fixed["%nctaid." + axis] = launch.grid[k]
            if launch.grid[k] == 1:
                fixed["%ctaid." + axis] = 0
        small = m.warp_size < 32 and launch.threads > m.warp_size
        if small and (name in ("%laneid", "%warpid", "WARP_SZ") or name.startswith("%lanemask_")):
            raise Refused(f"a warp of machine {m.name!r} has {m.warp_size} lanes, and the thread block more threads than that")
        if name in fixed:
            return fixed[name]
        if name in ("%ctaid.x", "%ctaid.y", "%ctaid.z"):
            return CTA["xyz".index(name[-1])]
        if name.startswith("%tid."):
            return self._tid("xyz".index(name[-1]))
        if name in ("%dynamic_smem_size", "%total_smem_size"):
            return launch.shared_bytes if name.startswith("%dynamic") else self.unit.variables.shared_bytes
        warp_bits = m.warp_size.bit_length() - 1
        if name == "%warpid":
            return self.op("shr", TID, warp_bits)
        if name == "%nwarpid":
            return m.warps
        lane = self.lane()
        if name == "%laneid":
            return lane
        if name.startswith("%lanemask_"):
            one = self.op("shl", 1, lane)
            below = self.op("sub", one, 1)
            match name[len("%lanemask_"):]:
                case "eq":
                    return one
                case "lt":
                    return below
                case "le":
                    return self.op("or", below, one)
                case "ge":
                    return self.op("xor", below, (1 << m.warp_size) - 1)
                case "gt":
                    return self.op("xor", self.op("or", below, one), (1 << m.warp_size) - 1)
        raise Refused(f"special register {name} is not supported")

    def _tid(self, axis: int) -> Value:
        """The thread's index along an axis: x runs fastest."""
        shape = self.unit.launch.block
        below = 1
        for size in shape[:axis]:
            below *= size
        if shape[axis] == 1:
            return 0
        index = TID if below == 1 else self.op("div", TID, below)
        above = self.unit.launch.threads // (below * shape[axis])
        return index if above == 1 else self.op("rem", index, shape[axis])

    # ---- writing --------------------------------------------------------------------------------------------------
    def write(self, operand: Operand, low: Value, high: Value = 0) -> None:
        """Set a destination register, under the instruction's guard."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Reg):
            raise Refused("a register was expected as destination")
        self.set_register(operand.name, low)
        if self.width(operand.name) == 64:
            self.set_register(operand.name + ".hi", high)

    def set_register(self, register: str, value: Value) -> None:
        """Set a register of any name, under the instruction's guard."""
        guard = self.ins.guard
        if guard is not None and self.ins.opcode not in cfg.BRANCHED_AROUND:
            old = self.registers.read(self.block, register)
            yes, no = (old, value) if guard.negated else (value, old)
            value = self.op("sel", yes, no, self.low(Reg(guard.reg.name)))
        if isinstance(value, Op) and not value.name:
            value.name = register
        self.registers.write(self.block, register, value)


def origin_of(ins: Instruction) -> Origin:
    return Origin(ins.pos.line, *(ins.cu_line or ("", 0)))


def run(unit: Unit) -> None:
    """Fill `unit.function` from the kernel's body; what cannot be lowered is collected in `unit.refusals`."""
    unknown = [Unsupported(ins, reason) for ins in unit.kernel.instructions if (reason := judge(ins)) is not None]
    unit.refusals += unknown
    skipped = {id(u.instruction) for u in unknown}
    ptx_blocks = cfg.basic_blocks(unit.kernel)
    blocks = _linked(ptx_blocks)
    unit.function = Function(unit.kernel.name, list(blocks.values()))
    order = reverse_postorder(unit.function.blocks[0])
    reached = set(order)
    for block in order:
        block.predecessors = [p for p in block.predecessors if p in reached]
    unit.function.blocks = [b for b in unit.function.blocks if b in reached]
    registers = Registers()
    source = {blocks[p.label]: p for p in ptx_blocks}
    for block in order:
        for ins in source[block].instructions:
            if id(ins) not in skipped:
                _translate(Translator(unit, registers, block, ins))
        if block.condition is not None:
            _condition(unit, registers, block, source[block])
        registers.filled.add(block)
    registers.finish()


def _linked(ptx_blocks: list[cfg.PtxBlock]) -> dict[str, Block]:
    """Empty blocks with their edges, by label. A condition that is still to be found is 0."""
    blocks = {p.label: Block(p.label) for p in ptx_blocks}
    for p in ptx_blocks:
        block = blocks[p.label]
        block.fall = blocks[p.fall] if p.fall else None
        if p.guard is not None and p.taken != p.fall:
            block.taken = blocks[p.taken] if p.taken else None
            block.condition = 0
        for s in block.successors():
            s.predecessors.append(block)
        if p.end is not None:
            block.origin = origin_of(p.end)
    return blocks


def _translate(t: Translator) -> None:
    handler = HANDLERS.get(t.ins.opcode)
    try:
        if handler is None:
            raise Refused(f"{t.ins.opcode} is not supported")
        handler(t, t.ins)
    except Refused as r:
        t.unit.refusals.append(Unsupported(t.ins, str(r)))


def _condition(unit: Unit, registers: Registers, block: Block, p: cfg.PtxBlock) -> None:
    """What the guard at a block's end reads; a negated guard swaps the two ways."""
    try:
        block.condition = Translator(unit, registers, block, p.end).low(Reg(p.guard.reg.name))
    except Refused as r:
        unit.refusals.append(Unsupported(p.end, str(r)))
    if p.guard.negated:
        block.taken, block.fall = block.fall, block.taken
