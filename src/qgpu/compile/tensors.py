"""Layers of units and memory heads to Gated DeltaNet weights (design: "What makes a compiled layer exact").

One layer is a list of nonzeros per tensor, under the names of Hugging Face's Qwen3.5. All values are exact in bf16.

    q, k rows       128 * form: a row is addressed where its conjunction is 1 (after silu and l2 norm: exactly 1 or 0)
    v rows          128 * f;  z rows 128 * g
    value dims 0,1  hold the head's norm constants, far above the data, so that the head's own norm never moves
    out_proj        weight * 2^23 undoes the scales
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..bf16 import round_bf16
from ..circuit.checks import is_bf16
from ..circuit.core import Circuit, Form, MemoryHead, Signal, Unit
from ..errors import CompileError
from ..machine.description import Machine
from .layout import Layout
from .schedule import Schedule, describe

SCALE = 128                       # pre-activations are integers times this: silu is then exactly max(0, .)
HEAD_CONSTANT = 162 * 2.0 ** 33   # in value dims 0 and 1 (already times SCALE)
NORM_WEIGHT = 162 / 128           # gated norm's weight: makes f = 0..40 come out exact
OUT_SCALE = 2.0 ** 23             # what out_proj multiplies to undo SCALE, constant and norm
RESIDUAL_CONSTANT = 2.0 ** 20     # in the constant dims, on machine tokens
FORGET, KEEP = 200.0, -200.0      # dt_bias: decay exactly 0, exactly 1
COUNT_HOLD = -40.0                # a on tokens that don't halve
SILENCE = 2.0 ** 100              # reads the reserved dims: text never addresses a row
CONST_DIMS = 2                    # value dims 0 and 1


@dataclass
class Coo:
    """Nonzeros of one matrix."""

    shape: tuple[int, int]
    rows: list[int] = field(default_factory=list)
    cols: list[int] = field(default_factory=list)
    vals: list[float] = field(default_factory=list)

    def put(self, row: int, col: int, value: float) -> None:
        self.rows.append(row)
        self.cols.append(col)
        self.vals.append(value)

    def dense(self) -> np.ndarray:
        """float32 (rows, cols); entries that were put twice add up."""
        out = np.zeros(self.shape, np.float32)
        np.add.at(out, (np.asarray(self.rows, int), np.asarray(self.cols, int)), np.asarray(self.vals, np.float32))
        return out

    @property
    def nonzeros(self) -> int:
        return len(self.vals)


@dataclass
class CompiledLayer:
    """Tensors of one circuit layer.

    qkv (2*Kd + Vd, D), z (Vd, D), a (heads, D), b (heads, D), out (D, Vd): nonzeros. conv (2*Kd + Vd, 4) float32.
    a_log, dt_bias (heads,); norm_in (D,): the stored w of 1 + w. low, high (D,): declared range of every dim at
    the layer's input on machine tokens. head_kinds: "logic" or the memory head's name; head_notes: what each does. units: how
    many there are; groups: how many by the part of the circuit they belong to. peak: residual dims in use after the layer.
    made_from: what each head was written from (not kept in the cache).
    """

    qkv: Coo
    z: Coo
    a: Coo
    b: Coo
    out: Coo
    conv: np.ndarray
    a_log: np.ndarray
    dt_bias: np.ndarray
    norm_in: np.ndarray
    head_kinds: list[str]
    units: int
    low: np.ndarray
    high: np.ndarray
    head_notes: list[str] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    made_from: list[MemoryHead | list[Unit]] = field(default_factory=list)

    @property
    def nonzeros(self) -> int:
        """Weights that are not zero, in all matrices and the convolution."""
        return sum(x.nonzeros for x in (self.qkv, self.z, self.a, self.b, self.out)) + int(np.count_nonzero(self.conv))


@lru_cache(maxsize=1 << 16)
def split(x: float) -> tuple[float, ...]:
    """A number as a sum of bf16 numbers, largest first."""
    parts, rest = [], Fraction(x)
    while rest:
        parts.append(float(round_bf16(np.float32(float(rest)))))
        rest -= Fraction(parts[-1])
    return tuple(parts)


class LayerWriter:
    """Writes one layer's heads."""

    hold = COUNT_HOLD

    def __init__(self, m: Machine, layout: Layout, number: int) -> None:
        d, kd, where = m.hidden, m.heads * m.head_dim, f"layer {number}"
        self.m, self.layout, self.where = m, layout, where
        self.layer = CompiledLayer(Coo((3 * kd, d)), Coo((kd, d)), Coo((m.heads, d)), Coo((m.heads, d)), Coo((d, kd)),
                                   np.zeros((3 * kd, 4), np.float32), np.zeros(m.heads, np.float32),
                                   np.full(m.heads, FORGET, np.float32), np.full(d, self.rms(), np.float32), [], 0,
                                   *layout.ranges(number, d))
        self.layer.norm_in[layout.constants] = self.rms() / RESIDUAL_CONSTANT - 1    # stored w of 1 + w
        self.layer.conv[:, 3] = 1.0          # this token only, unless a channel says otherwise
        self.k_at, self.v_at = kd, 2 * kd
        self.head = 0

    def rms(self) -> float:
        """Root mean square of the residual on machine tokens: set by the constant dims alone, a power of two."""
        return RESIDUAL_CONSTANT * (len(self.layout.constants) / self.m.hidden) ** 0.5

    # ---- rows -------------------------------------------------------------------------------------------------------
    def put_form(self, matrix: Coo, row: int, form: Form, scale: float, what: str) -> None:
        """Write scale * form into a row; the constant part goes to the constant dims, split so that each is exact."""
        for s, k in form.coef.items():
            value = float(k) * scale
            if not is_bf16(value):
                raise CompileError(f"coefficient {k} of {s.name} is not exact in bf16", where=f"{self.where}: {what}")
            if s in self.layout.dim_of:          # a signal that nothing writes is always 0 and has no dim
                matrix.put(row, self.layout.dim_of[s], value)
        parts = split(form.const * scale)
        if len(parts) > len(self.layout.constants):
            raise CompileError(f"constant {form.const} needs more constant dims than there are", where=f"{self.where}: {what}")
        for dim, part in zip(self.layout.constants, parts):
            matrix.put(row, dim, part)

    def set_tap(self, channel: int, tap: int) -> None:
        self.layer.conv[channel] = 0
        self.layer.conv[channel, 3 - tap] = 1.0

    def start_head(self, kind: str, note: str = "") -> int:
        """Number of a fresh head: beta is 1, text is silenced."""
        h = self.head
        self.head += 1
        if h >= self.m.heads:
            raise CompileError(f"{self.where} needs more than {self.m.heads} heads")
        self.layer.head_kinds.append(kind)
        self.layer.head_notes.append(note)
        self.put_form(self.layer.b, h, Form({}, 1), SCALE, "beta")
        self.silence(h)
        return h

    def silence(self, h: int) -> None:
        """The last two rows of q and of k read the reserved dims: on text their squares overflow, so no row is addressed."""
        n = self.m.head_dim
        for base in (0, self.k_at):
            for row, sign in ((n - 2, 1.0), (n - 1, -1.0)):
                self.layer.qkv.put(base + h * n + row, self.layout.reserved[0], sign * SILENCE)
                self.layer.qkv.put(base + h * n + row, self.layout.reserved[1], sign * SILENCE)

    def put_constants(self, h: int, form: Form) -> None:
        for j in range(CONST_DIMS):
            self.put_form(self.layer.qkv, self.v_at + h * self.m.head_dim + j, form, HEAD_CONSTANT, "norm constant")

    # ---- heads ------------------------------------------------------------------------------------------------------
    def logic_head(self, units: list[Unit]) -> None:
        """A head whose state is rewritten by every token: each of its value dims is one unit."""
        h, n = self.start_head("logic"), self.m.head_dim
        one = Form({}, 1)
        for base in (0, self.k_at):
            self.put_form(self.layer.qkv, base + h * n, one, SCALE, "the one row")
        self.put_constants(h, one)
        for j, u in enumerate(units, CONST_DIMS):
            channel = self.v_at + h * n + j
            what = describe(u)
            self.put_form(self.layer.qkv, channel, u.f, SCALE, what)
            self.set_tap(channel, u.tap)
            self.put_form(self.layer.z, h * n + j, u.g, SCALE, what)
            for s, w in u.outs:
                self.put_out(h * n + j, s, w, what)
        self.layer.made_from.append(units)
        self.layer.units += len(units)
        for u in units:
            self.layer.groups[u.group] = self.layer.groups.get(u.group, 0) + 1

    def memory_head(self, head: MemoryHead) -> None:
        """An addressed store."""
        h, n = self.start_head(head.name, head.note), self.m.head_dim
        self.layer.made_from.append(head)
        if len(head.value) > n - CONST_DIMS or max([*head.key, *head.query], default=0) >= n - 2:
            raise CompileError(f"memory head {head.name} is too large", where=self.where)
        for base, forms, tap in ((0, head.query, 0), (self.k_at, head.key, head.key_tap)):
            for row, form in forms.items():
                self.put_form(self.layer.qkv, base + h * n + row, form, SCALE, f"{head.name} row {row}")
                self.set_tap(base + h * n + row, tap)
        self.put_constants(h, head.const_form if head.const_form is not None else Form({}, 1))
        for j, (value, gate, outs) in enumerate(zip(head.value, head.gate, head.outs), CONST_DIMS):
            channel = self.v_at + h * n + j
            self.put_form(self.layer.qkv, channel, value, SCALE, head.name)
            self.set_tap(channel, head.tap_of(j - CONST_DIMS))
            self.put_form(self.layer.z, h * n + j, gate, SCALE, head.name)
            for s, w in outs:
                self.put_out(h * n + j, s, w, head.name)
        if head.halve is None:
            self.layer.dt_bias[h] = KEEP
        else:
            self.layer.dt_bias[h] = 0.0
            self.put_form(self.layer.a, h, self.hold * (1 - head.halve), 1.0, head.name)

    def put_out(self, column: int, s: Signal, weight, what: str) -> None:
        value = float(weight) * OUT_SCALE
        if not is_bf16(value):
            raise CompileError(f"output weight {weight} is not exact in bf16", where=f"{self.where}: {what}")
        self.layer.out.put(self.layout.dim_of[s], column, value)


def write_layers(c: Circuit, m: Machine, sched: Schedule, layout: Layout) -> list[CompiledLayer]:
    """All layers of a schedule. Raises CompileError where a number is not exact or a budget is exceeded."""
    out = []
    for i in range(sched.layers):
        w = LayerWriter(m, layout, i + 1)
        for head in sched.layer_heads[i]:
            w.memory_head(head)
        units = sched.layer_units[i] + layout.clears[i]
        room = m.head_dim - CONST_DIMS
        units = sorted(units, key=lambda u: u.group)
        for at in range(0, len(units), room):
            w.logic_head(units[at:at + room])
        w.layer.peak = layout.peak[i]
        out.append(w.layer)
    return out
