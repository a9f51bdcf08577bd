"""Loads, stores, atomics, address conversions and fences.

Memory is words. A narrow load takes the word and shifts; a narrow store becomes `narrow`, which changes some bits of a word in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.model import Addr, Instruction, Operand, Reg, Sink, Symbol, Vector
from .ir import GE, LT, MASK, Value
from .unit import Refused

if TYPE_CHECKING:
    from .translate import Translator

ORDERED = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})


def cvta(t: Translator, ins: Instruction) -> None:
    """Addresses of every state space are generic addresses already."""
    d, a = ins.operands
    t.write(d, *t.pair(a))


def isspacep(t: Translator, ins: Instruction) -> None:
    d, a = ins.operands
    address, m = t.low(a), t.unit.machine
    if ins.space == "shared":
        t.write(d, t.op("set", address, m.shared_base, relation=GE))
    elif ins.space == "global":
        t.write(d, t.op("set", address, m.shared_base, relation=LT))
    elif ins.space == "local":
        v = t.unit.variables
        t.write(d, t.op("set", t.op("sub", address, v.frames), v.frame_bytes * v.threads, relation=LT))
    else:
        raise Refused(f"{ins.name} is not supported")


def fence(t: Translator, ins: Instruction) -> None:
    """Memory fences: memory operations keep their order across them."""
    t.op("fence")


def _items(operand: Operand) -> list[Operand]:
    return list(operand.items) if isinstance(operand, Vector) else [operand]


def _space(t: Translator, ins: Instruction, address: Operand) -> str:
    """State space of an access, "" for a generic one; "param" only where the parameter is not in memory."""
    if isinstance(address, Addr) and isinstance(address.base, Symbol):
        name = address.base.name
        if any(p.name == name for p in t.unit.kernel.params):
            return "param"
        if name in t.unit.variables.at:
            return t.unit.variables.at[name][0]
        if name in t.unit.kernel.call_params:
            return "call"
    if ins.has("nc"):
        return "const"
    return ins.space or ""


def _ordered(t: Translator, ins: Instruction) -> bool:
    ordered = bool(ORDERED & {m.split(".")[0] for m in ins.modifiers})
    if ordered:
        t.op("fence")
    return ordered


def _bits(ins: Instruction) -> int:
    if ins.bits not in (8, 16, 32, 64):
        raise Refused(f"{ins.name}: {ins.bits}-bit elements are not supported")
    return ins.bits


# ---- loads ------------------------------------------------------------------------------------------------------------


def load(t: Translator, ins: Instruction) -> None:
    d, a = ins.operands
    bits, items, space = _bits(ins), _items(d), _space(t, ins, a)
    total = bits * len(items)
    signed = (ins.raw_type or "").startswith("s")
    if space == "call":
        words = _call_words(t, a, total)
    elif space == "param":
        address = t.address(a)
        words = [t.op("ldparam", t.op("add", address, 4 * k)) for k in range(-(-total // 32))]
    else:
        address = t.address(a)
        ordered = _ordered(t, ins)
        if total < 32:
            keep = ~(total // 8 - 1) & 3  # a misaligned address stays one
            word = t.load_word(t.op("and", address, MASK & ~keep), 0, space)
            words = [t.op("shr", word, t.op("shl", t.op("and", address, keep), 3))]
        else:
            words = [t.load_word(address, 4 * k, space) for k in range(total // 32)]
        if ordered:
            t.op("fence")
    _write_items(t, items, bits, signed, words)


def _call_words(t: Translator, a: Addr, total: int) -> list[Value]:
    """Words of a call parameter that lives in registers, starting at an offset."""
    first, shift = divmod(a.offset, 4)
    if total < 32:
        word = t.call_word(a.base.name, first)
        return [t.op("shr", word, 8 * shift) if shift else word]
    return [t.call_word(a.base.name, first + k) for k in range(total // 32)]


def _write_items(t: Translator, items: list[Operand], bits: int, signed: bool, words: list[Value]) -> None:
    """Elements of consecutive words into registers; narrow ones extend."""
    for k, item in enumerate(items):
        if isinstance(item, Sink):
            continue
        if bits == 64:
            t.write(item, words[2 * k], words[2 * k + 1])
            continue
        at, shift = divmod(k * bits, 32)
        value = words[at]
        if bits < 32:
            if signed:
                value = t.op("sar", t.op("shl", value, 32 - bits - shift), 32 - bits)
            else:
                value = t.op("and", t.op("shr", value, shift), (1 << bits) - 1)
        t.write(item, value, t.op("sar", value, 31) if signed and isinstance(item, Reg) and t.width(item.name) == 64 else 0)


# ---- stores -----------------------------------------------------------------------------------------------------------


def _packed(t: Translator, items: list[Operand], bits: int) -> list[Value]:
    """Elements as consecutive words, narrow ones joined."""
    if bits == 64:
        return [half for item in items for half in t.pair(item)]
    if bits == 32:
        return [t.low(item) for item in items]
    words: list[Value] = []
    for k, item in enumerate(items):
        at, shift = divmod(k * bits, 32)
        value = t.op("and", t.low(item), (1 << bits) - 1)
        value = t.op("shl", value, shift) if shift else value
        if at == len(words):
            words.append(value)
        else:
            words[at] = t.op("or", words[at], value)
    return words


def store(t: Translator, ins: Instruction) -> None:
    a, d = ins.operands
    bits, items, space = _bits(ins), _items(d), _space(t, ins, a)
    total = bits * len(items)
    if space in ("param", "const"):
        raise Refused("this memory cannot be written")
    words = _packed(t, items, bits)
    if space == "call":
        _store_call(t, a, total, words)
        return
    address = t.address(a)
    ordered = _ordered(t, ins)
    if total < 32:
        keep = ~(total // 8 - 1) & 3
        shift = t.op("shl", t.op("and", address, keep), 3)
        hole = t.op("xor", t.op("shl", (1 << total) - 1, shift), MASK)
        t.op("narrow", t.op("and", address, MASK & ~keep), hole, t.op("shl", words[0], shift)).space = space
    else:
        for k, word in enumerate(words):
            t.op("st", t.op("add", address, (4 * k) & MASK), 0, word).space = space
    if ordered:
        t.op("fence")


def _store_call(t: Translator, a: Addr, total: int, words: list[Value]) -> None:
    first, shift = divmod(a.offset, 4)
    name = a.base.name
    if total < 32:
        old = t.op("and", t.call_word(name, first), MASK & ~(((1 << total) - 1) << 8 * shift))
        t.set_call_word(name, first, t.op("or", old, t.op("shl", words[0], 8 * shift)))
        return
    for k, word in enumerate(words):
        t.set_call_word(name, first + k, word)


# ---- atomics ----------------------------------------------------------------------------------------------------------

ATOMICS = frozenset({"add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas"})


def atomic(t: Translator, ins: Instruction) -> None:
    """atom and red."""
    name = next((m for m in ins.modifiers if m in ATOMICS), None)
    if name is None or ins.bits not in (32, 64) or (ins.raw_type or "")[0] not in "bus":
        raise Refused(f"{ins.name}: atomics work on integers of 32 or 64 bits")
    operands = list(ins.operands)
    d = operands.pop(0) if ins.opcode == "atom" else Sink()
    address, value, *more = operands
    # cas has the value to compare with first, the new one after it.
    args = [t.low(more[0]), t.low(value)] if name == "cas" else [t.low(value), 0]
    space, signed = _space(t, ins, address), (ins.raw_type or "").startswith("s")
    if ins.bits == 64:
        pairs = [t.pair(more[0]), t.pair(value)] if name == "cas" else [t.pair(value), (0, 0)]
        op = t.op("atom64", t.address(address), *pairs[0], *pairs[1], signed=signed)
        high: Value = t.op("atomhi", op)
    else:
        op, high = t.op("atom", t.address(address), *args, signed=signed), 0
    op.atomic, op.space = name, space if space in ("global", "shared") else ""
    t.write(d, op, high)
