"""The machine compiled into dims of a given model's residual stream, in front of that model's own layers.

A merged circuit differs from the circuit alone in four ways, all of them here:

- Every dim is chosen for the model: constants, code, and one or two dims that no text embedding leaves at zero.
- A machine token's embedding holds small numbers on the code dims and nothing large, since the head may be tied to it. The
  first layer writes the constants 2^20 and reads its own biases from code dims that always hold +1 (`ones`).
- The item counter sits in the first layer, where norm weights are small, so that text hardly moves its decay.
- Whatever looks back at an earlier token is silent if that token was text: such heads read the reserved dims of that
  token too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..circuit.core import Form, MemoryHead, Signal, Unit
from ..circuit.records import code_table
from ..circuit.output import OUT_SCALE as CODE_SCALE
from ..errors import CompileError
from ..machine.description import Machine
from .compiler import CircuitWeights, Compiled, scheduled
from .layout import Layout
from .schedule import Schedule
from .tensors import CONST_DIMS, RESIDUAL_CONSTANT, SILENCE, CompiledLayer, LayerWriter

FIRST_HOLD = -24.0
"""What `a` is in the counter on tokens that do not halve: softplus of it is below 2^-25, so the decay is exactly 1."""


@dataclass(frozen=True)
class Placement:
    """Where the circuit lives in a model's residual stream.

    constants:  dims that hold 2^20 from the first layer's output on.
    silence:    (dim, sign * power of two): dims that are zero on machine tokens; the weighted sum is not small on any text row.
    code:       dims of the token code, in the order of `circuit.records`.
    ones:       dims that hold +scale in every machine token's embedding: the first layer's biases.
    ballast:    a dim and what it holds in every machine token's embedding; it makes the norm of the first layer exact.
    scale:      size of the code in the embedding, a power of two.
    gain:       the first layer's norm weight (1 + w) for code and ones: scale * gain / rms = 1.
    exponent:   the last layer writes 2^exponent times the next token's code.
    """

    constants: tuple[int, ...]
    silence: tuple[tuple[int, float], ...]
    code: tuple[int, ...]
    ones: tuple[int, ...]
    ballast: tuple[int, float]
    scale: float
    gain: float
    exponent: int = 40

    @property
    def fixed(self) -> set[int]:
        """Dims that no signal of the circuit may take."""
        return {*self.constants, *(d for d, _ in self.silence), *self.code, *self.ones, self.ballast[0]}


@dataclass
class Placed:
    """A circuit in a model's dims. residue (D,): bound on what the last layer leaves in each dim but the code dims."""

    compiled: Compiled
    placement: Placement
    residue: np.ndarray

    @property
    def weights(self) -> CircuitWeights:
        return self.compiled.weights

    def embedding(self) -> np.ndarray:
        """float32 (machine tokens, D): the embedding rows of all machine tokens."""
        w, p = self.weights, self.placement
        e = np.zeros((len(w.codes), w.machine.hidden), np.float32)
        e[:, list(p.code)] = w.codes * np.float32(p.scale)
        e[:, list(p.ones)] = p.scale
        e[:, p.ballast[0]] = p.ballast[1]
        return e


class PlacedWriter(LayerWriter):
    """Writes one layer of a merged circuit. layout: already in the model's dims."""

    def __init__(self, m: Machine, layout: Layout, number: int, p: Placement, next_code: list[Signal],
                 also_on: list[Signal]) -> None:
        self.p, self.first, self.next_code, self.also_on = p, number == 1, next_code, also_on
        super().__init__(m, replace(layout, constants=list(p.ones if self.first else p.constants)), number)
        norm, code = self.layer.norm_in, [*p.code, *p.ones]
        if self.first:
            self.hold = FIRST_HOLD
            norm[:] = -1.0                                           # nothing else is read
            norm[code + [d for d, _ in p.silence]] = p.gain - 1
        else:
            norm[list(p.code)] = self.rms() / p.scale
            norm[[*p.ones, p.ballast[0]]] = -1.0

    def rms(self) -> float:
        return RESIDUAL_CONSTANT * (len(self.p.constants) / self.m.hidden) ** 0.5

    def silence(self, h: int, tap: int = 0) -> None:
        """Rows of q and k that overflow on text; with a tap, rows of k alone that do so where that earlier token was text."""
        n, last = self.m.head_dim, self.m.head_dim - (3 if tap else 1)
        for base in (self.k_at,) if tap else (0, self.k_at):
            for row, sign in ((last - 1, 1.0), (last, -1.0)):
                for dim, weight in self.p.silence:
                    self.layer.qkv.put(base + h * n + row, dim, sign * weight * SILENCE)
                self.set_tap(base + h * n + row, tap)

    def look_back(self, h: int, tap: int, rows: Sequence[int]) -> None:
        """Head h writes what an earlier token says: nothing if that was text."""
        n = self.m.head_dim
        if max(rows, default=0) >= n - 4:
            raise CompileError("a head that looks back has too many rows", where=self.where)
        self.silence(h, tap)
        for channel in [self.k_at + h * n + row for row in rows] + [self.v_at + h * n + j for j in range(CONST_DIMS)]:
            self.set_tap(channel, tap)

    def logic_head(self, units: list[Unit]) -> None:
        """As LayerWriter.logic_head; all units have one tap."""
        super().logic_head(units)
        if units[0].tap:
            self.look_back(self.head - 1, units[0].tap, [0])

    def memory_head(self, head: MemoryHead) -> None:
        """As LayerWriter.memory_head."""
        if head.halve is not None and not self.first:
            raise CompileError(f"memory head {head.name} counts, but not in the first layer", where=self.where)
        super().memory_head(head)
        if head.key_tap:
            self.look_back(self.head - 1, head.key_tap, list(head.key))

    def put_out(self, column: int, s: Signal, weight, what: str) -> None:
        """As LayerWriter.put_out; the next token's code is 2^exponent and goes to the ones as well."""
        if s not in self.next_code:
            super().put_out(column, s, weight, what)
            return
        weight = weight * 2 ** self.p.exponent // CODE_SCALE
        super().put_out(column, s, weight, what)
        if s is self.next_code[-1]:                      # the dim that is always +1
            for one in self.also_on:
                super().put_out(column, one, weight, what)


def pin_first(sched: Schedule) -> None:
    """Move heads that count to the first layer. They read nothing but the token's code."""
    for number, heads in enumerate(sched.layer_heads[1:], 2):
        for head in [h for h in heads if h.halve is not None]:
            heads.remove(head)
            sched.layer_heads[0].append(head)
            sched.layer_of[id(head)] = 1


def in_dims_of(layout: Layout, p: Placement, code: list[Signal], hidden: int) -> Layout:
    """The same layout with its dims renamed to the placement's. Raises CompileError where they do not suffice."""
    used = sorted({*layout.dim_of.values()} - {layout.dim_of[s] for s in code})
    free = [d for d in range(hidden) if d not in p.fixed]
    if len(used) > len(free):
        raise CompileError("the residual stream is full", why=f"{len(used)} dims for signals, {len(free)} are free",
                           fix="fewer lanes, stages or registers")
    to = dict(zip(used, free)) | {layout.dim_of[s]: d for s, d in zip(code, p.code, strict=True)}
    return replace(layout, dim_of={s: to[d] for s, d in layout.dim_of.items()}, constants=list(p.constants),
                   reserved=[d for d, _ in p.silence],
                   spans=[(s, to[d], first, last) for s, d, first, last in layout.spans])


def write_placed(m: Machine, sched: Schedule, layout: Layout, p: Placement, next_code: list[Signal]) -> list[CompiledLayer]:
    """All layers of a merged circuit. Raises CompileError where a number is not exact or a budget is exceeded."""
    constants = [Signal(f"constant{k}", 0, int(RESIDUAL_CONSTANT)) for k in range(len(p.constants))]
    also_on = [Signal(f"next.one{k}", 0, 1 << p.exponent) for k in range(len(p.ones))]
    layout = replace(layout, dim_of=layout.dim_of | dict(zip(constants, p.constants)) | dict(zip(also_on, p.ones)))
    one = Form({}, 1)
    start = Unit(one, one, tuple((s, int(RESIDUAL_CONSTANT)) for s in constants), "the constants", "constants")
    room, out = m.head_dim - CONST_DIMS, []
    for i in range(sched.layers):
        w = PlacedWriter(m, layout, i + 1, p, next_code, also_on)
        for head in sched.layer_heads[i]:
            w.memory_head(head)
        units = sched.layer_units[i] + layout.clears[i] + ([start] if i == 0 else [])
        for tap in sorted({u.tap for u in units}):
            alike = sorted((u for u in units if u.tap == tap), key=lambda u: u.group)
            for at in range(0, len(alike), room):
                w.logic_head(alike[at:at + room])
        w.layer.peak = layout.peak[i]
        out.append(w.layer)
    return out


def compile_placed(m: Machine, p: Placement, *, window: int = 2, spare_units: int = 126) -> Placed:
    """Compile machine m into the placement. Raises CompileError where it would not be exact or does not fit."""
    if len(p.constants) < 2 or len(p.ones) < 2:
        raise CompileError("a merged circuit needs two constant dims and two ones")
    plan = scheduled(m, window, spare_units)
    mc, sched = plan.circuit, plan.schedule
    pin_first(sched)
    layout = in_dims_of(plan.lay_out(), p, mc.records.code, m.hidden)
    layers = write_placed(m, sched, layout, p, mc.next_code)
    plan.check(layers, layout)
    weights = CircuitWeights(m, layers, np.asarray(code_table(m), np.int8), list(p.code),
                             [*p.constants, *p.ones], [d for d, _ in p.silence])
    residue = np.maximum(*map(np.abs, layout.ranges(sched.layers, m.hidden)))
    residue[list(p.constants)] = RESIDUAL_CONSTANT
    return Placed(Compiled(weights, mc, sched, layout), p, residue)
