"""Which circuits stay exact in bf16 layers: by samples, and by proof.

A unit relu(f)*relu(g) is computed exactly where (design, section 2.2)

- every partial sum of f and of g stays below 2^17 in size, and every coefficient is exact in bf16;
- wherever both are positive, f is an integer up to 40, g an integer up to 256, and f*g an integer up to 256.

A signal is exact where its value is an integer of at most 8 significant bits. ``check_sampled`` looks at given values.
``check_static``
proves the same for all values within the declared ranges and one-hot groups (``bounds``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..errors import CompileError
from .bounds import F_LIMIT, G_LIMIT, H_LIMIT, Box, Limits, cases, points, prove
from .core import Circuit, Form, Signal, Unit

VALUE_LIMIT = 1 << 17          # pre-activations, and every partial sum on the way to one
SUM_BITS = 24                  # fp32 adds integers exactly below 2^24 units in the last place


@lru_cache(maxsize=1 << 16)
def significant_bits(x) -> int:
    """Bits from the first to the last one of a dyadic number."""
    n = abs(Fraction(x).numerator)
    return (n // (n & -n)).bit_length() if n else 0


@lru_cache(maxsize=1 << 16)
def is_bf16(x) -> bool:
    """Whether a number is dyadic with at most 8 significant bits."""
    d = Fraction(x).denominator
    return d & (d - 1) == 0 and significant_bits(x) <= 8


@lru_cache(maxsize=1 << 16)
def is_bias(x) -> bool:
    """Whether a bias is the sum of two bf16 numbers (an integer or half-integer below 2^17)."""
    x = Fraction(x)
    if x.denominator > 2 or abs(x) >= VALUE_LIMIT:
        return False
    n = abs(x.numerator)
    step = 1 << max(n.bit_length() - 8, 0)
    return is_bf16(n - (n + step // 2) // step * step)


# ---- by samples -----------------------------------------------------------------------------------------------------
def check_sampled(c: Circuit, values: Mapping[Signal, np.ndarray]) -> None:
    """Raise CompileError where a unit or a signal leaves the exact range for these values (from ``c.evaluate``).

    values: arrays (n,) or scalars. Also checks coefficients, weights and the bounds of partial sums, which depend on
    declared ranges alone.
    """
    problems = []
    for u in c.units:
        problems += [_say(u, p) for p in _linear_problems(u)]
        f, g = (_form_values(x, values) for x in (u.f, u.g))
        if np.any(np.abs(f) >= VALUE_LIMIT) or np.any(np.abs(g) >= VALUE_LIMIT):
            problems.append(_say(u, "a factor reaches 2^17"))
        f, g = np.broadcast_arrays(f, g)
        on = (f > 0) & (g > 0)
        f, g = f[on], g[on]
        if np.any(f != np.rint(f)) or np.any(g != np.rint(g)):
            problems.append(_say(u, "a factor is not an integer where the unit is on"))
        if np.any(f > F_LIMIT) or np.any(g > G_LIMIT) or np.any(f * g > H_LIMIT):
            problems.append(_say(u, f"factors up to {f.max():g} and {g.max():g}, product up to {(f * g).max():g}"))
    for s in c.signals.values():
        v = np.asarray(values[s], np.float64)
        if np.any(v < s.lo) or np.any(v > s.hi):
            problems.append(f"signal {s.name} leaves its range {s.lo}..{s.hi}")
        if np.any(v.astype(np.float32).view(np.uint32) & 0xFFFF):
            problems.append(f"signal {s.name} holds a value of more than 8 significant bits")
    refuse(problems)


def refuse(problems: list[str]) -> None:
    """Raise CompileError listing the problems, if there are any."""
    if problems:
        raise CompileError(f"{len(problems)} units or signals are not exact", why="; ".join(problems[:8]))


def _form_values(f: Form, values) -> np.ndarray:
    acc = np.float64(f.const)
    for s, k in f.coef.items():
        acc = acc + np.float64(k) * np.asarray(values[s], np.float64)
    return np.asarray(acc)


def _say(u: Unit, problem: str) -> str:
    place = f"{u.group}: " if u.group else ""
    return f"{place}{u.note or 'unnamed unit'}: {problem}"


def _linear_problems(u: Unit) -> list[str]:
    """Coefficients, biases and partial sums of a unit; its weights."""
    problems = []
    for name, form in (("f", u.f), ("g", u.g)):
        for s, k in form.coef.items():
            if not is_bf16(k):
                problems.append(f"coefficient {k} of {s.name} in {name} is not exact in bf16")
        if not is_bias(form.const):
            problems.append(f"bias {form.const} of {name} is not the sum of two bf16 numbers")
        low, high = partial_sums(form)
        if max(-low, high) >= VALUE_LIMIT:
            problems.append(f"partial sums of {name} reach {max(-low, high)}")
    for s, w in u.outs:
        if not is_bf16(w):
            problems.append(f"weight {w} into {s.name} is not exact in bf16")
    return problems


def partial_sums(f: Form) -> tuple[int | Fraction, int | Fraction]:
    """The least and the greatest that the terms of a form can add up to in any order, stopping anywhere."""
    low, high = min(f.const, 0), max(f.const, 0)
    for s, k in f.coef.items():
        low += min(k * s.lo, k * s.hi, 0)
        high += max(k * s.lo, k * s.hi, 0)
    return low, high


# ---- by proof -------------------------------------------------------------------------------------------------------
def check_static(c: Circuit, codes: Iterable[Signal] = (), outputs: Iterable[Signal] = (),
                 parts: dict[Signal, tuple[float, float]] | None = None) -> list[str]:
    """Everything that cannot be proved exact from declared ranges and one-hot groups, in words (empty: all is proved).

    Declared ranges are taken as given. codes: signals known to be -1 or +1 (never 0), so that half of one plus a half is a bit.
    outputs: signals whose size and sums are not looked at. Also proves that contributions to a signal may be spread
    over layers in any way that keeps ties together; parts, if given, receives the least and greatest value on the way.
    """
    codes, outputs = frozenset(codes), frozenset(outputs)
    known: dict = {}
    group_of: dict[Signal, int] = {}
    for k, members in enumerate(c.groups):
        for s in members:
            group_of.setdefault(s, k)
    problems = []
    reach: dict[Signal, Fraction] = {}
    grain: dict[Signal, int] = {}
    atoms: dict[Signal, dict[int, list[tuple]]] = {}
    for u in c.units:
        problems += [_say(u, p) for p in _linear_problems(u)]
        boxes = cases(c, u, group_of, codes)
        if boxes is None:
            problems.append(_say(u, "a factor is not always an integer"))
            continue
        limits = Limits.greatest(prove(box, known) for box in boxes)
        if not limits.fit:
            problems.append(_say(u, f"f up to {limits.f:g} where g > 0, g up to {limits.g:g} where f > 0, "
                                    f"f*g up to {limits.h:g} cannot be excluded"))
            continue
        for s, w in u.outs:
            reach[s] = reach.get(s, 0) + abs(Fraction(w)) * int(limits.h)
            grain[s] = max(grain.get(s, 1), Fraction(w).denominator)
            atoms.setdefault(s, {}).setdefault(u.tie or -1 - id(u), []).append((u, w, limits, boxes))
    for s in c.signals.values():
        if s in outputs:
            continue
        if s.lo < -256 or s.hi > 256:
            problems.append(f"signal {s.name}: the range {s.lo}..{s.hi} needs more than 8 significant bits")
        if reach.get(s, 0) * grain.get(s, 1) + 256 >= 1 << SUM_BITS:
            problems.append(f"signal {s.name}: its contributions need more than {SUM_BITS} bits")
    for s, by_tie in atoms.items():
        if s not in outputs:
            found, between = _split_problems(s, by_tie)
            problems += found
            if parts is not None:
                parts[s] = between
    return problems


def _split_problems(s: Signal, by_tie: Mapping[int, list[tuple]]) -> tuple[list[str], tuple[float, float]]:
    """Whether every part of the contributions to s, ties kept whole, leaves an integer of 8 bits; the least and the greatest.

    A base is complete before its continuation starts. A signal with a single tie has no parts.
    """
    if len(by_tie) == 1:
        return [], (min(s.lo, 0), max(s.hi, 0))
    low, high = (s.base.lo, s.base.hi) if s.base is not None else (0, 0)
    for members in by_tie.values():
        if len(members) == 1:
            u, w, limits, boxes = members[0]
            if not all(_whole(u, w, box) for box in boxes):
                return [f"signal {s.name}: {_say(u, f'{w} of a product may be a fraction')}"], (low, high)
            size = limits.h
        else:
            size = _pair_size(members)
        if size is None:                           # known only by the declared range
            low, high = min(low, s.lo), max(high, s.hi)
            continue
        change = float(members[0][1]) * size
        low, high = low + min(change, 0), high + max(change, 0)
    if low < -256 or high > 256:
        return [f"signal {s.name}: parts of its sum may reach {low:g} or {high:g}: more than 8 bits"], (low, high)
    return [], (low, high)


def _whole(u: Unit, w, box: "Box") -> bool:
    """Whether w times the unit's product is always an integer."""
    if Fraction(w).denominator == 1:
        return True
    if (u.f + u.g).coef == {} and (u.f + u.g).const == 3:          # 1*2 or 2*1
        return Fraction(w) * 2 == int(Fraction(w) * 2)
    found = points(box)
    if found is None:
        return False
    product = found[0] * found[1] * float(w)
    return bool(np.all(product == np.rint(product)))


def _pair_size(members: list[tuple]) -> float | None:
    """The most that a step (same f, g less a constant) or a run adds, before its weight; None if members are neither."""
    if len(members) != 2:
        return None
    (u, w, limits, _), (v, x, _, _) = members
    df, dg = u.f - v.f, u.g - v.g
    if w != -x or df.coef or dg.coef:
        return None
    if df.const == 0:
        return limits.f * float(dg.const)
    both = u.f + u.g
    if df.const == dg.const == 1 and not both.coef:
        return float(both.const - 1)
    return None
