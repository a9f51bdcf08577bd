"""Words as lists of bit signals, and operand values for circuit tests."""

import numpy as np

EDGES = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0xFFFF, 0x10000, 0x7FFF, 0x8000,
         0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x55555555, 0xAAAAAAAA, 0xF0F0F0F0,
         0x0F0F0F0F, 0xFF00FF00, 0x00FF00FF, 0x01010101, 0xFFFF0000, 0x12345678, 0xDEADBEEF, 0x00FFFFFF]


def word(c, name, n=32):
    return [c.signal(f"{name}{k}", is_input=True) for k in range(n)]


def line(c, name):
    return c.signal(name, is_input=True)


def set_word(inputs, signals, value):
    value = np.asarray(value, np.int64)
    for k, s in enumerate(signals):
        inputs[s] = (value >> k) & 1


def get_word(values, signals):
    total = 0
    for k, s in enumerate(signals):
        bit = np.asarray(values[s])
        assert np.all((bit == 0) | (bit == 1)), s.name
        total = total + (bit.astype(np.int64) << k)
    return total


def result_bits(c, name, n=32):
    """Result bits that successive levels add to: version 1 and 2."""
    r1 = c.bits(name + ".first", n)
    r2 = [c.revise(s, f"{name}.second{k}") for k, s in enumerate(r1)]
    return r1, r2


def operands(rng, count, n=32):
    """Random words of all densities: uniform, sparse, dense, runs of ones, near-equal pairs come from the caller."""
    full = (1 << n) - 1
    a = rng.integers(0, 1 << n, count, dtype=np.int64)
    b = rng.integers(0, 1 << n, count, dtype=np.int64)
    kind = rng.integers(0, 5, count)
    shift = rng.integers(0, n, count)
    return np.select([kind == 0, kind == 1, kind == 2, kind == 3],
                     [a & b, a | b, full >> shift, (full << shift) & full], a)


def pairs(rng, count, n=32):
    """All pairs of edge values, then random pairs, a fifth of them differing in a single bit."""
    e = np.array([v & ((1 << n) - 1) for v in EDGES])
    a, b = (x.ravel() for x in np.meshgrid(e, e))
    x, y = operands(rng, count, n), operands(rng, count, n)
    near = rng.integers(0, 5, count) == 0
    y = np.where(near, x ^ (1 << rng.integers(0, n, count)), y)
    return np.concatenate([a, x]), np.concatenate([b, y])
