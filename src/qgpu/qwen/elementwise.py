"""Numba kernels for everything in a layer that is not a large product: norms, gates, convolution, the delta rule.

Each does what the naive function of the same purpose does, in the strict order, so both give the same bits. ``bf16``
says whether results are rounded. Work is split over threads by token, head or channel; no sum is ever split.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numba.core import types
from numba.extending import overload

from qgpu.bf16_numba import decode1, round1
from qgpu.qwen.elementary_numba import exp1, rsqrt1, sigmoid1, silu1, softplus1

ZERO = np.float32(0.0)
SMALL = 32768  # fewer elements than this are not worth waking other threads for


@nb.njit(error_model="numpy")
def rounded(x, bf16):
    """x to bf16 if asked."""
    return round1(x) if bf16 else x


def widen1(x):
    """One element of a bf16 (uint16) or float32 array as float32."""
    return decode1(x) if isinstance(x, np.uint16) else x


@overload(widen1)
def _widen1(x):
    if x == types.uint16:
        return lambda x: decode1(x)
    return lambda x: x


@nb.njit
def fold_row(lane):
    """The sum of sixteen lanes, by halves."""
    width = 8
    while width > 0:
        for i in range(width):
            lane[i] += lane[i + width]
        width //= 2
    return lane[0]


@nb.njit(cache=True, nogil=True)
def sum_of_squares(row):
    """Sum of x^2 over a 1-d float32 array, in the strict order."""
    lanes = np.zeros(16, np.float32)
    whole = row.size // 16 * 16
    for k in range(0, whole, 16):
        for lane in range(16):
            lanes[lane] += row[k + lane] * row[k + lane]
    for k in range(whole, row.size):
        lanes[k - whole] += row[k] * row[k]
    return fold_row(lanes)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def rms_norm(x, scale, eps, bf16, out):
    """x, out: (n, d) float32, scale: (d,) float32, which is 1 + weight."""
    if x.size < SMALL:
        for t in range(x.shape[0]):
            _rms_row(x[t], scale, eps, bf16, out[t])
    else:
        for t in nb.prange(x.shape[0]):
            _rms_row(x[t], scale, eps, bf16, out[t])


@nb.njit(error_model="numpy")
def _rms_row(x, scale, eps, bf16, out):
    inverse = rsqrt1(sum_of_squares(x) / np.float32(x.size) + eps)
    for k in range(x.size):
        out[k] = rounded(x[k] * inverse * scale[k], bf16)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def conv_silu(x, past, taps, bf16, out):
    """x, out: (n, C), past: (K-1, C), taps: (K, C), all float32. The causal convolution, then silu."""
    if x.size < SMALL:
        for t in range(x.shape[0]):
            _conv_row(x, past, taps, t, bf16, out[t])
    else:
        for t in nb.prange(x.shape[0]):
            _conv_row(x, past, taps, t, bf16, out[t])


@nb.njit(error_model="numpy")
def _conv_row(x, past, taps, t, bf16, out):
    """Token t of conv_silu. out: (C,)."""
    held = past.shape[0]
    for c in range(out.size):
        out[c] = (past[t, c] if t < held else x[t - held, c]) * taps[0, c]
    for j in range(1, held + 1):
        at = t + j
        row = past[at] if at < held else x[at - held]
        for c in range(out.size):
            out[c] += row[c] * taps[j, c]
    for c in range(out.size):
        out[c] = rounded(silu1(rounded(out[c], bf16)), bf16)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def gates(b, a, rate, dt_bias, bf16, beta, decay):
    """b, a, beta, decay: (n, Hv), rate = e^A_log and dt_bias: (Hv,), all float32. decay is the log of the factor."""
    for t in range(b.shape[0]):
        for h in range(b.shape[1]):
            beta[t, h] = rounded(sigmoid1(b[t, h]), bf16)
            decay[t, h] = -rate[h] * softplus1(a[t, h] + dt_bias[h])


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def delta_step(q, k, v, beta, decay, root, state, bf16, out):
    """One token, the recurrent rule. q, k: (Hk, Dk), v, out: (Hv, Dv), beta, decay: (Hv,), state: (Hv, Dk, Dv).

    q and k are not yet normalised; root is sqrt(Dk). state is updated in place; out is rounded.
    """
    heads = state.shape[0]
    group = heads // q.shape[0]
    for h in nb.prange(heads):
        _delta_head(q[h // group], k[h // group], v[h], beta[h], decay[h], root, state[h], bf16, out[h])


@nb.njit(error_model="numpy")
def _delta_head(q, k, v, beta, decay, root, state, bf16, out):
    """One head of delta_step. q, k: (Dk,), v, out: (Dv,), state: (Dk, Dv)."""
    key_size, value_size = state.shape
    q_inverse = rsqrt1(sum_of_squares(q) + np.float32(1e-6))
    k_inverse = rsqrt1(sum_of_squares(k) + np.float32(1e-6))
    factor = exp1(decay)
    lanes = np.zeros((16, value_size), np.float32)
    for i in range(key_size):
        key, lane, row = k[i] * k_inverse, lanes[i % 16], state[i]
        for j in range(value_size):
            kept = row[j] * factor
            row[j] = kept
            lane[j] += key * kept
    fold(lanes)
    delta = np.empty(value_size, np.float32)
    for j in range(value_size):
        delta[j] = (v[j] - lanes[0, j]) * beta
    _clear(lanes)
    for i in range(key_size):
        key, query, lane, row = k[i] * k_inverse, q[i] * q_inverse / root, lanes[i % 16], state[i]
        for j in range(value_size):
            new = row[j] + key * delta[j]
            row[j] = new
            lane[j] += query * new
    fold(lanes)
    for j in range(value_size):
        out[j] = rounded(lanes[0, j], bf16)


@nb.njit
def fold(lanes):
    """Rows 0..15 to row 0 by halves. lanes: (16, d)."""
    width = 8
    while width > 0:
        for lane in range(width):
            for j in range(lanes.shape[1]):
                lanes[lane, j] += lanes[lane + width, j]
        width //= 2


@nb.njit
def _clear(lanes):
    """Zero lanes. lanes: (16, d)."""
    for lane in range(lanes.shape[0]):
        for j in range(lanes.shape[1]):
            lanes[lane, j] = ZERO


@nb.njit(parallel=True, cache=True, nogil=True)
def solve(system, x):
    """Forward substitution, in place: x becomes X with (I + strictly lower part of system) X = x.

    system: (Hv, L, L), x: (Hv, L, d) float32.
    """
    for h in nb.prange(x.shape[0]):
        _solve_head(system[h], x[h])


@nb.njit
def _solve_head(system, x):
    """One head of solve. system: (L, L), x: (L, d)."""
    length, size = x.shape
    lanes = np.empty((16, size), np.float32)
    for i in range(1, length):
        _clear(lanes)
        for p in range(i):
            factor, lane, row = system[i, p], lanes[p % 16], x[p]
            for j in range(size):
                lane[j] += factor * row[j]
        fold(lanes)
        for j in range(size):
            x[i, j] -= lanes[0, j]


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def gated_norm(o, z, weight, eps, bf16, out):
    """o, z, out: (rows, Dv) float32, one row a head and token; weight: (Dv,). RMS norm, plain weight, times silu(z)."""
    if o.size < SMALL:
        for t in range(o.shape[0]):
            _gated_row(o[t], z[t], weight, eps, bf16, out[t])
    else:
        for t in nb.prange(o.shape[0]):
            _gated_row(o[t], z[t], weight, eps, bf16, out[t])


@nb.njit(error_model="numpy")
def _gated_row(o, z, weight, eps, bf16, out):
    inverse = rsqrt1(sum_of_squares(o) / np.float32(o.size) + eps)
    for j in range(o.size):
        normed = rounded(o[j] * inverse, bf16)
        out[j] = rounded(rounded(weight[j] * normed, bf16) * silu1(z[j]), bf16)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def swiglu(gate, up, bf16, out):
    """gate, up, out: (n, I) float32: silu(gate) * up. out must not be gate or up: the loop would not be vectorised."""
    if gate.size < SMALL:
        for t in range(gate.shape[0]):
            _swiglu_row(gate[t], up[t], bf16, out[t])
    else:
        for t in nb.prange(gate.shape[0]):
            _swiglu_row(gate[t], up[t], bf16, out[t])


@nb.njit(error_model="numpy")
def _swiglu_row(gate, up, bf16, out):
    for i in range(gate.size):
        out[i] = rounded(rounded(silu1(gate[i]), bf16) * up[i], bf16)


@nb.njit(cache=True, nogil=True)
def add(h, x, bf16, out):
    """h, x, out: (size,) float32: h + x, rounded."""
    for i in range(h.size):
        out[i] = rounded(h[i] + x[i], bf16)


@nb.njit(cache=True, nogil=True)
def round_in_place(x):
    """x: (size,) float32 to bf16 numbers."""
    for i in range(x.size):
        x[i] = round1(x[i])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def gate_output(mixed, gate, bf16, out):
    """mixed, gate, out: (size,) float32: mixed * sigmoid(gate)."""
    for i in range(mixed.size):
        out[i] = rounded(mixed[i] * rounded(sigmoid1(gate[i]), bf16), bf16)
