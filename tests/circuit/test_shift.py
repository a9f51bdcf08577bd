import numpy as np
import pytest
from circuit_words import EDGES, get_word, line, operands, set_word, word

from qgpu.circuit.checks import check_sampled, check_static
from qgpu.circuit.core import Circuit
from qgpu.circuit.shift import shift, shift_value

LINES = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]


def build(n=32, amount_bits=None):
    c = Circuit()
    a, b = word(c, "a", n), word(c, "b", amount_bits or n)
    lines = [line(c, name) for name in ("shl", "shr", "sar")]
    c.one_hot(lines)
    r = c.bits("r", n)
    shift(c, a, b, *lines, r)
    return c, a, b, lines, r


def run(made, x, amount, which):
    c, a, b, lines, r = made
    inputs = dict(zip(lines, which))
    set_word(inputs, a, x)
    set_word(inputs, b, amount)
    values = c.evaluate(inputs)
    return values, get_word(values, r)


@pytest.mark.parametrize("which", LINES)
@pytest.mark.parametrize("n", [8, 16])
def test_short_words_and_every_amount(n, which):
    made = build(n, 6)
    k = np.arange(1 << 14) if n == 8 else np.random.default_rng(8).integers(0, 1 << 22, 20000)
    x, amount = k & ((1 << n) - 1), k >> n & 63
    values, got = run(made, x, amount, which)
    for i in range(0, len(k), 61):
        v, s = int(x[i]), int(amount[i])
        signed = v - (1 << n) if v >> (n - 1) else v
        expected = [(v << s), (v >> s), (signed >> s)]
        expected = sum(e for e, on in zip(expected, which) if on) % (1 << n)
        assert got[i] == expected
    assert np.array_equal(got, shift_value(x, amount, *which, n))


@pytest.mark.parametrize("which", LINES)
def test_32_bit_words(which):
    made = build()
    rng = np.random.default_rng(9)
    amounts = np.array([*range(70), 0x80000000, 0xFFFFFFFF, 0x20, 0x100, 0x10001F, 0xFFFFFFE0])
    e = np.array(EDGES)
    x, amount = (v.ravel() for v in np.meshgrid(e, amounts))
    x = np.concatenate([x, operands(rng, 4000)])
    amount = np.concatenate([amount, rng.integers(0, 40, 3000), operands(rng, 1000)])
    values, got = run(made, x, amount, which)
    assert np.array_equal(got, shift_value(x, amount, *which))
    check_sampled(made[0], values)


def test_static_and_size():
    c = build()[0]
    assert check_static(c) == []
    assert len(c.units) == 25 + 82 + 128
