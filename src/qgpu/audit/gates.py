"""What a variable hangs on: gates that are not 0 wherever it is not, and variables that are 0 wherever a gate is not.

A gate is a variable that excludes others by a group or an assumption, such as an operation's line. A term is on only where both its
forms are 1 or more; it needs a gate if it cannot be on once everything that needs the gate is 0. A variable needs what all its
terms need. Likewise, where a gate is on, what it excludes is 0, and so is every variable none of whose terms can then be on.
Definitions refer to layers below only, so that both are found from the bottom up, each variable once.
"""

from __future__ import annotations

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
        shared = self.of_term(terms[0])
        for t in terms[1:]:
            if not shared:
                break
            shared = frozenset(m for m in shared if self._dead(t, self._hanging(t, m)))
        self._of[v] = me | shared
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
            self._off[key] = all(self.term_off(t, m) for t in terms)
        return self._off[key]

    def term_off(self, t: Term, m: int) -> bool:
        """Whether the term is 0 wherever gate m is not 0."""
        known = {v: 0 for f in t[1:] for v in f[1] if self.off(v, m)}
        if (self.facts.lo[m], self.facts.hi[m]) == (0, 1):
            known[m] = 1
        return self._dead(t, known)

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
