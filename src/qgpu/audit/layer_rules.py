"""Rules L of docs/certificate.md for one layer: units, memory heads, sums, norms, and what its dims hold afterwards.

`LayerCheck.run` returns problems in words and the layer's facts. It must be called for the layers in order: ranges and one-hot groups
of one layer rest on those proved below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from .claims import Head, Unit
from .counting import check_counter, check_units
from .facts import Form
from .memory import check_rows, check_value, exclusive_rows
from .numbers import H_LIMIT, HEAD_CONSTANT, LARGEST, MARGIN, CONSTANT_DIMS, RESIDUAL_CONSTANT, SCALE, SUM_BITS, grain
from .prover import Between, Exact, Prover, Whole
from .shared import check_shared
from .world import ONE, World, is_clearing

INTEGERS = Between(-LARGEST, LARGEST)


@dataclass
class LayerFacts:
    """What was proved of one layer. bits: most bits that any sum needs. proved: contents shown to lie in their claimed range."""

    layer: int
    heads: int = 0
    memory_heads: int = 0
    units: int = 0
    bits_in: int = 0
    bits_out: int = 0
    head_margin: float = 0.0
    stream_margin: float = 0.0
    contents: int = 0
    groups: int = 0
    unproved: list[str] = field(default_factory=list)


class LayerCheck:
    """Checks the layers of a world one after another."""

    def __init__(self, world: World, prover: Prover, head_dim: int, first: Sequence[int] = ()) -> None:
        """first: the code, of -1 and +1, of the token that a stream begins with."""
        self.first = {s: (c + 1) // 2 for s, c in enumerate(first)}
        self.world, self.prover, self.facts, self.head_dim = world, prover, world.facts, head_dim
        self.claims = world.claims
        self.reads_into: dict[int, list[tuple[int, tuple]]] = defaultdict(list)       # signal -> (read variable, its head's id)
        self.rows_of: dict[tuple, list[Form]] = {}
        self.bank_known: dict[frozenset, bool] = {}

    def run(self, number: int) -> tuple[list[str], LayerFacts]:
        """Problems and facts of layer `number` (from 1)."""
        at, problems = LayerFacts(number), []
        fractions: list[Unit] = []
        data: dict[int, list[tuple[float, float]]] = defaultdict(list)                 # signal -> (weight, most of f g)
        clears: dict[int, list[Unit]] = defaultdict(list)
        for h, head in enumerate(self.claims.layers[number - 1]):
            at.heads += 1
            where = f"head {h} ({head.name})"
            try:
                self._reads(head, number, problems, where)
                if head.memory:
                    at.memory_heads += 1
                    problems += [f"{where}: {p}" for p in self._memory(head, (number, h), data, at)]
                else:
                    at.units += len(head.units)
                    problems += self._logic(head, number, where, data, clears, fractions, at)
            except ValueError as error:
                problems.append(f"{where}: {error}")
        if fractions:
            found, written = check_units(self.claims, fractions)
            problems += found
            if any(self.world.lives[s].first != number or self.world.lives[s].last != number for s in written):
                problems.append("counting units share a signal with others")
            self.facts.one_hot(written)
        for s, units in clears.items():
            if not self.world.readable(s, number) or s in self.world.revised or not is_clearing(units, s, self.facts.lo[s]):
                problems.append(f"units that clear {self.facts.names[s]} do not take away its value")
        self._sums_out(data, problems, at)
        self._whole(number, problems)
        problems += self._contents(number, at)
        self._groups(number, problems, at)
        return [f"layer {number}: {p}" for p in problems], at

    # ---- heads ------------------------------------------------------------------------------------------------------
    def _reads(self, head: Head, number: int, problems: list[str], where: str) -> None:
        """W1: every signal is complete where it is read, and still in its dim."""
        forms = [x for u in head.units for x in (u.f, u.g)] + [*head.key.values(), *head.query.values(), *head.value, *head.gate]
        forms += [f for f in (head.halve, head.constant) if f is not None]
        for s in {s for f in forms for s, _ in f[1]}:
            if not self.world.readable(s, number):
                problems.append(f"{where} reads {self.facts.names[s]}, which its dim does not hold there")
            if self.claims.signals[s].kind in ("output", "constant"):
                problems.append(f"{where} reads {self.facts.names[s]}, which is no small integer")

    def _logic(self, head: Head, number: int, where: str, data, clears, fractions: list[Unit], at: LayerFacts) -> list[str]:
        problems, square = [], 0.0
        kinds = self.claims.signals
        for u in head.units:
            what = f"{where}, unit '{u.note}'"
            if any(kinds[s].kind == "fraction" for x in (u.f, u.g) for s, _ in x[1]):
                fractions.append(u)
                continue
            f, g = self.world.form(u.f, u.tap), self.world.form(u.g)
            self._sum_in(u.f, what, problems, at)
            self._sum_in(u.g, what, problems, at)
            square += (SCALE * max(self.facts.most(f), 0)) ** 2
            if not self.prover.prove(Exact(), [(1, f, g)]):
                problems.append(f"{what}: relu({self.facts.show(f)}) relu({self.facts.show(g)}) may be inexact")
            top = min(max(self.facts.most(f), 0) * max(self.facts.most(g), 0), H_LIMIT)
            for s, w in u.outs:
                data[s].append((w, top))
                (clears[s].append(u) if u.clears else self.world.writes[s].setdefault(number, []).append((w, f, g)))
        self._head_norm(square, where, problems, at)
        return problems

    def _memory(self, head: Head, name: tuple, data, at: LayerFacts) -> list[str]:
        """Rules M; the read of each value dim becomes a variable."""
        world, facts, problems = self.world, self.facts, []
        forms = [*head.key.values(), *head.query.values(), *head.value, *head.gate]
        for f in dict.fromkeys(forms):
            self._sum_in(f, "a form", problems, at)
        if head.halve is not None:
            world.form(head.halve)
            return problems + self._counter(head, name[0], data)
        room = self.head_dim - 2 - (2 if self.claims.residual.ones and head.key_tap else 0)
        keys = {i: world.form(f, head.key_tap) for i, f in head.key.items()}
        queries = {i: world.form(f) for i, f in head.query.items()}
        problems += check_rows(facts, self.prover.exclusion, keys, "key", room)
        of_dim = [list(queries.values())] * len(head.value)
        if head.constant is None:
            problems += check_rows(facts, self.prover.exclusion, queries, "query", room)
        else:
            values = [world.form(f) for f in head.value]
            found, of_dim = check_shared(head, facts, self.prover.exclusion, keys, queries, world.form(head.constant), values, self.first)
            problems += found
        self.rows_of[name] = list(queries.values())
        square = 0.0
        for j, (raw, gate, outs, tap) in enumerate(zip(head.value, head.gate, head.outs, head.value_tap)):
            value, gate = world.form(raw, tap), world.form(gate)
            top = max(facts.most(value), 0)
            square += (SCALE * top) ** 2
            problems += check_value(facts, value, gate, [o for o in outs if self.claims.signals[o[0]].kind != "output"])
            read = facts.var(f"{head.name}[{j}]", 0, int(top))
            if of_dim[j] and all(q[1] for q in of_dim[j]):
                facts.on[read] = [(1, q, ONE) for q in of_dim[j]]
            for s, w in outs:
                data[s].append((w, top * max(facts.most(gate), 0)))
                self._join_bank(s, read, name)
                world.writes[s].setdefault(name[0], []).append((w, (0, {read: 1}), gate))
        self._head_norm(square, "memory head", problems, at)
        return list(dict.fromkeys(problems))

    def _join_bank(self, s: int, read: int, name: tuple) -> None:
        """M5: reads of several heads into one signal exclude each other where their rows do."""
        others = self.reads_into[s]
        apart = []
        for other, head in others:
            key = frozenset((name, head))
            if key not in self.bank_known:
                self.bank_known[key] = exclusive_rows(self.facts, self.prover.exclusion, self.rows_of[name] + self.rows_of[head])
            if self.bank_known[key]:
                apart.append(other)
        if apart:
            grown = [g for g in self.facts.groups[apart[0]] if set(self.facts.members[g]) == set(apart)]
            if grown:                                                   # the whole bank so far: one larger group
                self.facts.members[grown[0]] += (read,)
                self.facts.groups[read].append(grown[0])
            else:
                for other in apart:
                    self.facts.one_hot((other, read))
        others.append((read, name))

    def _counter(self, head: Head, number: int, data) -> list[str]:
        problems = check_counter(head, self.facts, self.world.form)
        for s, w in head.outs[0]:
            data[s].append((w, 1.0))
            if self.claims.signals[s].kind != "fraction" or self.world.lives[s].first != number or self.world.lives[s].last != number:
                problems.append(f"the counter {self.facts.names[s]} is no fraction, or written by others too")
        return problems

    def _head_norm(self, square: float, where: str, problems: list[str], at: LayerFacts) -> None:
        """L4: a head's data never move its norm."""
        share = square / (CONSTANT_DIMS * HEAD_CONSTANT ** 2)
        at.head_margin = max(at.head_margin, share)
        if share > MARGIN:
            problems.append(f"{where}: values move the head's norm ({share:g} of it)")

    # ---- sums ---------------------------------------------------------------------------------------------------------
    def _sum_in(self, raw, what: str, problems: list[str], at: LayerFacts) -> None:
        """L3: partial sums of a row, in any order, are multiples of one power of two below 2^24 of them."""
        const, terms = raw
        signals = self.claims.signals
        size = abs(const) + sum(abs(k) * max(abs(signals[s].lo), abs(signals[s].hi)) for s, k in terms)
        unit = min([grain(k) for _, k in terms] + ([grain(const)] if const else []), default=Fraction(1))
        count = Fraction(size) / unit
        at.bits_in = max(at.bits_in, int(count).bit_length())
        if count >= 1 << SUM_BITS:
            problems.append(f"{what}: partial sums need {int(count).bit_length()} bits")

    def _sums_out(self, data, problems: list[str], at: LayerFacts) -> None:
        """L5: what a layer adds to a dim, in any order."""
        by_dim: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for s, parts in data.items():
            by_dim[self.claims.signals[s].dim] += parts
        for dim, parts in by_dim.items():
            unit = min(grain(w) for w, _ in parts)
            count = sum(abs(Fraction(w)) * int(top) for w, top in parts) / unit
            at.bits_out = max(at.bits_out, int(count).bit_length())
            if count >= 1 << SUM_BITS:
                problems.append(f"sums into dim {dim} need {int(count).bit_length()} bits")

    def _whole(self, number: int, problems: list[str]) -> None:
        """L5: what a layer adds to a signal is an integer, although weights may be fractions."""
        for s, writes in enumerate(self.world.writes):
            parts = [t for t in writes.get(number, ()) if t[0] != int(t[0])]
            parts = [t for t in parts if not self.prover.prove(Whole(), [t])]
            if parts and not self.prover.prove(Whole(), parts):
                problems.append(f"what is added to {self._name(s)} may be a fraction")

    # ---- what the dims hold afterwards ----------------------------------------------------------------------------------
    def _contents(self, number: int, at: LayerFacts) -> list[str]:
        """L6: each dim that the layer adds to holds an integer within its claim, and what was added is one up to 256 too."""
        world, claims, problems = self.world, self.claims, []
        before, after = world.contents(number - 1), world.contents(number)
        if (claimed := {d: s for d, (s, _, _) in claims.boundaries[number].items()}) != after:
            odd = next(d for d in claimed.keys() | after.keys() if claimed.get(d) != after.get(d))
            problems.append(f"the map says that dim {odd} holds {self._name(claimed.get(odd))}, but it holds {self._name(after.get(odd))}")
        for dim, s in after.items():
            _, low, high = claims.boundaries[number].get(dim, (s, -LARGEST, LARGEST))
            if claims.signals[s].kind in ("output", "constant", "fraction"):
                continue
            changed = any(number in world.writes[t] for t in world.chain(s))
            if changed:
                at.contents += 1
                terms = world.sum_of(s, number)
                if not self.prover.prove(Between(low, high), terms):
                    at.unproved.append(f"{self._name(s)} in {low}..{high}")
                if low < -LARGEST or high > LARGEST:
                    problems.append(f"{self._name(s)} may reach {low}..{high}: more than 8 bits")
                problems += self._added(dim, s, number, low, high, before)
            elif dim in before:                                         # untouched: the claim must not shrink
                _, a, b = claims.boundaries[number - 1].get(dim, (s, low, high))
                if a < low or b > high:
                    problems.append(f"{self._name(s)} in {low:g}..{high:g} is claimed, but below the layer it was {a:g}..{b:g}")
            if world.complete(s, number) and s not in self.facts.defs and claims.signals[s].kind == "integer":
                known = claims.signals[s]
                if changed and (low < known.lo or high > known.hi):
                    problems.append(f"{known.name} is complete with {low}..{high}, but its range is {known.lo}..{known.hi}")
                self.facts.defs[s] = world.sum_of(s, number)
                t = s                                               # nobody adds to the next version: it is this one
                while (t := world.revised.get(t)) is not None and world.lives[t].first is None:
                    self.facts.defs[t] = [(1, (0, {s: 1}), ONE)]
                    if known.lo < claims.signals[t].lo or known.hi > claims.signals[t].hi:
                        at.unproved.append(f"{self._name(t)} in its range")
        small = [(max(abs(low), abs(high))) for s, low, high in claims.boundaries[number].values()
                 if claims.signals[s].kind in ("code", "integer", "fraction")]
        constants = len(claims.residual.constants) * RESIDUAL_CONSTANT ** 2
        at.stream_margin = sum(x * x for x in small) / constants
        if at.stream_margin > MARGIN:
            problems.append(f"signals move the stream's norm ({at.stream_margin:g} of it)")
        return problems

    def _added(self, dim: int, s: int, number: int, low: float, high: float, before: dict[int, int]) -> list[str]:
        """What the layer adds to a dim is an integer up to 256, so that rounding it is a no-op."""
        old = before.get(dim)
        if old is None:
            return []
        _, a, b = self.claims.boundaries[number - 1][dim]
        if high - a <= LARGEST and low - b >= -LARGEST:
            return []
        added = [t for x in self.world.chain(s) for t in self.world.writes[x].get(number, [])]
        if old in self.world.chain(s) and self.prover.prove(INTEGERS, added):
            return []
        return [f"what is added to dim {dim} ({self._name(s)}) may exceed 256"]

    def _groups(self, number: int, problems: list[str], at: LayerFacts) -> None:
        """G: one-hot groups whose members are all complete now: every pair excludes itself, by proof or by the program's rules."""
        for members, when in self.claims.one_hot:
            if when is not None or not members:
                continue
            done = [max((x.last or 0) for x in (self.world.lives[t] for t in self.world.chain(s))) for s in members]
            if max(done) != number and not (number == 1 and max(done) == 0):
                continue
            bad = [(u, v) for i, u in enumerate(members) for v in members[:i] if not self.prover.exclusion.excludes(u, v)]
            if bad:
                u, v = bad[0]
                problems.append(f"{self._name(u)} and {self._name(v)} are not shown to exclude each other ({len(bad)} pairs of a group of "
                                f"{len(members)})")
            else:
                self.facts.one_hot(members)
                at.groups += 1

    def _name(self, s: int | None) -> str:
        return "nothing" if s is None else self.facts.names[s]
