"""The sparse engine's inner loop: one token through every layer of a plan."""

from __future__ import annotations

import numpy as np
from numba import njit

OPTIONS = dict(cache=True, fastmath=False, nogil=True)


@njit(inline="always")
def _form(x, ptr, idx, val, bias, r):
    acc = bias[r]
    for p in range(ptr[r], ptr[r + 1]):
        acc += val[p] * x[idx[p]]
    return acc


@njit(inline="always")
def _off(x, dims, offs, k):
    """Whether group k's trigger (one dim, or two) sits at its off values."""
    d, e = dims[k, 0], dims[k, 1]
    return d >= 0 and x[d] == offs[k, 0] and (e < 0 or x[e] == offs[k, 1])


@njit(inline="always")
def _looking_back(x, past, seen, t, ptr, idx, val, bias, r):
    """A row's value t tokens ago (0 before the stream's first token). past: (3, D), ring by position."""
    if t == 0:
        return _form(x, ptr, idx, val, bias, r)
    if seen < t:
        return np.float32(0)
    return _form(past[(seen - t) % 3], ptr, idx, val, bias, r)


@njit(**OPTIONS)
def _decode(x, past, seen, tap, bit_dim, bit_high, d0, d1, keys, k0, k1):
    """Place in keys[k0:k1] (sorted) of the pattern that dims d0..d1 spell (as they were `tap` tokens ago), or -1."""
    if seen < tap:
        return -1
    if tap:
        x = past[(seen - tap) % 3]
    key = np.int64(0)
    for d in range(d0, d1):
        if x[bit_dim[d]] == bit_high[d]:
            key |= np.int64(1) << (d - d0)
    lo, hi = k0, k1
    while lo < hi:
        mid = (lo + hi) >> 1
        if keys[mid] < key:
            lo = mid + 1
        else:
            hi = mid
    return lo if lo < k1 and keys[lo] == key else -1


@njit(inline="always")
def _units(x, delta, n_delta, groups, g0, g1, past, seen, f, g, out, tap):
    """Add every unit of groups g0..g1. x: (D,) layer input. Contributions go to delta as (dim, amount). Returns count."""
    fp, fi, fv, fb = f
    gp, gi, gv, gb = g
    op, oi, ov, _ = out
    dims, offs, span = groups
    for k in range(g0, g1):
        if _off(x, dims, offs, k):
            continue
        for u in range(span[k, 0], span[k, 1]):
            a = _looking_back(x, past, seen, tap[u], fp, fi, fv, fb, u)
            if a <= 0:
                continue
            b = _form(x, gp, gi, gv, gb, u)
            if b <= 0:
                continue
            h = a * b
            for p in range(op[u], op[u + 1]):
                delta[n_delta, 0] = oi[p]
                delta[n_delta, 1] = h * ov[p]
                n_delta += 1
    return n_delta


@njit(inline="always")
def _round_bf16(v):
    """Nearest bf16, ties to even, of a finite float32 given as a one-element view."""
    bits = v.view(np.uint32)
    b = bits[0]
    bits[0] = (b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)


@njit(inline="always")
def _memory(x, delta, n_delta, h, state, past, seen, reads, one, parts):
    """One memory head: halve, write the addressed row, read the queried rows through the gates. state: (rows, dims)."""
    (row_groups, head_groups, decode, row, row_number, halves, halve, head_values, value, value_dim, value_tap, const, gate_groups,
     head_gates, gate, gate_dim, gate_out) = parts
    rp, ri, rv, rb = row
    vp, vi, vv, vb = value
    gp, gi, gv, gb = gate
    op, oi, ov, _ = gate_out
    if halves[h]:
        hold = _form(x, halve[0], halve[1], halve[2], halve[3], h)      # a: 0 halves, -40 keeps
        factor = np.float32(np.exp(-np.float32(np.log1p(np.exp(hold)))))
        if factor != 1:
            for r in range(state.shape[0]):
                for j in range(state.shape[1]):
                    state[r, j] *= factor
    n_reads = 0
    written = -1
    dims, offs, span = row_groups
    for k in range(head_groups[h], head_groups[h + 1]):
        if _off(x, dims, offs, k):
            continue
        for r in range(span[k, 0], span[k, 1]):
            if _looking_back(x, past, seen, span[k, 3], rp, ri, rv, rb, r) > 0:
                if span[k, 2]:
                    written = row_number[r]
                elif n_reads < reads.shape[0]:
                    reads[n_reads] = row_number[r]
                    n_reads += 1
    dims, offs, span, head_decodes, bit_dim, bit_high, keys, key_row = decode
    for k in range(head_decodes[h], head_decodes[h + 1]):
        if _off(x, dims, offs, k):
            continue
        found = _decode(x, past, seen, span[k, 5], bit_dim, bit_high, span[k, 0], span[k, 1], keys, span[k, 2], span[k, 3])
        if found >= 0:
            if span[k, 4]:
                written = key_row[found]
            elif n_reads < reads.shape[0]:
                reads[n_reads] = key_row[found]
                n_reads += 1
    if written >= 0:
        for j in range(2):
            state[written, j] = max(np.float32(0), _form(x, const[0], const[1], const[2], const[3], h))
        for v in range(head_values[h], head_values[h + 1]):
            a = _looking_back(x, past, seen, value_tap[v], vp, vi, vv, vb, v)
            state[written, value_dim[v]] = max(a, np.float32(0))
    if n_reads == 0:
        return n_delta
    unit = np.float32(0)
    for r in range(n_reads):
        unit += state[reads[r], 0]
    if unit == 0:
        return n_delta
    dims, offs, span = gate_groups
    for k in range(head_gates[h], head_gates[h + 1]):
        if _off(x, dims, offs, k):
            continue
        for q in range(span[k, 0], span[k, 1]):
            got = np.float32(0)
            for r in range(n_reads):
                got += state[reads[r], gate_dim[q]]
            if got == 0:
                continue
            b = _form(x, gp, gi, gv, gb, q)
            if b <= 0:
                continue
            one[0] = got
            _round_bf16(one)
            for p in range(op[q], op[q + 1]):
                delta[n_delta, 0] = oi[p]
                delta[n_delta, 1] = one[0] * b * ov[p]
                n_delta += 1
    return n_delta


@njit(**OPTIONS)
def step(x, delta, history, history_slot, kept, seen, states, unit_part, memory_part, layer_units, layer_heads):
    """One token through all layers, in place.

    x: (D,) float32, the embedding on entry and the last layer's output on return (constant dims are not touched).
    history: (slots, 3, D) layer inputs of the last three tokens, ring by position, for layers that look back;
    history_slot: (layers,) or -1; kept = (ptr, dims): dims that slot s needs are dims[ptr[s]:ptr[s+1]].
    seen: tokens before this one. states: (memory heads, rows, dims).
    """
    groups, f, g, out, tap = unit_part
    reads, one = np.empty(16, np.int64), np.empty(1, np.float32)
    kept_ptr, kept_dims = kept
    for layer in range(layer_units.shape[0] - 1):
        slot = history_slot[layer]
        past = history[max(slot, 0)]
        n = _units(x, delta, 0, groups, layer_units[layer], layer_units[layer + 1], past, seen, f, g, out, tap)
        for h in range(layer_heads[layer], layer_heads[layer + 1]):
            n = _memory(x, delta, n, h, states[h], past, seen, reads, one, memory_part)
        if slot >= 0:
            now = past[seen % 3]
            for p in range(kept_ptr[slot], kept_ptr[slot + 1]):
                now[kept_dims[p]] = x[kept_dims[p]]
        for k in range(n):
            x[int(delta[k, 0])] += delta[k, 1]


@njit(**OPTIONS)
def run(ids, embedding, code_dims, keys, key_ids, x, delta, history, history_slot, kept, seen, states,
        unit_part, memory_part, layer_units, layer_heads):
    """Feed ids one after another; after the last, return the id whose code the output carries, or -1 if none does.

    embedding: (vocabulary, D) float32. keys: sorted codes as integers, key_ids: their token ids.
    """
    for i in range(ids.shape[0]):
        x[:] = embedding[ids[i]]
        step(x, delta, history, history_slot, kept, seen + i, states, unit_part, memory_part, layer_units, layer_heads)
    key = np.int64(0)
    for k in range(code_dims.shape[0]):
        if x[code_dims[k]] > 0:
            key |= np.int64(1) << k
    p = np.searchsorted(keys, key)
    return key_ids[p] if p < keys.shape[0] and keys[p] == key else np.int64(-1)
