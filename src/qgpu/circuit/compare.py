"""Comparison of two 32-bit words, signed or unsigned, in two levels.

Level 1: for each chunk of 8 bits, with x = chunk of a - chunk of b (-255..255),

    t = 1 + sign(x) = relu(x + 1) - relu(x - 1)                 0 less, 1 equal, 2 greater.

A signed comparison is an unsigned one with the two top bits exchanged, so the top chunk has each form twice, gated by
the signed line. Level 2: the first chunk from the top that differs decides, which is the sign of

    S = sum of 2^k (t_k - 1)                                    -15..15,

and rel = lt [S <= -1] + eq [S == 0] + gt [S >= 1].
"""

from __future__ import annotations

from collections.abc import Sequence

from .core import Circuit, Form, Signal, binary, not_


def compare(c: Circuit, a: Sequence[Signal], b: Sequence[Signal], lt: Signal, eq: Signal, gt: Signal, signed: Signal,
            rel: Signal, *, chunk: int = 8) -> None:
    """Add lt*[a < b] + eq*[a == b] + gt*[a > b] to rel; signed chooses the order. Complete after level 2.

    a, b: words of n bits, least significant first. The three lines may be on together (lt and eq: at most);
    all off adds 0. rel: a bit.
    """
    n = len(a)
    with c.scope("compare"):
        digits = []
        for p in range(0, n, chunk):
            e = min(p + chunk, n)
            t = c.signal(f"order{p}", 0, 2)
            digits.append(t)
            name = f"order of bits {p} to {e - 1}"
            if e < n:
                _clip(c, binary(a[p:e]) - binary(b[p:e]), Form.of(1), t, name)
            else:
                low = binary(a[p:e - 1]) - binary(b[p:e - 1])
                top = (Form.of(a[e - 1]) - b[e - 1]) * (1 << (e - 1 - p))
                _clip(c, low + top, not_(signed), t, name + ", unsigned")
                _clip(c, low - top, Form.of(signed), t, name + ", signed")
        s = Form.total((t - 1) * (1 << k) for k, t in enumerate(digits))
        c.unit(s + 1 - (1 << len(digits)) * not_(eq), 1 - s, rel, "a equals b")
        c.at_least(-s, 1, rel, "a is less than b", when=(lt,))
        c.at_least(s, 1, rel, "a is greater than b", when=(gt,))


def _clip(c: Circuit, x: Form, gate: Form, out: Signal, note: str) -> None:
    """Add gate * (0, 1 or 2 for x negative, zero or positive)."""
    with c.together():
        c.unit(gate, x + 1, {out: 1}, note)
        c.unit(gate, x - 1, {out: -1}, note + " (step end)")


def compare_value(a, b, lt, eq, gt, signed, n: int = 32):
    """What compare adds, for integers (or int64 arrays) a, b in 0..2^n-1."""
    flip = signed << (n - 1)
    x, y = a ^ flip, b ^ flip
    return lt * (x < y) + eq * (x == y) + gt * (x > y)
