"""Rules C of docs/certificate.md: the one signal that holds a fraction, 128 * 2^-n or 0, its memory head and the units that read it.

A head's row 0 is set to 1 where key 0 is, and every row is halved where `halve` is 1; row 1 is written anew, with the norm's constants,
on all other tokens. So the read is 128 * 2^-n, n halvings after a setting, or 0 before the first. fp32's half is off by a few units of
2^-24, so after 60 halvings the power of two is off by less than 2^-16, and rounding to bf16 restores it (`numbers` has the table).
Units with such an input have one coefficient, a power of two, and one bf16 bias in each factor: fp32 rounds such a sum once, in
any order, and rounding keeps signs and 0. So it is enough to try all values; beyond 60 halvings one factor is not positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ..bf16 import is_bf16, round_bf16
from .claims import Claims, Head, RawForm, Unit
from .facts import Facts, Form, add
from .numbers import CONSTANT_DIMS, F_LIMIT, G_LIMIT, H_LIMIT, HEAD_CONSTANT, LOOSE, NORM_WEIGHT, OUT_SCALE, SCALE, is_power

ONE, MOST = 128, 60
CONSTANT_ONE: RawForm = (1, ())


def check_counter(head: Head, facts: Facts, form) -> list[str]:
    """The head: rows, value, gate, constants, halving. form: raw form to form over bits."""
    try:
        run, rest, halve = (form(f) for f in (head.key[0], head.key[1], head.halve))
        shape = (set(head.key) == {0, 1} and head.query == {0: CONSTANT_ONE, 1: CONSTANT_ONE} and len(head.value) == 1
                 and form(head.value[0]) == run and head.gate == (CONSTANT_ONE,) and head.key_tap == 0 and head.value_tap == (0,)
                 and len(head.outs[0]) == 1 and head.outs[0][0][1] == ONE and head.constant is not None and form(head.constant) == rest)
    except (KeyError, ValueError, IndexError):
        return ["a counter is not of the known form"]
    minus: Form = (-run[0], {v: -k for v, k in run[1].items()})
    if not shape or add((1, {}), minus) != rest:
        return ["a counter is not of the known form"]
    bits = all(facts.most(f) <= 1 and facts.least(f) >= 0 for f in (run, halve))
    return [] if bits and facts.most(add(run, halve)) <= 1 else ["a counter may be set and halved at once"]


def check_power_table() -> list[str]:
    """A power of two that is off by 2^-12 of itself comes out of the head's norm as itself.

    Two rows are read at once, each with weight (2 * 128)^-1/2 = 1/16: a power of two, so that constants (162 times one) and powers
    keep their digits.
    """
    constant = float(round_bf16(np.float32(HEAD_CONSTANT / 16)))
    for off in (1 - 2.0 ** -12, 1.0, 1 + 2.0 ** -12):
        for rms in (1 - 2.0 ** -11, 1 + LOOSE):
            read = float(round_bf16(np.float32(ONE * off / 16)))
            normed = round_bf16(np.float32(read * (CONSTANT_DIMS * constant ** 2 / 128) ** -0.5 * rms))
            if float(round_bf16(np.float32(NORM_WEIGHT) * normed)) * SCALE * OUT_SCALE != 1:
                return ["the counter's power of two is not restored"]
    return []


def check_units(claims: Claims, units: Sequence[Unit]) -> tuple[list[str], list[int]]:
    """Units that read a counter: (problems, the signals that they write). Of these signals at most one is not 0 at a time."""
    problems: list[str] = []
    values = [Fraction(ONE, 1 << n) for n in range(MOST + 1)] + [Fraction(0)]
    totals: dict[int, list[Fraction]] = {}
    for u in units:
        reads = {s for x in (u.f, u.g) for s, _ in x[1]}
        if len(reads) != 1 or u.tap or not all(len(x[1]) == 1 and is_power(abs(x[1][0][1])) and is_bf16(x[0]) for x in (u.f, u.g)):
            problems.append(f"{u.note}: a factor is not a power of two times the counter and a bf16 bias")
            continue
        f, g = ([Fraction(x[0]) + Fraction(x[1][0][1]) * y for y in values] for x in (u.f, u.g))
        if not any(x[-1] <= 0 and x[-2] <= 0 for x in (f, g)):          # linear, so not positive in between
            problems.append(f"{u.note}: may be on beyond {MOST} halvings")
        if max(f) > F_LIMIT:
            problems.append(f"{u.note}: its value reaches {float(max(f)):g}")
        for s, w in u.outs:
            total = totals.setdefault(s, [Fraction(0)] * len(values))
            for n, (a, b) in enumerate(zip(f, g)):
                if a > 0 and b > 0:
                    if a.denominator > 1 or b.denominator > 1 or b > G_LIMIT or a * b > H_LIMIT:
                        problems.append(f"{u.note}: factors {a} and {b} after {n} halvings")
                    total[n] += Fraction(w) * a * b
    for s, total in totals.items():
        known = claims.signals[s]
        if any(x.denominator > 1 or not known.lo <= x <= known.hi for x in total):
            problems.append(f"signal {known.name} leaves its range or is a fraction")
    for row in zip(*totals.values()):
        if sum(x != 0 for x in row) > 1:
            problems.append("two signals of a counter are not 0 at once")
            break
    return problems, list(totals)
