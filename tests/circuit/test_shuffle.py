import numpy as np
import pytest
from circuit_words import get_word, line, operands, set_word, word

from qgpu.circuit.checks import check_sampled, check_static
from qgpu.circuit.core import Circuit
from qgpu.circuit.shuffle import shuffle, shuffle_value


def build(per_lane=False):
    c = Circuit()
    a = [word(c, f"a{lane}.") for lane in range(4)]
    select = [[line(c, f"select{d}{s}") for s in range(4)] for d in range(4)]
    for row in select:
        c.one_hot(row)
    en = [line(c, f"on{d}") for d in range(4)] if per_lane else line(c, "on")
    r = [c.bits(f"r{lane}.", 32) for lane in range(4)]
    shuffle(c, a, select, en, r)
    return c, a, select, en, r


@pytest.mark.parametrize("per_lane", [False, True])
def test_every_selection(per_lane):
    made = build(per_lane)
    c, a, select, en, r = made
    rng = np.random.default_rng(6)
    k = np.arange(5 ** 4 * 4)
    source = [(k // 5 ** d) % 5 for d in range(4)]                 # 4: no lane selected
    words = [operands(rng, len(k)) for _ in range(4)]
    on = [rng.integers(0, 4, len(k)) > 0 for _ in range(4)] if per_lane else [rng.integers(0, 4, len(k)) > 0] * 4
    inputs = {}
    for d in range(4):
        set_word(inputs, a[d], words[d])
        for s in range(4):
            inputs[select[d][s]] = (source[d] == s) * 1
        inputs[en[d] if per_lane else en] = on[d] * 1
    values = c.evaluate(inputs)
    for d in range(4):
        expected = np.where(source[d] < 4, np.choose(source[d], [*words, np.zeros_like(k)]), 0) * on[d]
        assert np.array_equal(get_word(values, r[d]), expected)
    check_sampled(c, values)


def test_off_whatever_is_selected():
    c, a, select, en, r = build()
    rng = np.random.default_rng(7)
    inputs = {en: 0}
    for d in range(4):
        set_word(inputs, a[d], operands(rng, 1000))
        for s in range(4):
            inputs[select[d][s]] = rng.integers(0, 2, 1000)
    values = c.evaluate(inputs)
    assert all(not get_word(values, word_).any() for word_ in r)


def test_definition():
    assert shuffle_value([5, 6, 7, 8], [3, 0, None, 2], 1) == [8, 5, 0, 7]
    assert shuffle_value([5, 6, 7, 8], [3, 0, 1, 2], 0) == [0, 0, 0, 0]


def test_static_and_size():
    c = build()[0]
    assert check_static(c) == []
    assert len(c.units) == 4 * 64
