import numpy as np
import pytest
from circuit_words import EDGES, get_word, line, operands, set_word, word

from qgpu.circuit.checks import check_sampled, check_static
from qgpu.circuit.core import Circuit
from qgpu.circuit.multiply import multiply_add, multiply_add_value


@pytest.fixture(scope="module")
def made():
    c = Circuit()
    a, b, cc, en = word(c, "a"), word(c, "b"), word(c, "c"), line(c, "mul")
    r = c.bits("r", 32)
    multiply_add(c, a, b, cc, en, r)
    return c, a, b, cc, en, r


def run(made, x, y, z, on):
    c, a, b, cc, en, r = made
    inputs = {en: on}
    for s, v in ((a, x), (b, y), (cc, z)):
        set_word(inputs, s, v)
    values = c.evaluate(inputs)
    return values, get_word(values, r)


def test_definition():
    for x in EDGES:
        for y in EDGES:
            assert multiply_add_value(x, y, 7, 1) == (x * y + 7) % 2 ** 32


def test_edges(made):
    e = np.array(EDGES)
    x, y, z = (v.ravel() for v in np.meshgrid(e, e, e[::3]))
    values, got = run(made, x, y, z, 1)
    assert np.array_equal(got, multiply_add_value(x, y, z, 1))
    check_sampled(made[0], values)


@pytest.mark.parametrize("seed", range(4))
def test_random(made, seed):
    """Uniform, sparse and dense operands; addends chosen so that long runs of ones and carries appear."""
    rng = np.random.default_rng(seed)
    n = 8000
    x, y = operands(rng, n), operands(rng, n)
    if seed % 2:
        x, y = x | operands(rng, n), y | operands(rng, n)
    near = (rng.integers(-3, 3, n) + (1 << rng.integers(0, 33, n))) & 0xFFFFFFFF
    z = np.where(rng.integers(0, 2, n) == 0, operands(rng, n), (near - x * (y & 0xFFFF) - ((x * (y >> 16)) << 16)) & 0xFFFFFFFF)
    on = rng.integers(0, 8, n) > 0
    values, got = run(made, x, y, z, on * 1)
    assert np.array_equal(got, multiply_add_value(x, y, z, on * 1))
    check_sampled(made[0], values)


def test_digit_sums_are_those_of_the_operands(made):
    """After level 2 the digits still add up to the result modulo 2^32."""
    rng = np.random.default_rng(11)
    x, y, z = (operands(rng, 2000) for _ in range(3))
    values, _ = run(made, x, y, z, 1)
    total = sum(values[made[0].signals[f"multiply.digit{g}"]].astype(np.int64) << (4 * g) for g in range(8))
    assert np.array_equal(total & 0xFFFFFFFF, multiply_add_value(x, y, z, 1))


def test_carries_for_any_digits(made):
    """Levels 3 and 4 are right for every digit within its declared range, reached by operands or not."""
    c, r = made[0], made[-1]
    digits = [c.signals[f"multiply.digit{g}"] for g in range(8)]
    rng = np.random.default_rng(12)
    n = 20000
    choice = [np.array([v for v in (0, 1, 7, 8, 14, 15, 15, 15, 15, 16, 23, 24, 30, 31) if v <= s.hi]) for s in digits]
    x = [np.where(rng.integers(0, 3, n) > 0, rng.choice(v, n), rng.integers(0, s.hi + 1, n))
         for s, v in zip(digits, choice)]
    assert digits[6].hi == 31 and np.any((x[6] == 31) & (x[5] == 15) & (x[4] == 15))
    inputs = dict(zip(digits, x))
    inputs.update({s: 0 for s in c.signals.values() if s.is_input})
    values = c.evaluate(inputs)
    expected = sum(v << (4 * g) for g, v in enumerate(x)) & 0xFFFFFFFF
    assert np.array_equal(get_word(values, r), expected)
    check_sampled(c, values)


def test_static_and_size(made):
    assert check_static(made[0]) == []
    assert len(made[0].units) <= 530
