"""The sparse engine's inner loop: one token through every layer of the tables."""

from __future__ import annotations

import numpy as np
from numba import njit

OPTIONS = dict(cache=True, fastmath=False, nogil=True, error_model="numpy")
MOST_READS = 16
"""Rows of one head that a token may read at once; a read of more than 12 is not exact, and the compiler makes none."""


@njit(**OPTIONS)
def _form(x, ptr, idx, val, bias, r):
    acc = bias[r]
    for p in range(ptr[r], ptr[r + 1]):
        acc += val[p] * x[idx[p]]
    return acc


@njit(**OPTIONS)
def _looking_back(history, slot, seen, t, ptr, idx, val, bias, r):
    """A row's value t tokens ago, 0 before the stream's first token."""
    if seen < t:
        return np.float32(0)
    past = (seen - t) % 3
    acc = bias[r]
    for p in range(ptr[r], ptr[r + 1]):
        acc += val[p] * history[slot, past, idx[p]]
    return acc


@njit(**OPTIONS)
def _awake(x, dims, offs, g0, g1, on):
    """on[k - g0] = whether group k's triggers leave it something to do. No branches: four loads and compares a group."""
    for k in range(g0, g1):
        first = (x[dims[0, k]] == offs[0, k]) & (x[dims[1, k]] == offs[1, k])
        second = (x[dims[2, k]] == offs[2, k]) & (x[dims[3, k]] == offs[3, k])
        on[k - g0] = not (first | second)


@njit(**OPTIONS)
def _at_rest(x, dims, offs, k):
    """Whether group k, which has one trigger, has nothing to do."""
    return (x[dims[0, k]] == offs[0, k]) & (x[dims[1, k]] == offs[1, k])


@njit(**OPTIONS)
def _pattern(x, history, slot, seen, t, bit, high, d0, d1):
    """The number that dims bit[d0:d1] spell t tokens ago, lowest first."""
    key = np.int64(0)
    if t == 0:
        for d in range(d0, d1):
            key |= np.int64(x[bit[d]] == high[d]) << np.int64(d - d0)
    else:
        past = (seen - t) % 3
        for d in range(d0, d1):
            key |= np.int64(history[slot, past, bit[d]] == high[d]) << np.int64(d - d0)
    return key


@njit(**OPTIONS)
def _place(keys, lo, hi, key):
    """Where key is in keys[lo:hi] (sorted), or -1."""
    end = hi
    while lo < hi:
        mid = (lo + hi) >> 1
        if keys[mid] < key:
            lo = mid + 1
        else:
            hi = mid
    return lo if lo < end and keys[lo] == key else -1


@njit(**OPTIONS)
def _units(x, at, amount, on, history, seen, g0, g1, slot, dims, offs, span, f_ptr, f_idx, f_val, f_bias, g_ptr, g_idx, g_val, g_bias,
           out_ptr, out_idx, out_val, tap):
    """A layer's units, in groups g0..g1. What they add goes to at, amount. Returns how much."""
    _awake(x, dims, offs, g0, g1, on)
    n = 0
    for k in range(g0, g1):
        if not on[k - g0]:
            continue
        for u in range(span[k, 0], span[k, 1]):
            if tap[u]:
                a = _looking_back(history, slot, seen, tap[u], f_ptr, f_idx, f_val, f_bias, u)
            else:
                a = _form(x, f_ptr, f_idx, f_val, f_bias, u)
            if a <= 0:
                continue
            b = _form(x, g_ptr, g_idx, g_val, g_bias, u)
            if b <= 0:
                continue
            h = a * b
            for p in range(out_ptr[u], out_ptr[u + 1]):
                at[n] = out_idx[p]
                amount[n] = h * out_val[p]
                n += 1
    return n


@njit(**OPTIONS)
def _round_bf16(v):
    """Nearest bf16, ties to even, of a finite float32 given as a one-element view."""
    bits = v.view(np.uint32)
    b = bits[0]
    bits[0] = (b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)


@njit(**OPTIONS)
def _hit(written, reads, n_reads, h, row, is_key):
    """Head h (of its layer) has its row addressed, to be written or read."""
    if is_key:
        written[h] = row
    elif n_reads[h] < MOST_READS:
        reads[h, n_reads[h]] = row
        n_reads[h] += 1


@njit(**OPTIONS)
def _decoded(x, history, seen, written, reads, n_reads, k0, k1, h0, slot, ptr, bit, high, taps, first, last, keys, hit_ptr, hits):
    """Rows that decoders k0..k1 address."""
    for k in range(k0, k1):
        if seen < taps[k]:
            continue
        key = _pattern(x, history, slot, seen, taps[k], bit, high, ptr[k], ptr[k + 1])
        found = _place(keys, first[k], last[k], key)
        if found >= 0:
            for p in range(hit_ptr[found], hit_ptr[found + 1]):
                _hit(written, reads, n_reads, hits[p, 0] - h0, hits[p, 1], hits[p, 2])


@njit(**OPTIONS)
def _matched(x, history, seen, written, reads, n_reads, g0, g1, h0, slot, dims, offs, span, ptr, idx, val, bias, number):
    """Rows of row groups g0..g1 whose forms are positive."""
    for k in range(g0, g1):
        if _at_rest(x, dims, offs, k):
            continue
        for r in range(span[k, 0], span[k, 1]):
            if span[k, 3]:
                a = _looking_back(history, slot, seen, span[k, 3], ptr, idx, val, bias, r)
            else:
                a = _form(x, ptr, idx, val, bias, r)
            if a > 0:
                _hit(written, reads, n_reads, span[k, 4] - h0, number[r], span[k, 2])


@njit(**OPTIONS)
def _halve(states, h, hold):
    """A head that counts: every row times one half where hold is 0, kept where it is -40."""
    factor = np.float32(np.exp(-np.float32(np.log1p(np.exp(hold)))))
    if factor != 1:
        for r in range(states.shape[1]):
            for j in range(states.shape[2]):
                states[h, r, j] *= factor


@njit(**OPTIONS)
def _write(x, history, seen, slot, states, h, row, constant, v0, v1, ptr, idx, val, bias, dim, tap):
    """Row `row` of head h becomes the values v0..v1 of this token, behind the head's constants."""
    states[h, row, 0] = max(np.float32(0), constant)
    states[h, row, 1] = max(np.float32(0), constant)
    for v in range(v0, v1):
        if tap[v]:
            a = _looking_back(history, slot, seen, tap[v], ptr, idx, val, bias, v)
        else:
            a = _form(x, ptr, idx, val, bias, v)
        states[h, row, dim[v]] = max(a, np.float32(0))


@njit(**OPTIONS)
def _read(x, at, amount, n, one, states, h, reads, place, n_rows, g0, g1, dims, offs, span, ptr, idx, val, bias, dim,
          out_ptr, out_idx, out_val):
    """The sum of the rows reads[place, :n_rows] of head h through the gates of groups g0..g1. Returns the new count."""
    unit = np.float32(0)
    for r in range(n_rows):
        unit += states[h, reads[place, r], 0]
    if unit == 0:
        return n
    for k in range(g0, g1):
        if _at_rest(x, dims, offs, k):
            continue
        for q in range(span[k, 0], span[k, 1]):
            got = np.float32(0)
            for r in range(n_rows):
                got += states[h, reads[place, r], dim[q]]
            if got == 0:
                continue
            b = _form(x, ptr, idx, val, bias, q)
            if b <= 0:
                continue
            one[0] = got
            _round_bf16(one)
            for p in range(out_ptr[q], out_ptr[q + 1]):
                at[n] = out_idx[p]
                amount[n] = one[0] * b * out_val[p]
                n += 1
    return n


@njit(**OPTIONS)
def step(x, room, history, seen, states, layers, tables):
    """One token through the layers, in place.

    x: (D,) float32, the embedding on entry and the last layer's output on return (constant dims are not touched).
    room: scratch, see `tables.room`. history: (slots, 3, D) inputs of the last three tokens, ring by position, of layers that look
    back. seen: tokens before this one. states: (memory heads, rows, dims). layers: rows of tables.layers.
    """
    at, amount, on, written, n_reads, reads, one = room
    (u_dims, u_offs, u_span), (f_ptr, f_idx, f_val, f_bias), (g_ptr, g_idx, g_val, g_bias), (o_ptr, o_idx, o_val, _), u_tap = tables.units
    ((d_ptr, d_bit, d_high, d_tap, d_first, d_last, d_keys, d_hit_ptr, d_hits), (r_dims, r_offs, r_span), (r_ptr, r_idx, r_val, r_bias),
     number, halves, (a_ptr, a_idx, a_val, a_bias), head_values, (v_ptr, v_idx, v_val, v_bias), v_dim, v_tap,
     (c_ptr, c_idx, c_val, c_bias), head_gates, (q_dims, q_offs, q_span), (q_ptr, q_idx, q_val, q_bias), q_dim,
     (w_ptr, w_idx, w_val, _)) = tables.heads
    kept_ptr, kept_dims = tables.kept_ptr, tables.kept_dims
    for i in range(layers.shape[0]):
        h0, h1, slot = layers[i, 6], layers[i, 7], layers[i, 8]
        n = _units(x, at, amount, on, history, seen, layers[i, 0], layers[i, 1], slot, u_dims, u_offs, u_span,
                   f_ptr, f_idx, f_val, f_bias, g_ptr, g_idx, g_val, g_bias, o_ptr, o_idx, o_val, u_tap)
        for h in range(h1 - h0):
            written[h], n_reads[h] = -1, 0
        _decoded(x, history, seen, written, reads, n_reads, layers[i, 2], layers[i, 3], h0, slot, d_ptr, d_bit, d_high, d_tap,
                 d_first, d_last, d_keys, d_hit_ptr, d_hits)
        _matched(x, history, seen, written, reads, n_reads, layers[i, 4], layers[i, 5], h0, slot, r_dims, r_offs, r_span,
                 r_ptr, r_idx, r_val, r_bias, number)
        for h in range(h0, h1):
            if halves[h]:
                _halve(states, h, _form(x, a_ptr, a_idx, a_val, a_bias, h))
            if written[h - h0] >= 0:
                _write(x, history, seen, slot, states, h, written[h - h0], _form(x, c_ptr, c_idx, c_val, c_bias, h),
                       head_values[h], head_values[h + 1], v_ptr, v_idx, v_val, v_bias, v_dim, v_tap)
            if n_reads[h - h0]:
                n = _read(x, at, amount, n, one, states, h, reads, h - h0, n_reads[h - h0], head_gates[h], head_gates[h + 1],
                          q_dims, q_offs, q_span, q_ptr, q_idx, q_val, q_bias, q_dim, w_ptr, w_idx, w_val)
        if slot >= 0:
            now = seen % 3
            for p in range(kept_ptr[slot], kept_ptr[slot + 1]):
                history[slot, now, kept_dims[p]] = x[kept_dims[p]]
        for k in range(n):
            x[at[k]] += amount[k]


@njit(**OPTIONS)
def run(ids, embedding, code_dims, keys, key_ids, x, room, history, seen, states, layers, tables):
    """Feed ids one after another; after the last, return the id whose code the output carries, or -1 if none does.

    embedding: (vocabulary, D) float32. keys: sorted codes as integers, key_ids: their token ids. The rest as for `step`.
    """
    for i in range(ids.shape[0]):
        x[:] = embedding[ids[i]]
        step(x, room, history, seen + i, states, layers, tables)
    key = np.int64(0)
    for k in range(code_dims.shape[0]):
        if x[code_dims[k]] > 0:
            key |= np.int64(1) << k
    p = np.searchsorted(keys, key)
    return key_ids[p] if p < keys.shape[0] and keys[p] == key else np.int64(-1)
