"""First steps: what the machine `article` runs.

At most 32 threads of one block in one dimension, 32-bit words, shuffles among four lanes.
"""

import itertools
import math

from .registry import Rules, signed

rules = Rules()


@rules
def vector_add(a, b, c, n):
    return {2: [signed(x + y) for x, y in zip(a, b)][:n] + c[n:]}


@rules
def saxpy(alpha, x, y, n):
    return {2: [signed(alpha * u + v) for u, v in zip(x, y)]}


@rules
def dot(a, b, out):
    return {2: [sum(x * y for x, y in zip(a, b))]}


@rules
def matmul3(a, b, c):
    return {2: [sum(a[3 * i + k] * b[3 * k + j] for k in range(3)) for i in range(3) for j in range(3)]}


@rules
def prefix_sum(data, out, n):
    return {1: list(itertools.accumulate(data))}


@rules
def maximum(data, out, n):
    return {1: [sorted(data)[-1]]}


@rules
def collatz(start, steps):
    def length(x):
        return 0 if x == 1 else 1 + length(3 * x + 1 if x % 2 else x // 2)
    return {1: [length(x) for x in start]}


@rules
def gcd(a, b, out):
    return {2: [math.gcd(x, y) for x, y in zip(a, b)]}


@rules
def popcount(data, out):
    return {1: [bin(x).count("1") for x in data]}


@rules
def xorshift(state, rounds):
    def advance(x):
        for _ in range(rounds):
            x ^= x * 2**13 % 2**32
            x ^= x // 2**17
            x ^= x * 2**5 % 2**32
        return x
    return {0: [advance(x) for x in state]}


@rules
def horner(c, x, y, n):
    return {2: [signed(sum(q * v ** (n - 1 - k) for k, q in enumerate(c))) for v in x]}


@rules
def isqrt(data, out):
    return {1: [math.isqrt(x) for x in data]}


@rules
def fibonacci(out):
    numbers = [0, 1]
    while len(numbers) < len(out):
        numbers.append(numbers[-2] + numbers[-1])
    return {0: numbers[:len(out)]}


@rules
def sort4(data):
    return {0: [v for i in range(0, len(data), 4) for v in sorted(data[i:i + 4])]}


@rules
def branches(data, out, n):
    def branch(x):
        if x < 0:
            return signed(-x) ^ 1
        if x < 10:
            return x * (x + 1) // 2
        if x < 100:
            return (4 * x if 4 * x <= 60 else 54 + (4 * x - 54) % 7) | 256
        return x % 1024
    return {1: [branch(x) for x in data]}


@rules
def early_exit(table, keys, place, n, m):
    return {2: [table.index(k) if k in table else -1 for k in keys]}
