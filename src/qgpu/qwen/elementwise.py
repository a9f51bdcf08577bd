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
CHANNELS = 512  # channels a task


@nb.njit(error_model="numpy")
def _round(x, bf16):
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
def _fold_row(lane):
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
    return _fold_row(lanes)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def rms_norm(x, scale, eps, bf16, out):
    """x, out: (n, d) float32, scale: (d,) float32, which is 1 + weight."""
    for t in nb.prange(x.shape[0]):
        mean = sum_of_squares(x[t]) / np.float32(x.shape[1])
        inverse = rsqrt1(mean + eps)
        for k in range(x.shape[1]):
            out[t, k] = _round(x[t, k] * inverse * scale[k], bf16)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def conv_silu(x, past, taps, bf16, out):
    """x, out: (n, C), past: (K-1, C), taps: (K, C), all float32. The causal convolution, then silu."""
    n, channels = x.shape
    width = taps.shape[0]
    tasks = (channels + CHANNELS - 1) // CHANNELS
    for task in nb.prange(tasks):
        for t in range(n):
            for c in range(task * CHANNELS, min(channels, task * CHANNELS + CHANNELS)):
                first = past[t, c] if t < width - 1 else x[t - width + 1, c]
                total = first * taps[0, c]
                for j in range(1, width):
                    at = t + j
                    value = past[at, c] if at < width - 1 else x[at - width + 1, c]
                    total += value * taps[j, c]
                out[t, c] = _round(silu1(_round(total, bf16)), bf16)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def gates(b, a, rate, dt_bias, bf16, beta, decay):
    """b, a, beta, decay: (n, Hv), rate = e^A_log and dt_bias: (Hv,), all float32. decay is the log of the factor."""
    for t in range(b.shape[0]):
        for h in range(b.shape[1]):
            beta[t, h] = _round(sigmoid1(b[t, h]), bf16)
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
    _fold(lanes)
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
    _fold(lanes)
    for j in range(value_size):
        out[j] = _round(lanes[0, j], bf16)


@nb.njit
def _fold(lanes):
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
        _fold(lanes)
        for j in range(size):
            x[i, j] -= lanes[0, j]


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def gated_norm(o, z, weight, eps, bf16, out):
    """o, z, out: (rows, Dv) float32, one row a head and token; weight: (Dv,). RMS norm, plain weight, times silu(z)."""
    for t in nb.prange(o.shape[0]):
        mean = sum_of_squares(o[t]) / np.float32(o.shape[1])
        inverse = rsqrt1(mean + eps)
        for j in range(o.shape[1]):
            normed = _round(o[t, j] * inverse, bf16)
            out[t, j] = _round(_round(weight[j] * normed, bf16) * silu1(z[t, j]), bf16)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def swiglu(gate, up, bf16, out):
    """gate, up, out: (size,) float32: silu(gate) * up."""
    tasks = (gate.size + 4095) // 4096
    for task in nb.prange(tasks):
        for i in range(task * 4096, min(gate.size, task * 4096 + 4096)):
            out[i] = _round(_round(silu1(gate[i]), bf16) * up[i], bf16)


@nb.njit(cache=True, nogil=True)
def add(h, x, bf16, out):
    """h, x, out: (size,) float32: h + x, rounded."""
    for i in range(h.size):
        out[i] = _round(h[i] + x[i], bf16)


@nb.njit(cache=True, nogil=True)
def round_in_place(x):
    """x: (size,) float32 to bf16 numbers."""
    for i in range(x.size):
        x[i] = round1(x[i])


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def gate_output(mixed, gate, bf16, out):
    """mixed, gate, out: (n, H E) float32: mixed * sigmoid(gate)."""
    for t in nb.prange(mixed.shape[0]):
        for i in range(mixed.shape[1]):
            out[t, i] = _round(mixed[t, i] * _round(sigmoid1(gate[t, i]), bf16), bf16)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def attend(q, keys, values, scale, bf16, out):
    """Causal attention for n new queries over T positions.

    q, out: (n, H, E) float32, keys, values: (T, G, E) float32 or bf16 bits. Each of the n sees itself and all before.
    """
    n, heads, size = q.shape
    length, groups, _ = keys.shape
    for task in nb.prange(n * heads):
        t, h = task // heads, task % heads
        g = h // (heads // groups)
        seen = length - n + t + 1
        _attend_head(q[t, h], keys[:seen, g], values[:seen, g], scale, bf16, out[t, h])


@nb.njit(error_model="numpy")
def _attend_head(q, keys, values, scale, bf16, out):
    """One query of one head. q, out: (E,), keys, values: (T, E)."""
    length, size = keys.shape
    scores, lane = np.empty(length, np.float32), np.empty(16, np.float32)
    top = -np.float32(np.inf)
    whole = size // 16 * 16
    for p in range(length):
        for i in range(16):
            lane[i] = ZERO
        for k in range(0, whole, 16):
            for i in range(16):
                lane[i] += q[k + i] * widen1(keys[p, k + i])
        for k in range(whole, size):
            lane[k - whole] += q[k] * widen1(keys[p, k])
        scores[p] = _round(_round(_fold_row(lane), bf16) * scale, bf16)
        top = max(top, scores[p])
    for i in range(16):
        lane[i] = ZERO
    for p in range(length):
        scores[p] = exp1(scores[p] - top)
        lane[p % 16] += scores[p]
    total = _fold_row(lane)
    lanes = np.zeros((16, size), np.float32)
    for p in range(length):
        share, row = _round(scores[p] / total, bf16), lanes[p % 16]
        for j in range(size):
            row[j] += share * widen1(values[p, j])
    _fold(lanes)
    for j in range(size):
        out[j] = _round(lanes[0, j], bf16)
