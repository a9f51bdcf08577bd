"""Variables with integer ranges, what excludes what, and linear forms over them: the language of the prover.

A form is (constant, {variable: coefficient}). A *term* is (weight, f, g) and stands for weight * relu(f) * relu(g). Nothing here
comes from the compiler: ranges, groups and definitions are read from the signal map by `claims`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

Form = tuple[float, dict[int, float]]
Term = tuple[float, Form, Form]


class Facts:
    """lo, hi: range of each variable, 0 inside. groups: of which groups it is a member; at most one member of a group is not 0.
    defs: variable -> terms that it is the sum of (none: any value in its range). on: variable -> terms of which one is on where it is
    not 0 (a read of memory: its rows). pairs: assumed exclusions.
    when[u, v]: bits that make u and v exclude one another while they are 1."""

    def __init__(self) -> None:
        self.lo: list[int] = []
        self.hi: list[int] = []
        self.names: list[str] = []
        self.groups: list[list[int]] = []
        self.members: list[tuple[int, ...]] = []
        self.defs: dict[int, list[Term]] = {}
        self.on: dict[int, list[Term]] = {}
        self.pairs: dict[int, set[int]] = defaultdict(set)
        self.when: dict[tuple[int, int], list[int]] = defaultdict(list)

    def var(self, name: str, lo: int, hi: int) -> int:
        """A new variable."""
        self.lo.append(min(lo, 0))
        self.hi.append(max(hi, 0))
        self.names.append(name)
        self.groups.append([])
        return len(self.lo) - 1

    def one_hot(self, members: Iterable[int]) -> None:
        """At most one of these variables is not 0."""
        at = len(self.members)
        self.members.append(tuple(members))
        for v in self.members[at]:
            self.groups[v].append(at)

    def apart(self, members: Sequence[int]) -> None:
        """The same as one_hot, for few variables: only branching uses it."""
        for v in members:
            self.pairs[v].update(u for u in members if u != v)

    def together(self, u: int, v: int) -> bool:
        """Whether neither a group nor an assumption keeps u and v apart."""
        return u not in self.pairs.get(v, ()) and not set(self.groups[u]) & set(self.groups[v])

    def most(self, f: Form) -> float:
        """An upper bound of a form: every variable at its better end, of each group only the best member."""
        total, best = f[0], {}
        many = len(f[1]) > 1
        for v, k in f[1].items():
            top = k * self.hi[v] if k > 0 else k * self.lo[v]
            if many and self.groups[v]:
                groups = self.groups[v]
                g = groups[0] if len(groups) == 1 else max(groups, key=lambda x: (sum(u in f[1] for u in self.members[x]), -x))
                if top > best.get(g, 0):
                    best[g] = top
            else:
                total += top
        return total + sum(best.values())

    def least(self, f: Form) -> float:
        """A lower bound of a form."""
        return -self.most((-f[0], {v: -k for v, k in f[1].items()}))

    def show(self, f: Form) -> str:
        """A form in words."""
        return " ".join([*(f"{k:+g} {self.names[v]}" for v, k in f[1].items()), f"{f[0]:+g}"])


def add(a: Form, b: Form) -> Form:
    """a + b."""
    out = dict(a[1])
    for v, k in b[1].items():
        out[v] = out.get(v, 0) + k
        if not out[v]:
            del out[v]
    return a[0] + b[0], out


def put(f: Form, values: dict[int, float]) -> Form:
    """The form with some variables' values put in."""
    if f[1].keys().isdisjoint(values):
        return f
    const, left = f[0], {}
    for v, k in f[1].items():
        if v in values:
            const += k * values[v]
        else:
            left[v] = k
    return const, left


def put_all(terms: Iterable[Term], values: dict[int, float]) -> list[Term]:
    """Terms with some variables' values put in."""
    return [(w, put(f, values), put(g, values)) for w, f, g in terms]


def variables(terms: Iterable[Term]) -> list[int]:
    """Every variable that terms read, in order of appearance."""
    return list(dict.fromkeys(v for t in terms for f in t[1:] for v in f[1]))


# ---- all values at once ---------------------------------------------------------------------------------------------
def grid(facts: Facts, forms: Sequence[Form], limit: int) -> np.ndarray | None:
    """Values (points, forms) that include all that the forms can be at once; None if there are more than `limit` of them.

    A group is one axis (nothing, or one member); variables whose coefficients are in proportion form one axis of their sums.
    """
    limit //= max(len(forms), 1)
    names = list(dict.fromkeys(v for f in forms for v in f[1]))
    at = {v: i for i, v in enumerate(names)}
    k = np.zeros((len(names), len(forms)))
    for j, f in enumerate(forms):
        for v, c in f[1].items():
            k[at[v], j] = c
    axes, size, taken = [], 1, set()
    for g, _ in Counter(g for v in names for g in facts.groups[v]).most_common():
        members = [v for v in facts.members[g] if v in at and v not in taken]
        if len(members) < 2:
            continue
        taken.update(members)
        axis = [np.zeros((1, len(forms)))]
        for v in members:
            x = np.arange(facts.lo[v], facts.hi[v] + 1)
            axis.append(x[x != 0][:, None] * k[at[v]])
        axes.append(np.concatenate(axis))
        size *= len(axes[-1])
        if size > limit:
            return None
    alike: dict[tuple, list[tuple[int, float]]] = {}
    for v in names:
        if v not in taken:
            column = k[at[v]]
            used = column[column != 0]
            unit = np.abs(used).min() * np.sign(used[0])
            alike.setdefault(tuple(column / unit), []).append((v, unit))
    for direction, members in alike.items():
        first, unit = members[0]
        sums = np.arange(facts.lo[first], facts.hi[first] + 1) * unit
        for v, unit in members[1:]:
            sums = np.unique(sums[:, None] + np.arange(facts.lo[v], facts.hi[v] + 1) * unit)
            if size * len(sums) > limit:
                return None
        axes.append(sums[:, None] * np.array(direction))
        size *= len(sums)
        if size > limit:
            return None
    points = np.array([f[0] for f in forms], float)[None]
    for axis in sorted(axes, key=len):
        points = (points[:, None, :] + axis[None]).reshape(-1, len(forms))
    return points


def sums(terms: Sequence[Term], points: np.ndarray, first: int = 0) -> np.ndarray:
    """The sum of terms at every point; columns first, first + 1, ... of points hold f, g of each term in turn."""
    total = np.zeros(len(points))
    for i, (w, _, _) in enumerate(terms):
        total += w * np.maximum(points[:, first + 2 * i], 0) * np.maximum(points[:, first + 2 * i + 1], 0)
    return total
