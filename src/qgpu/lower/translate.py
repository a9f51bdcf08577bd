"""PTX instructions to 32-bit operations in static single assignment.

A 64-bit register is two values, low and high; where nothing reads a high half, as in address arithmetic, it disappears
later as dead code. A predicate is 0 or 1. A register of 16 bits holds whatever above bit 15; readers that care extend it.
Guarded instructions compute and then choose between the new value and the register's old one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.encoding import Origin
from ..ptx.model import TYPE_BYTES, Addr, Imm, Instruction, Operand, Reg, Sink, Special, Symbol
from . import cfg
from .ir import EQ, LT, MASK, TID, Block, Function, Op, Value
from .ssa import Registers
from .unit import Refusal, Unit


class Refused(Exception):
    """Raised by a handler: this instruction cannot be lowered, for this reason."""


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
                for p in self.unit.kernel.params:
                    if p.name == name:
                        return (p.offset + offset) & MASK
                raise Refused(f"{name} is not a parameter of the kernel; variables in memory are not supported yet")
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

    def special(self, name: str) -> Value:
        m, launch = self.unit.machine, self.unit.launch
        fixed = {"%tid.y": 0, "%tid.z": 0, "%ctaid.x": 0, "%ctaid.y": 0, "%ctaid.z": 0, "WARP_SZ": m.lanes}
        for k, axis in enumerate("xyz"):
            fixed["%ntid." + axis] = launch.block[k]
            fixed["%nctaid." + axis] = launch.grid[k]
        if name in fixed:
            return fixed[name]
        if name == "%tid.x":
            return TID
        if name == "%warpid":
            return self.op("shr", TID, m.lane_bits)
        if name == "%nwarpid":
            return m.warps
        lane = self.op("and", TID, m.lanes - 1)
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
                    return self.op("xor", below, (1 << m.lanes) - 1)
                case "gt":
                    return self.op("xor", self.op("or", below, one), (1 << m.lanes) - 1)
        raise Refused(f"special register {name} is not supported")

    # ---- writing --------------------------------------------------------------------------------------------------
    def write(self, operand: Operand, low: Value, high: Value = 0) -> None:
        """Set a destination register, under the instruction's guard."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Reg):
            raise Refused("a register was expected as destination")
        self._write(operand.name, low)
        if self.width(operand.name) == 64:
            self._write(operand.name + ".hi", high)

    def _write(self, register: str, value: Value) -> None:
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
    """Fill `unit.function` from the kernel's body; refusals are collected in `unit.refusals`."""
    from .operations import HANDLERS
    ptx_blocks = cfg.basic_blocks(unit.kernel)
    by_label = {b.label: Block(b.label) for b in ptx_blocks}
    function = Function(unit.kernel.name, [by_label[b.label] for b in ptx_blocks])
    for p in ptx_blocks:
        block = by_label[p.label]
        block.fall = by_label[p.fall] if p.fall else None
        if p.guard is not None and p.taken != p.fall:
            block.taken = by_label[p.taken] if p.taken else None
            block.condition = 0  # found below
        for s in block.successors():
            s.predecessors.append(block)
        block.origin = origin_of(p.end) if p.end else block.origin
    entry = function.blocks[0]
    if entry.predecessors:
        raise AssertionError("the entry block has no label, so nothing branches to it")
    from .ir import reverse_postorder
    order = reverse_postorder(entry)
    reached = set(order)
    for block in order:
        block.predecessors = [p for p in block.predecessors if p in reached]
    registers = Registers()
    source = {by_label[p.label]: p for p in ptx_blocks}
    for block in order:
        p = source[block]
        for ins in p.instructions:
            t = Translator(unit, registers, block, ins)
            handler = HANDLERS.get(ins.opcode)
            try:
                if handler is None:
                    raise Refused(f"{ins.opcode} is not supported")
                handler(t, ins)
            except Refused as r:
                unit.refusals.append(Refusal(ins, str(r)))
        if block.condition is not None:
            t = Translator(unit, registers, block, p.end or p.instructions[-1] if p.instructions else p.end)
            block.condition = t.low(Reg(p.guard.reg.name))
            if p.guard.negated:
                block.taken, block.fall = block.fall, block.taken
        registers.filled.add(block)
    registers.finish()
    # A condition's swap leaves the predecessors as they are: they have no order of their own.
    function.blocks = [b for b in function.blocks if b in reached]
    unit.function = function
