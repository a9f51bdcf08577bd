"""Which circuits stay exact in bf16 layers: by samples, and by proof.

A unit relu(f)*relu(g) is computed exactly where (design, section 2.2)

- every partial sum of f and of g stays below 2^17 in size, and every coefficient is exact in bf16;
- wherever both are positive, f is an integer up to 40, g an integer up to 256, and f*g an integer up to 256.

A signal is exact where its value is an integer of at most 8 significant bits. ``check_sampled`` looks at given values.
``check_static`` proves the same for all values within the declared ranges and one-hot groups. For a limit on f it
needs the largest f under the condition g >= 1; any multiplier m >= 0 gives the upper bound

    max f where g >= 1   <=   max over the box of  f + m (g - 1),

and the right side, linear in every signal, is the sum of each signal's best end. The smallest bound over the few m where
the right side changes slope is the bound of the linear program. f*g is bounded by the two limits' product, and by
(f + m g)^2 / 4m. Units with few combinations of inputs are enumerated instead; otherwise one-hot groups are split.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..errors import CompileError
from .core import Circuit, Form, Signal, Unit

F_LIMIT = 40
G_LIMIT = 256
H_LIMIT = 256
VALUE_LIMIT = 1 << 17          # pre-activations, and every partial sum on the way to one
SUM_BITS = 24                  # fp32 adds integers exactly below 2^24 units in the last place
ENUMERATE = 1 << 12


def significant_bits(x) -> int:
    """Bits from the first to the last one of a dyadic number."""
    n = abs(Fraction(x).numerator)
    return (n // (n & -n)).bit_length() if n else 0


def is_bf16(x) -> bool:
    """Whether a number is dyadic with at most 8 significant bits."""
    d = Fraction(x).denominator
    return d & (d - 1) == 0 and significant_bits(x) <= 8


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
def check_static(c: Circuit, codes: Iterable[Signal] = ()) -> list[str]:
    """Everything that cannot be proved exact from declared ranges and one-hot groups, in words (empty: all is proved).

    Declared ranges are taken as given. codes: signals known to be -1 or +1 (never 0), so that half of one plus a half is a bit.
    Also proves that contributions to a signal may be spread over layers in any way that keeps ties together.
    """
    codes = frozenset(codes)
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
        box = _Box.of(u, group_of, codes)
        if box is None:
            problems.append(_say(u, "a factor is not always an integer"))
            continue
        limits = prove(box)
        if limits is None or limits.f > F_LIMIT or limits.g > G_LIMIT or limits.h > H_LIMIT:
            worst = limits or Limits(np.inf, np.inf, np.inf)
            problems.append(_say(u, f"f up to {worst.f:g} where g > 0, g up to {worst.g:g} where f > 0, "
                                    f"f*g up to {worst.h:g} cannot be excluded"))
            continue
        for s, w in u.outs:
            reach[s] = reach.get(s, 0) + abs(Fraction(w)) * int(limits.h)
            grain[s] = max(grain.get(s, 1), Fraction(w).denominator)
            atoms.setdefault(s, {}).setdefault(u.tie or -1 - id(u), []).append((u, w, limits, box))
    for s in c.signals.values():
        if s.lo < -256 or s.hi > 256:
            problems.append(f"signal {s.name}: the range {s.lo}..{s.hi} needs more than 8 significant bits")
        if reach.get(s, 0) * grain.get(s, 1) + 256 >= 1 << SUM_BITS:
            problems.append(f"signal {s.name}: its contributions need more than {SUM_BITS} bits")
    for s, by_tie in atoms.items():
        problems += _split_problems(s, by_tie)
    return problems


def _split_problems(s: Signal, by_tie: Mapping[int, list[tuple]]) -> list[str]:
    """Whether every part of the contributions to s, ties kept whole, leaves an integer of 8 bits.

    A base is complete before its continuation starts. A signal with a single tie has no parts.
    """
    if len(by_tie) == 1:
        return []
    low, high = (s.base.lo, s.base.hi) if s.base is not None else (0, 0)
    for members in by_tie.values():
        if len(members) == 1:
            u, w, limits, box = members[0]
            if not _whole(u, w, box):
                return [f"signal {s.name}: {_say(u, f'{w} of a product may be a fraction')}"]
            size = limits.h
        else:
            size = _pair_size(members)
        if size is None:                           # known only by the declared range
            low, high = min(low, s.lo), max(high, s.hi)
            continue
        change = float(members[0][1]) * size
        low, high = low + min(change, 0), high + max(change, 0)
    if low < -256 or high > 256:
        return [f"signal {s.name}: parts of its sum may reach {low:g} or {high:g}: more than 8 bits"]
    return []


def _whole(u: Unit, w, box: "_Box") -> bool:
    """Whether w times the unit's product is always an integer."""
    if Fraction(w).denominator == 1:
        return True
    if (u.f + u.g).coef == {} and (u.f + u.g).const == 3:          # 1*2 or 2*1
        return Fraction(w) * 2 == int(Fraction(w) * 2)
    points = _points(box)
    return points is not None and bool(np.all(np.rint(points[0] * points[1] * float(w)) == points[0] * points[1] * float(w)))


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


@dataclass(slots=True)
class Limits:
    """Upper bounds of f, g and f*g where both f and g are positive (0 where they never are)."""

    f: float
    g: float
    h: float

    @property
    def fit(self) -> bool:
        return self.f <= F_LIMIT and self.g <= G_LIMIT and self.h <= H_LIMIT


@dataclass(slots=True)
class _Box:
    """Two integer forms over the same signals: coefficients (2, n), constants (2,), ranges (n,), group ids (n,; -1: none)."""

    k: np.ndarray
    const: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    group: np.ndarray

    @staticmethod
    def of(u: Unit, group_of: Mapping[Signal, int], codes: frozenset[Signal]) -> "_Box | None":
        """The box of a unit; None where a factor may be no integer."""
        signals = list(dict.fromkeys([*u.f.coef, *u.g.coef]))
        k = np.zeros((2, len(signals)))
        const = np.zeros(2)
        lo, hi = np.zeros(len(signals)), np.zeros(len(signals))
        for j, form in enumerate((u.f, u.g)):
            const[j] = form.const
            for i, s in enumerate(signals):
                v = form.coef.get(s, 0)
                if s in codes:                     # -1, +1 = 2t - 1 with t = 0, 1
                    const[j] -= float(v)
                    v = 2 * v
                k[j, i] = v
        for i, s in enumerate(signals):
            lo[i], hi[i] = (0, 1) if s in codes else (s.lo, s.hi)
        if np.any(k != np.rint(k)) or np.any(const != np.rint(const)):
            return None
        group = np.array([-1 if s in codes else group_of.get(s, -1) for s in signals], int)
        ids, counts = np.unique(group, return_counts=True)
        group[np.isin(group, ids[counts == 1])] = -1          # a group of one says nothing here
        return _Box(k, const, lo, hi, group)

    def fix(self, keep: np.ndarray) -> "_Box":
        """The same box with only these signals left, the others 0."""
        return _Box(self.k[:, keep], self.const, self.lo[keep], self.hi[keep], self.group[keep])


def prove(box: _Box) -> Limits | None:
    """The best limits found: by multipliers, by enumeration of small boxes, or group by group."""
    limits = _by_multipliers(box)
    if limits.fit:
        return limits
    exact = _by_enumeration(box)
    if exact is not None:
        return exact
    groups = [g for g in np.unique(box.group) if g >= 0]
    if not groups:
        return limits
    worst = Limits(0, 0, 0)
    members = np.flatnonzero(box.group == groups[0])
    others = box.group != groups[0]
    for chosen in [None, *members]:
        keep = others.copy()
        if chosen is not None:
            keep[chosen] = True
        part = box.fix(keep)
        part.group = np.where(part.group == groups[0], -1, part.group)
        case = prove(part)
        worst = Limits(max(worst.f, case.f), max(worst.g, case.g), max(worst.h, case.h))
    return worst


def _by_multipliers(box: _Box) -> Limits:
    """Limits from Lagrange multipliers."""
    f = _largest(box, 0)
    if f <= 0:
        return Limits(0, 0, 0)
    g = _largest(box, 1)
    if g <= 0:
        return Limits(0, 0, 0)
    m = 2.0 ** np.arange(-4, 5)
    mixed = _tops(box, box.k[0] + m[:, None] * box.k[1], box.const[0] + m * box.const[1])
    return Limits(f, g, min(f * g, float(np.floor(np.min(mixed ** 2 / (4 * m))))))


def _largest(box: _Box, j: int) -> float:
    """Upper bound of factor j where the other is at least 1."""
    mine, other = box.k[j], box.k[1 - j]
    c_mine, c_other = box.const[j], box.const[1 - j] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = -mine / other
    m = [0.0, *ratios[np.isfinite(ratios) & (ratios > 0)]]
    for g in np.unique(box.group[box.group >= 0]):            # where another member of a group takes the lead
        at = np.flatnonzero(box.group == g)
        for a, b in itertools.combinations(at, 2):
            for x, y in itertools.product((box.lo[a], box.hi[a]), (box.lo[b], box.hi[b])):
                d = other[a] * x - other[b] * y
                r = -(mine[a] * x - mine[b] * y) / d if d else 0
                if r > 0:
                    m.append(r)
    m = np.unique(m)
    tops = _tops(box, mine + m[:, None] * other, c_mine + m * c_other)
    return float(np.floor(np.min(tops) + 1e-9))


def _tops(box: _Box, k: np.ndarray, const: np.ndarray) -> np.ndarray:
    """The largest value over the box of each row's form (m, n) + const (m,)."""
    best = np.maximum(k * box.lo, k * box.hi)                 # (m, n)
    total = const + best[:, box.group < 0].sum(axis=1)
    for g in np.unique(box.group[box.group >= 0]):
        total = total + np.maximum(best[:, box.group == g].max(axis=1), 0)
    return total


def _by_enumeration(box: _Box) -> Limits | None:
    """Exact limits of a box with few points; None for a larger one."""
    points = _points(box)
    if points is None:
        return None
    f, g = points
    if not f.size:
        return Limits(0, 0, 0)
    return Limits(float(f.max()), float(g.max()), float((f * g).max()))


def _points(box: _Box) -> np.ndarray | None:
    """f and g (2, n) at every point of the box where both are positive; None where there are too many points."""
    sizes = (box.hi - box.lo + 1).astype(int)
    free = np.flatnonzero(box.group < 0)
    groups = [np.flatnonzero(box.group == g) for g in np.unique(box.group[box.group >= 0])]
    count = float(np.prod(sizes[free].astype(float)))
    for at in groups:
        count *= float(np.sum(sizes[at] - 1) + 1)
    if count > ENUMERATE:
        return None
    sums = box.const[:, None]                                 # (2, points so far)
    for i in free:
        v = np.arange(box.lo[i], box.hi[i] + 1)
        sums = (sums[:, :, None] + (box.k[:, i, None] * v)[:, None, :]).reshape(2, -1)
    for at in groups:
        options = [np.zeros((2, 1))]
        for i in at:
            v = np.arange(box.lo[i], box.hi[i] + 1)
            options.append(box.k[:, i, None] * v[v != 0])
        sums = (sums[:, :, None] + np.concatenate(options, axis=1)[:, None, :]).reshape(2, -1)
    return sums[:, (sums[0] > 0) & (sums[1] > 0)]
