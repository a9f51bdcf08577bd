from fractions import Fraction

import numpy as np
import pytest
from circuit_words import line, set_word, word

from qgpu.circuit.checks import check_sampled, check_static, is_bf16, is_bias, significant_bits
from qgpu.circuit.core import Circuit, Form, binary, code_bit
from qgpu.circuit.logic import pick_two
from qgpu.errors import CompileError


def circuit(n=8):
    c = Circuit()
    return c, word(c, "x", n), c.signal("out", -256, 256)


def test_numbers():
    assert [significant_bits(v) for v in (0, 1, 6, 255, 257, Fraction(3, 8))] == [0, 1, 2, 8, 9, 2]
    assert is_bf16(-256) and is_bf16(Fraction(255, 16)) and not is_bf16(257) and not is_bf16(Fraction(1, 3))
    assert is_bias(65025) and is_bias(-(2 ** 17 - 1)) and is_bias(Fraction(1, 2))
    assert not is_bias(2 ** 17) and not is_bias(Fraction(1, 4))


def test_every_bias_below_2_to_17_is_two_numbers():
    assert all(is_bias(v) for v in range(0, 1 << 17, 7))


BAD = {
    "f too large": lambda c, x, out: c.unit(binary(x[:6]), 1, out),
    "g too large": lambda c, x, out: c.unit(1, binary(x) + binary(x[:1]) + 1, out),
    "product too large": lambda c, x, out: c.unit(binary(x[:5]), binary(x[:4]), out),
    "fraction": lambda c, x, out: c.unit(x[0] * Fraction(1, 2) + x[1], 1, out),
    "coefficient of nine bits": lambda c, x, out: c.unit(1 - 257 * x[0], x[0], out),
    "bias of 18 bits": lambda c, x, out: c.unit(x[0] - (1 << 17), 1, out),
    "partial sums": lambda c, x, out: c.unit(1, 65536 * x[0] + 65536 * x[1] - 131071 * Form.of(1), out),
    "weight of nine bits": lambda c, x, out: c.unit(x[0], 1, {out: 257}),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_exact_is_found_both_ways(name):
    c, x, out = circuit()
    out.lo, out.hi = -10 ** 6, 10 ** 6
    BAD[name](c, x, out)
    out.lo, out.hi = -256, 256
    assert check_static(c)
    inputs = {}
    set_word(inputs, x, np.arange(256))
    out.lo, out.hi = -10 ** 9, 10 ** 9
    values = c.evaluate(inputs)
    with pytest.raises(CompileError):
        check_sampled(c, values)


def test_large_factors_are_fine_where_the_other_is_off():
    """A chain reaches far beyond 40, but only where g is not positive."""
    c, x, out = circuit(16)
    out.hi = 1
    chain = binary(x[:8]) - binary(x[8:])
    c.unit(1 + chain, 1 - 2 * chain, out, "all equal")
    assert check_static(c) == []
    inputs = {}
    set_word(inputs, x, np.arange(1 << 16))
    values = c.evaluate(inputs)
    check_sampled(c, values)
    assert np.sum(values[out]) == 256


def test_limits_need_the_one_hot_group():
    """Two exclusive lines scale a step: twice 256 would not pass."""
    for grouped in (False, True):
        c, x, out = circuit()
        p, q = line(c, "p"), line(c, "q")
        if grouped:
            c.one_hot([p, q])
        c.unit(p + q, binary(x), out, "either line")
        assert (check_static(c) == []) == grouped


def test_a_group_that_holds_only_while_a_bit_is_on():
    for declared in (False, True):
        c, x, out = circuit()
        on, p, q = line(c, "on"), line(c, "p"), line(c, "q")
        if declared:
            c.one_hot([p, q], when=on)
        pick_two(c, x[0], x[1], p, q, out, "one of two", when=on)
        c.unit(x[2], 1, out, "another contribution")
        assert (check_static(c) == []) == declared


def test_groups_are_split_where_multipliers_do_not_suffice():
    """f = 2i + 1 and g = 16 - i on line i: at most 153 for any line, though f alone reaches 31 and g 17."""
    c, x, out = circuit(14)
    lines = [line(c, f"p{i}") for i in range(16)]
    f = Form.total([-13, *x[:13], *((2 * i + 1) * p for i, p in enumerate(lines))])
    g = Form.total([x[13], *((16 - i) * p for i, p in enumerate(lines))])
    c.unit(f, g, out)
    assert check_static(c)
    c.one_hot(lines)
    assert check_static(c) == []


def test_codes_count_as_bits():
    c, x, out = circuit()
    s = c.signal("code", -1, 1, is_input=True)
    c.all_of([code_bit(s), x[0]], out)
    assert check_static(c) and check_static(c, codes=[s]) == []


def test_random_small_units_are_bounded_as_enumeration_says():
    """Where the proof accepts a unit, every point of its box is within limits; small boxes are decided exactly."""
    rng = np.random.default_rng(13)
    accepted = 0
    for _ in range(300):
        c, x, out = circuit(7)
        k = rng.integers(-40, 41, (2, 8))
        f, g = (Form.total([int(r[7]), *(int(v) * s for v, s in zip(r, x))]) for r in k)
        c.unit(f, g, {out: 1})
        bits = np.arange(128)[:, None] >> np.arange(7) & 1
        fv, gv = (np.maximum(bits @ r[:7] + r[7], 0) for r in k)
        fine = np.all((fv * gv == 0) | ((fv <= 40) & (gv <= 256) & (fv * gv <= 256)))
        assert (check_static(c) == []) == fine
        accepted += fine
    assert 10 < accepted < 290


def test_a_step_torn_apart_is_found():
    for tied in (False, True):
        c, x, out = circuit()
        out.hi = 3
        other = [c.unit(x[0], 1, out), c.unit(x[1], 1, out)]
        if tied:
            c.at_least(binary(x), 9, out)
        else:
            c.unit(1, binary(x) - 8, out)
            c.unit(1, binary(x) - 9, {out: -2})
        assert len(other) == 2
        problems = check_static(c)
        assert (problems == []) == tied


def test_messages_name_the_unit():
    c, x, out = circuit()
    with c.scope("stage"):
        c.unit(binary(x), 1, out, "the whole byte")
    (message,) = check_static(c)
    assert message.startswith("stage: the whole byte: f up to 255")
