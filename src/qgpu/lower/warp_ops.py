"""Votes, matches, reductions and barriers (PTX ISA 9.7.13).

`vote(p)` is the ballot of the lanes that run together: the lanes of the member mask, because all of them must be there. Shuffles are in
`shuffle`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.model import Imm, Instruction, Operand, Pair, Reg, Sink
from .ir import EQ, GT, LT, MASK, NE, TID, Value
from .shuffle import move
from .unit import Refused

if TYPE_CHECKING:
    from .translate import Translator


def need_warp(t: Translator, ins: Instruction) -> None:
    m = t.unit.machine
    if m.warp_size < 32 and t.unit.launch.threads > m.warp_size:
        raise Refused(f"a warp of machine {m.name!r} has {m.warp_size} lanes, and the thread block more threads than that")


def predicate(t: Translator, operand: Operand) -> Value:
    return t.low(operand) if not isinstance(operand, Imm) else int(operand.value != 0)


def vote(t: Translator, ins: Instruction) -> None:
    need_warp(t, ins)
    d, p, *mask = ins.operands
    mode = next((m for m in ins.modifiers if m in ("all", "any", "uni", "ballot")), "")
    value = predicate(t, p)
    if mode == "all":
        t.write(d, t.equal(t.op("vote", t.negated(value)), 0))
    elif mode == "any":
        t.write(d, t.op("set", t.op("vote", value), 0, relation=NE))
    elif mode == "uni":
        t.write(d, t.op("or", t.equal(t.op("vote", t.negated(value)), 0), t.equal(t.op("vote", value), 0)))
    elif mode == "ballot":
        ballot = t.op("vote", value)
        t.write(d, t.op("and", ballot, t.low(mask[0])) if mask else ballot)
    else:
        raise Refused(f"{ins.name} is not supported")


def activemask(t: Translator, ins: Instruction) -> None:
    need_warp(t, ins)
    t.write(ins.operands[0], t.op("vote", 1))


def elect(t: Translator, ins: Instruction) -> None:
    """The lowest lane of the mask: its number, and whether this is it."""
    need_warp(t, ins)
    d = ins.operands[0]
    lanes = t.op("vote", 1)
    leader = t.op("sub", 31, t.op("clz", t.op("and", lanes, t.op("sub", 0, lanes))))
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    t.write(first, leader)
    if isinstance(second, Reg):
        t.write(second, t.equal(t.lane(), leader))


def redux(t: Translator, ins: Instruction) -> None:
    """Over a whole warp by five exchanges; lanes that are not in the mask count as the neutral element."""
    need_warp(t, ins)
    m = t.unit.machine
    name = next((n for n in ins.modifiers if n in ("add", "min", "max", "and", "or", "xor")), "")
    d, a, mask = ins.operands
    signed = (ins.raw_type or "").startswith("s")
    neutral = {"and": MASK, "min": 0x7FFFFFFF if signed else MASK, "max": 0x80000000 if signed else 0}.get(name, 0)
    t.op("fence")
    base = t.unit.variables.scratch("shuffle", 32)
    value = t.low(a)
    if m.groups > 1:
        # Words of lanes that are not there must be neutral: every lane clears those of the lanes that do not run, one after the other.
        lanes = t.op("and", t.op("vote", 1), t.low(mask))
        total: Value = neutral
        t.store_scratch(t.op("add", t.op("shl", t.lane(), 2), base), value)
        for k in range(m.warp_size):
            word = t.load_word(base + 4 * k, 0, "scratch")
            total = _combine(t, name, signed, total, t.op("sel", word, neutral, t.op("shr", lanes, k)))
        t.write(d, total)
        return
    lanes = t.op("and", t.op("vote", 1), t.low(mask))
    total = neutral
    for k in range(m.lanes):
        total = _combine(t, name, signed, total, t.op("sel", t.op("shfl", value, pattern=(k,) * m.lanes), neutral, t.op("shr", lanes, k)))
    t.write(d, total)


def _combine(t: Translator, name: str, signed: bool, a: Value, b: Value) -> Value:
    if name in ("min", "max"):
        return t.op("minmax", a, b, relation=LT if name == "min" else GT, signed=signed)
    return t.op(name, a, b)


def match(t: Translator, ins: Instruction) -> None:
    """match.any and match.all of 32-bit values: which lanes have the same value."""
    need_warp(t, ins)
    if ins.bits != 32:
        raise Refused(f"{ins.name}: only 32-bit values are supported")
    d, a, mask = ins.operands
    value = t.low(a)
    if ins.has("all"):
        lanes = t.op("and", t.op("vote", 1), t.low(mask))
        leader = t.op("sub", 31, t.op("clz", t.op("and", lanes, t.op("sub", 0, lanes))))
        same = t.equal(t.op("vote", t.op("set", value, move(t, value, leader), relation=NE)), 0)
        first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
        t.write(first, t.op("sel", lanes, 0, same))
        if isinstance(second, Reg):
            t.write(second, same)
        return
    lanes = t.op("and", t.op("vote", 1), t.low(mask))
    result: Value = lanes
    for bit in range(32):
        digit = t.op("and", t.op("shr", value, bit), 1)
        ballot = t.op("vote", digit)
        result = t.op("and", result, t.op("sel", ballot, t.op("xor", ballot, MASK), digit))
    t.write(d, result)


def barrier(t: Translator, ins: Instruction) -> None:
    """bar.sync, bar.red and their kin for the whole thread block; bar.warp.sync, which only orders memory operations."""
    if ins.has("warp"):
        t.op("fence")
        return
    if ins.has("arrive"):
        raise Refused("barriers without waiting are not supported")
    operands = list(ins.operands)
    d = operands.pop(0) if ins.has("red") else None
    p = operands.pop() if ins.has("red") else None
    number = t.low(operands[0]) if operands else 0
    count = t.low(operands[1]) if len(operands) > 1 else None
    threads = t.unit.launch.threads
    if number != 0 or count is not None and (not isinstance(count, int) or -(-count // 32) != -(-threads // 32)):
        raise Refused("only barrier 0, for all threads of the thread block, is supported")
    if d is None:
        t.op("bar")
    else:
        _reduce(t, ins, d, predicate(t, p))


def _reduce(t: Translator, ins: Instruction, d: Operand, p: Value) -> None:
    """Each warp leaves its count in a word of its own, which it clears in the end; the barrier lies between."""
    m = t.unit.machine
    base = t.unit.variables.scratch("reduce", m.warps)
    ballot = t.op("vote", t.negated(p) if ins.has("and") else p)
    own = t.op("add", t.op("shl", t.op("shr", TID, m.warp_size.bit_length() - 1), 2), base)
    t.store_scratch(own, t.op("popc", ballot), "reduce")
    t.op("bar")
    total: Value = 0
    for k in range(-(-t.unit.launch.threads // m.warp_size)):
        total = t.op("add", total, t.load_word(base + 4 * k, 0, "reduce"))
    t.op("bar")
    t.store_scratch(own, 0, "reduce")
    if ins.has("and"):
        total = t.op("set", total, 0, relation=EQ)
    elif ins.has("or"):
        total = t.op("set", total, 0, relation=NE)
    t.write(d, total)
