import numpy as np
import pytest
from circuit_words import get_word, line, pairs, result_bits, set_word, word

from qgpu.circuit.adder import add, add_value
from qgpu.circuit.checks import check_sampled, check_static
from qgpu.circuit.core import Circuit


def build(n=32, chunk=8, two_lines=False):
    c = Circuit()
    a, b, cin, en = word(c, "a", n), word(c, "b", n), line(c, "cin"), line(c, "add")
    r1, r2 = result_bits(c, "r", n)
    form = en
    if two_lines:
        sub = line(c, "sub")
        c.one_hot([en, sub])
        form = en + sub
    out = c.signal("carry_out")
    add(c, a, b, cin, form, r1, r2, chunk=chunk, carry_out=out)
    return c, a, b, cin, en, r2, out


def run(made, x, y, carry, on, sub=None):
    c, a, b, cin, en, r2, out = made
    inputs = {cin: carry, en: on}
    if sub is not None:
        inputs[c.signals["sub"]] = sub
    set_word(inputs, a, x)
    set_word(inputs, b, y)
    values = c.evaluate(inputs)
    return values, get_word(values, r2), values[out]


@pytest.mark.parametrize("chunk", [2, 3, 4, 8])
def test_every_8_bit_sum(chunk):
    made = build(8, chunk)
    k = np.arange(1 << 18)
    x, y, carry, on = k & 255, (k >> 8) & 255, (k >> 16) & 1, k >> 17
    values, total, out = run(made, x, y, carry, on)
    assert np.array_equal(total, add_value(x, y, carry, on, 8))
    assert np.array_equal(out, on * ((x + y + carry) >> 8))


@pytest.mark.parametrize("two_lines", [False, True])
def test_32_bit_sums(two_lines):
    made = build(two_lines=two_lines)
    rng = np.random.default_rng(1)
    x, y = pairs(rng, 4000)
    y = np.where(rng.integers(0, 4, len(y)) == 0, x ^ 0xFFFFFFFF, y)          # long runs of propagation
    carry, on = rng.integers(0, 2, len(x)), rng.integers(0, 4, len(x)) > 0
    sub = (rng.integers(0, 2, len(x)) & ~on) if two_lines else None
    values, total, out = run(made, x, y, carry, on * 1, sub)
    active = (on | (sub == 1)) * 1 if two_lines else on * 1
    assert np.array_equal(total, add_value(x, y, carry, active))
    assert np.array_equal(out, active * ((x + y + carry) >> 32))
    check_sampled(made[0], values)


def test_off_adds_nothing_to_what_others_wrote():
    made = build()
    c, a, b, cin, en, r2, out = made
    other = word(c, "other")
    for s, r in zip(other, [c.signals[f"r.first{k}"] for k in range(32)], strict=True):
        c.all_of([s], r, "another operation")
    rng = np.random.default_rng(2)
    x, y = pairs(rng, 500)
    z = rng.integers(0, 1 << 32, len(x))
    inputs = {cin: rng.integers(0, 2, len(x)), en: 0}
    for s, v in ((a, x), (b, y), (other, z)):
        set_word(inputs, s, v)
    assert np.array_equal(get_word(c.evaluate(inputs), r2), z)


@pytest.mark.parametrize("two_lines", [False, True])
def test_static(two_lines):
    assert check_static(build(two_lines=two_lines)[0]) == []


def test_size():
    c = build()[0]
    assert sum(u.note.startswith("carry out") for u in c.units) == 51
    assert len(c.units) == 92 + 51
