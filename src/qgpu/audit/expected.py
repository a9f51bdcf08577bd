"""The tensors that a layer must have, written anew from the map's forms: the certificate holds every bit of a checkpoint to them.

Rules T of docs/certificate.md. A matrix is given by its nonzeros; everything else is exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..bf16 import encode, is_bf16, round_bf16
from .claims import Claims, Head, RawForm
from .numbers import (CONSTANT_DIMS, FIRST_HOLD, FORGET, HEAD_CONSTANT, HOLD, KEEP, NORM_WEIGHT, OUT_SCALE, RESIDUAL_CONSTANT, SCALE,
                      SILENCE, residual_rms)


@dataclass
class Matrix:
    """Nonzeros of one tensor of this shape, every other entry `rest`; entries that are put twice add up."""

    shape: tuple[int, ...]
    entries: dict[int, float] = field(default_factory=dict)
    rest: float = 0.0

    def put(self, row: int, column: int, value: float) -> None:
        at = row * self.shape[-1] + column
        self.entries[at] = self.entries.get(at, 0.0) + value

    def differences(self, actual: NDArray, name: str, most: int = 3) -> list[str]:
        """Where a tensor (bf16 bits as uint16, or float32) is not this one, bit for bit."""
        if actual.shape != self.shape:
            return [f"{name} has shape {list(actual.shape)}, not {list(self.shape)}"]
        kept = {at: v for at, v in self.entries.items() if v != self.rest}
        at = np.fromiter(kept, np.int64, len(kept))
        values = np.fromiter(kept.values(), np.float32, len(kept))
        if actual.dtype == np.uint16:
            if not is_bf16(values).all():
                return [f"{name}: the map asks for a number that is not bf16"]
            bits, wanted, rest = actual, encode(values), encode(np.float32(self.rest))[()]
        else:
            bits, wanted, rest = actual.view(np.uint32), values.view(np.uint32), np.float32(self.rest).view(np.uint32)
        flat = np.ascontiguousarray(bits).reshape(-1)
        other = _unlike(flat, rest)
        order = np.argsort(at)
        at, wanted = at[order], wanted[order]
        if np.array_equal(other, at) and np.array_equal(flat[at], wanted):
            return []
        found = dict(zip(other.tolist(), flat[other].tolist()))
        want = dict(zip(at.tolist(), wanted.tolist()))
        wrong = sorted(i for i in found.keys() | want.keys() if found.get(i, rest) != want.get(i, rest))
        number = lambda b: float(np.array([b], np.uint32 if flat.dtype == np.uint32 else np.uint16).astype(np.uint32)
                                 .__lshift__(0 if flat.dtype == np.uint32 else 16).astype(np.uint32).view(np.float32)[0])
        place = lambda i: list(int(x) for x in np.unravel_index(i, self.shape))
        shown = [f"{name}{place(i)} is {number(found.get(i, rest)):g}, not {number(want.get(i, rest)):g}" for i in wrong[:most]]
        return shown + ([f"{name}: {len(wrong) - most} more entries differ"] if len(wrong) > most else [])


def _unlike(flat: NDArray, rest: int) -> NDArray[np.int64]:
    """Where a flat array is not `rest`; four numbers at a time where most of it is 0."""
    if rest == 0 and flat.dtype == np.uint16 and len(flat) % 4 == 0:
        four = np.flatnonzero(flat.view(np.uint64))[:, None] * 4 + np.arange(4)
        four = four.reshape(-1)
        return four[flat[four] != 0]
    return np.flatnonzero(flat != rest)


def parts(x: float, most: int) -> list[float]:
    """A number as a sum of at most `most` bf16 numbers, each the nearest to what is left. Raises ValueError."""
    out = []
    while x:
        out.append(float(round_bf16(np.float32(x))))
        x -= out[-1]
    if len(out) > most:
        raise ValueError(f"a constant needs {len(out)} bf16 numbers")
    return out


class LayerRules:
    """Writes the expected tensors of one layer. number: from 1. intermediate: rows of the (zero) MLP."""

    def __init__(self, claims: Claims, number: int, hidden: int, heads: int, size: int, intermediate: int) -> None:
        r = claims.residual
        self.claims, self.r, self.size = claims, r, size
        self.merged, self.first = bool(r.ones), bool(r.ones) and number == 1
        self.bias = r.ones if self.first else r.constants
        kd = heads * size
        self.k_at, self.v_at = kd, 2 * kd
        self.qkv, self.z, self.out = Matrix((3 * kd, hidden)), Matrix((kd, hidden)), Matrix((hidden, kd))
        self.a, self.b = Matrix((heads, hidden)), Matrix((heads, hidden))
        self.conv = Matrix((3 * kd, 1, 4), {4 * c + 3: 1.0 for c in range(3 * kd)})
        self.dt = Matrix((heads,), {}, FORGET)
        self.norm = self._norm(hidden)
        zero = lambda *shape: Matrix(shape)
        self.tensors = {
            "input_layernorm.weight": self.norm, "linear_attn.in_proj_qkv.weight": self.qkv, "linear_attn.in_proj_z.weight": self.z,
            "linear_attn.in_proj_b.weight": self.b, "linear_attn.in_proj_a.weight": self.a, "linear_attn.conv1d.weight": self.conv,
            "linear_attn.A_log": zero(heads), "linear_attn.dt_bias": self.dt, "linear_attn.norm.weight": Matrix((size,), {}, NORM_WEIGHT),
            "linear_attn.out_proj.weight": self.out, "post_attention_layernorm.weight": zero(hidden),
            "mlp.gate_proj.weight": zero(intermediate, hidden), "mlp.up_proj.weight": zero(intermediate, hidden),
            "mlp.down_proj.weight": zero(hidden, intermediate)}
        for h, head in enumerate(claims.layers[number - 1]):
            self._head(h, head)

    def _norm(self, hidden: int) -> Matrix:
        """T1: stored w of the input norm's 1 + w."""
        r, rms = self.r, residual_rms(hidden, len(self.r.constants))
        if self.first:
            gain = {d: r.gain - 1 for d in (*r.code, *r.ones, *(d for d, _ in r.silence))}
            return Matrix((hidden,), gain, -1.0)
        special = {d: rms / RESIDUAL_CONSTANT - 1 for d in r.constants}
        if self.merged:
            assert r.ballast is not None
            special |= {d: float(round_bf16(np.float32(rms / r.scale))) for d in r.code} | {d: -1.0 for d in (*r.ones, r.ballast[0])}
        return Matrix((hidden,), special, rms)

    def _form(self, matrix: Matrix, row: int, form: RawForm, scale: float = SCALE) -> None:
        """T2: scale times the form; its constant in the bias dims, as a sum of bf16 numbers, one a dim."""
        for s, k in form[1]:
            matrix.put(row, self.claims.signals[s].dim, k * scale)
        for dim, part in zip(self.bias, parts(form[0] * scale, len(self.bias))):
            matrix.put(row, dim, part)

    def _tap(self, channel: int, tap: int) -> None:
        """T3: the convolution passes on one token: this one, or the one `tap` before."""
        self.conv.entries[4 * channel + 3] = 0.0
        self.conv.entries[4 * channel + 3 - tap] = 1.0

    def _silence(self, h: int, bases: tuple[int, ...], last: int, tap: int) -> None:
        """T4: two rows that read the reserved dims with +-2^100."""
        for base in bases:
            for row, sign in ((last - 1, 1.0), (last, -1.0)):
                channel = base + h * self.size + row
                for dim, weight in self.r.silence:
                    self.qkv.put(channel, dim, sign * weight * SILENCE)
                self._tap(channel, tap)

    def _look_back(self, h: int, tap: int, rows: list[int]) -> None:
        """T5, merged models: what looks back is silent if that token was text."""
        self._silence(h, (self.k_at,), self.size - 3, tap)
        for channel in [self.k_at + h * self.size + row for row in rows] + [self.v_at + h * self.size + j for j in range(CONSTANT_DIMS)]:
            self._tap(channel, tap)

    def _head(self, h: int, head: Head) -> None:
        n, one = self.size, (1.0, ())
        self._form(self.b, h, one)
        self._silence(h, (0, self.k_at), n - 1, 0)
        for j in range(CONSTANT_DIMS):
            self._form(self.qkv, self.v_at + h * n + j, head.constant or one, HEAD_CONSTANT)
        if not head.memory:
            for base in (0, self.k_at):
                self._form(self.qkv, base + h * n, one)
            for j, u in enumerate(head.units, CONSTANT_DIMS):
                self._value(h, j, u.f, u.g, u.tap, u.outs)
            if self.merged and head.units and head.units[0].tap:
                self._look_back(h, head.units[0].tap, [0])
            return
        for base, rows, tap in ((0, head.query, 0), (self.k_at, head.key, head.key_tap)):
            for row, form in rows.items():
                self._form(self.qkv, base + h * n + row, form)
                self._tap(base + h * n + row, tap)
        for j, (value, gate, outs, tap) in enumerate(zip(head.value, head.gate, head.outs, head.value_tap), CONSTANT_DIMS):
            self._value(h, j, value, gate, tap, outs)
        self.dt.entries[h] = KEEP if head.halve is None else 0.0
        if head.halve is not None:
            hold = FIRST_HOLD if self.first else HOLD
            c, terms = head.halve
            self._form(self.a, h, (hold * (1 - c), tuple((s, -hold * k) for s, k in terms)), 1.0)
        if self.merged and head.key_tap:
            self._look_back(h, head.key_tap, list(head.key))

    def _value(self, h: int, j: int, f: RawForm, g: RawForm, tap: int, outs) -> None:
        """T6: a value dim: its pre-activation f, its gate g, what it is added to."""
        at = h * self.size + j
        self._form(self.qkv, self.v_at + at, f)
        self._tap(self.v_at + at, tap)
        self._form(self.z, at, g)
        for s, w in outs:
            self.out.put(self.claims.signals[s].dim, at, w * OUT_SCALE)
