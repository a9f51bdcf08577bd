"""Numba kernels of the fast forward: products in the strict order, split over threads by output rows only.

Each sum is taken whole by one thread, so no result depends on how many threads there are.
"""

from __future__ import annotations

import numba as nb
import numpy as np

import qgpu.qwen.threads  # noqa: F401  (before anything runs in parallel)
from qgpu.bf16_numba import round1
from qgpu.qwen.lanes import make_dots

_bf16_8x1, _bf16_1x1 = make_dots(8, 1, True, fetch=True), make_dots(1, 1, True)
_bf16_4x4, _bf16_1x4 = make_dots(4, 4, True), make_dots(1, 4, True)
_f32_4x4, _f32_4x1, _f32_1x4, _f32_1x1 = (make_dots(r, c, False) for r, c in ((4, 4), (4, 1), (1, 4), (1, 1)))
ROWS = 64  # output rows a task


@nb.njit(parallel=True, cache=True, nogil=True)
def linear_bf16(weights, rows, x, rounds, out):
    """Several matrices times the same tokens. x: (n, K) float32, C-contiguous, K a multiple of 16.

    weights: addresses of matrices (m_i, K) of uint16, rows: their m_i, both int64. out: (sum of n m_i,) float32, the
    (n, m_i) products one after another, rounded to bf16 if ``rounds``.
    (Addresses, since a read-only mapped array would be another type to Numba and be compiled for all over again.)
    """
    ends, starts = np.cumsum((rows + (ROWS - 1)) // ROWS), np.cumsum(rows) - rows
    for task in nb.prange(ends[-1]):
        i = np.searchsorted(ends, task, side="right")
        first = (task - (ends[i - 1] if i > 0 else 0)) * ROWS
        start, last = x.shape[0] * starts[i], min(rows[i], first + ROWS)
        _some_rows(weights[i], rows[i], out.ctypes.data + start * 4, x, first, last)
        if rounds:
            for t in range(x.shape[0]):
                for r in range(start + t * rows[i] + first, start + t * rows[i] + last):
                    out[r] = round1(out[r])


@nb.njit
def _some_rows(w_at, m, out_at, x, r0, r1):
    """Output rows r0 to r1 of one matrix, for every token."""
    n, width = x.shape
    blocks, x_at = width // 16, x.ctypes.data
    t = 0
    while t + 4 <= n:
        r = r0
        xa = x_at + t * width * 4
        while r + 4 <= r1:
            _bf16_4x4(w_at + r * width * 2, width * 2, xa, width * 4, blocks, out_at + (t * m + r) * 4, 4, m * 4)
            r += 4
        while r < r1:
            _bf16_1x4(w_at + r * width * 2, width * 2, xa, width * 4, blocks, out_at + (t * m + r) * 4, 4, m * 4)
            r += 1
        t += 4
    while t < n:
        r = r0
        xa = x_at + t * width * 4
        while r + 8 <= r1:
            _bf16_8x1(w_at + r * width * 2, width * 2, xa, width * 4, blocks, out_at + (t * m + r) * 4, 4, m * 4)
            r += 8
        while r < r1:
            _bf16_1x1(w_at + r * width * 2, width * 2, xa, width * 4, blocks, out_at + (t * m + r) * 4, 4, m * 4)
            r += 1
        t += 1


@nb.njit(parallel=True, cache=True, nogil=True)
def contract_f32(a_at, b_at, width, out):
    """a_at, b_at: addresses of (batch, n, K) and (batch, m, K) float32, out: (batch, n, m) float32, all C-contiguous.

    width: K, a multiple of 16.
    """
    batch, n, m = out.shape
    blocks = width // 16
    step = width * 4
    out_at = out.ctypes.data
    tiles = (n + ROWS - 1) // ROWS
    for task in nb.prange(batch * tiles):
        h, r0 = task // tiles, (task % tiles) * ROWS
        r1 = min(n, r0 + ROWS)
        for c in range(0, m, 4):
            whole = c + 4 <= m
            r = r0
            while r < r1:
                aa = a_at + (h * n + r) * step
                ba = b_at + (h * m + c) * step
                oa = out_at + ((h * n + r) * m + c) * 4
                if r + 4 <= r1 and whole:
                    _f32_4x4(aa, step, ba, step, blocks, oa, m * 4, 4)
                    r += 4
                elif whole:
                    _f32_1x4(aa, step, ba, step, blocks, oa, m * 4, 4)
                    r += 1
                elif r + 4 <= r1:
                    for j in range(m - c):
                        _f32_4x1(aa, step, ba + j * step, step, blocks, oa + j * 4, m * 4, 4)
                    r += 4
                else:
                    for j in range(m - c):
                        _f32_1x1(aa, step, ba + j * step, step, blocks, oa + j * 4, m * 4, 4)
                    r += 1
