import numpy as np
import pytest
from circuit_words import get_word, line, pairs, set_word, word

from qgpu.circuit.checks import check_sampled, check_static
from qgpu.circuit.core import Circuit
from qgpu.circuit.logic import logic, logic_value, pick, pick_many, pick_value


def build(n=32, operation=logic):
    c = Circuit()
    a, b, first, second = word(c, "a", n), word(c, "b", n), line(c, "first"), line(c, "second")
    r = c.bits("r", n)
    if operation is pick:
        c.one_hot([first, second])
    operation(c, a, b, first, second, r)
    return c, a, b, first, second, r


def run(made, x, y, p, q):
    c, a, b, first, second, r = made
    inputs = {first: p, second: q}
    set_word(inputs, a, x)
    set_word(inputs, b, y)
    values = c.evaluate(inputs)
    return values, get_word(values, r)


@pytest.mark.parametrize("lines", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_logic(lines):
    made = build()
    x, y = pairs(np.random.default_rng(3), 2000)
    values, total = run(made, x, y, *lines)
    assert np.array_equal(total, logic_value(x, y, *lines))
    assert np.array_equal(total, [np.zeros_like(x), x & y, x ^ y, x | y][2 * lines[0] + lines[1]])
    check_sampled(made[0], values)


@pytest.mark.parametrize("lines", [(0, 0), (0, 1), (1, 0)])
def test_pick(lines):
    made = build(operation=pick)
    x, y = pairs(np.random.default_rng(4), 2000)
    values, total = run(made, x, y, *lines)
    assert np.array_equal(total, pick_value(x, y, *lines))
    check_sampled(made[0], values)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("gated", [False, True])
def test_pick_many(count, gated):
    """Every combination of bits and of one line or none; with a gate at 0, of all lines."""
    c = Circuit()
    bits, lines = word(c, "x", count), word(c, "line", count)
    on = line(c, "on") if gated else None
    r = c.signal("r")
    pick_many(c, list(zip(bits, lines)), r, "choice", when=on)
    k = np.arange(1 << (2 * count + 1))
    x, picks, gate = k & ((1 << count) - 1), (k >> count) & ((1 << count) - 1), k >> (2 * count)
    single = (picks & (picks - 1)) == 0
    keep = single | (gate == 0) if gated else single
    x, picks, gate = x[keep], picks[keep], gate[keep]
    inputs = {}
    set_word(inputs, bits, x)
    set_word(inputs, lines, picks)
    if gated:
        inputs[on] = gate
    values = c.evaluate(inputs)
    expected = ((x & picks) != 0) & ((gate == 1) | (not gated))
    assert np.array_equal(values[r], expected * 1.0)


@pytest.mark.parametrize("operation", [logic, pick])
def test_static_and_size(operation):
    c = build(operation=operation)[0]
    assert check_static(c) == []
    assert len(c.units) == 32
