"""The chunked gated delta rule as one Numba kernel: a value head goes through all its chunks on one thread.

The steps are those of :func:`qgpu.qwen.delta.delta_rule` with ``recurrent=False``, in the strict order, so the bits are
the same. Everything a chunk needs is small and stays in cache. Lengths are padded with zeros to what the vector code
takes (tokens and key components to 16, value components to 4); a zero token neither writes nor is read.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qgpu.qwen.denormals import flush_denormals, restore_denormals
from qgpu.qwen.elementary_numba import exp1, rsqrt1
from qgpu.qwen.elementwise import rounded, sum_of_squares
from qgpu.qwen.lanes import make_dots

CHUNK = 64
_dots4x4, _dots1x4 = make_dots(4, 4, False), make_dots(1, 4, False)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def delta_chunks(q, k, v, beta, decay, scale, state, bf16, flush, out):
    """q, k: (n, Hk, Dk) not yet normalised, v, out: (n, Hv, Dv), beta, decay: (n, Hv), state: (Hv, Dk, Dv), float32.

    scale is 1 / sqrt(Dk). state is updated in place; out is rounded in a bf16 model. flush: take denormals as zero,
    which is many times faster where heads forget fast, and not quite the strict bits.
    """
    heads = state.shape[0]
    group = heads // q.shape[1]
    for h in nb.prange(heads):
        before = flush_denormals() if flush else np.uint32(0)
        _head(q[:, h // group], k[:, h // group], v[:, h], beta[:, h], decay[:, h], scale, state[h], bf16, out[:, h])
        if flush:
            restore_denormals(before)


@nb.njit(error_model="numpy")
def _head(q, k, v, beta, decay, scale, state, bf16, out):
    """One head. q, k: (n, Dk), v, out: (n, Dv), beta, decay: (n,), state: (Dk, Dv)."""
    n, key_size, value_size = q.shape[0], q.shape[1], v.shape[1]
    deep = (key_size + 15) // 16 * 16
    wide = (value_size + 3) // 4 * 4
    state_t = np.zeros((wide, deep), np.float32)  # the state, a row for each value component
    for i in range(key_size):
        for j in range(value_size):
            state_t[j, i] = state[i, j]
    for start in range(0, n, CHUNK):
        length = min(CHUNK, n - start)
        padded = (length + 15) // 16 * 16
        queries, keys = np.zeros((padded, deep), np.float32), np.zeros((padded, deep), np.float32)
        key_betas = np.zeros((padded, deep), np.float32)
        total, since, until = np.zeros(padded, np.float32), np.zeros(padded, np.float32), np.zeros(padded, np.float32)
        written_t, reads_t = np.zeros((wide, padded), np.float32), np.zeros((deep, padded), np.float32)
        running = np.float32(0.0)
        for t in range(length):
            at = start + t
            running = decay[at] if t == 0 else running + decay[at]
            total[t] = running
            since[t] = exp1(running)
            q_inverse = rsqrt1(sum_of_squares(q[at]) + np.float32(1e-6))
            k_inverse = rsqrt1(sum_of_squares(k[at]) + np.float32(1e-6))
            for i in range(key_size):
                queries[t, i] = q[at, i] * q_inverse * scale
                keys[t, i] = k[at, i] * k_inverse
                key_betas[t, i] = keys[t, i] * beta[at]
                reads_t[i, t] = key_betas[t, i] * since[t]
            for j in range(value_size):
                written_t[j, t] = v[at, j] * beta[at]
        for t in range(length):
            until[t] = exp1(running - total[t])

        system, within = _products(key_betas, keys), _products(queries, keys)  # (padded, padded)
        for i in range(padded):
            for j in range(padded):
                if j > i or i >= length:
                    system[i, j] = within[i, j] = np.float32(0.0)
                else:
                    between = exp1(total[i] - total[j])
                    within[i, j] *= between
                    system[i, j] = system[i, j] * between if j < i else np.float32(0.0)
        _solve(system, written_t, length)
        _solve(system, reads_t, length)

        held = _products(_transposed(reads_t), state_t)  # (padded, wide)
        for t in range(padded):
            for j in range(wide):
                written_t[j, t] -= held[t, j]
        for t in range(length):
            for i in range(key_size):
                queries[t, i] *= since[t]
                keys[t, i] *= until[t]
        from_state, from_chunk = _products(queries, state_t), _in_order(within, _transposed(written_t), length)  # (padded, wide)
        for t in range(length):
            for j in range(value_size):
                out[start + t, j] = rounded(from_state[t, j] + from_chunk[t, j], bf16)
        gained = _products(written_t, _transposed(keys))  # (wide, deep)
        last = exp1(running)
        for j in range(wide):
            for i in range(deep):
                state_t[j, i] = state_t[j, i] * last + gained[j, i]
    for i in range(key_size):
        for j in range(value_size):
            state[i, j] = state_t[j, i]


@nb.njit
def _products(a, b):
    """a b^T in the strict order. a: (r, K), b: (c, K), r and c multiples of 4, K of 16 -> (r, c)."""
    rows, width = a.shape
    columns = b.shape[0]
    out = np.empty((rows, columns), np.float32)
    a_at, b_at, out_at, step = a.ctypes.data, b.ctypes.data, out.ctypes.data, width * 4
    for c in range(0, columns, 4):
        for r in range(0, rows, 4):
            at = out_at + (r * columns + c) * 4
            _dots4x4(a_at + r * step, step, b_at + c * step, step, width // 16, at, columns * 4, 4)
    return out


@nb.njit(error_model="numpy")
def _in_order(within, written, length):
    """within written, summed token by token. within: (L, L), written: (L, wide) -> (L, wide)."""
    out = np.zeros(written.shape, np.float32)
    for t in range(length):
        for s in range(t + 1):
            w = within[t, s]
            for j in range(written.shape[1]):
                out[t, j] += w * written[s, j]
    return out


@nb.njit
def _transposed(a):
    """A contiguous transpose."""
    out = np.empty((a.shape[1], a.shape[0]), np.float32)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[i, j]
    return out


@nb.njit
def _solve(system, x, length):
    """Forward substitution in place, token by token. system: (L, L), strictly lower; x: (d, L), d a multiple of 4."""
    size, width = x.shape
    known = np.empty(size, np.float32)
    x_at, s_at, k_at, step = x.ctypes.data, system.ctypes.data, known.ctypes.data, width * 4
    for t in range(1, length):
        blocks = (t + 15) // 16
        for j in range(0, size, 4):
            _dots1x4(s_at + t * step, step, x_at + j * step, step, blocks, k_at + j * 4, 0, 4)
        for j in range(size):
            x[j, t] -= known[j]
