"""A 32-bit addition with carry in, in two levels.

Sum bits need no table: with c_i the carry into bit i,

    s_i = a_i + b_i + c_i - 2 c_(i+1).

Level 1 adds within each chunk of 8 bits p..p+7 as if nothing came in from below (cin enters the lowest chunk):

    c_i = [ sum over p <= k < i of 2^(k-p) (a_k + b_k)  >=  2^(i-p) ]

is a step, two units whose g is at most 256; the step for the end of a chunk is also kept as that chunk's carry.
Level 2 lets each chunk's carry run through the ones above it. With e the chunk's end and r the bits after level 1,

    P_t = carry_e and r_e and ... and r_(e+t-1)        flips bit e+t:   r_(e+t) += P_t - 2 P_(t+1),

because P_t r_(e+t) = P_(t+1). Two carries never meet: a chunk that generates a carry is not all ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from .core import Circuit, Form, Signal, binary, not_

HALF = Fraction(1, 2)


def add(c: Circuit, a: Sequence[Signal], b: Sequence[Signal], cin, en, r1: Sequence[Signal], r2: Sequence[Signal],
        *, carry_out: Signal | None = None, chunk: int = 8) -> None:
    """r2 = (a + b + cin) mod 2^n where en is 1; nothing is added where en is 0. Complete after level 2.

    a, b: n bits each, least significant first (b complemented by the caller for a subtraction, cin then 1).
    cin: a bit or None. en: a bit, or a form of lines that exclude each other (cin may be anything while en is 0).
    r1: signals that level 1 adds to, declared as bits (0..1): they hold the chunk sums. r2: revise(r1), also bits.
    carry_out: a bit that receives the carry out of the top, complete after level 2.
    """
    n = len(a)
    off = not_(en)
    with c.scope("add"):
        ends = [min(p + chunk, n) for p in range(0, n, chunk)]
        carry = {e: c.signal(f"carry{e}") for e in ends if e < n}
        if carry_out is not None:
            carry[n] = carry_out
        for e, p in zip(ends, range(0, n, chunk)):
            into = [cin] if p == 0 and cin is not None else []
            for i in range(p, e):
                terms = [a[i], b[i], *(into if i == 0 else [])]
                c.unit(Form.total(terms) - len(terms) * off, 1, r1[i], f"sum of operand bits {i}")
            for i in range(p + 1, e + 1):
                outs = {r1[i - 1]: -2}
                if i < e:
                    outs[r1[i]] = 1
                elif e in carry:
                    outs[carry[e]] = 1
                _carry(c, a[p:i], b[p:i], into, en, outs, f"carry into bit {i} from bits {p} to {i - 1}")
        for e in ends[:-1]:
            for t in range(n - e + 1):
                outs = {r2[e + t]: 1} if e + t < n else ({carry_out: 1} if carry_out is not None else {})
                if t:
                    outs[r2[e + t - 1]] = -2
                c.all_of([carry[e], *r1[e:e + t]], outs, f"carry out of bit {e - 1} reaches bit {e + t}")


def _carry(c: Circuit, a, b, into, en, outs, note: str) -> None:
    """Add en * [a + b + into >= 2^n] for n bits a, b."""
    n = len(a)
    x = Form.total((binary(a), binary(b), *into))
    if n == 1:                                      # x is 0..2, or 0..3 with a carry in: [x == 2] or [x in 2..3]
        if not into:
            c.unit(x - 1 - 2 * not_(en), 1, outs, note)
        else:                                       # 1*2 and 2*1
            c.unit(x - 1 - 3 * not_(en), 4 - x, {s: w * HALF for s, w in outs.items()}, note)
        return
    c.at_least(x, 1 << n, outs, note, when=(en,))


def add_value(a, b, cin, en, n: int = 32):
    """What add leaves in r2 where nothing else writes: (a + b + cin) mod 2^n if en, in integers (NumPy or int)."""
    return en * ((a + b + cin) & ((1 << n) - 1))
