"""Shifts of a 32-bit word by a register amount, in three levels. Amounts above 31 leave zeros, or sign bits.

A right shift by n reads the 63-bit window V at n + i, where V holds the word at 0 and fill above; a left shift by n
reads it at (31 - n) + i where V holds the word at 31. With m = n or 31 - n (the five low bits, complemented):

    level 1   at_m: lines for m mod 8; right_h, left_h: lines for m div 8, all off for an amount above 31;
              a copy of the sign bit wherever a signed shift has run past the word, added to u straight away
    level 2   u_j = V[j + 8 (m div 8)]           j = 0..38: the word's bits, two for each unit (``logic.pick_two``)
    level 3   r_i = u_(i + m mod 8)

m mod 8 == k is one unit for both directions: n mod 8 == k right + (7 - k) left is linear in the lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from .core import Circuit, Form, Signal, all_of, binary, not_
from .logic import pick_many

FINE = 3                                       # the last level shifts by 0..7


def shift(c: Circuit, a: Sequence[Signal], b: Sequence[Signal], shl: Signal, shr: Signal, sar: Signal,
          rf: Sequence[Signal]) -> None:
    """Add a << b, a >> b or the arithmetic a >> b to rf, as the one line that is on says. Complete after level 3.

    a: 2^w bits (w >= 3); b: at least w bits, read as an unsigned amount. PTX ISA: shl and shr clamp amounts.
    The three lines exclude each other; all off adds nothing.
    """
    n = len(a)
    w = n.bit_length() - 1
    assert n == 1 << w and w >= FINE
    span, steps = 1 << FINE, n >> FINE
    with c.scope("shift"):
        right = Form.total((shr, sar))
        beyond = Form.total(b[w:])
        at = _fine_lines(c, binary(b[:FINE]), right, shl, span)
        toward = {d: c.bits(d, steps) for d in ("right", "left")}
        c.one_hot([*toward["right"], *toward["left"]])
        for h in range(steps):
            for d, line, k in (("right", right, h), ("left", Form.of(shl), steps - 1 - h)):
                digit = [b[FINE + i] if k >> i & 1 else not_(b[FINE + i]) for i in range(w - FINE)]
                c.unit(all_of(line, *digit) - beyond, 1, toward[d][h], f"{d} shift, window from bit {span * h}")
        u = c.bits("u", n + span - 1)
        for t in range(steps + 1):             # u_j is fill from coarse step t on
            filled = {s: 1 for j, s in enumerate(u) if max(0, -((j - n) // span)) == t}
            _fill(c, binary(b[FINE:w]), beyond, t, steps, sar, a[n - 1], filled)
        for j, out in enumerate(u):
            sources = [(a[j + span * h], toward["right"][h]) for h in range(steps) if j + span * h < n]
            sources += [(a[k], toward["left"][h]) for h in range(steps)
                        if 0 <= (k := j + span * h - (n - 1)) < n]
            pick_many(c, sources, out, f"window bit {j} by eights")
        for i, out in enumerate(rf):
            pick_many(c, [(u[i + k], at[k]) for k in range(span)], out, f"result bit {i} by ones")


def _fine_lines(c: Circuit, low: Form, right: Form, left: Signal, span: int) -> list[Signal]:
    """Lines at_k: low == k in a right shift, low == span - 1 - k in a left shift; all off without a shift."""
    at = c.bits("at", span)
    c.one_hot(at)
    for k, out in enumerate(at):
        d = low - k * right - (span - 1 - k) * Form.of(left)
        c.unit(1 + d - span * (1 - right - left), 1 - d, out, f"window read {k} bits up")
    return at


def _fill(c: Circuit, coarse: Form, beyond: Form, t: int, steps: int, sar: Signal, sign: Signal, outs) -> None:
    """Add sar and sign where the coarse amount is t or more (amounts beyond the word: all steps)."""
    if not outs:
        return
    if t == 0:
        c.all_of([sar, sign], outs, "sign above the word")
        return
    c.at_least(coarse + steps * beyond, t, outs, f"sign fill from coarse step {t}", when=(sar, sign))


def shift_value(a, amount, shl, shr, sar, n: int = 32):
    """What shift adds, for integer arrays a in 0..2^n-1 and amount >= 0."""
    import numpy as np

    full = (1 << n) - 1
    k = np.minimum(amount, n)
    signed = a - ((a >> (n - 1)) << n)
    return shl * ((a << k) & full) + shr * (a >> k) + sar * ((signed >> k) & full)
