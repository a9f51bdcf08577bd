import numpy as np
import pytest
from circuit_words import EDGES, get_word, line, operands, set_word, word

from qgpu.circuit.bitcount import bit_counts, bit_counts_value
from qgpu.circuit.checks import check_sampled, check_static
from qgpu.circuit.core import Circuit

LINES = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]


def build(n):
    c = Circuit()
    a = word(c, "a", n)
    lines = [line(c, name) for name in ("popc", "clz", "brev")]
    c.one_hot(lines)
    r = c.bits("r", n)
    bit_counts(c, a, *lines, r)
    return c, a, lines, r


def run(made, x, which):
    c, a, lines, r = made
    inputs = dict(zip(lines, which))
    set_word(inputs, a, x)
    values = c.evaluate(inputs)
    check_sampled(c, values)
    return get_word(values, r)


def expected(x, which, n):
    """From Python's own text of the number."""
    text = format(x, f"0{n}b")
    return which[0] * text.count("1") + which[1] * (n - x.bit_length()) + which[2] * int(text[::-1], 2)


@pytest.mark.parametrize("which", LINES)
@pytest.mark.parametrize("n", [8, 12, 16])
def test_every_short_word(n, which):
    x = np.arange(1 << n)
    got = run(build(n), x, which)
    assert got.tolist() == [expected(v, which, n) for v in range(1 << n)]
    assert np.array_equal(got, bit_counts_value(x, *which, n))


@pytest.mark.parametrize("which", LINES)
def test_32_bit_words(which):
    rng = np.random.default_rng(3)
    full = (1 << 32) - 1
    single = [1 << k for k in range(32)]
    x = np.concatenate([EDGES, single, [full - v for v in single], [full >> k for k in range(32)], operands(rng, 4000),
                        operands(rng, 4000) >> rng.integers(0, 33, 4000)])
    got = run(build(32), x, which)
    assert got.tolist() == [expected(v, which, 32) for v in x.tolist()]
    assert np.array_equal(got, bit_counts_value(x, *which))


def test_static_one_level_and_size():
    c, a, lines, r = build(32)
    assert check_static(c) == []
    assert all(u.reads() <= {*a, *lines} for u in c.units)
    assert len(c.units) == 17 + 24 + 32
