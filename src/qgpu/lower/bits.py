"""Bit operations of PTX (9.7.1, 9.7.8): counting, fields, funnel shifts, permutations of bytes, logic functions of three.

The machine's shifts give 0 beyond 31, which is what fields that reach beyond a word want.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Callable

from ..ptx.model import Instruction
from . import wide
from .ir import LT, MASK, NE, Value
from .unit import Refused

if TYPE_CHECKING:
    from .translate import Translator


def popc(t: Translator, ins: Instruction) -> None:
    d, a = ins.operands
    low = t.op("popc", t.low(a))
    t.write(d, t.op("add", low, t.op("popc", t.high(a))) if ins.bits == 64 else low)


def leading_zeros(t: Translator, v: wide.Pair, bits: int) -> Value:
    if bits == 32:
        return t.op("clz", v[0])
    return t.op("sel", t.op("clz", v[1]), t.op("add", t.op("clz", v[0]), 32), t.op("set", v[1], 0, relation=NE))


def clz(t: Translator, ins: Instruction) -> None:
    d, a = ins.operands
    t.write(d, leading_zeros(t, t.pair(a), ins.bits))


def brev(t: Translator, ins: Instruction) -> None:
    d, a = ins.operands
    low = t.op("brev", t.low(a))
    t.write(d, *(t.op("brev", t.high(a)), low) if ins.bits == 64 else (low,))


def bfind(t: Translator, ins: Instruction) -> None:
    """The place of the highest bit that differs from the sign: 31 or 63 minus the zeros before it; all ones if there is none."""
    d, a = ins.operands
    v = t.pair(a)
    if (ins.raw_type or "").startswith("s"):
        sign = t.op("sar", v[1] if ins.bits == 64 else v[0], 31)
        v = t.op("xor", v[0], sign), t.op("xor", v[1], sign)
    zeros = leading_zeros(t, v, ins.bits)
    if ins.has("shiftamt"):
        t.write(d, t.op("sel", MASK, zeros, t.equal(zeros, ins.bits)))
    else:
        t.write(d, t.op("sub", ins.bits - 1, zeros))


def _length_mask(t: Translator, length: Value) -> Value:
    """`length` ones."""
    return t.op("sub", t.op("shl", 1, length), 1)


def bfe(t: Translator, ins: Instruction) -> None:
    d, a, p, n = ins.operands
    position, length = t.op("and", t.low(p), 0xFF), t.op("and", t.low(n), 0xFF)
    signed = (ins.raw_type or "").startswith("s")
    if ins.bits == 64:
        v = wide.shift(t, "sar" if signed else "shr", t.pair(a), position)
        back = t.op("sub", 64, t.op("minmax", length, 64, relation=LT))
        t.write(d, *wide.shift(t, "sar" if signed else "shr", wide.shift(t, "shl", v, back), back))
        return
    if not signed:
        t.write(d, t.op("and", t.op("shr", t.low(a), position), _length_mask(t, length)))
        return
    field = t.op("sar", t.low(a), position)
    back = t.op("sub", 32, t.op("minmax", length, 32, relation=LT))
    t.write(d, t.op("sar", t.op("shl", field, back), back))


def bfi(t: Translator, ins: Instruction) -> None:
    d, a, b, p, n = ins.operands
    position, length = t.op("and", t.low(p), 0xFF), t.op("and", t.low(n), 0xFF)
    if ins.bits == 64:
        one = wide.shift(t, "shl", (1, 0), length)
        ones = wide.sub(t, one, (1, 0))
        mask, value = wide.shift(t, "shl", ones, position), wide.shift(t, "shl", t.pair(a), position)
        t.write(d, *(_merge(t, old, new, m) for old, new, m in zip(t.pair(b), value, mask)))
        return
    mask = t.op("shl", _length_mask(t, length), position)
    t.write(d, _merge(t, t.low(b), t.op("shl", t.low(a), position), mask))


def _merge(t: Translator, old: Value, new: Value, mask: Value) -> Value:
    """new where mask is 1, else old."""
    return t.op("xor", old, t.op("and", t.op("xor", old, new), mask))


def bmsk(t: Translator, ins: Instruction) -> None:
    d, a, b = ins.operands
    position, length = t.low(a), t.low(b)
    if ins.has("wrap"):
        position, length = t.op("and", position, 31), t.op("and", length, 31)
    t.write(d, t.op("shl", _length_mask(t, length), position))


def szext(t: Translator, ins: Instruction) -> None:
    d, a, b = ins.operands
    length = t.op("and", t.low(b), 31) if ins.has("wrap") else t.op("minmax", t.low(b), 32, relation=LT)
    back = t.op("sub", 32, length)
    kind = "sar" if (ins.raw_type or "").startswith("s") else "shr"
    t.write(d, t.op(kind, t.op("shl", t.low(a), back), back))


def funnel_shift(t: Translator, ins: Instruction) -> None:
    """shf.l / shf.r: 32 bits of the pair (high b, low a) shifted."""
    d, a, b, n = ins.operands
    low, high, amount = t.low(a), t.low(b), t.low(n)
    amount = t.op("and", amount, 31) if ins.has("wrap") else t.op("minmax", amount, 32, relation=LT)
    back = t.op("sub", 32, amount)
    if ins.has("l"):
        t.write(d, t.op("or", t.op("shl", high, amount), t.op("shr", low, back)))
    else:
        t.write(d, t.op("or", t.op("shr", low, amount), t.op("shl", high, back)))


# ---- bytes ------------------------------------------------------------------------------------------------------------

_MODES: dict[str, Callable[[int], list[int]]] = {
    "f4e": lambda n: [n, n + 1, n + 2, n + 3],
    "b4e": lambda n: [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8],
    "rc8": lambda n: [n] * 4,
    "ecl": lambda n: [max(i, n) for i in range(4)],
    "ecr": lambda n: [min(i, n) for i in range(4)],
    "rc16": lambda n: [0, 1, 0, 1] if n % 2 == 0 else [2, 3, 2, 3],
}


def permute(t: Translator, ins: Instruction) -> None:
    """prmt: each byte of the result is one of the eight of b:a, or its sign eight times."""
    d, a, b, c = ins.operands
    low, high, selector = t.low(a), t.low(b), t.low(c)
    mode = next((m for m in ins.modifiers if m in _MODES), None)
    if mode is not None:
        n = t.op("and", selector, 3)
        if isinstance(selector, int):
            t.write(d, _fixed_bytes(t, low, high, _MODES[mode](selector & 3)))
            return
        results = [_fixed_bytes(t, low, high, _MODES[mode](k)) for k in range(4)]
        first = t.op("sel", results[1], results[0], n)
        second = t.op("sel", results[3], results[2], n)
        t.write(d, t.op("sel", second, first, t.op("shr", n, 1)))
    elif isinstance(selector, int):
        t.write(d, _fixed_bytes(t, low, high, [selector >> 4 * k & 15 for k in range(4)]))
    else:
        result: Value = 0
        for k in range(4):
            nibble = t.op("shr", selector, 4 * k) if k else selector
            word = t.op("sel", high, low, t.op("shr", nibble, 2))
            byte = t.op("shr", word, t.op("shl", t.op("and", nibble, 3), 3))
            signs = t.op("sub", 0, t.op("and", t.op("shr", byte, 7), 1))
            byte = t.op("sel", signs, byte, t.op("shr", nibble, 3))
            result = t.op("or", result, t.op("shl", t.op("and", byte, 0xFF), 8 * k))
        t.write(d, result)


def _fixed_bytes(t: Translator, low: Value, high: Value, numbers: list[int]) -> Value:
    """Bytes by number, 0..7, or 8 more for their sign; neighbours that move alike move together."""
    parts: dict[tuple[int, int], int] = {}
    result: Value = 0
    for k, number in enumerate(numbers):
        source, at = number >> 2 & 1, number & 3
        if number & 8:
            sign = t.op("sar", t.op("shl", (low, high)[source], 24 - 8 * at), 31)
            result = t.op("or", result, t.op("and", sign, 0xFF << 8 * k))
        else:
            parts[source, k - at] = parts.get((source, k - at), 0) | 0xFF << 8 * k
    for (source, by), mask in parts.items():
        moved = t.op("shl", (low, high)[source], 8 * by) if by > 0 else t.op("shr", (low, high)[source], -8 * by)
        full = MASK << 8 * by & MASK if by > 0 else MASK >> -8 * by
        result = t.op("or", result, moved if mask == full else t.op("and", moved, mask))
    return result


# ---- logic ------------------------------------------------------------------------------------------------------------

Recipe = tuple


@lru_cache(maxsize=1)
def _recipes() -> dict[int, Recipe]:
    """Truth table of three inputs -> the shortest way to make it: an input's number, a constant, or (operation, recipe, recipe)."""
    best: dict[int, tuple[int, Recipe]] = {0xF0: (0, ("in", 0)), 0xCC: (0, ("in", 1)), 0xAA: (0, ("in", 2)), 0: (0, ("const", 0)),
                                           0xFF: (0, ("const", MASK))}
    while True:
        found: dict[int, tuple[int, Recipe]] = {}
        for x, (size_x, how_x) in best.items():
            for y, (size_y, how_y) in best.items():
                for kind, table in (("and", x & y), ("or", x | y), ("xor", x ^ y)):
                    size = size_x + size_y + 1
                    if size < min(best.get(table, (99,))[0], found.get(table, (99,))[0]):
                        found[table] = (size, (kind, how_x, how_y))
        if not found:
            return {table: how for table, (_, how) in best.items()}
        best |= found


def lop3(t: Translator, ins: Instruction) -> None:
    d, a, b, c, table = ins.operands
    number = t.low(table)
    if not isinstance(number, int):
        raise Refused("lop3 needs a constant table")
    inputs = [t.low(a), t.low(b), t.low(c)]

    def make(how: Recipe) -> Value:
        if how[0] == "in":
            return inputs[how[1]]
        return how[1] if how[0] == "const" else t.op(how[0], make(how[1]), make(how[2]))
    t.write(d, make(_recipes()[number & 0xFF]))


def dot(t: Translator, ins: Instruction) -> None:
    """dp4a and dp2a: c plus the products of the parts of a with bytes of b."""
    d, a, b, c = ins.operands
    signs = [k[0] == "s" for k in ins.types]
    x, y, total = t.low(a), t.low(b), t.low(c)
    pieces, bits = (4, 8) if ins.opcode == "dp4a" else (2, 16)
    first = 16 if ins.has("hi") else 0
    for k in range(pieces):
        total = t.op("mul", _part(t, x, bits * k, bits, signs[0]), _part(t, y, first + 8 * k, 8, signs[1]), total)
    t.write(d, total)


def _part(t: Translator, v: Value, at: int, bits: int, signed: bool) -> Value:
    if signed:
        return t.op("sar", t.op("shl", v, 32 - bits - at), 32 - bits)
    return t.op("and", t.op("shr", v, at), (1 << bits) - 1)
