"""Proofs about sums of terms over all values of their variables: bounds, whole grids, and cases.

A goal is a property of a list of terms and a constant. It is tried by bounds of each term, then by a gate that some terms need and
that keeps others 0 (`gates`): where it is 0, and where not; then by a grid of all values, then by splitting: a variable's values one
after another, with everything that excludes it set to 0. `Prover.prove` is sound and not complete: True is a proof, False says only that
none was found.

Equal goals are proved once. A proof lists the exclusions that it used, and these are looked up anew for every goal that repeats it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import floor

import numpy as np

from .exclusion import Exclusion
from .facts import Facts, Term, add, grid, put_all, sums, variables
from .gates import Gates

STEPS = 3000
"""Most cases of one proof."""
SPLIT, MANY = 40, 48
FIRST, LAST = 1 << 17, 1 << 23
"""Numbers in a grid that is tried before splitting, and where nothing is left to split."""
F_LIMIT, G_LIMIT, H_LIMIT = 40, 256, 256
"""Largest factors and product that a unit computes exactly (`numbers`)."""


@dataclass(frozen=True)
class Between:
    """The sum lies in low..high."""

    low: float
    high: float

    def bounds(self, facts: Facts, terms: list[Term], const: float) -> bool:
        """Whether bounds of each term suffice."""
        low, high = extent(facts, terms)
        return self.low <= const + low and const + high <= self.high

    def grid(self, terms: list[Term], points: np.ndarray, const: float) -> bool:
        """Whether it holds at every point."""
        total = const + sums(terms, points)
        return bool(total.min() >= self.low and total.max() <= self.high)


@dataclass(frozen=True)
class Exact:
    """Each term's factors, where both are positive, are integers within the limits. Weights do not matter."""

    def bounds(self, facts: Facts, terms: list[Term], const: float) -> bool:
        """Whether bounds of each term suffice."""
        for _, f, g in terms:
            a, b = facts.most(f), facts.most(g)
            if not (a <= F_LIMIT and b <= G_LIMIT and (a * b <= H_LIMIT or facts.most(add(f, g)) ** 2 <= 4 * H_LIMIT)):
                return False
        return True

    def grid(self, terms: list[Term], points: np.ndarray, const: float) -> bool:
        """Whether it holds at every point."""
        f, g = points[:, 0::2], points[:, 1::2]
        on = (f > 0) & (g > 0)
        f, g = f[on], g[on]
        return not (np.any(f > F_LIMIT) or np.any(g > G_LIMIT) or np.any(f * g > H_LIMIT))


@dataclass(frozen=True)
class Whole:
    """The sum is an integer."""

    def bounds(self, facts: Facts, terms: list[Term], const: float) -> bool:
        """Whether weights suffice: factors are integers."""
        return const == floor(const) and all(w == floor(w) for w, _, _ in terms)

    def grid(self, terms: list[Term], points: np.ndarray, const: float) -> bool:
        """Whether it holds at every point."""
        total = const + sums(terms, points)
        return bool(np.all(total == np.rint(total)))


def extent(facts: Facts, terms: list[Term]) -> tuple[float, float]:
    """Bounds of a sum of terms, each bounded apart; f g <= (f + g)^2 / 4."""
    low = high = 0.0
    for w, f, g in terms:
        top = min(facts.most(f) * facts.most(g), facts.most(add(f, g)) ** 2 / 4)
        top, bottom = w * floor(top + 1e-9), w * max(facts.least(f), 0) * max(facts.least(g), 0)
        low, high = low + min(top, bottom), high + max(top, bottom)
    return low, high


@dataclass
class Proof:
    """holds: whether one was found. used: exclusions that it rests on, by position of their variables."""

    holds: bool
    used: list[tuple] = field(default_factory=list)


class Prover:
    """Proves goals over one set of facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.exclusion = facts, Exclusion(facts)
        self.gates: Gates = self.exclusion.gates
        self.known: dict[tuple, list[Proof]] = {}
        self.steps = self.found = self.repeated = 0

    def prove(self, goal: Between | Exact | Whole, terms: list[Term], const: float = 0.0) -> bool:
        """Whether the goal holds for every value of the variables that the facts allow, as far as a proof is found."""
        key, names = self._key(goal, terms, const)
        proofs = self.known.setdefault(key, [])
        for proof in proofs:
            if not proof.used or self._holds_again(proof, names):
                self.repeated += 1
                return proof.holds
        for kills in (False, True):                            # most proofs need no exclusion of whole terms
            search = _Search(self, goal, kills)
            holds = search.go(terms, const, {})
            if holds:
                break
        at = {v: i for i, v in enumerate(names)}
        used = [_renamed(u, at) for u in search.used.values()]
        if holds or not used:
            proofs.append(Proof(holds, used))
        self.found += 1
        return holds

    def _holds_again(self, proof: Proof, names: list[int]) -> bool:
        for kind, *what in proof.used:
            if kind == "pair":
                good = self.exclusion.excludes(names[what[0]], names[what[1]])
            elif kind == "needs":
                good = self.exclusion.needs(names[what[0]], names[what[1]])
            elif kind == "when":
                good = names[what[0]] in self.facts.when.get((names[what[1]], names[what[2]]), ())
            elif kind == "gate":
                good = self._gate_again(*_renamed(("gate", *what), names)[1:])
            else:
                good = self.exclusion.kills(*_renamed(("kills", *what), names)[1:])
            if not good:
                return False
        return True

    def _gate_again(self, gate: int | None, hang: tuple, off: tuple) -> bool:
        """Whether there is a gate that all of `hang` need and that keeps all of `off` 0: variables and terms."""
        gates = self.gates
        needed = [gates.of(x) if isinstance(x, int) else gates.of_term(x) for x in hang]
        found = frozenset.intersection(*needed) if gate is None else {gate}
        return any(all(m in n for n in needed) and all(gates.off(x, m) if isinstance(x, int) else gates.term_off(x, m) for x in off)
                   for m in found)

    def _key(self, goal, terms: list[Term], const: float) -> tuple[tuple, list[int]]:
        """Equal for equal goals whatever their variables are called, and the variables."""
        facts, at = self.facts, {}
        form = lambda f: (f[0], tuple((at.setdefault(v, len(at)), k) for v, k in f[1].items()))
        shape = tuple((w, form(f), form(g)) for w, f, g in terms)
        names = list(at)
        count = Counter(g for v in names for g in facts.groups[v])
        numbers: dict[int, int] = {}
        about = tuple((facts.lo[v], facts.hi[v], tuple(numbers.setdefault(g, len(numbers)) for g in facts.groups[v] if count[g] > 1))
                      for v in names)
        return (goal, shape, about, const), names


class _Search:
    """One search for a proof."""

    def __init__(self, prover: Prover, goal: Between | Exact | Whole, kills: bool) -> None:
        self.prover, self.goal, self.kills, self.left = prover, goal, kills, STEPS
        self.facts, self.exclusion = prover.facts, prover.exclusion
        self.used: dict[object, tuple] = {}

    def go(self, terms: list[Term], const: float, fixed: dict[int, float]) -> bool:
        """Whether the goal holds where `fixed` variables have these values."""
        facts = self.facts
        terms = self.exclusion.alive(terms)
        if not isinstance(self.goal, Exact):
            const += sum(w * f[0] * g[0] for w, f, g in terms if not f[1] and not g[1])
            terms = [t for t in terms if t[1][1] or t[2][1]]
        if self.goal.bounds(facts, terms, const):
            return True
        if not terms:
            return False
        self.left -= 1
        self.prover.steps += 1
        if self.left < 0:
            return False
        cases = None if isinstance(self.goal, Exact) or len(terms) < 2 else self._by_gate(terms)
        if cases:
            return all(self.go(part, const, fixed | values) for part, values in cases)
        if isinstance(self.goal, Between) and self._by_parts(terms, const):
            return True
        points = self._grid(terms, FIRST)
        if points is not None and self.goal.grid(terms, points, const):
            return True
        if not variables(terms):
            return False
        v, splits = self._choose(terms, fixed)
        if not splits:
            if points is not None:
                return False
            points = self._grid(terms, LAST)
            if points is not None:
                return self.goal.grid(terms, points, const)
        if facts.hi[v] - facts.lo[v] > SPLIT:
            return False
        names = variables(terms)
        for x in range(facts.lo[v], facts.hi[v] + 1):
            values = self._follows(v, x, names, fixed)
            part = put_all(terms, values)
            if x and self.kills:
                part = [t for t, old in zip(part, terms) if not self._killed(v, old, t)]
            if not self.go(part, const, fixed | values):
                return False
        return True

    def _follows(self, v: int, x: int, names: list[int], fixed: dict[int, float]) -> dict[int, float]:
        """Values that follow where v is x, v's among them: of what excludes it, needs it or is needed by it, and so on."""
        facts, values, open_ = self.facts, {v: x}, [v]
        while open_:
            w = open_.pop()
            for u in (u for u in names if u not in values):
                if values[w]:
                    if self._excluded(w, u, fixed | values):
                        values[u] = 0
                    elif (facts.lo[u], facts.hi[u]) == (0, 1) and self._needed(w, u):
                        values[u] = 1
                elif self._needed(u, w):
                    values[u] = 0
                if u in values:
                    open_.append(u)
        return values

    def _by_gate(self, terms: list[Term]) -> list[tuple[list[Term], dict[int, float]]] | None:
        """Two cases, a gate 0 and not 0: what is left of the terms, and its value if they name it. Both are fewer terms."""
        gates, names, best = self.prover.gates, variables(terms), None
        needs = [gates.of_term(t) for t in terms]
        for m, n in Counter(m for ms in needs for m in sorted(ms)).items():
            off = [gates.term_off(t, m) for t in terms] if n < len(terms) else ()
            if any(off) and (best is None or n + sum(off) > best[0]):
                best = n + sum(off), m, off
        if best is None:
            return None
        _, m, off = best
        hanging = [v for v in names if m in gates.of(v)]
        others = [v for v in names if gates.off(v, m)]
        one = {m: 1} if m in names and (self.facts.lo[m], self.facts.hi[m]) == (0, 1) else {}
        entry = ("gate", m if m in names else None, tuple([*hanging, *(t for t, ms in zip(terms, needs) if m in ms)]),
                 tuple([*others, *(t for t, dead in zip(terms, off) if dead)]))
        self.used[len(self.used), m] = entry
        return [(put_all([t for t, ms in zip(terms, needs) if m not in ms], dict.fromkeys(hanging, 0)), {m: 0} if m in names else {}),
                (put_all([t for t, dead in zip(terms, off) if not dead], dict.fromkeys(others, 0) | one), one)]

    def _grid(self, terms: list[Term], limit: int) -> np.ndarray | None:
        return grid(self.facts, [x for t in terms for x in t[1:]], limit)

    def _excluded(self, v: int, u: int, fixed: dict[int, float]) -> bool:
        """Whether u is 0 where v is not; noted as used."""
        if self.exclusion.excludes(v, u):
            if not set(self.facts.groups[v]) & set(self.facts.groups[u]):
                self.used["pair", v, u] = ("pair", v, u)
            return True
        for bit in self.facts.when.get((v, u), ()):
            if fixed.get(bit) == 1:
                self.used["when", bit, v, u] = ("when", bit, v, u)
                return True
        return False

    def _needed(self, u: int, v: int) -> bool:
        """Whether u is 0 where v is; noted as used."""
        if self.exclusion.needs(u, v):
            self.used["needs", u, v] = ("needs", u, v)
            return True
        return False

    def _killed(self, v: int, old: Term, new: Term) -> bool:
        """Whether the term, with values put in or before, is 0 where v is not."""
        for t in (new, old):
            if (t[1][1] or t[2][1]) and self.exclusion.kills(v, t):
                self.used["kills", v, t[1][0], tuple(t[1][1].items()), t[2][0], tuple(t[2][1].items())] = ("kills", v, t)
                return True
        return False

    def _by_parts(self, terms: list[Term], const: float) -> bool:
        """Parts that share no variable, each by its own grid or bounds."""
        parts = components(self.facts, terms)
        if len(parts) < 2:
            return False
        low = high = const
        for part in parts:
            points = self._grid(part, LAST)
            a, b = extent(self.facts, part) if points is None else (lambda x: (x.min(), x.max()))(sums(part, points))
            low, high = low + a, high + b
        return self.goal.low <= low and high <= self.goal.high

    def _choose(self, terms: list[Term], fixed: dict[int, float]) -> tuple[int, bool]:
        """The variable to split, and whether that tells more than a grid."""
        facts, names = self.facts, variables(terms)
        small = min((f for t in terms for f in t[1:] if f[1]), key=lambda f: len(f[1]))
        simple = max(small[1], key=lambda v: sum(v in f[1] for t in terms for f in t[1:]))
        if len(names) > MANY:                                  # too many pairs to look at
            return simple, True
        here = set(names)
        score: Counter[int] = Counter()
        for i, v in enumerate(names):
            for u in names[:i]:
                bits = facts.when.get((v, u), ())
                if any(b in here for b in bits):
                    return next(b for b in bits if b in here), True
                if set(facts.groups[v]) & set(facts.groups[u]):
                    continue
                if self.exclusion.excludes(v, u) or any(fixed.get(b) == 1 for b in bits):
                    score[v] += 1
                    score[u] += 1
        if not score:
            score.update(v for v in names for u in names if u != v and self.exclusion.needs(u, v))
        for v in names if self.kills and not score else ():
            if v in facts.defs and facts.hi[v] == 1 and facts.lo[v] == 0:
                score[v] += 4 * sum(self.exclusion.kills(v, t) for t in terms)
        if score:
            return max(score, key=lambda v: (score[v], -names.index(v))), True
        return simple, False


def _renamed(used: tuple, to) -> tuple:
    """The entry of a proof with each variable v named to[v]."""
    form = lambda f: (f[0], {to[v]: k for v, k in f[1].items()})
    term = lambda x: to[x] if isinstance(x, int) else (x[0], form(x[1]), form(x[2]))
    if used[0] == "gate":
        return "gate", None if used[1] is None else to[used[1]], tuple(map(term, used[2])), tuple(map(term, used[3]))
    return used[0], *map(term, used[1:])


def components(facts: Facts, terms: list[Term]) -> list[list[Term]]:
    """Terms by connected part: two are connected that share a variable or a group."""
    parent = list(range(len(terms)))

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    seen: dict[tuple, int] = {}
    for i, t in enumerate(terms):
        for v in (v for f in t[1:] for v in f[1]):
            for key in [("v", v), *(("g", g) for g in facts.groups[v])]:
                parent[root(i)] = root(seen.setdefault(key, i))
    parts: dict[int, list[Term]] = {}
    for i, t in enumerate(terms):
        parts.setdefault(root(i), []).append(t)
    return list(parts.values())
