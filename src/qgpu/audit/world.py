"""What the map says happens: variables for the prover, who writes and reads each signal, and what each dim holds at each boundary.

Rules W of docs/certificate.md. A signal's value at a token is its base's value and the sum of everything that layers add to it; a
unit may read it only between the layer that completes it and the one that changes its dim again, so that a signal has one value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import CheckpointError
from .claims import Claims, Head, RawForm, Unit
from .facts import Facts, Form, Term

ONE: Form = (1, {})


@dataclass
class Life:
    """first, last: layers that add to a signal (0: it is there from the start; none: nobody writes it). cleared: layer that frees it."""

    first: int | None = None
    last: int | None = None
    cleared: int | None = None


@dataclass
class World:
    """Facts over the map's signals, and their lives. writes[s][layer]: terms added. revised[s]: the signal that continues s.

    raw: (signal, forms) of units that read a fraction are kept apart (`counter`).
    """

    claims: Claims
    facts: Facts = field(default_factory=Facts)
    lives: list[Life] = field(default_factory=list)
    writes: list[dict[int, list[Term]]] = field(default_factory=list)
    revised: dict[int, int] = field(default_factory=dict)
    tapped: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        c = self.claims
        for i, s in enumerate(c.signals):
            self.facts.var(s.name, *((0, 1) if s.kind == "code" else (s.lo, s.hi)))
            self.lives.append(Life(0, 0) if s.kind == "code" else Life())
            self.writes.append({})
            if s.base is not None:
                if s.base in self.revised or s.base >= i or c.signals[s.base].dim != s.dim:
                    raise CheckpointError(f"signal {s.name} cannot continue {c.signals[s.base].name}", where="signal map")
                self.revised[s.base] = i
        for number, heads in enumerate(c.layers, 1):
            for head in heads:
                for s, clears in self._written(head):
                    life = self.lives[s]
                    if clears:
                        life.cleared = number
                    else:
                        life.first = number if life.first is None else life.first
                        life.last = number

    @staticmethod
    def _written(head: Head):
        for u in head.units:
            yield from ((s, u.clears) for s, _ in u.outs)
        for outs in head.outs:
            yield from ((s, False) for s, _ in outs)

    # ---- forms ------------------------------------------------------------------------------------------------------
    def var(self, s: int, tap: int) -> int:
        """The variable of a signal, `tap` tokens before."""
        if not tap:
            return s
        if (s, tap) not in self.tapped:
            f = self.facts
            self.tapped[s, tap] = f.var(f"{f.names[s]} {tap} before", f.lo[s], f.hi[s])
        return self.tapped[s, tap]

    def form(self, raw: RawForm, tap: int = 0) -> Form:
        """A form over bits. Raises ValueError where it is not always an integer."""
        const, terms = raw[0], {}
        for s, k in raw[1]:
            if self.claims.signals[s].kind == "code":
                const, k = const - k, 2 * k
            terms[self.var(s, tap)] = k
        if const != int(const) or any(k != int(k) for k in terms.values()):
            raise ValueError("a form is not always an integer")
        return int(const), {v: int(k) for v, k in terms.items() if k}

    # ---- who reads and writes what ------------------------------------------------------------------------------------
    def chain(self, s: int) -> list[int]:
        """A signal and everything that it continues, newest first."""
        out = [s]
        while (base := self.claims.signals[out[-1]].base) is not None:
            out.append(base)
        return out

    def complete(self, s: int, after: int) -> bool:
        """Whether nothing is added to s, or to what it continues, above layer `after`."""
        return all(self.lives[t].last is not None and self.lives[t].last <= after for t in self.chain(s) if self._has_life(t))

    def _has_life(self, s: int) -> bool:
        life, base = self.lives[s], self.claims.signals[s].base
        return life.last is not None or base is None

    def readable(self, s: int, layer: int) -> bool:
        """Whether the dim of s holds exactly s at the input of this layer."""
        if not self.complete(s, layer - 1):
            return False
        t = s
        while t in self.revised:
            t = self.revised[t]
            first = self.lives[t].first
            if first is not None and first < layer:
                return False
        cleared = [self.lives[x].cleared for x in self.chain(t)]
        return all(at is None or at >= layer for at in cleared)

    def contents(self, boundary: int) -> dict[int, int]:
        """dim -> newest signal written to at this boundary. Raises CheckpointError where two signals share a dim."""
        out: dict[int, int] = {}
        for s, life in enumerate(self.lives):
            if life.first is None or life.first > boundary:
                continue
            top, newer = s, False
            while top in self.revised:
                top = self.revised[top]
                first = self.lives[top].first
                newer |= first is not None and first <= boundary
            if newer:
                continue
            if any((at := self.lives[t].cleared) is not None and at <= boundary for t in self.chain(top)):
                continue
            dim = self.claims.signals[s].dim
            if dim in out:
                raise CheckpointError(f"dim {dim} holds both {self.facts.names[out[dim]]} and {self.facts.names[s]} after layer {boundary}",
                                      where="signal map")
            out[dim] = s
        return out

    def sum_of(self, s: int, boundary: int) -> list[Term]:
        """The terms that make up what the dim of s holds at a boundary: its base where that is complete, else the base's terms."""
        terms = [t for layer, ts in sorted(self.writes[s].items()) if layer <= boundary for t in ts]
        base = self.claims.signals[s].base
        if base is None:
            return terms
        first = self.lives[s].first
        if first is not None and self.complete(base, first - 1):
            return terms + [(1, (0, {base: 1}), ONE)]
        return terms + self.sum_of(base, boundary)


def is_clearing(units: list[Unit], s: int, low: int) -> bool:
    """Whether units that write only to s take away exactly its value."""
    me, one = (0, ((s, 1),)), (1, ())
    made = sorted((u.f, u.g, u.outs) for u in units)
    if any(u.tap for u in units):
        return False
    if len(made) == 1:
        return low >= 0 and made[0] in ((me, one, ((s, -1),)), (one, me, ((s, -1),)))
    return made == sorted([(one, me, ((s, -1),)), (one, (0, ((s, -1),)), ((s, 1),))])
