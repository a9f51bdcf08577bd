"""Named signals, linear forms, units and memory heads: what every circuit is made of.

A *signal* is one named number of the residual stream with a declared integer range. A *unit* is

    h = relu(f) * relu(g)          f, g linear forms over signals,

and adds weight * h to one or more signals (design: one value dim of a Gated DeltaNet head whose state is rewritten
on every token; f is its value pre-activation, g its output gate). A *memory head* is an addressed store: key and
query rows are conjunctions of literals, value dims carry data, and the output gate selects what reaches the residual.

A signal's value is complete once all its contributions have been added. ``Circuit.revise`` continues a signal in
place (same residual dim, later value). ``Circuit.evaluate`` runs units in plain integers, without any weights: tests
hold circuits to arithmetic before a single layer exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ..errors import CompileError


@dataclass(eq=False, slots=True)
class Signal:
    """One named number of the residual stream.

    lo, hi: declared inclusive integer range. base: the signal this one continues in place, if any.
    is_input: held by the embedding instead of being summed up by units.
    """

    name: str
    lo: int = 0
    hi: int = 1
    base: "Signal | None" = None
    is_input: bool = False
    fractional: bool = False   # a dyadic fraction, not an integer: never cleared
    complement: "Form | None" = field(default=None, repr=False)      # 1 - self, once somebody has asked for it

    def __repr__(self) -> str:
        return self.name

    # arithmetic builds forms
    def form(self) -> "Form":
        return Form({self: 1}, 0)

    def __add__(self, other): return self.form() + other
    def __radd__(self, other): return self.form() + other
    def __sub__(self, other): return self.form() - other
    def __rsub__(self, other): return (-self.form()) + other
    def __mul__(self, k): return self.form() * k
    def __rmul__(self, k): return self.form() * k
    def __neg__(self): return -self.form()


@dataclass(eq=False, slots=True)
class Form:
    """A linear form: sum of coefficient * signal, plus a constant. Coefficients are ints, or dyadic floats or Fractions."""

    coef: dict[Signal, int | Fraction]
    const: int | Fraction = 0
    complement: "Form | None" = field(default=None, repr=False)      # 1 - self, once somebody has asked for it

    @staticmethod
    def of(x) -> "Form":
        if isinstance(x, Form):
            return x
        if isinstance(x, Signal):
            return x.form()
        return Form({}, x)

    @staticmethod
    def total(items: Iterable) -> "Form":
        """Sum of forms, signals and numbers in one pass."""
        coef: dict[Signal, int | Fraction] = {}
        const: int | Fraction = 0
        for it in items:
            if isinstance(it, Signal):
                coef[it] = coef.get(it, 0) + 1
            elif isinstance(it, Form):
                const += it.const
                for s, c in it.coef.items():
                    coef[s] = coef.get(s, 0) + c
            else:
                const += it
        return Form({s: c for s, c in coef.items() if c}, const)

    def __add__(self, other): return Form.total((self, other))
    __radd__ = __add__
    def __neg__(self): return Form({s: -c for s, c in self.coef.items()}, -self.const)
    def __sub__(self, other): return self + (-Form.of(other))
    def __rsub__(self, other): return (-self) + other
    def __mul__(self, k): return Form({s: c * k for s, c in self.coef.items()} if k else {}, self.const * k)
    __rmul__ = __mul__

    def __repr__(self) -> str:
        terms = []
        for s, c in self.coef.items():
            terms.append(f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c)}*'}{s.name}")
        if self.const or not terms:
            terms.append(f"{'-' if self.const < 0 else '+'} {abs(self.const)}")
        return " ".join(terms).removeprefix("+ ")


def code_bit(c: Signal) -> Form:
    """The bit (0 or 1) that a code signal of range -1..1 stands for."""
    return Form({c: 0.5}, 0.5)                   # floats are exact here, and many times faster than fractions


def not_(x) -> Form:
    """Complement of a bit (signal or form)."""
    if not isinstance(x, (Signal, Form)):
        return Form({}, 1 - x)
    if x.complement is None:
        x.complement = 1 - Form.of(x)
    return x.complement


def all_of(*literals) -> Form:
    """AND as a form: 1 if every literal (a bit, a signal or form) is 1, at most 0 otherwise."""
    f = Form.total(literals)
    f.const -= len(literals) - 1
    return f


def binary(bits: Iterable) -> Form:
    """The integer written by bits, least significant first."""
    return Form.total(Form.of(b) * (1 << k) for k, b in enumerate(bits))


@dataclass(eq=False, slots=True)
class Unit:
    """h = relu(f) * relu(g), adding weight * h to each output signal. tap: conv tap that f reads (0 = this token).

    tie: units with the same tie (not 0) share a layer, because a part of their sum alone may not be exact.
    eager: runs as soon as it can, because it frees more dims than it takes.
    """

    f: Form
    g: Form
    outs: tuple[tuple[Signal, int | Fraction], ...]
    note: str
    group: str = ""
    tap: int = 0
    tie: int = 0
    eager: bool = False

    def reads(self) -> set[Signal]:
        return set(self.f.coef) | set(self.g.coef)


@dataclass(eq=False, slots=True)
class MemoryHead:
    """An addressed store in one Gated DeltaNet head.

    key[i], query[i]: conjunction forms (1 selects row i, at most 0 otherwise); None leaves the row unaddressed.
    value[j]: form written to value dim j of the addressed row; integers 0..40. gate[j]: form of the output gate.
    outs[j]: signals that receive weight * value_read * relu(gate). key_tap / value_tap: conv taps (0 = this token).
    halve: if given, a form that is 1 on tokens that halve every row and 0 on others (first layer only).
    const_form: a form that is 1 on tokens whose row carries the head's two norm constants (default: all rows do).
    after: signals that are complete before the head runs, although it does not read them. eager: runs as soon as it can.
    """

    name: str
    key: dict[int, Form]
    query: dict[int, Form]
    value: list[Form]
    gate: list[Form]
    outs: list[tuple[tuple[Signal, int | Fraction], ...]]
    note: str = ""
    key_tap: int = 0
    value_tap: list[int] | int = 0
    halve: Form | None = None
    row_names: dict[int, str] = field(default_factory=dict)
    const_form: Form | None = None
    after: tuple[Signal, ...] = ()
    eager: bool = False

    def tap_of(self, j: int) -> int:
        return self.value_tap if isinstance(self.value_tap, int) else self.value_tap[j]

    def reads(self) -> set[Signal]:
        """Every signal that this head reads at its layer's input."""
        out: set[Signal] = set()
        for f in [*self.key.values(), *self.query.values(), *self.value, *self.gate]:
            out |= set(f.coef)
        if self.halve is not None:
            out |= set(self.halve.coef)
        if self.const_form is not None:
            out |= set(self.const_form.coef)
        return out


class Circuit:
    """A set of signals, units and memory heads. Builders in this package add to it; the compiler lays it out."""

    def __init__(self) -> None:
        self.signals: dict[str, Signal] = {}
        self.units: list[Unit] = []
        self.heads: list[MemoryHead] = []
        self.groups: list[tuple[Signal, ...]] = []   # at most one member of each is nonzero
        self.groups_when: list[tuple[Signal, tuple[Signal, ...]]] = []   # the same while the first signal, a bit, is 1
        self._scope: list[str] = []
        self._tie = 0
        self._ties = 0
        self._eager = False

    # ---- naming -------------------------------------------------------------------------------------------------
    def scope(self, name: str) -> "_Scope":
        """``with c.scope("stage1"):`` prefixes signal names and unit groups."""
        return _Scope(self, name)

    def _full(self, name: str) -> str:
        return ".".join([*self._scope, name])

    # ---- signals ------------------------------------------------------------------------------------------------
    def signal(self, name: str, lo: int = 0, hi: int = 1, *, is_input: bool = False) -> Signal:
        """A new signal, 0 until units add to it. Raises CompileError on a repeated name."""
        full = self._full(name)
        if full in self.signals:
            raise CompileError(f"signal {full} is declared twice")
        s = Signal(full, lo, hi, None, is_input)
        self.signals[full] = s
        return s

    def bits(self, name: str, n: int) -> list[Signal]:
        """n fresh bits name0, name1, ... least significant first."""
        return [self.signal(f"{name}{k}") for k in range(n)]

    def revise(self, s: Signal, name: str, lo: int = 0, hi: int = 1) -> Signal:
        """Continue s in place: a signal that starts from s's value and takes further contributions.

        Every reader of s must sit no later than the first contribution to the new signal; the scheduler sees to it.
        """
        r = self.signal(name, lo, hi)
        r.base = s
        return r

    def one_hot(self, signals: Iterable[Signal], when: Signal | None = None) -> None:
        """Declare that at most one of these signals is nonzero at any token (at which the bit `when` is 1)."""
        if when is None:
            self.groups.append(tuple(signals))
        else:
            self.groups_when.append((when, tuple(signals)))

    # ---- units --------------------------------------------------------------------------------------------------
    def unit(self, f, g=1, outs: Mapping[Signal, int | Fraction] | Signal = None, note: str = "", tap: int = 0) -> Unit:
        """Add relu(f)*relu(g) to outs (a signal, or {signal: weight})."""
        if isinstance(outs, Signal):
            outs = {outs: 1}
        u = Unit(Form.of(f), Form.of(g), tuple(outs.items()), note, ".".join(self._scope), tap, self._tie, self._eager)
        self.units.append(u)
        return u

    @contextmanager
    def together(self):
        """Units made within share a layer: large terms of a step cancel before the sum is rounded. Nests (outermost counts)."""
        outer = self._tie
        if not outer:
            self._ties += 1
            self._tie = self._ties
        try:
            yield
        finally:
            self._tie = outer

    def all_of(self, literals: Iterable, outs, note: str = "") -> Unit:
        """Add the AND of literals (bits or their complements as forms)."""
        return self.unit(all_of(*literals), 1, outs, note)

    def equal(self, x, j, outs, note: str = "", when: Iterable = ()) -> Unit:
        """Add [x == j] for an integer form x, if every literal in when is 1."""
        d = Form.of(x) - j
        beyond = 1 << int(max(abs(v) for v in form_range(d)) + 1).bit_length()      # a power of two: exact in bf16
        gate = Form.total(not_(w) for w in when) * beyond
        return self.unit(d + 1 - gate, 1 - d, outs, note)

    def at_least(self, x, t, outs: Mapping[Signal, int | Fraction] | Signal, note: str = "", when: Iterable = ()) -> None:
        """Add [x >= t] for an integer form x (at most 256 above t): two units, gated by the literals in when."""
        if isinstance(outs, Signal):
            outs = {outs: 1}
        gate = all_of(*when) if when else Form.of(1)
        d = Form.of(x) - t
        with self.together():
            self.unit(gate, d + 1, outs, note)
            self.unit(gate, d, {s: -w for s, w in outs.items()}, note + " (step end)")

    @contextmanager
    def eager(self, on: bool = True) -> Iterator[None]:
        """``with c.eager():`` units and heads inside run as soon as they can."""
        outer, self._eager = self._eager, on
        try:
            yield
        finally:
            self._eager = outer

    def add_head(self, head: MemoryHead) -> MemoryHead:
        head.eager = self._eager
        self.heads.append(head)
        return head

    # ---- evaluation in integers ---------------------------------------------------------------------------------
    def evaluate(self, inputs: Mapping[Signal, np.ndarray | int]) -> dict[Signal, np.ndarray]:
        """Every signal's value for a batch of input values, in exact integers (float64 of dyadic rationals).

        Only for circuits of units with tap 0 (no memory heads). Raises CompileError if a signal leaves its declared
        range, which is how tests find wrong declarations.
        """
        values: dict[Signal, np.ndarray] = {s: np.asarray(v, np.float64) for s, v in inputs.items()}
        writers: dict[Signal, list[Unit]] = {}
        for u in self.units:
            for s, _ in u.outs:
                writers.setdefault(s, []).append(u)
        unit_value: dict[int, np.ndarray] = {}

        def form(f: Form):
            acc = np.float64(f.const)
            for s, k in f.coef.items():
                acc = acc + np.float64(k) * values[s]
            return acc

        order = topological(self)
        for s in order:
            if s in values:
                continue
            acc = values[s.base] if s.base is not None else np.float64(0)
            for u in writers.get(s, ()):
                if id(u) not in unit_value:
                    unit_value[id(u)] = np.maximum(form(u.f), 0) * np.maximum(form(u.g), 0)
                w = sum(w for t, w in u.outs if t is s)
                acc = acc + np.float64(w) * unit_value[id(u)]
            if np.any(acc < s.lo) or np.any(acc > s.hi):
                raise CompileError(f"signal {s.name} leaves its range {s.lo}..{s.hi}",
                                   why=f"values from {np.min(acc)} to {np.max(acc)} were computed")
            values[s] = acc
        return values


class _Scope:
    def __init__(self, c: Circuit, name: str) -> None:
        self.c, self.name = c, name

    def __enter__(self) -> Circuit:
        self.c._scope.append(self.name)
        return self.c

    def __exit__(self, *exc) -> None:
        self.c._scope.pop()


def topological(c: Circuit) -> list[Signal]:
    """Signals in an order in which each follows everything that its units read. Raises CompileError on a cycle."""
    deps: dict[Signal, set[Signal]] = {s: set() for s in c.signals.values()}
    for u in c.units:
        for s, _ in u.outs:
            deps[s] |= u.reads()
    for s in deps:
        if s.base is not None:
            deps[s].add(s.base)
    order: list[Signal] = []
    state: dict[Signal, int] = {}
    for root in deps:
        stack = [(root, iter(deps.get(root, ())))]
        if state.get(root):
            continue
        state[root] = 1
        while stack:
            s, it = stack[-1]
            nxt = next(it, None)
            if nxt is None:
                state[s] = 2
                order.append(s)
                stack.pop()
            elif state.get(nxt, 0) == 0:
                state[nxt] = 1
                stack.append((nxt, iter(deps.get(nxt, ()))))
            elif state[nxt] == 1:
                raise CompileError(f"signal {nxt.name} depends on itself within one token")
    return order


def form_range(f: Form) -> tuple[Fraction, Fraction]:
    """Smallest and largest value of a form over its signals' declared ranges (no groups used)."""
    lo = hi = Fraction(f.const)
    for s, k in f.coef.items():
        a, b = k * s.lo, k * s.hi
        lo += min(a, b)
        hi += max(a, b)
    return lo, hi
