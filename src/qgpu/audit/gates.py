"""What a variable hangs on: gates that are not 0 wherever it is not, and variables that are 0 wherever a gate is not.

A gate is a variable that excludes others by a group or an assumption, such as an operation's line. A term is on only where both its
forms are 1 or more; it needs a gate if it cannot be on once everything that needs the gate is 0. A variable needs a gate if all its
terms do, but for some that are then constant and add up to 0. Likewise, where a gate is on, what it excludes is 0, and so is every
variable none of whose terms can then be on, but for such.
Definitions refer to layers below only, so that both are found from the bottom up, each variable once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .facts import Facts, Term, add, grid, put

NONE: frozenset[int] = frozenset()
FEW, SMALL = 6, 1 << 9
"""Most variables and numbers of a grid that shows a term to be 0."""


class Gates:
    """Gates of one set of facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._of: dict[int, frozenset[int]] = {}
        self._off: dict[tuple[int, int], bool] = {}

    def of(self, v: int) -> frozenset[int]:
        """Gates that are not 0 wherever v is not 0, v itself among them if it is one."""
        found = self._of.get(v)
        if found is not None:
            return found
        facts = self.facts
        me = frozenset((v,)) if facts.groups[v] or v in facts.pairs else NONE
        terms = facts.defs.get(v) or facts.on.get(v)
        if not terms:                                       # not kept: its terms may become known later
            return me
        self._of[v] = me                                    # while it is looked for, nothing more is known of it
        shared: set[int] | None = None
        for t in terms:
            if t[1][1] or t[2][1]:
                gates = set().union(*(self.of(x) for f in t[1:] for x in f[1]))
                shared = gates if shared is None else shared & gates
                if not shared:
                    break
        self._of[v] = me | frozenset(m for m in shared or () if self._zero(v, terms, lambda t, m=m: self._hanging(t, m)))
        return self._of[v]

    def of_term(self, t: Term) -> frozenset[int]:
        """Gates that are not 0 wherever the term is on."""
        gates = set().union(*(self.of(v) for f in t[1:] for v in f[1]))
        return frozenset(m for m in gates if self._dead(t, self._hanging(t, m)))

    def _hanging(self, t: Term, m: int) -> dict[int, int]:
        return {v: 0 for f in t[1:] for v in f[1] if m in self.of(v)}

    def excluded(self, m: int) -> set[int]:
        """What groups and assumptions say is 0 where m is not."""
        facts = self.facts
        return ({u for g in facts.groups[m] for u in facts.members[g]} | facts.pairs.get(m, set())) - {m}

    def off(self, v: int, m: int) -> bool:
        """Whether v is 0 wherever gate m is not 0."""
        if v == m:
            return False
        key = (v, m)
        if key in self._off:
            return self._off[key]
        facts = self.facts
        terms = facts.defs.get(v) or facts.on.get(v)
        if not self.of(v).isdisjoint(self.excluded(m)):
            self._off[key] = True
        elif not terms:
            return False
        else:
            self._off[key] = False
            self._off[key] = self._zero(v, terms, lambda t: self._known(t, m))
        return self._off[key]

    def term_off(self, t: Term, m: int) -> bool:
        """Whether the term is 0 wherever gate m is not 0."""
        return self._dead(t, self._known(t, m))

    def _known(self, t: Term, m: int) -> dict[int, int]:
        known = {v: 0 for f in t[1:] for v in f[1] if self.off(v, m)}
        return known | {m: 1} if (self.facts.lo[m], self.facts.hi[m]) == (0, 1) else known

    def _zero(self, v: int, terms: list[Term], values: Callable[[Term], dict[int, int]]) -> bool:
        """Whether v is 0 wherever the variables of each term have these values: no term is on, or those that are make up 0."""
        total = 0.0
        for t in terms:
            known = values(t)
            if self._dead(t, known):
                continue
            f, g = put(t[1], known), put(t[2], known)
            if f[1] or g[1] or v not in self.facts.defs:
                return False
            total += t[0] * max(f[0], 0) * max(g[0], 0)
        return total == 0

    def _dead(self, t: Term, values: dict[int, int]) -> bool:
        """Whether the term is 0 wherever some of its variables have these values."""
        if not values:
            return False
        most, f, g = self.facts.most, put(t[1], values), put(t[2], values)
        if most(f) < 1 or most(g) < 1 or most(add(f, g)) < 2:
            return True
        if len(f[1].keys() | g[1].keys()) > FEW or f[1].keys().isdisjoint(g[1]):
            return False
        points = grid(self.facts, [f, g], SMALL)
        return points is not None and not np.any((points >= 1).all(axis=1))

    def apart(self, u: int, v: int) -> bool:
        """Whether a gate that one of them needs keeps the other 0."""
        return any(self.off(v, m) for m in self.of(u)) or any(self.off(u, m) for m in self.of(v))
