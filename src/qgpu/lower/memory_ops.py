"""Loads, stores, address conversions and fences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.model import Addr, Instruction, Operand, Reg, Sink, Symbol, Vector
from .ir import MASK, Value
from .unit import Refused

if TYPE_CHECKING:
    from .translate import Translator

ORDERED = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})


def cvta(t: Translator, ins: Instruction) -> None:
    """Generic addresses are global addresses, because there is no other memory yet."""
    if ins.space != "global":
        raise Refused(f"{ins.space} memory is not supported")
    d, a = ins.operands
    t.write(d, *t.pair(a))


def fence(t: Translator, ins: Instruction) -> None:
    """Memory fences, and barriers of the warp's lanes; barriers of the thread block are refused."""
    if ins.opcode in ("bar", "barrier") and not ins.has("warp"):
        raise Refused("barriers of the thread block are not supported")
    t.op("fence")


def _items(operand: Operand) -> list[Operand]:
    return list(operand.items) if isinstance(operand, Vector) else [operand]


def _space(t: Translator, ins: Instruction, address: Operand) -> str:
    space = ins.space or "global"
    if isinstance(address, Addr) and isinstance(address.base, Symbol):
        if any(p.name == address.base.name for p in t.unit.kernel.params):
            space = "param"
    if space not in ("global", "param"):
        raise Refused(f"{space} memory is not supported")
    return space


def _element_bits(ins: Instruction, widths: tuple[int, ...]) -> int:
    if ins.bits not in widths:
        raise Refused(f"{ins.name}: memory is read and written in words of 32 bits; {ins.bits}-bit elements are not supported")
    return ins.bits


def load(t: Translator, ins: Instruction) -> None:
    d, a = ins.operands
    if _space(t, ins, a) == "param":
        _load_parameter(t, ins, d, a)
        return
    bits = _element_bits(ins, (32, 64))
    address = t.address(a)
    ordered = bool(ORDERED & {m.split(".")[0] for m in ins.modifiers})
    if ordered:
        t.op("fence")
    words = [_load_word(t, address, 4 * k) for k in range(len(_items(d)) * bits // 32)]
    if ordered:
        t.op("fence")
    _write_words(t, _items(d), bits, words)


def _load_word(t: Translator, address: Value, offset: int) -> Value:
    return t.op("ld", t.op("add", address, offset), 0)


def _write_words(t: Translator, items: list[Operand], bits: int, words: list[Value]) -> None:
    for k, item in enumerate(items):
        if bits == 64:
            t.write(item, words[2 * k], words[2 * k + 1])
        else:
            t.write(item, words[k])


def _load_parameter(t: Translator, ins: Instruction, d: Operand, a: Operand) -> None:
    """Parameters are constants of the launch; narrow ones extend into the register."""
    bits = _element_bits(ins, (8, 16, 32, 64))
    address = t.address(a)
    signed = (ins.raw_type or "").startswith("s")
    for k, item in enumerate(_items(d)):
        at = t.op("add", address, k * bits // 8)
        if bits == 64:
            t.write(item, t.op("ldparam", at), t.op("ldparam", t.op("add", at, 4)))
            continue
        value: Value = t.op("ldparam", at)
        if bits < 32:
            value = t.op("shl", value, 32 - bits)
            value = t.op("sar" if signed else "shr", value, 32 - bits)
        if isinstance(item, Reg) and t.width(item.name) == 64:
            t.write(item, value, t.op("sar", value, 31) if signed else 0)
        elif not isinstance(item, Sink):
            t.write(item, value)


def store(t: Translator, ins: Instruction) -> None:
    a, d = ins.operands
    if _space(t, ins, a) != "global":
        raise Refused("parameters cannot be written")
    bits = _element_bits(ins, (32, 64))
    address = t.address(a)
    ordered = bool(ORDERED & set(ins.modifiers))
    if ordered:
        t.op("fence")
    words: list[Value] = []
    for item in _items(d):
        words.append(t.low(item))
        if bits == 64:
            words.append(t.high(item))
    for k, word in enumerate(words):
        t.op("st", t.op("add", address, (4 * k) & MASK), 0, word)
    if ordered:
        t.op("fence")
