"""Threads together: reductions, scans, votes, shuffles, atomics, barriers, grids."""

import functools
import itertools
import math
import operator

from .registry import Rules, flat, rows, signed, unsigned

rules = Rules()


@rules
def reduce_shared(data, out, n):
    return {1: [sum(part) for part in rows(data, 64)]}


@rules
def reduce_warp(data, out, n):
    return {1: [sum(data)]}


@rules
def reduce_last_block(data, partial, finished, out, n):
    parts = [functools.reduce(operator.xor, part) for part in rows(data, 32)]
    return {1: parts, 2: [len(parts)], 3: [functools.reduce(operator.xor, data)]}


@rules
def sum_long(data, out, n):
    return {1: [sum(data)]}


@rules
def dot_atomic(a, b, out, n):
    return {2: [sum(map(operator.mul, a, b))]}


@rules
def argmax(data, out, n):
    return {1: [max(data), data.index(max(data))]}


@rules
def range_atomic(data, out, n):
    return {1: [min(data), max(data)]}


@rules
def scan_hillis_steele(data, out, n):
    return {1: [sum(data[:i + 1]) for i in range(n)]}


@rules
def scan_blelloch(data, out, n):
    return {1: [sum(data[:i]) for i in range(n)]}


@rules
def scan_warp(data, out):
    return {1: [unsigned(s) for s in itertools.accumulate(data)]}


@rules
def scan_segmented(data, head, out):
    starts = [max(k for k in range(i + 1) if head[k]) for i in range(len(data))]
    return {2: [sum(data[start:i + 1]) for i, start in enumerate(starts)]}


@rules
def histogram(data, bins, n):
    return {1: [sum(16 * k <= v < 16 * k + 16 for v in data) for k in range(16)]}


@rules
def compact(data, out, count, n):
    kept = [v for v in data if v > 0]
    return {1: kept + [0] * (n - len(kept)), 2: [len(kept)]}


@rules
def votes(data, out):
    found = []
    for warp in rows([int(v > 5) for v in data], 32):
        found += [all(warp), any(warp), len(set(warp)) == 1, sum(v << lane for lane, v in enumerate(warp))]
    return {1: [int(v) for v in found]}


@rules
def shuffles(data, wide, rotated, up, down, mirror, pairs):
    eights, sixteens = rows(data, 8), rows(data, 16)
    return {2: data[5:] + data[:5], 3: flat(g[:3] + g[:5] for g in eights), 4: flat(g[2:] + g[14:] for g in sixteens),
            5: data[::-1], 6: flat(p[::-1] for p in rows(wide, 2))}


@rules
def aggregate(data, count, taken, n):
    threes = len([v for v in data if v % 3 == 0])
    return {1: [threes], 2: [1] * threes + [0] * (n - threes)}


@rules
def atomic_ops(data, out):
    return {1: [signed(sum(data)), signed(-sum(data)), min(data), max(data),
                functools.reduce(operator.and_, (v | 0x0F0F0F0F for v in data)),
                functools.reduce(operator.or_, (v & 0x11111111 for v in data)), functools.reduce(operator.xor, data),
                signed(sum(data))]}


@rules
def atomic_product(data, product):
    return {1: [unsigned(math.prod(v | 1 for v in data))]}


@rules
def try_lock(seat, owner, seated, turned_away):
    wanted = [seat.count(s) for s in range(len(owner))]
    return {1: [0 if w else -1 for w in wanted], 2: [min(w, 1) for w in wanted], 3: [max(w - 1, 0) for w in wanted]}


@rules
def hash_table(keys, queries, place, n):
    return {2: [keys.index(q) if q in keys else -1 for q in queries]}


@rules
def bloom_filter(keys, queries, bits, perhaps, n):
    def places(key):
        for multiplier in (0x85EBCA6B, 0x85EBCA6D, 0x85EBCA6F):
            x = (key ^ key // 2**15) * multiplier % 2**32
            yield (x ^ x // 2**13) % 256
    full = {place for key in keys for place in places(key)}
    return {2: [sum(1 << b for b in range(32) if 32 * w + b in full) for w in range(8)],
            3: [int(full.issuperset(places(q))) for q in queries]}


@rules
def reverse_blocks(data):
    return {0: flat(part[::-1] for part in rows(data, 32))}


@rules
def early_exit_barrier(data, out, n):
    return {1: flat(pair[::-1] for pair in rows(data, 2))}


@rules
def grid3d(box, width, height):
    # A block is 4 x 2 x 2 cells, the grid 2 x 3 x 2 blocks.
    return {0: [((z // 2 * 3 + y // 2) * 2 + x // 4) * 2**24 + z * 2**16 + y * 2**8 + x
                for z in range(4) for y in range(height) for x in range(width)]}


@rules
def filter_count(data, counters):
    return {1: [len([v for v in data if v < 0]), len([v for v in data if v >= 0])]}
