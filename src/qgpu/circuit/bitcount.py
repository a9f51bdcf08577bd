"""Number of ones, of leading zeros, and reversal of the bits of a word, in one level.

The lowest bit of a count is the count itself less its higher bits, so that only these are looked up.

popc: with s the sum of all bits, [s is p or p + 1] is one unit for every even p (1*2 or 2*1).
clz:  Z_k, the k top bits are all 0, is one unit. Let a nibble below 4j zeros be b3 b2 b1 b0 from the top. The zeros that
      it adds, 3 at most, are one unit, and Z_(4j+2) is bit 1 of their number:

          (3 + b1 - 2 b2) (4 - 2 b1) / 4 = 3, 2, 1, 1  for b2 b1 = 00, 01, 10, 11     (f <= 0 if b3)

      Z_(4j+4) takes these back and counts on to j + 1 nibbles.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from .core import Circuit, Form, Signal, not_


def bit_counts(c: Circuit, a: Sequence[Signal], popc: Signal, clz: Signal, brev: Signal, rf: Sequence[Signal]) -> None:
    """Add to rf the number of ones in a, of leading zeros (n for a = 0), or a reversed, as the one line that is on says.

    a, rf: n signals, least significant first; n a multiple of 4, 8 to 32. Complete after level 1. All lines off: nothing is
    added. PTX ISA: popc, clz, brev.
    """
    n = len(a)
    assert n == len(rf) and n % 4 == 0 and 8 <= n <= 32
    with c.scope("bits"):
        with c.together():
            _count_ones(c, a, popc, rf)
        with c.together():
            _count_leading_zeros(c, a, clz, rf)
        for i, out in enumerate(rf):
            c.all_of([brev, a[n - 1 - i]], out, f"bit {n - 1 - i} in place {i}")


def _count_ones(c: Circuit, a, line: Signal, rf) -> None:
    n, s = len(a), Form.total(a)
    c.unit(line, s, rf[0], "number of ones")
    for p in range(2, n + 1, 2):
        outs = {rf[0]: -p} | {rf[i]: 1 for i in range(1, n.bit_length()) if p >> i & 1}
        if p == n:
            c.all_of([line, *a], outs, "ones alone")
            continue
        c.unit(s - p + 1 - 2 * n * not_(line), p + 2 - s, {r: Fraction(w, 2) for r, w in outs.items()},
               f"{p} or {p + 1} ones")


def _count_leading_zeros(c: Circuit, a, line: Signal, rf) -> None:
    n = len(a)
    down = list(reversed(a))
    for j in range(n // 4):
        b3, b2, b1, _ = down[4 * j:4 * j + 4]
        stop = Form.total((*down[:4 * j], b3, not_(line)))
        c.unit(3 + b1 - 2 * b2 - 4 * stop, 4 - 2 * b1, {rf[0]: Fraction(1, 4)}, f"zeros at the top of nibble {j}, at most 3")
        zeros = [not_(b) for b in down[:4 * j + 4]]
        c.all_of([line, *zeros[:-2]], {rf[1]: 1, rf[0]: -2}, f"{4 * j + 2} leading zeros or more")
        outs = {rf[0]: -1, rf[1]: -1}                                  # less 3, which is 11
        for i in range(2, n.bit_length()):
            if change := ((4 * j + 4) >> i & 1) - (4 * j >> i & 1):
                outs[rf[i]] = change
        c.all_of([line, *zeros], outs, f"{4 * j + 4} leading zeros or more")


def bit_counts_value(a, popc, clz, brev, n: int = 32):
    """What bit_counts adds, for integers or integer arrays a in 0..2^n-1."""
    bits = [a >> k & 1 for k in range(n)]
    leading, none = 0, 1
    for b in reversed(bits):
        none = none * (1 - b)
        leading = leading + none
    return popc * sum(bits) + clz * leading + brev * sum(b << (n - 1 - k) for k, b in enumerate(bits))
