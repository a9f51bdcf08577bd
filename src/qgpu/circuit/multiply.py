"""Multiply and add, a*b + c modulo 2^32, in four levels.

Level 1, partial products. A bit of a times up to four bits of b is one unit, f = a_k, g = b_j + 2 b_(j+1) + ...,
taken so that it starts at a multiple of 4: it then lies within one radix-16 digit, and the digits' sums V_g are as
small as sums of single bit products would be, at most 60 g + 49 (+ 15 for c). A sum above 255 is kept in two parts.

Level 2, quotients. q = V div 16 by steps; -16 q in place, q mod 16 to the next digit, q div 16 to the one
after. Where V may exceed a threshold by more than 255, runs of 16 take the place of steps:

    relu(x-p+1) relu(p+16-x) - relu(x-p) relu(p+15-x) = 16 on p..p+15, 0 elsewhere.

Each digit is now x_g <= 30, except x_6 <= 31 and the top one, which is only reduced modulo 64 and only counts modulo 16.

Level 3, carries. Within each half of four digits, the carry into digit g from the byte y below is y >= 256 where all
digits X between are 15: f = 1 + X, g = y - 255 - M X, and the same less one (X is 0 only if every digit is 15).
Digits shrink to x mod 8 and bit 3. across = the carry out of the low half; open_g = all digits from 4 to g-1 are 15.

Level 4, bits. With every carry that is known at level 3 added, x + (across and open) is the integer part of z / 2 where
z = 2 x + across + open, so [x + carry == j] is one unit: relu(z - 2j + 1) relu(2j + 2 - z) / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .core import Circuit, Form, Signal, binary
from .digits import DIGIT, LIMIT, Piece, add_up, bit_products, carry_through


def multiply_add(c: Circuit, a: Sequence[Signal], b: Sequence[Signal], cc: Sequence[Signal], en: Signal,
                 rf: Sequence[Signal]) -> None:
    """Add (a*b + cc) mod 2^32 to rf where en is 1, nothing where it is 0. Complete after level 4.

    a, b, cc, rf: 32 signals, least significant first. en: a bit (or a form of lines that exclude each other).
    """
    with c.scope("multiply"):
        parts = _partial_products(c, a, b, cc, en)
        with c.together():                                             # two parts and a digit's input exceed 256
            x = _divide(c, parts)
        _bits(c, _carries(c, x, rf), rf)


@dataclass
class _Digit:
    """value: low part plus the carries known at level 3, at most `high`; bit3: the digit's bit 3 before carries (None:
    value holds the whole digit); across: literals that are all 1 where a carry across the halves comes in."""

    value: Form
    high: int
    bit3: Signal | None
    across: list[Signal]


# ---- level 1 --------------------------------------------------------------------------------------------------------
def _partial_products(c: Circuit, a, b, cc, en) -> list[list[Signal]]:
    """Each digit's sum V_g in one part or two, each at most 255."""
    parts = []
    for g in range(len(a) // DIGIT):
        low = DIGIT * g
        addend = Piece((en,), binary(cc[low:low + DIGIT]), 15, f"addend bits {low} to {low + DIGIT - 1}")
        parts.append(add_up(c, g, [addend, *bit_products(a, b, g, en)]))
    return parts


# ---- level 2 --------------------------------------------------------------------------------------------------------
def _divide(c: Circuit, parts: list[list[Signal]]) -> list[Signal]:
    """Digits x_g with sum x_g 16^g = sum V_g 16^g (modulo 2^32)."""
    tops = [sum(p.hi for p in part) for part in parts]
    count = len(parts)
    quotient = [t >> DIGIT for t in tops]
    x = []
    for g, part in enumerate(parts):
        high = 15 if g < count - 1 else sum(min(p.hi, 63) for p in part)
        high += (min(15, quotient[g - 1]) if g >= 1 else 0) + (quotient[g - 2] >> DIGIT if g >= 2 else 0)
        x.append(c.revise(part[0], f"digit{g}", 0, high))
        for extra in part[1:]:
            c.unit(1, extra, x[g], f"parts of digit {g} together")
    for g, part in enumerate(parts[:-1]):
        total = Form.total(part)
        for q in range(1, quotient[g] + 1):
            _quotient_step(c, total, tops[g], q, [x[g], *x[g + 1:g + 3]], f"quotient {q} of digit {g}")
    for p in parts[-1]:
        for t in range(64, p.hi + 1, 64):
            c.at_least(p, t, {x[-1]: -64}, f"top digit modulo 64, from {t}")
    return x


def _quotient_step(c: Circuit, total: Form, top: int, q: int, into: Sequence[Signal], note: str) -> None:
    """Where total div 16 is q (a run), or is at least q and every larger one is a step: the quotient's effects."""
    def effect(v: int) -> list[int]:
        return [-16 * v, v % 16, v // 16][:len(into)]

    start = 16 * q
    if top - start + 1 > LIMIT:
        outs = {s: Fraction(e, 16) for s, e in zip(into, effect(q)) if e}
        f, g = total - start, start + 16 - total
        c.unit(f + 1, g, outs, note)
        c.unit(f, g - 1, {s: -w for s, w in outs.items()}, note + " (run end)")
        return
    below = [0, 0, 0] if q == 1 or top - (start - 16) + 1 > LIMIT else effect(q - 1)
    outs = {s: e - o for s, e, o in zip(into, effect(q), below) if e - o}
    c.at_least(total, start, outs, note)


# ---- level 3 --------------------------------------------------------------------------------------------------------
def _carries(c: Circuit, x: list[Signal], rf) -> list[_Digit]:
    """The digits as level 4 reads them."""
    half, last = len(x) // 2, len(x) - 1
    known = [c.signal(f"carry{g}", 0, 2 if g == last else 1) if g % half else None for g in range(len(x))]
    across = c.signal("across")
    opened = [c.signal(f"open{g}") if g > half else None for g in range(len(x))]
    digits = []
    for g, s in enumerate(x):
        low = c.revise(s, f"low{g}", 0, min(s.hi, 7) if g < last else 15)
        bit3 = rf[DIGIT - 1] if g == 0 else c.signal(f"eight{g}") if g < last else None
        for t in range(8, s.hi + 1, 8) if g < last else range(16, s.hi + 1, 16):
            outs = {low: -8, bit3: 1 if t % 16 else -1} if g < last else {low: -16}
            if t == 16 and g % 2 == 0:
                outs[known[g + 1]] = 1
            c.at_least(s, t, outs, f"digit {g} is {t} or more")
        literals = [] if g < half else [across] if g == half else [across, opened[g]]
        digits.append(_Digit(Form.of(low) + (known[g] or 0), 7 + known[g].hi if known[g] else 7, bit3, literals))
    digits[last].high = 15 + known[last].hi
    for base in (0, half):
        y = x[base] + 16 * x[base + 1]                                 # the half's low byte
        c.at_least(y, 256, known[base + 2], f"carry into digit {base + 2} from the byte below")
        for v in _propagating(x[base + 2]):
            carry_through(c, y, x[base + 2] - v, known[base + 3], f"carry into digit {base + 3} through {v}")
    y0, y1 = x[0] + 16 * x[1], x[2] + 16 * x[3]
    c.at_least(y1, 256, across, "carry across from the second byte")
    carry_through(c, y0, y1 - 255, across, "carry across from the first byte")
    for g in range(half + 1, len(x)):
        between = Form.total(x[k] * 16 ** (k - half) for k in range(half, g))
        for v in _propagating(x[g - 1]):
            full = 16 ** (g - half - 1)                                # 15, 15, ..., v
            c.equal(between, full - 1 + v * full, opened[g], f"a carry across reaches digit {g}")
    return digits


def _propagating(x: Signal) -> list[int]:
    """Values of a digit that pass a carry on: 15, and 31 where it can occur."""
    return [v for v in (15, 31) if v <= x.hi]


# ---- level 4 --------------------------------------------------------------------------------------------------------
def _bits(c: Circuit, digits: list[_Digit], rf) -> None:
    """Bits of each digit with its carries."""
    for g, d in enumerate(digits):
        out = rf[DIGIT * g:DIGIT * g + DIGIT]
        scale = 2 if len(d.across) == 2 else 1                         # z = scale * (low + carry known) + literals
        z = Form.total((scale * d.value, *d.across))
        top = d.bit3 is None
        for j in range(1, d.high + 1 if top else 8):
            outs = {out[i]: Fraction(1, scale) for i in range(DIGIT if top else DIGIT - 1) if j >> i & 1}
            if outs:
                c.unit(z - scale * j + 1, scale * (j + 1) - z, outs, f"digit {g} is {j}")
        if not top and g > 0:                                          # 8..15: a run
            n = 8 * scale
            z = z + n * d.bit3
            with c.together():
                c.unit(z - n + 1, 2 * n - z, {out[3]: Fraction(1, n)}, f"bit 3 of digit {g}")
                c.unit(z - n, 2 * n - 1 - z, {out[3]: -Fraction(1, n)}, f"bit 3 of digit {g} (run end)")


def multiply_add_value(a, b, cc, en):
    """What multiply_add adds, for integers or arrays of 64-bit integers below 2^32."""
    low, high = b & 0xFFFF, b >> 16
    total = a * low + ((a * high & 0xFFFF) << 16) + cc
    return en * (total & 0xFFFFFFFF)
