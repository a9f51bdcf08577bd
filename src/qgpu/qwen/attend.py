"""The Numba kernel of causal attention: what :mod:`qgpu.qwen.attention` does between rotation and output gate, in its bits.

Work is split over threads by token and head; no sum is ever split.
"""

from __future__ import annotations

import numba as nb
import numpy as np

import qgpu.qwen.threads  # noqa: F401  (before anything runs in parallel)
from qgpu.qwen.elementary_numba import exp1
from qgpu.qwen.elementwise import fold, fold_row, rounded, widen1
from qgpu.qwen.lanes import LANES, make_dots

ZERO = np.float32(0.0)
_bf16_8x1, _bf16_1x1 = make_dots(8, 1, True), make_dots(1, 1, True)
_f32_8x1, _f32_1x1 = make_dots(8, 1, False), make_dots(1, 1, False)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def attend(q, keys, values, length, scale, bf16, out):
    """Causal attention for n new queries over the first ``length`` positions, of which the last n are their own.

    q, out: (n, H, E) float32, keys, values: (capacity, G, E) float32 or bf16 bits. A query sees itself and all before.
    """
    n, heads, _ = q.shape
    group = heads // keys.shape[1]
    for task in nb.prange(n * heads):
        t, h = task // heads, task % heads
        _attend_head(q[t, h], keys, values, h // group, length - n + t + 1, scale, bf16, out[t, h])


@nb.njit(error_model="numpy")
def _attend_head(q, keys, values, g, length, scale, bf16, out):
    """One query over ``length`` positions of key-value head g. q, out: (E,), keys, values: (capacity, G, E)."""
    scores, lane = np.empty(length, np.float32), np.zeros(LANES, np.float32)
    _scores(q, keys, g, scores)
    top = -np.float32(np.inf)
    for p in range(length):
        scores[p] = rounded(rounded(scores[p], bf16) * scale, bf16)
        top = max(top, scores[p])
    for p in range(length):
        scores[p] = exp1(scores[p] - top)
        lane[p % LANES] += scores[p]
    total = fold_row(lane)
    lanes = np.zeros((LANES, q.size), np.float32)
    for p in range(length):
        share, value, row = rounded(scores[p] / total, bf16), values[p, g], lanes[p % LANES]
        for j in range(row.size):
            row[j] += share * widen1(value[j])
    fold(lanes)
    for j in range(out.size):
        out[j] = rounded(lanes[0, j], bf16)


@nb.njit
def _scores(q, keys, g, scores):
    """Products of one query with the keys of head g, unrounded. q: (E,), keys: (capacity, G, E), scores: (T,)."""
    if q.size % LANES:
        lane = np.empty(LANES, np.float32)
        for p in range(scores.size):
            scores[p] = _plain_dot(q, keys[p, g], lane)
        return
    blocks, step, q_at = q.size // LANES, keys.strides[0], q.ctypes.data
    bf16, p = keys.itemsize == 2, 0
    while p < scores.size:
        at, to, eight = keys.ctypes.data + p * step + g * keys.strides[1], scores.ctypes.data + 4 * p, p + 8 <= scores.size
        if bf16 and eight:
            _bf16_8x1(at, step, q_at, 0, blocks, to, 4, 0)
        elif bf16:
            _bf16_1x1(at, step, q_at, 0, blocks, to, 4, 0)
        elif eight:
            _f32_8x1(at, step, q_at, 0, blocks, to, 4, 0)
        else:
            _f32_1x1(at, step, q_at, 0, blocks, to, 4, 0)
        p += 8 if eight else 1


@nb.njit
def _plain_dot(q, key, lane):
    """Sum of q * key in the strict order, for any length. lane: (16,), scratch."""
    lane[:] = ZERO
    for k in range(q.size):
        lane[k % LANES] += q[k] * widen1(key[k])
    return fold_row(lane)
