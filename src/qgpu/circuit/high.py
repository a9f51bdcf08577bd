"""The high word of a product, bits n to 2n-1 of a*b for n-bit words, or either word, in five levels.

Level 1, partial products: the sums V_g of all n / 2 radix-16 digits, as in ``multiply``.

Levels 2 and 3, quotients. First V div 64 by steps (-64 in place, +4 for the next digit; at every fourth -12 there and
+1 for the one after), then what is left, at most 63 + 12 + 1, div 16. Two divisions take far fewer steps than one. Every
digit is now x_g <= 19. A step [V >= t] of a sum that may exceed t by more than 255 is taken as 1 - [V < t]; the ones
of all such steps are one unit.

Level 4, carries, within each of four groups of n / 8 digits: `known`, the carry into a digit from those below it in its
group; `open`, these are all 15, so that a carry into the group reaches the digit; `out` and `full`, the same for the group
above. Digits shrink to x mod 8 and bit 3.
Carries between groups stay *late*: a form s and a power of two S that stand for the bit floor(s / S), s < 2S.

    the lowest group:              s = out,                   S = 1
    out of a group it comes into:  s' = 2S out + S full + s,  S' = 2S       (out excludes full)
    where it reaches a digit:      s' = S open + s,           S' = 2S

Level 5, bits. z = x mod 8 + known + floor(s / S) is at most 8, and [z == j] is a run of S values of S (x mod 8 + known) + s.
Bit 0 is z less 2 on 2..3, 4 on 4..5, 6 on 6..7 and 8 on 8; 8 also flips bit 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from .core import Circuit, Form, Signal, binary, not_
from .digits import DIGIT, LIMIT, Piece, add_up, bit_products, carry_through, number

COARSE = 64
GROUPS = 4
BEYOND = 128                                   # more than the factor f of any unit of level 5


def multiply_high(c: Circuit, a: Sequence[Signal], b: Sequence[Signal], en: Signal, rf: Sequence[Signal]) -> None:
    """Add (a*b) div 2^n, unsigned, to rf where en is 1, nothing where it is 0. Complete after level 5.

    a, b, rf: n signals, least significant first; n = 8, 16 or 32. en: a bit (or a form of lines that exclude each other).
    """
    with c.scope("high"):
        groups, late = _prepare(c, a, b, None, None, en)
        for i in range(GROUPS // 2, GROUPS):
            _bits(c, f"{i}.", groups[i], late[i], _place(rf, i - GROUPS // 2), None)


def multiply_either(c: Circuit, a: Sequence[Signal], b: Sequence[Signal], cc: Sequence[Signal], low: Signal, high: Signal,
                    rf: Sequence[Signal]) -> None:
    """Add (a*b + cc) mod 2^n to rf where low is 1, (a*b) div 2^n where high is 1. Complete after level 5.

    As multiply_high; cc: n signals. The lines exclude each other; both 0: nothing is added.
    """
    with c.scope("either"):
        groups, late = _prepare(c, a, b, cc, low, low + high)
        for i in range(GROUPS):
            line, k = (low, i) if i < GROUPS // 2 else (high, i - GROUPS // 2)
            _bits(c, f"{i}.", groups[i], late[i], _place(rf, k), line)


def _place(rf: Sequence[Signal], k: int) -> Sequence[Signal]:
    """Bits of group k of a word's two."""
    half = len(rf) // 2
    return rf[half * k:half * k + half]


@dataclass
class _Late:
    """A carry that is not a signal yet: floor(s / scale), where s < 2 scale. No s: no carry."""

    s: Form | None
    scale: int = 1


def _prepare(c: Circuit, a, b, cc, add, en) -> tuple[list[list[Signal]], list[_Late]]:
    """Levels 1 to 3 and the carries between groups: each group's digits, and the carry that comes into it."""
    assert len(a) in (8, 16, 32)
    count = 2 * len(a) // DIGIT
    parts = []
    for g in range(count):
        pieces = bit_products(a, b, g, en)
        if cc is not None and DIGIT * g < len(cc):
            addend = binary(cc[DIGIT * g:DIGIT * g + DIGIT])
            pieces.append(Piece((add,), addend, 15, f"addend bits from {DIGIT * g}"))
        parts.append(add_up(c, g, pieces))
    x = _divide_fine(c, _divide_coarse(c, parts))
    size = count // GROUPS
    groups = [x[g:g + size] for g in range(0, count, size)]
    late = [_Late(None)]
    for i, group in enumerate(groups[:-1]):
        out = c.signal(f"out{i}")
        _carry_out(c, group, out)
        if late[-1].s is None:
            late.append(_Late(out.form()))
            continue
        full = c.signal(f"full{i}")
        c.equal(number(group), 16 ** size - 1, full, f"a carry passes group {i}")
        s, k = late[-1].s, late[-1].scale
        late.append(_Late(2 * k * out + k * full + s, 2 * k))
    return groups, late


# ---- levels 2 and 3 -------------------------------------------------------------------------------------------------
def _divide_coarse(c: Circuit, parts: list[list[Signal]]) -> list[Signal]:
    """Digits of at most about 80 that write the same number as the sums."""
    tops = [sum(p.hi for p in part) for part in parts]
    x = []
    for g, part in enumerate(parts):
        high = min(tops[g], COARSE - 1)
        high += 4 * min(tops[g - 1] // COARSE, 3) if g >= 1 else 0
        high += tops[g - 2] // COARSE // 4 if g >= 2 else 0
        x.append(c.revise(part[0], f"coarse{g}", 0, high))
    with c.together():                                                 # two parts and their steps exceed 256 on the way
        ones: dict[Signal, int] = {}
        for g, part in enumerate(parts):
            for extra in part[1:]:
                c.unit(1, extra, x[g], f"parts of digit {g} together")
            total = Form.total(part)
            for q in range(1, tops[g] // COARSE + 1):
                effect = (-COARSE, 4 if q % 4 else -12, 0 if q % 4 else 1)
                outs = {s: e for s, e in zip(x[g:g + 3], effect) if e}
                note, t = f"digit {g} is {COARSE * q} or more", COARSE * q
                if tops[g] - t < LIMIT:
                    c.at_least(total, t, outs, note)
                    continue
                for s, e in outs.items():
                    ones[s] = ones.get(s, 0) + e
                c.at_least(-total, 1 - t, {s: -e for s, e in outs.items()}, note + ", from above")
        if ones := {s: w for s, w in ones.items() if w}:
            c.unit(1, 1, ones, "where sums are large enough for every step taken from above")
    return x


def _divide_fine(c: Circuit, x: list[Signal]) -> list[Signal]:
    """Digits of at most 19 that write the same number."""
    y = []
    for g, s in enumerate(x):
        y.append(c.revise(s, f"digit{g}", 0, min(s.hi, 15) + (x[g - 1].hi // 16 if g else 0)))
    for g, s in enumerate(x):
        for t in range(16, s.hi + 1, 16):
            c.at_least(s, t, {r: e for r, e in zip(y[g:g + 2], (-16, 1))}, f"left of digit {g} is {t} or more")
    return y


# ---- level 4 --------------------------------------------------------------------------------------------------------
def _carry_out(c: Circuit, x: Sequence[Signal], out: Signal) -> None:
    """Add the carry out of one, two or four digits when none comes in."""
    if len(x) == 1:
        c.at_least(x[0], 16, out, "carry out of the digit")
        return
    y = [number(x[k:k + 2]) for k in range(0, len(x), 2)]
    c.at_least(y[-1], 256, out, "carry out of the top byte")
    if len(y) == 2:
        carry_through(c, y[0], y[1] - 255, out, "carry out of the low byte, through the top one")


def _carries_within(c: Circuit, name: str, x: Sequence[Signal]) -> list[Signal | None]:
    """The carry into each digit from the digits of the group below it; `_shrink` adds those out of single digits."""
    known = [c.signal(f"known{name}{k}") if k else None for k in range(len(x))]
    if len(x) == 4:
        y = number(x[:2])
        c.at_least(y, 256, known[2], "carry out of the low byte")
        carry_through(c, y, x[2] - 15, known[3], "carry out of the low byte, through a digit")
    return known


def _shrink(c: Circuit, name: str, x: Signal, out: Signal | None) -> tuple[Signal, Signal]:
    """The digit mod 8, and its bit 3; [x >= 16] is added to out."""
    low, bit3 = c.revise(x, f"low{name}", 0, min(x.hi, 7)), c.signal(f"eight{name}")
    for t in range(8, x.hi + 1, 8):
        outs = {low: -8, bit3: 1 if t % 16 else -1}
        if t == 16 and out is not None:
            outs[out] = 1
        c.at_least(x, t, outs, f"digit is {t} or more")
    return low, bit3


# ---- level 5 --------------------------------------------------------------------------------------------------------
def _bits(c: Circuit, name: str, x: Sequence[Signal], late: _Late, rf: Sequence[Signal], line: Signal | None) -> None:
    """Add the bits of a group's digits, carries included, to rf where line is 1 (None: always)."""
    known = _carries_within(c, name, x)
    for k, digit in enumerate(x):
        low, bit3 = _shrink(c, f"{name}{k}", digit, known[k + 1] if k % 2 == 0 and k + 1 < len(x) else None)
        s, scale = late.s, late.scale
        if s is not None and k:
            opened = c.signal(f"open{name}{k}")
            c.equal(number(x[:k]), 16 ** k - 1, opened, f"a carry into the group reaches digit {k}")
            s, scale = s + scale * opened, 2 * scale
        base = low + (known[k] if k else 0)
        out = rf[DIGIT * k:DIGIT * k + DIGIT]
        on = Form.of(1) if line is None else line.form()
        with c.together():
            c.unit(on, base, out[0], "digit mod 8 and the known carry")
            if s is not None:
                _run(c, s, scale, late.scale, {out[0]: 1}, "late carry", on)
            z = scale * base + (0 if s is None else s)
            for j in (2, 4, 6):
                outs = {out[0]: -j, **{out[i]: 1 for i in (1, 2) if j >> i & 1}}
                _run(c, z, scale * j, 2 * scale, outs, f"digit mod 8 is {j} or {j + 1}", on)
            c.all_of([bit3] if line is None else [bit3, line], out[3], "bit 3 before carries")
            if k or s is not None:
                _run(c, z, 8 * scale, scale, {out[0]: -8, out[3]: 1}, "carries make 8", on)
                _run(c, z, 8 * scale, scale, {out[3]: -2}, "carries make 16", on - not_(bit3))


def _run(c: Circuit, z: Form, start: int, n: int, outs: Mapping[Signal, int], note: str, on: Form) -> None:
    """Add outs where z is one of the n values from start (n a power of two, at most 16), if on is 1."""
    off = BEYOND * not_(on)
    f, g = z - start + 1, start + n - z
    if n <= 2:                                                         # 1*1; 1*2 or 2*1
        c.unit(f - off, g, {s: Fraction(w, n) for s, w in outs.items()}, note)
        return
    with c.together():
        c.unit(f - off, g, {s: Fraction(w, n) for s, w in outs.items()}, note)
        c.unit(f - 1 - off, g - 1, {s: -Fraction(w, n) for s, w in outs.items()}, note + " (run end)")


def multiply_high_value(a, b, n: int = 32):
    """(a*b) div 2^n for integers or arrays of 64-bit integers below 2^n, n at most 32."""
    half = n // 2
    mask = (1 << half) - 1
    al, ah, bl, bh = a & mask, a >> half, b & mask, b >> half
    middle = (al * bl >> half) + (ah * bl & mask) + (al * bh & mask)
    return ah * bh + (ah * bl >> half) + (al * bh >> half) + (middle >> half)
