"""The `expect` entry of every kernel's launch comment, recomputed in plain Python from the inputs alone.

No kernel is run here: this holds the launch comments to what the kernels are meant to compute, and the comments to the
limits of the first machine (one block of at most 32 threads in x, 126 words of global memory).
"""

import itertools
import json
import math
import pathlib
import re

import pytest

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels"
FILES = sorted(KERNELS.glob("*.cu"))


def wrap(v):
    """A Python integer as a signed 32-bit one."""
    return (v + 2**31) % 2**32 - 2**31


def collatz_steps(x):
    return 0 if x == 1 else 1 + collatz_steps(3 * x + 1 if x % 2 else x // 2)


def xorshift(x, rounds):
    for _ in range(rounds):
        x ^= x * 2**13 % 2**32
        x ^= x // 2**17
        x ^= x * 2**5 % 2**32
    return x


def branch(x):
    if x < 0:
        return wrap(-x) ^ 1
    if x < 10:
        return x * (x + 1) // 2
    if x < 100:
        return (4 * x if 4 * x <= 60 else 54 + (4 * x - 54) % 7) | 256
    return x % 1024


def fibonacci(n):
    golden = [0, 1]
    while len(golden) < n:
        golden.append(golden[-2] + golden[-1])
    return golden[:n]


# name -> function from (argument, ...) to {index of an argument: its array after the launch}; the others keep their values.
AFTER = {
    "dot": lambda a, b, out: {2: [sum(x * y for x, y in zip(a, b))]},
    "vector_add": lambda a, b, c, n: {2: [wrap(x + y) for x, y in zip(a, b)][:n] + c[n:]},
    "saxpy": lambda alpha, x, y, n: {2: [wrap(alpha * u + v) for u, v in zip(x, y)]},
    "matmul3": lambda a, b, c: {2: [sum(a[3 * i + k] * b[3 * k + j] for k in range(3)) for i in range(3) for j in range(3)]},
    "prefix_sum": lambda data, out, n: {1: list(itertools.accumulate(data))},
    "maximum": lambda data, out, n: {1: [sorted(data)[-1]]},
    "collatz": lambda start, steps: {1: [collatz_steps(x) for x in start]},
    "gcd": lambda a, b, out: {2: [math.gcd(x, y) for x, y in zip(a, b)]},
    "popcount": lambda data, out: {1: [bin(x).count("1") for x in data]},
    "xorshift": lambda state, rounds: {0: [xorshift(x, rounds) for x in state]},
    "horner": lambda c, x, y, n: {2: [wrap(sum(q * v ** (n - 1 - k) for k, q in enumerate(c))) for v in x]},
    "isqrt": lambda data, out: {1: [math.isqrt(x) for x in data]},
    "fibonacci": lambda out: {0: fibonacci(len(out))},
    "sort4": lambda data: {0: [v for i in range(0, len(data), 4) for v in sorted(data[i:i + 4])]},
    "branches": lambda data, out, n: {1: [branch(x) for x in data]},
    "early_exit": lambda table, keys, place, n, m: {2: [table.index(k) if k in table else -1 for k in keys]},
}


def launch_of(path):
    lines = re.findall(r"^// qgpu: (\{.*\})$", path.read_text("utf-8"), re.MULTILINE)
    assert len(lines) == 1, f"{path.name}: one launch comment on one line"
    return json.loads(lines[0])


def values(arg):
    if isinstance(arg, int):
        return arg
    return list(arg["data"]) if "data" in arg else [0] * arg["zeros"]


def expectation(launch):
    args = [values(a) for a in launch["args"]]
    changed = AFTER[launch["kernel"]](*args)
    return [None if isinstance(a, int) else changed.get(i, a) for i, a in enumerate(args)]


def test_every_kernel_has_a_rule_and_every_rule_a_kernel():
    assert len(FILES) >= 16
    assert {path.stem for path in FILES} == set(AFTER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_expectation(path):
    launch = launch_of(path)
    assert launch["kernel"] == path.stem
    assert launch["expect"] == expectation(launch)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_fits_the_first_machine(path):
    launch = launch_of(path)
    assert launch["grid"] == [1, 1, 1]
    assert launch["block"][1:] == [1, 1] and 1 <= launch["block"][0] <= 32
    assert sum(len(values(a)) for a in launch["args"] if not isinstance(a, int)) <= 126
    for arg, after in zip(launch["args"], launch["expect"], strict=True):
        if isinstance(arg, int):
            assert after is None and -(2**31) <= arg < 2**32
            continue
        low, high = {"i32": (-(2**31), 2**31), "u32": (0, 2**32)}[arg["type"]]
        assert all(low <= v < high for v in values(arg) + after)
