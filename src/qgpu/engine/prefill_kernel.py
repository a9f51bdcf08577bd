"""The prefill engine's inner loops: a piece of the stream through a range of layers.

The residual stream lies dim by dim, x (D, PAST + n): token t is column PAST + t, and the columns just before it hold what a layer that
looks back remembers of the tokens before the piece.
"""

from __future__ import annotations

import numpy as np
from numba import njit

OPTIONS = dict(cache=True, fastmath=False, nogil=True, error_model="numpy")
PAST = 16                          # a whole vector in front keeps every token's column aligned; the last three are used
FEW = 6                            # a group that so few tokens need is computed token by token
MOST_READS = 16


@njit(inline="always")
def _at(x, column, ptr, idx, val, bias, r):
    """Row r's form at one column."""
    acc = bias[r]
    for p in range(ptr[r], ptr[r + 1]):
        acc += val[p] * x[idx[p], column]
    return acc


@njit(inline="always")
def _looking_back(x, t, tap, seen, ptr, idx, val, bias, r):
    """Row r's form `tap` tokens before token t; 0 before the stream's first token."""
    if seen + t < tap:
        return np.float32(0)
    return _at(x, PAST + t - tap, ptr, idx, val, bias, r)


@njit(inline="always")
def _over(x, n, tap, seen, ptr, idx, val, bias, r, acc):
    """Row r's form at each of n tokens, as it was `tap` tokens before, into acc. (Inlined: a call costs more than the work.)"""
    first, p, last = PAST - tap, ptr[r], ptr[r + 1]
    b = bias[r]
    if last - p == 1:
        x0, v0 = x[idx[p]], val[p]
        for t in range(n):
            acc[t] = b + v0 * x0[first + t]
    elif last - p >= 2:
        x0, x1, v0, v1 = x[idx[p]], x[idx[p + 1]], val[p], val[p + 1]
        for t in range(n):
            acc[t] = b + v0 * x0[first + t] + v1 * x1[first + t]
    else:
        for t in range(n):
            acc[t] = b
    for q in range(p + 2, last):
        x0, v0 = x[idx[q]], val[q]
        for t in range(n):
            acc[t] += v0 * x0[first + t]
    for t in range(min(n, tap - seen)):                  # nothing was read before the stream's first token
        acc[t] = 0


@njit(inline="always")
def _on(x, n, dims, offs, k, on):
    """Which tokens group k's trigger lets through, into on; how many there are."""
    d, e = dims[k, 0], dims[k, 1]
    count = 0
    if d < 0:
        for t in range(n):
            on[t] = 1
        count = n
    elif e < 0:
        one, a = x[d], offs[k, 0]
        for t in range(n):
            on[t] = one[PAST + t] != a
            count += on[t]
    else:
        one, a, two, b = x[d], offs[k, 0], x[e], offs[k, 1]
        for t in range(n):
            on[t] = (one[PAST + t] != a) | (two[PAST + t] != b)
            count += on[t]
    return count


@njit(**OPTIONS)
def _units(x, n, added, seen, units, g0, g1, on, fs, gs):
    """Every unit of groups g0..g1 at each of n tokens; contributions go to added (places, n)."""
    (dims, offs, span), (fp, fi, fv, fb), (gp, gi, gv, gb), (op, oi, ov), tap = units
    for k in range(g0, g1):
        count = _on(x, n, dims, offs, k, on)
        if count == 0:
            continue
        if count <= FEW:
            for t in range(n):
                if not on[t]:
                    continue
                for u in range(span[k, 0], span[k, 1]):
                    a = _looking_back(x, t, tap[u], seen, fp, fi, fv, fb, u)
                    if a <= 0:
                        continue
                    b = _at(x, PAST + t, gp, gi, gv, gb, u)
                    if b > 0:
                        for p in range(op[u], op[u + 1]):
                            added[oi[p], t] += a * b * ov[p]
            continue
        for u in range(span[k, 0], span[k, 1]):
            _over(x, n, tap[u], seen, fp, fi, fv, fb, u, fs)
            some = 0
            for t in range(n):
                some += fs[t] > 0
            if some == 0:
                continue
            _over(x, n, 0, seen, gp, gi, gv, gb, u, gs)
            for t in range(n):
                fs[t] = max(fs[t], np.float32(0)) * max(gs[t], np.float32(0))
            for p in range(op[u], op[u + 1]):
                row, w = added[oi[p]], ov[p]
                for t in range(n):
                    row[t] += fs[t] * w


@njit(inline="always")
def _round_bf16(one):
    """Nearest bf16, ties to even, of the finite float32 in a one-element array."""
    bits = one.view(np.uint32)
    b = bits[0]
    bits[0] = (b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)


@njit(**OPTIONS)
def _addresses(x, n, seen, h, rows, decodes, on, fs, keys, written, reads, n_reads):
    """Row that head h writes at each token (or -1), rows that it reads."""
    written[:n] = -1
    n_reads[:n] = 0
    (dims, offs, span), head_groups, (rp, ri, rv, rb), row_number = rows
    for k in range(head_groups[h], head_groups[h + 1]):
        if _on(x, n, dims, offs, k, on) == 0:
            continue
        for r in range(span[k, 0], span[k, 1]):
            _over(x, n, span[k, 3], seen, rp, ri, rv, rb, r, fs)
            for t in range(n):
                if on[t] and fs[t] > 0:
                    if span[k, 2]:
                        written[t] = row_number[r]
                    elif n_reads[t] < MOST_READS:
                        reads[t, n_reads[t]] = row_number[r]
                        n_reads[t] += 1
    (dims, offs, span), head_decodes, bit_dim, bit_high, patterns, pattern_row = decodes
    for k in range(head_decodes[h], head_decodes[h + 1]):
        if _on(x, n, dims, offs, k, on) == 0:
            continue
        tap = span[k, 5]
        keys[:n] = 0
        for d in range(span[k, 0], span[k, 1]):
            bits, high, bit = x[bit_dim[d]], bit_high[d], np.int32(1 << (d - span[k, 0]))
            for t in range(n):
                keys[t] |= bit if bits[PAST - tap + t] == high else np.int32(0)
        for t in range(max(0, tap - seen), n):
            if not on[t]:
                continue
            lo, hi, key = span[k, 2], span[k, 3], keys[t]
            while lo < hi:
                mid = (lo + hi) >> 1
                if patterns[mid] < key:
                    lo = mid + 1
                else:
                    hi = mid
            if lo < span[k, 3] and patterns[lo] == key:
                if span[k, 4]:
                    written[t] = pattern_row[lo]
                elif n_reads[t] < MOST_READS:
                    reads[t, n_reads[t]] = pattern_row[lo]
                    n_reads[t] += 1


@njit(**OPTIONS)
def _head(x, n, added, seen, h, state, memory, on, fs, keys, written, reads, n_reads, gate, data, held):
    """Memory head h at each of n tokens, in order. state: (rows, dims).

    held: the set of values whose forms are in data (values, n) already, or -1. Returns what it is now.
    """
    rows, decodes, (halves, halve, most_rows), (head_values, value_set, value, value_dim, value_tap, const), gates = memory
    _addresses(x, n, seen, h, rows, decodes, on, fs, keys, written, reads, n_reads)
    (vp, vi, vv, vb), (cp, ci, cv, cb), (hp, hi, hv, hb) = value, const, halve
    form_ptr, (gp, gi, gv, gb), runs, run_ptr, gate_dim, op, oi, ov = gates
    first = form_ptr[h]
    for k in range(first, form_ptr[h + 1]):
        _over(x, n, 0, seen, gp, gi, gv, gb, k, gate[k - first])
    writes = 0
    for t in range(n):
        writes += written[t] >= 0
    v0, m = head_values[h], head_values[h + 1] - head_values[h]
    if writes and held != value_set[h]:
        held = value_set[h]
        for v in range(m):
            _over(x, n, value_tap[v0 + v], seen, vp, vi, vv, vb, v0 + v, data[v])
    one = np.empty(1, np.float32)
    for t in range(n):
        if halves[h]:
            hold = _at(x, PAST + t, hp, hi, hv, hb, h)                   # a: 0 halves, -40 keeps
            factor = np.float32(np.exp(-np.float32(np.log1p(np.exp(hold)))))
            if factor != 1:
                for r in range(most_rows[h]):
                    for j in range(state.shape[1]):
                        state[r, j] *= factor
        w = written[t]
        if w >= 0:
            for j in range(2):
                state[w, j] = max(np.float32(0), _at(x, PAST + t, cp, ci, cv, cb, h))
            for v in range(m):
                state[w, value_dim[v0 + v]] = max(data[v, t], np.float32(0))
        unit = np.float32(0)
        for r in range(n_reads[t]):
            unit += state[reads[t, r], 0]
        if unit == 0:
            continue
        for k in range(run_ptr[h], run_ptr[h + 1]):
            b = gate[runs[k, 0], t]
            if b <= 0:
                continue
            for q in range(runs[k, 1], runs[k, 2]):
                got = np.float32(0)
                for r in range(n_reads[t]):
                    got += state[reads[t, r], gate_dim[q]]
                if got == 0:
                    continue
                one[0] = got
                _round_bf16(one)
                for p in range(op[q], op[q + 1]):
                    added[oi[p], t] += one[0] * b * ov[p]
    return held


@njit(**OPTIONS)
def piece(x, n, added, seen, states, history, back, touched, units, memory, layer_units, layer_heads, most_forms, first, last):
    """n tokens through layers first..last-1, in place.

    x: (D, PAST + PIECE) float32. added: (most dims that a layer adds to, PIECE). seen: tokens before the piece. states: (memory heads,
    rows, dims). back = (ptr, dims): what a layer looks back at; history: (those dims, 3), oldest first. touched = (ptr, dims).
    """
    on, written, n_reads = np.empty(n, np.uint8), np.empty(n, np.int32), np.empty(n, np.int32)
    fs, gs, keys = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.int32)
    reads, gate = np.empty((n, MOST_READS), np.int32), np.empty((most_forms, n), np.float32)
    data = np.empty((states.shape[2], n), np.float32)
    back_ptr, back_dims = back
    ptr, dims = touched
    for layer in range(first, last):
        for i in range(back_ptr[layer], back_ptr[layer + 1]):
            row = x[back_dims[i]]
            for j in range(3):
                row[PAST - 3 + j] = history[i, j]
            for j in range(3):
                history[i, j] = row[PAST + n - 3 + j]
        m = ptr[layer + 1] - ptr[layer]
        for i in range(m):
            for t in range(n):
                added[i, t] = 0
        _units(x, n, added, seen, units, layer_units[layer], layer_units[layer + 1], on, fs, gs)
        held = -1
        for h in range(layer_heads[layer], layer_heads[layer + 1]):
            held = _head(x, n, added, seen, h, states[h], memory, on, fs, keys, written, reads, n_reads, gate, data, held)
        for i in range(m):
            row, extra = x[dims[ptr[layer] + i]], added[i]
            for t in range(n):
                row[PAST + t] += extra[t]
