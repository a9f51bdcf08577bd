"""Bitwise operations and selection: one unit a bit.

A unit is relu(f)*relu(g), so with x = a + b (0, 1 or 2) and the product chosen to be 4 where the answer is 1,

    f = 3x - 3 + 2 xor -   and          xor alone:  f = 3x-1, g = 5-3x:   0   2*2   0*..
    g = 6 - 3x -   xor + 2 and          and alone:  f = 3x-4, g = 8-3x:   0    0   2*2
                                        both (or):  f = 3x-2, g = 7-3x:   0   1*4  4*1
                                        neither:    f = 3x-3, g = 6-3x:   0    0    0

one unit with weight 1/4 computes all of them, for x = 0, 1, 2. Choosing one of two bits works the same way:

    f = 2a -  b - 2 + 2 pick_a + 5 pick_b        pick_a:  f = 2a-b,   g = 3-a+2b:   a=1: 2*2 or 1*4
    g = 2b -  a     + 3 pick_a                   pick_b:  f = 2a-b+3, g = 2b-a:     b=1: 2*2 or 4*1
                                                 neither: f = 2a-b-2 <= 0
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from .core import Circuit, Form, Signal

QUARTER = Fraction(1, 4)


def logic(c: Circuit, a: Sequence[Signal], b: Sequence[Signal], xor_line: Signal, and_line: Signal,
          r: Sequence[Signal]) -> None:
    """Add xor_line*(a ^ b) + and_line*(a & b) to r, bit by bit (both lines: a | b). One level, one unit a bit."""
    for i, (x, y, out) in enumerate(zip(a, b, r, strict=True)):
        c.unit(Form.total((3 * x, 3 * y, -3, 2 * xor_line, -1 * and_line)),
               Form.total((6, -3 * x, -3 * y, -1 * xor_line, 2 * and_line)),
               {out: QUARTER}, f"xor, and or or of bit {i}")


def pick_two(c: Circuit, x, y, pick_x, pick_y, outs, note: str, when=None) -> None:
    """Add (pick_x ? x : pick_y ? y : 0) to a signal or to {signal: weight}: one unit.

    x, y are bits; pick_x and pick_y are bits of which at most one is 1 (where both could be 1, ``when`` must be 0).
    when: a further bit that must be 1 (any picks are harmless while it is 0). y = None leaves a plain conjunction.
    """
    if isinstance(outs, Signal):
        outs = {outs: 1}
    if y is None:
        literals = [x, pick_x] if when is None else [x, pick_x, when]
        c.all_of(literals, outs, note)
        return
    off = Form.of(0) if when is None else (1 - Form.of(when)) * 7
    f = Form.total((2 * x, -1 * y, -2, Form.of(pick_x) * 2, Form.of(pick_y) * 5, -off))
    g = Form.total((2 * y, -1 * x, Form.of(pick_x) * 3))
    c.unit(f, g, {s: w * QUARTER for s, w in outs.items()}, note)


def pick_many(c: Circuit, choices: Sequence[tuple], outs, note: str, when=None) -> None:
    """Add the bit x of the one choice (x, line) whose line is 1: one unit for every two choices.

    At most one line may be 1 (unless ``when`` is given and 0). No line on: nothing is added.
    """
    for k in range(0, len(choices) - 1, 2):
        (x, px), (y, py) = choices[k], choices[k + 1]
        pick_two(c, x, y, px, py, outs, note, when)
    if len(choices) % 2:
        x, px = choices[-1]
        pick_two(c, x, None, px, None, outs, note, when)


def pick(c: Circuit, a: Sequence[Signal], b: Sequence[Signal], pick_a: Signal, pick_b: Signal,
         rf: Sequence[Signal]) -> None:
    """Add (pick_a ? a : pick_b ? b : 0) to rf, bit by bit. The two lines exclude each other. One unit a bit."""
    for i, (x, y, out) in enumerate(zip(a, b, rf, strict=True)):
        pick_two(c, x, y, pick_a, pick_b, out, f"bit {i} of a or of b")


def logic_value(a, b, xor_line, and_line):
    """What logic adds, in integers: (a ^ b) and (a & b) as the lines say."""
    return xor_line * (a ^ b) + and_line * (a & b)


def pick_value(a, b, pick_a, pick_b):
    """What pick adds, in integers."""
    return pick_a * a + pick_b * b
