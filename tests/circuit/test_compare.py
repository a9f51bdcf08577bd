import numpy as np
import pytest
from circuit_words import line, pairs, set_word, word

from qgpu.circuit.checks import check_sampled, check_static
from qgpu.circuit.compare import compare, compare_value
from qgpu.circuit.core import Circuit

LINES = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)]


def build(n=32, chunk=8):
    c = Circuit()
    a, b = word(c, "a", n), word(c, "b", n)
    lines = [line(c, name) for name in ("lt", "eq", "gt", "signed")]
    rel = c.signal("rel")
    compare(c, a, b, *lines, rel, chunk=chunk)
    return c, a, b, lines, rel


def run(made, x, y, relation, signed):
    c, a, b, lines, rel = made
    inputs = dict(zip(lines, (*relation, signed)))
    set_word(inputs, a, x)
    set_word(inputs, b, y)
    values = c.evaluate(inputs)
    return values, values[rel]


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("chunk", [2, 3, 8])
def test_every_8_bit_pair(signed, chunk):
    made = build(8, chunk)
    k = np.arange(1 << 16)
    x, y = k & 255, k >> 8
    sx, sy = ((v ^ 128) - 128 if signed else v for v in (x, y))
    for relation in LINES:
        got = run(made, x, y, relation, signed)[1]
        lt, eq, gt = relation
        assert np.array_equal(got, ((lt & (sx < sy)) | (eq & (sx == sy)) | (gt & (sx > sy))) * 1.0)


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("relation", LINES)
def test_32_bit_pairs(relation, signed):
    made = build()
    x, y = pairs(np.random.default_rng(5), 2000)
    y[::7] = x[::7]
    values, got = run(made, x, y, relation, signed)
    assert np.array_equal(got, compare_value(x, y, *relation, signed) * 1.0)
    check_sampled(made[0], values)


def test_static_and_size():
    c = build()[0]
    assert check_static(c) == []
    assert len(c.units) == 10 + 5
