"""Bit manipulation of PTX: counting, fields, permutations, funnel shifts, small dot products (PTX ISA 9.7.1, 9.7.8).

The same kind of table as ptx_integer; the two make the whole set of operations on numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable

from .ptx_integer import entry
from .ptx_values import TYPES, U32, Modifiers, Pure, Type

BITS: dict[str, Callable[[Modifiers], Pure]] = {}
B32 = TYPES["b32"]


@entry(BITS, "popc")
def _popc(m: Modifiers) -> Pure:
    t = m.type("b32 b64")
    return Pure(int.bit_count, (U32,), (t,))


@entry(BITS, "clz")
def _clz(m: Modifiers) -> Pure:
    t = m.type("b32 b64")
    return Pure(lambda a: t.bits - a.bit_length(), (U32,), (t,))


@entry(BITS, "brev")
def _brev(m: Modifiers) -> Pure:
    t = m.type("b32 b64")
    return Pure(lambda a: int(f"{a:0{t.bits}b}"[::-1], 2), (t,), (t,))


@entry(BITS, "bfind")
def _bfind(m: Modifiers) -> Pure:
    shift_amount = m.flag("shiftamt")
    t = m.type("u32 u64 s32 s64")

    def find(a: int) -> int:
        """Highest bit that differs from the sign; all ones if there is none."""
        top = (~a if a < 0 else a).bit_length() - 1
        return t.bits - 1 - top if shift_amount and top >= 0 else top
    return Pure(find, (U32,), (t,))


@entry(BITS, "fns")
def _fns(m: Modifiers) -> Pure:
    m.type("b32")

    def find(mask: int, base: int, offset: int) -> int:
        """The n-th set bit at or beyond `base`: upwards for a positive offset, downwards for a negative one."""
        if offset == 0:
            return base if mask >> base & 1 else -1
        step = 1 if offset > 0 else -1
        left, at = abs(offset), base
        while 0 <= at < 32:
            left -= mask >> at & 1
            if left == 0:
                return at
            at += step
        return -1
    return Pure(find, (B32,), (B32, U32, TYPES["s32"]))


@entry(BITS, "bfe")
def _bfe(m: Modifiers) -> Pure:
    t = m.type("u32 u64 s32 s64")

    def extract(a: int, b: int, c: int) -> int:
        """Position and length are bytes; beyond the top, a signed field repeats a's sign."""
        position, length = b & 0xFF, c & 0xFF
        if length == 0:
            return 0
        if t.kind == "s":  # a is a number: its sign goes on for ever above the top bit
            return Type("", "s", length).number(a >> position)
        return a >> position & (1 << length) - 1
    return Pure(extract, (t,), (t, U32, U32))


@entry(BITS, "bfi")
def _bfi(m: Modifiers) -> Pure:
    t = m.type("b32 b64")

    def insert(a: int, b: int, c: int, d: int) -> int:
        """The low `d` bits of a over bits `c`.. of b; what would lie above the top is lost."""
        position, length = c & 0xFF, d & 0xFF
        field = (1 << length) - 1 << position
        return b & ~field | a << position & field
    return Pure(insert, (t,), (t, t, U32, U32))


@entry(BITS, "shf")
def _shf(m: Modifiers) -> Pure:
    direction, mode = m.one_of("l", "r"), m.one_of("clamp", "wrap")
    m.type("b32")

    def shift(a: int, b: int, c: int) -> int:
        """Shift the 64 bits b:a; left takes the upper word, right the lower one."""
        n = c & 31 if mode == "wrap" else min(c, 32)
        both = b << 32 | a
        return both << n >> 32 if direction == "l" else both >> n
    return Pure(shift, (B32,), (B32, B32, U32))


def _bytes_of_mode(mode: str, selector: int) -> list[int]:
    """Which of the eight bytes each result byte takes, for the special modes of `prmt`."""
    n = selector & 3
    return {
        "f4e": [n, n + 1, n + 2, n + 3],
        "b4e": [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8],
        "rc8": [n] * 4,
        "ecl": [max(i, n) for i in range(4)],
        "ecr": [min(i, n) for i in range(4)],
        "rc16": [0, 1, 0, 1] if n % 2 == 0 else [2, 3, 2, 3],
    }[mode]


@entry(BITS, "prmt")
def _prmt(m: Modifiers) -> Pure:
    mode = m.maybe("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    m.type("b32")

    def permute(a: int, b: int, c: int) -> int:
        """Bytes of b:a; without a mode each nibble of c selects one, its top bit makes it a byte of that byte's sign."""
        source = (b << 32 | a).to_bytes(8, "little")
        if mode:
            return int.from_bytes(bytes(source[i] for i in _bytes_of_mode(mode, c)), "little")
        out = []
        for i in range(4):
            nibble = c >> 4 * i & 0xF
            byte = source[nibble & 7]
            out.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        return int.from_bytes(bytes(out), "little")
    return Pure(permute, (B32,), (B32, B32, B32))


@entry(BITS, "lop3")
def _lop3(m: Modifiers) -> Pure:
    m.type("b32")

    def look_up(a: int, b: int, c: int, table: int) -> int:
        """Bit 4a + 2b + c of the table, for each bit position."""
        result = 0
        for i in range(32):
            index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1
            result |= (table >> index & 1) << i
        return result
    return Pure(look_up, (B32,), (B32, B32, B32, U32))


@entry(BITS, "bmsk")
def _bmsk(m: Modifiers) -> Pure:
    mode = m.one_of("clamp", "wrap")
    m.type("b32")

    def mask(a: int, b: int) -> int:
        """`b` ones from bit `a` upwards."""
        if mode == "wrap":
            a, b = a & 31, b & 31
        return (1 << min(b, 32)) - 1 << min(a, 32)
    return Pure(mask, (B32,), (U32, U32))


@entry(BITS, "szext")
def _szext(m: Modifiers) -> Pure:
    mode = m.one_of("clamp", "wrap")
    t = m.type("u32 s32")

    def extend(a: int, b: int) -> int:
        """The low `b` bits of a, with their sign for .s32."""
        n = b & 31 if mode == "wrap" else min(b, 32)
        return Type("", t.kind, n).number(a) if n else 0
    return Pure(extend, (t,), (t, U32))


@entry(BITS, "dp4a", "dp2a")
def _dot(m: Modifiers) -> Pure:
    upper = m.instruction.opcode == "dp2a" and m.one_of("lo", "hi") == "hi"
    first, second = m.type("u32 s32"), m.type("u32 s32")
    pieces, width = (4, 8) if m.instruction.opcode == "dp4a" else (2, 16)
    a_type, b_type = Type("", first.kind, width), Type("", second.kind, 8)
    result = TYPES["s32"] if "s" in (first.kind, second.kind) else U32

    def dot(a: int, b: int, c: int) -> int:
        """c + the sum of products; dp2a takes two halves of a and the lower or upper two bytes of b."""
        b >>= 16 if upper else 0
        return c + sum(a_type.number(a >> width * i) * b_type.number(b >> 8 * i) for i in range(pieces))
    return Pure(dot, (result,), (first, second, result))


CARRY: dict[str, Callable[..., int]] = {
    "add": lambda a, b, carry: a + b,
    "addc": lambda a, b, carry: a + b + carry,
    "sub": lambda a, b, carry: a - b,
    "subc": lambda a, b, carry: a - b - carry,
    "mad": lambda a, b, c, carry: a * b + c,
    "madc": lambda a, b, c, carry: a * b + c + carry,
}
"""Extended-precision operations (PTX ISA 9.7.2): `.cc` writes the carry flag, and `addc`, `subc`, `madc` read it.

The functions are on unsigned numbers; for mad the product is first cut to its low or high half.
"""


def carry_operation(m: Modifiers) -> tuple[Callable[..., tuple[int, int]], Type, int, bool]:
    """(function of the operands and the carry flag to result and new flag, operand type, operands, writes the flag)."""
    opcode = m.instruction.opcode
    part = m.one_of("lo", "hi") if opcode in ("mad", "madc") else None
    writes = m.flag("cc")
    t = m.type("u32 s32 b32 u64 s64 b64")
    mask = (1 << t.bits) - 1

    def run(*operands: int) -> tuple[int, int]:
        *numbers, carry = operands
        if part:
            a, b, c = numbers
            product = a * b >> (t.bits if part == "hi" else 0) & mask
            numbers = [product, 1, c & mask]
        else:
            numbers = [n & mask for n in numbers]
        total = CARRY[opcode](*numbers, carry)
        return total & mask, int(not 0 <= total <= mask)  # a carry out, or a borrow
    return run, t, 3 if part else 2, writes
