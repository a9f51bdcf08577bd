"""Where values are rounded and in which order sums are taken: the two things the forward pass leaves open.

Rounding: in bf16 every operation's result is rounded (:mod:`qgpu.bf16`); in float32 nothing more happens.

Order: by default sums are taken however NumPy is fastest. Compiled layers do not mind, since their sums are exact in
any order. *Strict* sums have one order, given here in full, so that another implementation can match them bit for bit:

    Sixteen float32 lanes start at +0. Element k is added to lane k mod 16, in ascending k. In a sum of products each
    product is rounded to float32 before it is added (no fused multiply-add). Then lane j takes lane j+8 for j < 8, then
    j+4 for j < 4, then j+2, then j+1, and lane 0 is the sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qgpu.bf16 import decode, is_bf16, round_bf16

F32 = NDArray[np.float32]
LANES = 16
BLOCK = 1 << 23  # weights are widened to float32 this many at a time


@dataclass(frozen=True)
class Arithmetic:
    """bf16: round each result to bf16. strict: take sums in the documented order."""

    bf16: bool = True
    strict: bool = False

    def round(self, x: F32) -> F32:
        """x as the model's dtype holds it, in float32."""
        return round_bf16(x) if self.bf16 else x

    def widen(self, w: NDArray) -> F32:
        """A weight as float32: uint16 is bf16 bits, float32 is itself. A float32 weight in a bf16 model is rounded.

        transformers converts every tensor to the model's dtype on loading, those stored in float32 included.
        """
        if w.dtype == np.uint16:
            return decode(w)
        return w if not self.bf16 or is_bf16(w).all() else round_bf16(w)

    def total(self, x: F32) -> F32:
        """Sum over the last axis, kept with length 1. x: (..., K) -> (..., 1)."""
        if not self.strict:
            return x.sum(axis=-1, keepdims=True, dtype=np.float32)
        pad = -x.shape[-1] % LANES
        x = np.concatenate([x, np.zeros((*x.shape[:-1], pad), np.float32)], axis=-1)
        lanes = np.zeros((*x.shape[:-1], LANES), np.float32)
        for k in range(0, x.shape[-1], LANES):
            lanes = lanes + x[..., k : k + LANES]
        return _fold(lanes)

    def contract(self, a: F32, b: F32) -> F32:
        """Sum of products over the last axis of both. a: (..., n, K), b: (..., m, K) -> (..., n, m), float32."""
        if not self.strict:
            return np.matmul(a, np.swapaxes(b, -1, -2))
        pad = -a.shape[-1] % LANES
        a = np.concatenate([a, np.zeros((*a.shape[:-1], pad), np.float32)], axis=-1)
        b = np.concatenate([b, np.zeros((*b.shape[:-1], pad), np.float32)], axis=-1)
        shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        lanes = np.zeros((*shape, a.shape[-2], b.shape[-2], LANES), np.float32)
        for k in range(0, a.shape[-1], LANES):
            lanes = lanes + a[..., :, None, k : k + LANES] * b[..., None, :, k : k + LANES]
        return _fold(lanes)[..., 0]

    def in_order(self, a: F32, b: F32) -> F32:
        """a b, summed in ascending order whatever `strict` says. a: (..., n, K), b: (..., K, m) -> (..., n, m), float32.

        A chunk's reads are sums of a row's changes: in the order of tokens every partial sum is what the row held then.
        """
        out = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.float32)
        for k in range(a.shape[-1]):
            out = out + a[..., :, k : k + 1] * b[..., k : k + 1, :]
        return out

    def chunked_rule(self, q: F32, k: F32, v: F32, beta: F32, decay: F32, state: F32) -> tuple[F32, F32] | None:
        """An arithmetic's own chunked delta rule, or None for the definition in :mod:`qgpu.qwen.delta`.

        q, k: (n, Hk, Dk) not yet normalised, v: (n, Hv, Dv), beta, decay: (n, Hv), state: (Hv, Dk, Dv) ->
        (n, Hv, Dv) not yet rounded, and the new state.
        """
        return None

    def solve(self, system: F32, right: F32) -> F32:
        """X with (I + strictly lower part of system) X = right, by forward substitution.

        system: (Hv, L, L), right: (Hv, L, d) -> (Hv, L, d).
        """
        x = right.copy()
        for i in range(1, right.shape[1]):
            x[:, i] -= self.contract(system[:, i : i + 1, :i], x[:, :i].swapaxes(1, 2))[:, 0]
        return x

    def linear(self, x: F32, weight: NDArray, bias: NDArray | None = None) -> F32:
        """x W^T + bias, one rounding at the end. x: (n, K), weight: (m, K) bf16 bits or float32, bias: (m,) -> (n, m)."""
        rows = max(1, BLOCK // max(1, weight.shape[1]))
        out = np.empty((x.shape[0], weight.shape[0]), np.float32)
        for r in range(0, weight.shape[0], rows):
            part = weight[r : r + rows]
            wide = decode(part) if part.dtype == np.uint16 else part
            out[:, r : r + rows] = self.contract(x, wide)
        if bias is not None:
            out += self.widen(bias)
        return self.round(out)


def _fold(lanes: F32) -> F32:
    """The sixteen lanes to one, halving. lanes: (..., 16) -> (..., 1)."""
    width = LANES
    while width > 1:
        width //= 2
        lanes = lanes[..., :width] + lanes[..., width : 2 * width]
    return lanes
