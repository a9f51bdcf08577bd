"""Pieces that both multiplications are made of: products of single bits with nibbles, and carries through digits.

A product is kept as sums V_g of radix-16 digits, V_0 + 16 V_1 + ..., each in one part or two of at most 255. A carry
out of y comes to pass where y is 256 or more, and goes through the digits above it where all of them are 15.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .core import Circuit, Form, Signal, all_of, binary

DIGIT = 4
LIMIT = 256


@dataclass
class Piece:
    """One addend of a digit's sum: form where every literal is 1, at most `size`."""

    literals: tuple
    form: Form
    size: int
    note: str


def bit_products(a: Sequence[Signal], b: Sequence[Signal], g: int, en) -> list[Piece]:
    """Digit g of a*b (weight 16^g) where en is 1: a bit of a times those bits of b whose product lies in the digit."""
    low, pieces = DIGIT * g, []
    for k in range(min(low + DIGIT, len(a))):
        j0, j1 = max(low - k, 0), min(low + DIGIT - k, len(b))         # bits j of b with low <= k + j < low + 4
        if j0 < j1:
            form = binary(b[j0:j1]) * (1 << (k + j0 - low))
            size = (1 << (k + j1 - low)) - (1 << (k + j0 - low))
            pieces.append(Piece((en, a[k]), form, size, f"bit {k} of a times bits {j0} to {j1 - 1} of b"))
    return pieces


def add_up(c: Circuit, g: int, pieces: Sequence[Piece]) -> list[Signal]:
    """The sum of a digit's pieces, in parts of at most 255 each. Level 1."""
    sizes = [0]
    for p in pieces:
        if sizes[-1] + p.size >= LIMIT:
            sizes.append(0)
        sizes[-1] += p.size
    parts = [c.signal(f"sum{g}" + "ab"[i] * (len(sizes) > 1), 0, s) for i, s in enumerate(sizes)]
    room, at = list(sizes), 0
    for p in pieces:
        if p.size > room[at]:
            at += 1
        room[at] -= p.size
        c.unit(all_of(*p.literals), p.form, parts[at], p.note)
    return parts


def carry_through(c: Circuit, y: Form, gap: Form, out: Signal, note: str) -> None:
    """Add [y >= 256] where gap is 0: two units."""
    top = sum(k * s.hi for s, k in y.coef.items())
    m = 1 << (top - 255).bit_length()
    with c.together():
        c.unit(1 + gap, y - 255 - m * gap, {out: 1}, note)
        c.unit(1 + gap, y - 256 - m * gap, {out: -1}, note + " (step end)")


def number(x: Iterable[Signal]) -> Form:
    """The number that digits write, lowest first."""
    return Form.total(s * 16 ** k for k, s in enumerate(x))
