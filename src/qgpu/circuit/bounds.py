"""The largest factors and product of a unit over everything that its inputs may be.

For a limit on f it needs the largest f under the condition g >= 1; any multiplier m >= 0 gives the upper bound

    max f where g >= 1   <=   max over the box of  f + m (g - 1),

and the right side, linear in every signal, is the sum of each signal's best end. The smallest bound over the few m where
the right side changes slope is the bound of the linear program. f*g is bounded by the two limits' product, and by
(f + m g)^2 / 4m. Boxes with few points are enumerated instead; otherwise one-hot groups are split.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .core import Circuit, Signal, Unit

F_LIMIT = 40
G_LIMIT = 256
H_LIMIT = 256
ENUMERATE = 1 << 12


@dataclass(slots=True)
class Limits:
    """Upper bounds of f, g and f*g where both f and g are positive (0 where they never are)."""

    f: float
    g: float
    h: float

    @staticmethod
    def greatest(items: Iterable["Limits"]) -> "Limits":
        """Each limit's largest value."""
        items = list(items)
        return Limits(max(x.f for x in items), max(x.g for x in items), max(x.h for x in items))

    @property
    def fit(self) -> bool:
        return self.f <= F_LIMIT and self.g <= G_LIMIT and self.h <= H_LIMIT


@dataclass(slots=True)
class Box:
    """Two integer forms over the same signals: coefficients (2, n), constants (2,), ranges (n,), group ids (n,; -1: none)."""

    k: np.ndarray
    const: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    group: np.ndarray

    @staticmethod
    def of(u: Unit, group_of: Mapping[Signal, int], codes: frozenset[Signal]) -> "Box | None":
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
        return Box(k, const, lo, hi, group)

    def key(self) -> tuple:
        """Equal for equal boxes, whatever their signals and groups are called."""
        names = np.unique(self.group, return_inverse=True)[1]
        free = self.group < 0
        return tuple(v.tobytes() for v in (self.k, self.const, self.lo, self.hi, names, free))

    def fix(self, keep: np.ndarray) -> "Box":
        """The same box with only these signals left, the others 0."""
        return Box(self.k[:, keep], self.const, self.lo[keep], self.hi[keep], self.group[keep])


def cases(c: Circuit, u: Unit, group_of: Mapping[Signal, int], codes: frozenset[Signal]) -> list[Box] | None:
    """The box of a unit; two of them where a group that holds only while a bit is 1 matters. None: no integers."""
    reads = u.reads()
    for k, (when, members) in enumerate(c.groups_when):
        if when in reads and len(reads.intersection(members)) > 1:
            held = {**group_of, **dict.fromkeys(members, len(c.groups) + k)}
            off, on = (Box.of(_with(u, when, bit), g, codes) for bit, g in ((0, group_of), (1, held)))
            return None if off is None or on is None else [off, on]
    box = Box.of(u, group_of, codes)
    return None if box is None else [box]


def _with(u: Unit, s: Signal, value: int) -> Unit:
    """The unit with a signal's value put in."""
    f, g = (x + (value * x.coef.get(s, 0)) - x.coef.get(s, 0) * s for x in (u.f, u.g))
    return Unit(f, g, u.outs, u.note, u.group)


def prove(box: Box, known: dict | None = None) -> Limits:
    """The best limits found: by multipliers, by enumeration of small boxes, or group by group.

    known: limits of boxes met before (lanes and stages repeat the same forms), extended here.
    """
    if known is not None:
        key = box.key()
        if key not in known:
            known[key] = prove(box)
        return known[key]
    limits = _by_multipliers(box)
    if limits.fit:
        return limits
    exact = _by_enumeration(box)
    if exact is not None:
        return exact
    groups = [g for g in np.unique(box.group) if g >= 0]
    if not groups:
        return limits
    found = []
    members = np.flatnonzero(box.group == groups[0])
    others = box.group != groups[0]
    for chosen in [None, *members]:
        keep = others.copy()
        if chosen is not None:
            keep[chosen] = True
        part = box.fix(keep)
        part.group = np.where(part.group == groups[0], -1, part.group)
        found.append(prove(part))
    return Limits.greatest(found)


def _by_multipliers(box: Box) -> Limits:
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


def _largest(box: Box, j: int) -> float:
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


def _tops(box: Box, k: np.ndarray, const: np.ndarray) -> np.ndarray:
    """The largest value over the box of each row's form (m, n) + const (m,)."""
    best = np.maximum(k * box.lo, k * box.hi)                 # (m, n)
    total = const + best[:, box.group < 0].sum(axis=1)
    for g in np.unique(box.group[box.group >= 0]):
        total = total + np.maximum(best[:, box.group == g].max(axis=1), 0)
    return total


def _by_enumeration(box: Box) -> Limits | None:
    """Exact limits of a box with few points; None for a larger one."""
    found = points(box)
    if found is None:
        return None
    f, g = found
    if not f.size:
        return Limits(0, 0, 0)
    return Limits(float(f.max()), float(g.max()), float((f * g).max()))


def points(box: Box) -> np.ndarray | None:
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
