import numpy as np
import pytest
from circuit_words import EDGES, get_word, line, operands, pairs, set_word, word

from qgpu.circuit.checks import check_sampled, check_static
from qgpu.circuit.core import Circuit
from qgpu.circuit.high import multiply_either, multiply_high, multiply_high_value
from qgpu.circuit.multiply import multiply_add_value

MODES = [(0, 1), (1, 0), (0, 0)]               # low, high


def build(n, either):
    c = Circuit()
    a, b, cc = word(c, "a", n), word(c, "b", n), word(c, "c", n)
    low, high = line(c, "mul"), line(c, "mulhi")
    c.one_hot([low, high])
    r = c.bits("r", n)
    if either:
        multiply_either(c, a, b, cc, low, high, r)
    else:
        multiply_high(c, a, b, high, r)
    return c, a, b, cc, low, high, r


@pytest.fixture(scope="module")
def high():
    return build(32, False)


@pytest.fixture(scope="module")
def either():
    return build(32, True)


def run(made, x, y, z, low_on, high_on):
    c, a, b, cc, low, high, r = made
    inputs = {low: low_on, high: high_on}
    for s, v in ((a, x), (b, y), (cc, z)):
        set_word(inputs, s, v)
    values = c.evaluate(inputs)
    check_sampled(c, values)
    return values, get_word(values, r)


def test_definition():
    for x in EDGES:
        for y in EDGES:
            assert multiply_high_value(x, y) == x * y >> 32
    assert multiply_high_value(np.array([0xFFFFFFFF]), np.array([0xFFFFFFFF])).tolist() == [0xFFFFFFFE]


@pytest.mark.parametrize("kind", [False, True])
def test_every_pair_of_8_bit_words(kind):
    made = build(8, kind)
    k = np.arange(1 << 16)
    x, y, z = k & 255, k >> 8, (k * 40503 >> 3) & 255
    for low_on, high_on in MODES if kind else [(0, 1), (0, 0)]:
        got = run(made, x, y, z, low_on, high_on)[1]
        assert np.array_equal(got, high_on * (x * y >> 8) + low_on * ((x * y + z) & 255))


@pytest.mark.parametrize("kind", [False, True])
def test_16_bit_words(kind):
    made = build(16, kind)
    rng = np.random.default_rng(5)
    x, y = pairs(rng, 8000, 16)
    z = operands(rng, len(x), 16)
    for low_on, high_on in MODES if kind else [(0, 1), (0, 0)]:
        got = run(made, x, y, z, low_on, high_on)[1]
        assert np.array_equal(got, high_on * (x * y >> 16) + low_on * ((x * y + z) & 0xFFFF))


def near_carries(rng, n):
    """Products whose low words end near 0 or 2^32, so that long runs of ones and carries cross the middle."""
    x = operands(rng, n) | 1
    inverse = x.copy()                                     # modulo 2^32, by Newton's steps
    for _ in range(5):
        inverse = multiply_add_value(inverse, 2 - multiply_add_value(x, inverse, 0, 1) & 0xFFFFFFFF, 0, 1)
    wanted = (rng.integers(-3, 4, n) + (1 << rng.integers(0, 33, n))) & 0xFFFFFFFF
    y = multiply_add_value(inverse, wanted, 0, 1)
    assert np.array_equal(multiply_add_value(x, y, 0, 1), wanted)
    return x, y


def dense_and_near(seed, n=3000):
    rng = np.random.default_rng(seed)
    x, y = pairs(rng, n)
    dense = operands(rng, n) | operands(rng, n), operands(rng, n) | operands(rng, n)
    near = near_carries(rng, n)
    x, y = (np.concatenate(v) for v in ((x, dense[0], near[0]), (y, dense[1], near[1])))
    return rng, x, y


def test_high_word(high):
    rng, x, y = dense_and_near(6)
    on = rng.integers(0, 8, len(x)) > 0
    got = run(high, x, y, 0, 0, on * 1)[1]
    assert np.array_equal(got, on * multiply_high_value(x, y))


def test_either_word(either):
    rng, x, y = dense_and_near(7)
    mode = rng.integers(0, 7, len(x))
    low_on, high_on = (mode < 3) * 1, ((mode >= 3) & (mode < 6)) * 1
    z = operands(rng, len(x))
    got = run(either, x, y, z, low_on, high_on)[1]
    assert np.array_equal(got, high_on * multiply_high_value(x, y) + multiply_add_value(x, y, z, low_on))


@pytest.mark.parametrize("stage", ["coarse", "digit"])
def test_every_level_keeps_the_number(high, stage):
    """After each division the digits still write the product."""
    rng, x, y = dense_and_near(8, 1000)
    values, _ = run(high, x, y, 0, 0, 1)
    digits = [values[high[0].signals[f"high.{stage}{g}"]].astype(np.int64).tolist() for g in range(16)]
    for i in range(0, len(x), 7):
        assert sum(d[i] << (4 * g) for g, d in enumerate(digits)) == int(x[i]) * int(y[i])


@pytest.mark.parametrize("word_of", ["high", "low"])
def test_carries_for_any_digits(either, word_of):
    """Levels 4 and 5 are right for every digit within its declared range, reached by operands or not."""
    c, r = either[0], either[-1]
    digits = [c.signals[f"either.digit{g}"] for g in range(16)]
    rng = np.random.default_rng(9)
    n = 8000
    choice = [np.array([v for v in (0, 7, 8, 14, 15, 15, 15, 15, 15, 15, 16, 17, 18, 19) if v <= s.hi]) for s in digits]
    x = [np.where(rng.integers(0, 12, n) > 0, rng.choice(v, n), rng.integers(0, s.hi + 1, n))
         for s, v in zip(digits, choice)]
    start = rng.integers(0, 16, n)                         # all 15 from here on, and a carry into the lowest of them or not
    for g in range(1, 16):
        x[g] = np.where((g >= start) & (g < start + 9) & (rng.integers(0, 20, n) > 0), 15, x[g])
    inputs = dict(zip(digits, x))
    inputs.update({s: 0 for s in c.signals.values() if s.is_input})
    inputs[either[4 if word_of == "low" else 5]] = 1
    values = c.evaluate(inputs)
    check_sampled(c, values)
    columns = [v.tolist() for v in x]
    totals = [sum(v[i] << (4 * g) for g, v in enumerate(columns)) for i in range(n)]
    expected = [t >> 32 & 0xFFFFFFFF if word_of == "high" else t & 0xFFFFFFFF for t in totals]
    assert get_word(values, r).tolist() == expected


def levels(c):
    """Units by level: one above the highest level that completes what a unit reads or continues."""
    level = {s: 0 for s in c.signals.values()}
    unit_level = {}
    changed = True
    while changed:
        changed = False
        for u in c.units:
            at = 1 + max([level[s] for s in u.reads()] + [level[s.base] for s, _ in u.outs if s.base is not None])
            if unit_level.get(id(u)) != at:
                unit_level[id(u)], changed = at, True
            for s, _ in u.outs:
                level[s] = max(level[s], at)
    return [sum(v == k for v in unit_level.values()) for k in range(1, max(unit_level.values()) + 1)]


@pytest.mark.parametrize("kind, limit", [("high", 675), ("either", 795)])
def test_static_levels_and_size(kind, limit, request):
    c = request.getfixturevalue(kind)[0]
    assert check_static(c) == []
    assert len(levels(c)) == 5
    assert sum(levels(c)) == len(c.units) <= limit
