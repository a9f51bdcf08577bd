"""What cannot be at once: a variable and another one, or a variable and a term.

`conditions` says when a variable is not 0: one of its terms is on, so that term's f and g are both at least 1 (they are integers).
Two sets of such conditions exclude one another where some sum of two of their forms stays below 2 over all values, or where no
point of a small grid meets them all.
"""

from __future__ import annotations

from collections import Counter
from math import gcd

import numpy as np

from .facts import Facts, Form, Term, add, grid, put, put_all, sums
from .gates import Gates

SMALL, WIDE, LARGE = 1 << 11, 1 << 22, 16
DEPTH, FEW, FOUND = 5, 10, -2
CROSS = 600
"""Most pairs of conditions that are compared."""


class Exclusion:
    """Derived exclusions of one set of facts, each looked for once."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.gates = facts, Gates(facts)
        self._conditions: dict[int, list[list[Form]]] = {}
        self._pairs: dict[tuple[int, int], int] = {}         # FOUND, or the depth at which it was not
        self._depth = 0
        self._needs: dict[tuple[int, int], bool] = {}
        self._kills: dict[tuple, bool] = {}
        self._nears: dict[int, set[int]] = {}
        self._clashes: dict[tuple, bool] = {}

    # ---- pairs of variables -----------------------------------------------------------------------------------------
    def conditions(self, v: int, depth: int = DEPTH) -> list[list[Form]]:
        """Cases, one of which holds where v is not 0: forms that are then all at least 1."""
        if v in self._conditions:
            return self._conditions[v]
        facts, cases = self.facts, []
        literal = [(0, {v: 1})] if facts.lo[v] >= 0 else []
        for _, f, g in facts.defs.get(v) or facts.on.get(v) or [(1, (1, {}), (1, {}))]:
            if not f[1] and not g[1]:
                cases = [literal]
                break
            inner = next(iter(f[1])) if len(f[1]) == 1 and f[0] == 0 and not g[1] else None
            if inner is not None and f[1][inner] == 1 and (inner in facts.defs or inner in facts.on) and depth:
                cases += [case + literal for case in self.conditions(inner, depth - 1)]
            else:
                cases.append([x for x in (f, g) if x[1]] + literal)
        if depth == DEPTH:
            self._conditions[v] = cases
        return cases

    def excludes(self, u: int, v: int) -> bool:
        """Whether u and v are never both other than 0."""
        facts = self.facts
        if not facts.together(u, v):
            return True
        key = (u, v) if u < v else (v, u)
        known = self._pairs.get(key)
        if known is None or known > self._depth:               # never looked for, or only with less depth left
            self._pairs[key] = -1                              # while it is looked for, nothing may rest on it
            defined = not facts.defs.keys().isdisjoint(key) or not facts.on.keys().isdisjoint(key)
            found = defined and (self.gates.apart(u, v) or self._look(*key))
            self._pairs[key] = FOUND if found else self._depth
        return self._pairs[key] == FOUND

    def _look(self, u: int, v: int) -> bool:
        facts = self.facts
        mine, other = self.conditions(u), self.conditions(v)
        literal = lambda x: [(0, {x: 1})] if facts.lo[x] >= 0 else []
        self._depth += 1
        try:
            every = lambda xs, ys: all(self.apart(a + b) or self._through(u, v, a, b) for a in xs for b in ys)
            return (every(mine, [literal(v)]) or every([literal(u)], other)
                    or len(mine) * len(other) <= CROSS and every(mine, other))
        finally:
            self._depth -= 1

    def _through(self, u: int, v: int, a: list[Form], b: list[Form]) -> bool:
        """Whether something that case a or case b asks for excludes the other variable."""
        if self._depth > DEPTH:
            return False
        return (any(x != v and self.excludes(u, x) for x in self._asks(b) if x != u)
                or any(x != u and self.excludes(x, v) for x in self._asks(a) if x != v))

    def _asks(self, case: list[Form]) -> list[int]:
        """Variables with a definition that are not 0 where all forms of the case are at least 1."""
        facts = self.facts
        return list(dict.fromkeys(x for f in case for x in f[1]
                                  if (x in facts.defs or x in facts.on) and facts.most(put(f, {x: 0})) < 1))

    def needs(self, u: int, v: int) -> bool:
        """Whether u is 0 wherever v is 0."""
        key = (u, v)
        if key not in self._needs:
            cases = self.conditions(u) if u in self.facts.defs or u in self.facts.on else [[]]
            self._needs[key] = all(any(self.facts.most(put(f, {v: 0})) < 1 for f in case if v in f[1]) for case in cases)
        return self._needs[key]

    def apart(self, forms: list[Form], splits: int = 1) -> bool:
        """Whether these forms are never all at least 1."""
        facts, known = self.facts, {}
        for c, terms in forms:                             # literals: their value, and what they exclude
            for v, k in terms.items() if len(terms) == 1 and c == 0 else ():
                if k == 1 and facts.hi[v] == 1:
                    others = self.gates.excluded(v)
                    if known.get(v) == 0 or any(known.get(u) == 1 for u in others):
                        return True
                    known.update(dict.fromkeys(others, 0))
                    known[v] = 1
        forms = [put(f, known) for f in forms]
        if any(facts.most(f) < 1 for f in forms):
            return True
        forms = [f for f in forms if f[1]]
        for i, f in enumerate(forms):
            for g in forms[:i]:
                if not f[1].keys().isdisjoint(g[1].keys()) and facts.most(add(f, g)) < 2:
                    return True
        names = {v for f in forms for v in f[1]}
        count = Counter(g for v in names for g in facts.groups[v])
        if splits and count and count.most_common(1)[0][1] > 1:                                  # one case a member, and none
            members = [v for v in facts.members[count.most_common(1)[0][0]] if v in names]
            if all(facts.hi[v] == 1 for v in members):
                cases = [dict.fromkeys(members, 0), *(dict.fromkeys(self.gates.excluded(v), 0) | {v: 1} for v in members)]
                return all(self.apart([put(f, case) for f in forms], splits - 1) for case in cases)
        if sum(any(abs(k) >= LARGE for k in f[1].values()) for f in forms) > 1 and len(forms) <= FEW and self._contradict(forms):
            return True
        points = grid(facts, forms, SMALL) if forms and len(names) <= FEW else None
        return points is not None and not np.any((points >= 1).all(axis=1))

    def _contradict(self, forms: list[Form]) -> bool:
        """Whether two of the forms, or one and a combination of two, are never both at least 1: combined so that a variable drops out."""
        made = [h for i, f in enumerate(forms) for g in forms[:i] for h in _without_one(f, g)]
        more = (h for f in made[:FEW * FEW] for g in forms for h in _without_one(f, g))
        return any(self.facts.most(h) < 1 for h in made) or any(self.facts.most(h) < 1 for h in more)

    # ---- a variable and a term --------------------------------------------------------------------------------------
    def kills(self, v: int, term: Term) -> bool:
        """Whether the term is 0 wherever v is not 0."""
        (a, f), (b, g) = term[1:]
        if v in f or v in g:
            return False
        key = (v, a, tuple(f.items()), b, tuple(g.items()))
        if key not in self._kills:
            forms = [x for x in term[1:] if x[1]]
            near = self._near(v)
            meets = any(u in near or not near.isdisjoint(-1 - k for k in self.facts.groups[u]) for x in forms for u in x[1])
            self._kills[key] = meets and all(self.apart(case + forms, 0) for case in self.conditions(v)) or any(
                self._clash(v, x) for x in forms if len(x[1]) > 2)
        return self._kills[key]

    def _near(self, v: int) -> set[int]:
        """Variables of v's conditions, and -1 - group for their groups."""
        if v not in self._nears:
            names = {u for case in self.conditions(v) for f in case for u in f[1]}
            self._nears[v] = names | {-1 - g for u in names for g in self.facts.groups[u]}
        return self._nears[v]

    def _clash(self, v: int, f: Form) -> bool:
        """Whether v and f are never both at least 1, by trying all that v and the variables of f are made of."""
        facts, of_v = self.facts, self._leaves(v)
        if len(of_v) < 2 or facts.hi[v] != 1 or facts.lo[v] < 0 or any(k != 1 for k in f[1].values()):
            return False                                   # looked for where f is a conjunction
        related = [u for u, k in f[1].items() if k > 0 and u in facts.defs and self._leaves(u) & of_v]
        if len(related) < 2:
            return False
        key = (v, f[0], tuple(f[1].items()))
        if key not in self._clashes:
            self._clashes[key] = self._try(v, related, f)
        return self._clashes[key]

    def _leaves(self, v: int) -> set[int]:
        """What v is made of, groups aside."""
        return {u for t in self.facts.defs.get(v, ()) for x in t[1:] for u in x[1] if not self.facts.groups[u]}

    def _try(self, v: int, related: list[int], f: Form) -> bool:
        facts = self.facts
        made = [facts.defs[v], *(facts.defs[u] for u in related)]
        rest = facts.most((f[0], {u: k for u, k in f[1].items() if u not in related}))
        groups = Counter(g for t in made[0] for x in t[1:] for u in x[1] for g in facts.groups[u])
        cases: list[dict[int, float]] = [{}]
        if groups:
            members = facts.members[groups.most_common(1)[0][0]]
            cases = [dict.fromkeys(members, 0)]
            for m in members:
                cases.append(dict.fromkeys(self.gates.excluded(m), 0) | {m: 1})
        for case in cases:
            terms = [self.alive(put_all(d, case)) for d in made]
            if not terms[0]:
                continue
            points = grid(facts, [x for ts in terms for t in ts for x in t[1:]], WIDE)
            if points is None:
                return False
            at, values = 0, []
            for ts in terms:
                values.append(sums(ts, points, at))
                at += 2 * len(ts)
            total = rest + sum(f[1][u] * x for u, x in zip(related, values[1:]))
            if np.any((values[0] >= 1) & (total >= 1)):
                return False
        return True

    def alive(self, terms: list[Term]) -> list[Term]:
        """Terms without those that are 0 for certain."""
        most = self.facts.most
        return [(w, f, g) for w, f, g in terms if most(f) > 0 and most(g) > 0 and most(add(f, g)) >= 2]


def _without_one(f: Form, g: Form) -> list[Form]:
    """Forms that are at least 1 where f and g are: a f + b g is at least a + b, with a and b such that a variable drops out."""
    out: dict[tuple[int, int], Form] = {}
    for v in f[1].keys() & g[1].keys():
        b, a = abs(f[1][v]), abs(g[1][v])
        a, b = a // gcd(a, b), b // gcd(a, b)
        if f[1][v] * g[1][v] < 0 and (a, b) not in out:
            c, terms = add((a * f[0], {u: a * k for u, k in f[1].items()}), (b * g[0], {u: b * k for u, k in g[1].items()}))
            out[a, b] = c - (a + b - 1), terms
    return list(out.values())
