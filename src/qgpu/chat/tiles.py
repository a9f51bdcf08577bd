"""Operations on as many numbers as there are: cut into launches of ready-made kernels that each fit the machine.

Arrays are int32 and flat unless said otherwise. Nothing here computes: numbers come from the machine's memory and go back
there. `lost` arrays are what kernels write where 32 bits do not hold a result.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .device import Device, zeros

Array = np.ndarray
LARGEST = (1 << 31) - 1


def elementwise(device: Device, kernel: str, *arrays: Array, can_overflow: bool = True, extra: tuple[int, ...] = ()) -> tuple[Array, Array]:
    """One kernel over equal-sized arrays (n,). extra: scalars before the count. Returns out (n,) and lost (n,)."""
    n = len(arrays[0])
    out, lost = zeros(n), zeros(n)
    tile = device.most(len(arrays) + 1 + can_overflow)
    for first in range(0, n, tile):
        part = slice(first, first + tile)
        given = [a[part].copy() for a in arrays]
        size = len(given[0])
        results = [zeros(size) for _ in range(1 + can_overflow)]
        device.kernel(kernel, size, *given, *results, *extra, size, items=size)
        out[part] = results[0]
        if can_overflow:
            lost[part] = results[1]
    return out, lost


def total(device: Device, a: Array) -> tuple[Array, bool]:
    """Sum of a (n,) as a 64-bit array (1,), and whether 32 bits do not hold it."""
    sum64, lost = np.zeros(1, np.int64), zeros(1)
    tile = device.most(1, spare=6, threads=False)
    for first in range(0, len(a), tile):
        part = a[first:first + tile].copy()
        device.kernel("sum", 4, part, sum64, lost, len(part), items=len(part))
    return sum64, bool(lost[0])


def share(device: Device, sum64: Array, count: int) -> tuple[int, int]:
    """Quotient rounded down and remainder of a 64-bit total (1,) of `count` 32-bit numbers, divided by count < 32768."""
    quotient, remainder = zeros(1), zeros(1)
    device.kernel("share", 1, sum64.copy(), quotient, remainder, count, items=1)
    return int(quotient[0]), int(remainder[0])


def product(device: Device, a: Array) -> tuple[int, bool]:
    """Product of a (n,), and whether 32 bits do not hold it."""
    state = np.array([1, 0, 0, 0], np.uint32)
    tile = device.most(1, spare=4, threads=False)
    for first in range(0, len(a), tile):
        part = a[first:first + tile].copy()
        device.kernel("product", 4, part, state, len(part), items=len(part))
    return int(state[2:3].view(np.int32)[0]), bool(state[3])


def extreme(device: Device, kernel: str, a: Array) -> int:
    """The smallest (kernel "least") or largest ("greatest") of a (n,), n at least 1."""
    best = a[:1].copy()
    tile = device.most(1, spare=2, threads=False)
    for first in range(0, len(a), tile):
        part = a[first:first + tile].copy()
        device.kernel(kernel, 4, part, best, len(part), items=len(part))
    return int(best[0])


def dot(device: Device, a: Array, b: Array) -> tuple[int, bool]:
    """Sum of products of a and b (n,), n at most 4096, and whether 32 bits do not hold it."""
    sum64, high, lost = np.zeros(1, np.int64), zeros(1), zeros(1)
    tile = device.most(2, spare=8, threads=False)
    for first in range(0, len(a), tile):
        parts = [x[first:first + tile].copy() for x in (a, b)]
        device.kernel("dot", 4, *parts, sum64, high, lost, len(parts[0]), items=len(parts[0]))
    return int(sum64.view(np.int32)[0]), bool(lost[0])


def matmul(device: Device, a: Array, b: Array) -> tuple[Array, Array]:
    """Matrix product of a (rows, inner) and b (inner, columns), inner at most 4096. Returns out and lost, (rows, columns)."""
    machine = device.machine
    edge = 16 if machine.threads >= 256 and machine.global_words >= 2048 else 4
    depth = (machine.global_words - 4 * edge * edge - 2) // (2 * edge)
    rows, inner = a.shape
    columns = b.shape[1]
    out, lost = zeros(rows * columns).reshape(rows, columns), zeros(rows * columns).reshape(rows, columns)
    for row in range(0, rows, edge):
        for column in range(0, columns, edge):
            height, width = min(edge, rows - row), min(edge, columns - column)
            sum64, high, over = np.zeros(height * width, np.int64), zeros(height * width), zeros(height * width)
            for k in range(0, inner, depth):
                left = a[row:row + height, k:k + depth].copy().reshape(-1)
                right = b[k:k + depth, column:column + width].copy().reshape(-1)
                device.kernel("matmul", (edge, edge), left, right, sum64, high, over, height, min(depth, inner - k), width,
                              items=height * width)
            out[row:row + height, column:column + width] = sum64.view(np.int32)[::2].reshape(height, width)
            lost[row:row + height, column:column + width] = over.reshape(height, width)
    return out, lost


def sort(device: Device, a: Array) -> Array:
    """a (n,) in ascending order: a network of pairs of half tiles, each pair sorted by one launch."""
    n = len(a)
    tile = device.most(2) // 2 * 2
    if n <= tile:
        return _sorted(device, a)
    half = tile // 2
    blocks = -(-n // half)
    work = np.full(blocks * half, LARGEST, np.int32)
    work[:n] = a
    for low, high in exchanges(blocks):
        pair = [slice(low * half, low * half + half), slice(high * half, high * half + half)]
        both = _sorted(device, np.concatenate([work[p] for p in pair]))
        work[pair[0]], work[pair[1]] = both[:half], both[half:]
    return work[:n]


def _sorted(device: Device, a: Array) -> Array:
    """a in ascending order by one launch."""
    out = zeros(len(a))
    device.kernel("sort", len(a), a.copy(), out, len(a), items=len(a))
    return out


def exchanges(n: int) -> Iterator[tuple[int, int]]:
    """Pairs (low, high) of Batcher's odd-even merge sort for n places, in order: sorting each pair sorts all.

    Source: K. E. Batcher, Sorting networks and their applications, 1968; for any n, with pairs beyond the end left out.
    """
    run = 1
    while run < n:
        step = run
        while step:
            for start in range(step % run, n - step, 2 * step):
                for low in range(start, min(start + step, n - step)):
                    if low // (2 * run) == (low + step) // (2 * run):
                        yield low, low + step
            step //= 2
        run *= 2


def transpose(device: Device, a: Array) -> Array:
    """a (rows, columns) to (columns, rows), 4 x 8 elements a launch."""
    rows, columns = a.shape
    out = zeros(a.size).reshape(columns, rows)
    for row in range(0, rows, 4):
        for column in range(0, columns, 8):
            part = a[row:row + 4, column:column + 8]
            result = zeros(part.size)
            device.kernel("transpose", (8, 4), part.copy().reshape(-1), result, *part.shape, items=part.size)
            out[column:column + 8, row:row + 4] = result.reshape(part.shape[::-1])
    return out


def reverse(device: Device, a: Array) -> Array:
    """a (n,), last one first."""
    n = len(a)
    out, tile = zeros(n), device.most(2)
    for first in range(0, n, tile):
        part = a[first:first + tile].copy()
        result = zeros(len(part))
        device.kernel("reverse", len(part), part, result, len(part), items=len(part))
        out[n - first - len(part):n - first] = result
    return out


def steps(device: Device, start: int, step: int, count: int) -> Array:
    """(count,) numbers from start on, in equal steps; all of them, and step, fit 32 bits."""
    out, tile = zeros(count), device.most(1)
    for first in range(0, count, tile):
        size = min(tile, count - first)
        part = zeros(size)
        device.kernel("range", size, part, start, step, first, size, items=size)
        out[first:first + size] = part
    return out


def primes(device: Device, a: Array) -> Array:
    """1 where a (n,) holds a prime, else 0. Bases beyond 3 are for numbers from 1373653 on, which is known of 2 and 3."""
    n = len(a)
    out, tile = zeros(n), device.most(2)
    for first in range(0, n, tile):
        part = a[first:first + tile].copy()
        prime = np.ones(len(part), np.int32)
        for base in (2, 3) if part.max() < 1_373_653 else (2, 3, 5, 7):
            if prime.any():
                device.kernel("passes", len(part), part, prime, base, len(part), items=len(part))
        out[first:first + len(part)] = prime
    return out
