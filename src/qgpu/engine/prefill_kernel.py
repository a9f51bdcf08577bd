"""The prefill engine's inner loops: a piece of the stream through a range of layers.

The residual stream lies dim by dim, x (D * width,): a dim's values at the piece's tokens are side by side, from column PAST on, and the
columns just before hold what a layer that looks back remembers of the three tokens before the piece. Tokens are sorted by
their id, not by their place in the stream: those that run the same block, and need the same units, are neighbours. `source` says where
a column's earlier tokens are, `order` in which order memory heads go through the columns.

Indices are unsigned and arrays flat: a signed index is tested, a view is counted, and either costs more here than the arithmetic.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .kernel import MOST_READS

OPTIONS = dict(cache=True, fastmath=False, nogil=True, error_model="numpy")
PAST = 16                          # a whole vector in front keeps the columns aligned; the last three are used
FEW = 4                            # a group that so few tokens need is computed token by token
ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)


@njit(inline="always")
def _at(x, width, column, forms, r):
    """Row r's form at one column."""
    ptr, idx, val, bias = forms
    acc = bias[r]
    for p in range(np.uint64(ptr[r]), np.uint64(ptr[r + ONE])):
        acc += val[p] * x[np.uint64(idx[p]) * width + column]
    return acc


@njit(inline="always")
def _back(x, width, column, tap, source, forms, r):
    """Row r's form `tap` tokens before a column's own; 0 before the stream's first token."""
    if tap == 0:
        return _at(x, width, column, forms, r)
    earlier = source[tap - 1, column]
    return _at(x, width, np.uint64(earlier), forms, r) if earlier >= 0 else np.float32(0)


@njit(inline="always")
def _over(x, width, at, n, tap, source, forms, r, acc):
    """Row r's form at n columns from `at` on, as it was `tap` tokens before, into acc. (Inlined: a call costs more than the work.)"""
    ptr, idx, val, bias = forms
    p, last, b = np.uint64(ptr[r]), np.uint64(ptr[r + ONE]), bias[r]
    if tap:
        for t in range(n):
            acc[t] = b
        for q in range(p, last):
            i0, v0 = np.uint64(idx[q]) * width, val[q]
            for t in range(n):
                acc[t] += v0 * x[i0 + np.uint64(max(source[tap - 1, at + t], 0))]
        for t in range(n):
            if source[tap - 1, at + t] < 0:
                acc[t] = 0
    elif last - p >= TWO:
        i0, v0 = np.uint64(idx[p]) * width + at, val[p]
        i1, v1 = np.uint64(idx[p + ONE]) * width + at, val[p + ONE]
        for t in range(n):
            acc[t] = b + v0 * x[i0 + t] + v1 * x[i1 + t]
        for q in range(p + TWO, last):
            i0, v0 = np.uint64(idx[q]) * width + at, val[q]
            for t in range(n):
                acc[t] += v0 * x[i0 + t]
    elif last - p == ONE:
        i0, v0 = np.uint64(idx[p]) * width + at, val[p]
        for t in range(n):
            acc[t] = b + v0 * x[i0 + t]
    else:
        for t in range(n):
            acc[t] = b


@njit(inline="always")
def _on(x, width, n, groups, k, on):
    """Which of the n tokens group k's trigger lets through, into on, by column from PAST on; how many there are."""
    dims, offs, _ = groups
    d, e, at = dims[k, 0], dims[k, 1], np.uint64(PAST)
    count = np.int32(0)
    if d < 0:
        for t in range(n):
            on[t] = 1
        count = np.int32(n)
    elif e < 0:
        i, a = np.uint64(d) * width + at, offs[k, 0]
        for t in range(n):
            on[t] = x[i + t] != a
        for t in range(n):
            count += np.int32(on[t])
    else:
        i, a, j, b = np.uint64(d) * width + at, offs[k, 0], np.uint64(e) * width + at, offs[k, 1]
        for t in range(n):
            on[t] = (x[i + t] != a) | (x[j + t] != b)
        for t in range(n):
            count += np.int32(on[t])
    return count


@njit(inline="always")
def _any_on(x, width, at, n, groups, k):
    """Whether group k's trigger lets any of n columns from `at` on through."""
    dims, offs, _ = groups
    d, e = dims[k, 0], dims[k, 1]
    count = np.int32(0)
    if d < 0:
        count = np.int32(1)
    elif e < 0:
        i, a = np.uint64(d) * width + at, offs[k, 0]
        for t in range(n):
            count += np.int32(x[i + t] != a)
    else:
        i, a, j, b = np.uint64(d) * width + at, offs[k, 0], np.uint64(e) * width + at, offs[k, 1]
        for t in range(n):
            count += np.int32((x[i + t] != a) | (x[j + t] != b))
    return count > 0


@njit(inline="always")
def _place(added, dirty, width, n, place):
    """Where a place's row of `added` begins; it is cleared when it is first used in a layer."""
    i = np.uint64(place) * width
    if not dirty[place]:
        dirty[place] = 1
        for t in range(n):
            added[i + t] = 0
    return i


@njit(**OPTIONS)
def _units(x, width, n, added, dirty, source, units, g0, g1, on, fs, gs):
    """Every unit of groups g0..g1 at n columns; contributions go to added (places * width,).

    A group's units share one trigger, those of one of its parts a second one, of their other factor.
    """
    groups, part_ptr, parts, f, g, (op, oi, ov), tap = units
    span, past = groups[2], np.uint64(PAST)
    for k in range(g0, g1):
        count = _on(x, width, n, groups, k, on)
        if count == 0:
            continue
        first, last = np.uint64(span[k, 0]), np.uint64(span[k, 1])
        if count <= FEW:
            for t in range(n):
                if not on[t]:
                    continue
                for u in range(first, last):
                    a = _back(x, width, past + t, tap[u], source, f, u)
                    if a <= 0:
                        continue
                    b = _at(x, width, past + t, g, u)
                    if b > 0:
                        for p in range(np.uint64(op[u]), np.uint64(op[u + ONE])):
                            added[_place(added, dirty, width, n, oi[p]) + t] += a * b * ov[p]
            continue
        start, end = ZERO, n
        while not on[start]:                                 # columns that need the group lie together, more or less
            start += ONE
        while not on[end - ONE]:
            end -= ONE
        at, some = past + start, end - start
        for k2 in range(part_ptr[k], part_ptr[k + 1]):
            if not _any_on(x, width, at, some, parts, k2):
                continue
            for u in range(np.uint64(parts[2][k2, 0]), np.uint64(parts[2][k2, 1])):
                _over(x, width, at, some, tap[u], source, f, u, fs)
                positive = np.int32(0)
                for t in range(some):
                    positive += np.int32(fs[t] > 0)
                if positive == 0:
                    continue
                _over(x, width, at, some, 0, source, g, u, gs)
                for t in range(some):
                    fs[t] = max(fs[t], np.float32(0)) * max(gs[t], np.float32(0))
                for p in range(np.uint64(op[u]), np.uint64(op[u + ONE])):
                    i, w = _place(added, dirty, width, n, oi[p]) + start, ov[p]
                    for t in range(some):
                        added[i + t] += fs[t] * w


@njit(inline="always")
def _round_bf16(one):
    """Nearest bf16, ties to even, of the finite float32 in a one-element array."""
    bits = one.view(np.uint32)
    b = bits[0]
    bits[0] = (b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)


@njit(inline="always")
def _hit(t, row, is_key, written, reads, n_reads):
    """The token at column t has a row addressed, to be written or read."""
    if is_key:
        written[t] = row
    elif n_reads[t] < MOST_READS:
        reads[t, n_reads[t]] = row
        n_reads[t] += 1


@njit(**OPTIONS)
def _addresses(x, width, n, source, h, rows, decodes, on, fs, keys, known, written, reads, n_reads):
    """Row that head h writes at each column (or -1), rows that it reads. keys[s]: what set s of bits spells, if known[s]."""
    past = np.uint64(PAST)
    for t in range(n):
        written[t] = -1
        n_reads[t] = 0
    groups, head_groups, row, row_number = rows
    span = groups[2]
    for k in range(head_groups[h], head_groups[h + 1]):
        if _on(x, width, n, groups, k, on) == 0:
            continue
        for r in range(np.uint64(span[k, 0]), np.uint64(span[k, 1])):
            _over(x, width, past, n, span[k, 3], source, row, r, fs)
            for t in range(n):
                if on[t] and fs[t] > 0:
                    _hit(t, row_number[r], span[k, 2], written, reads, n_reads)
    groups, head_decodes, bit_set, bit_dim, bit_high, patterns, pattern_row = decodes
    span = groups[2]
    for k in range(head_decodes[h], head_decodes[h + 1]):
        if _on(x, width, n, groups, k, on) == 0:
            continue
        tap, now = span[k, 5], keys[bit_set[k]]
        if not known[bit_set[k]]:
            known[bit_set[k]] = 1
            for t in range(n):
                now[t] = 0
            for d in range(span[k, 0], span[k, 1]):
                i, high, bit = np.uint64(bit_dim[d]) * width, bit_high[d], np.int32(1 << (d - span[k, 0]))
                if tap:
                    for t in range(n):
                        earlier = source[tap - 1, past + t]
                        if earlier >= 0 and x[i + np.uint64(earlier)] == high:
                            now[t] |= bit
                else:
                    i += past
                    for t in range(n):
                        now[t] |= bit if x[i + t] == high else np.int32(0)
        for t in range(n):
            if not on[t] or tap and source[tap - 1, past + t] < 0:
                continue
            a, b, key = span[k, 2], span[k, 3], now[t]
            if key < patterns[a] or key > patterns[b - 1]:
                continue
            guess = a + (key - patterns[a])                  # where it is if no pattern is left out before it
            if guess < b and patterns[guess] == key:
                a = b = guess
            while a < b:
                middle = (a + b) >> 1
                if patterns[middle] < key:
                    a = middle + 1
                else:
                    b = middle
            if a < span[k, 3] and patterns[a] == key:
                _hit(t, pattern_row[a], span[k, 4], written, reads, n_reads)


@njit(**OPTIONS)
def _head(x, width, n, added, dirty, source, order, h, state, memory, on, fs, keys, known, written, reads, n_reads, gate, data,
          held):
    """Memory head h at each column, in the order of the stream. state: (rows, dims).

    held: the set of values whose forms are in data (values, width) already, or -1, and the columns, first and last + 1, that are there.
    """
    rows, decodes, (halves, halve, most_rows), (head_values, value_set, value, value_dim, value_tap, const), gates = memory
    _addresses(x, width, n, source, h, rows, decodes, on, fs, keys, known, written, reads, n_reads)
    form_ptr, forms, runs, run_ptr, gate_dim, op, oi, ov = gates
    past, first = np.uint64(PAST), form_ptr[h]
    readings, start, stop = 0, n, ZERO                       # the columns that write lie together, more or less
    for t in range(n):
        readings += n_reads[t]
        if written[t] >= 0:
            start, stop = min(start, t), t + ONE
    if readings == 0 and start >= stop and not halves[h]:
        return
    if readings:
        for k in range(form_ptr[h], form_ptr[h + 1]):
            _over(x, width, past, n, 0, source, forms, np.uint64(k), gate[k - first])
    v0, m = head_values[h], head_values[h + 1] - head_values[h]
    if start < stop and (held[0] != value_set[h] or held[1] > np.int64(start) or held[2] < np.int64(stop)):
        held[0], held[1], held[2] = value_set[h], np.int64(start), np.int64(stop)
        for v in range(m):
            if value_tap[v0 + v] == 0:
                _over(x, width, past + start, stop - start, 0, source, value, np.uint64(v0 + v), data[v, start:])
    one = np.empty(1, np.float32)
    for p in range(order.shape[0]):
        t = order[p]
        if halves[h]:
            hold = _at(x, width, past + t, halve, np.uint64(h))                 # a: 0 halves, -40 keeps
            factor = np.float32(np.exp(-np.float32(np.log1p(np.exp(hold)))))
            if factor != 1:
                for r in range(most_rows[h]):
                    for j in range(state.shape[1]):
                        state[r, j] *= factor
        w = written[t]
        if w >= 0:
            for j in range(2):
                state[w, j] = max(np.float32(0), _at(x, width, past + t, const, np.uint64(h)))
            for v in range(m):
                tap = value_tap[v0 + v]
                a = _back(x, width, past + t, tap, source, value, np.uint64(v0 + v)) if tap else data[v, t]
                state[w, value_dim[v0 + v]] = max(a, np.float32(0))
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
                for i in range(op[q], op[q + 1]):
                    added[_place(added, dirty, width, n, oi[i]) + t] += one[0] * b * ov[i]


@njit(**OPTIONS)
def piece(x, width, order, source, added, states, history, back, touched, units, memory, layer_units, layer_heads, most, first, last):
    """The tokens in x through layers first..last-1, in place.

    x: (D * width,) float32. order: (n,) uint64, the columns (from PAST on) of the tokens as the stream has them. source: (3, width), column of
    the token one, two, three before a column's, -1 before the stream's first. added: (most dims that a layer adds to * width,).
    states: (memory heads, rows, dims). back = (ptr, dims): what a layer looks back at; history: (those dims, 3), oldest first.
    touched = (ptr, dims): what it adds to. most: forms of a head's gates, sets of a layer's address bits.
    """
    n, count, past = np.uint64(order.shape[0]), order.shape[0], np.uint64(PAST)
    on, written, n_reads = np.empty(width, np.uint8), np.empty(width, np.int32), np.empty(width, np.int32)
    fs, gs = np.empty(width, np.float32), np.empty(width, np.float32)
    most_forms, most_sets = most
    keys, known = np.empty((most_sets, width), np.int32), np.empty(most_sets, np.uint8)
    reads, gate = np.empty((width, MOST_READS), np.int32), np.empty((most_forms, width), np.float32)
    data, held = np.empty((states.shape[2], width), np.float32), np.empty(3, np.int64)
    back_ptr, back_dims = back
    ptr, dims = touched
    dirty = np.empty(added.shape[0] // np.int64(width), np.uint8)
    for layer in range(first, last):
        for i in range(back_ptr[layer], back_ptr[layer + 1]):
            at = np.uint64(back_dims[i]) * width
            for j in range(3):
                x[at + np.uint64(PAST - 3 + j)] = history[i, j]
            for j in range(3):
                history[i, j] = x[at + (past + order[count - 3 + j] if count + j >= 3 else np.uint64(PAST + count - 3 + j))]
        m = ptr[layer + 1] - ptr[layer]
        dirty[:m] = 0
        _units(x, width, n, added, dirty, source, units, layer_units[layer], layer_units[layer + 1], on, fs, gs)
        held[0] = -1
        known[:] = 0
        for h in range(layer_heads[layer], layer_heads[layer + 1]):
            _head(x, width, n, added, dirty, source, order, h, states[h], memory, on, fs, keys, known, written, reads, n_reads, gate,
                  data, held)
        for i in range(m):
            if dirty[i]:
                at, extra = np.uint64(dims[ptr[layer] + i]) * width + past, np.uint64(i) * width
                for t in range(n):
                    x[at + t] += added[extra + t]
