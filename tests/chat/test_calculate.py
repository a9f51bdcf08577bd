"""Every function and operator against Python's integers; tiles, overflow and refusals. The reference interpreter runs the kernels,
and once each the compiled weights do (test_calc_random.py)."""

import itertools
import math

import numpy as np
import pytest
from reference_engine import ReferenceEngine

from qgpu.chat import tiles
from qgpu.chat.calculate import calculate
from qgpu.chat.device import Device, kernel_names
from qgpu.chat.functions import ALIASES, FUNCTIONS, OPERATORS, Overflow
from qgpu.errors import FaultError, UsageError
from qgpu.machine.description import ARTICLE, DEFAULT

HIGH, LOW = 2**31 - 1, -2**31
RNG = np.random.default_rng(7)


def value(text, device):
    return calculate(text, device).value.tolist()


@pytest.mark.parametrize("text, expected", [
    ("[1, 2, 3] @ [4, 5, 6]", 32), ("[[1, 2], [3, 4]] @ [[5, 6], [7, 8]]", [[19, 22], [43, 50]]), ("[[1, 2, 3], [4, 5, 6]] @ [1, 0, 2]", [7, 16]),
    ("[1, 2] @ [[1, 2, 3], [4, 5, 6]]", [9, 12, 15]), ("[[1], [2]] @ [[3, 4]]", [[3, 4], [6, 8]]),
    ("[-7, 7, -7, 7] // [2, 2, -2, -2]", [-4, 3, 3, -4]), ("[-7, 7, -7, 7] % [2, 2, -2, -2]", [1, 1, -1, -1]), ("-6 % -3", 0), ("6 // -3", -2),
    (f"[{LOW}, {LOW}, {HIGH}] // [2, 1, -1]", [-2**30, LOW, -HIGH]), (f"[{LOW}, {LOW}, {HIGH}, 1] % [-1, 3, {LOW}, {LOW}]", [0, LOW % 3, HIGH % LOW, 1 % LOW]),
    ("[2, -2, 0, 1, -1, 7] ** [30, 31, 0, 1000000, 1000001, 1]", [2**30, -2**31, 1, 1, -1, 7]), ("0 ** 5", 0), ("46340 ** 2", 46340**2),
    ("[1, 2, 3] < 2", [1, 0, 0]), ("[1, 2, 3] <= 2", [1, 1, 0]), ("[1, 2, 3] > 2", [0, 0, 1]), ("[1, 2, 3] >= 2", [0, 1, 1]),
    ("[1, 2, 3] == 2", [0, 1, 0]), ("[1, 2, 3] != 2", [1, 0, 1]), (f"{LOW} < {HIGH}", 1), ("[[1, 2], [3, 4]] + 10", [[11, 12], [13, 14]]),
    ("sum([1, 2, 3])", 6), ("sum(4, 5)", 9), (f"sum([{HIGH}, {HIGH}, {LOW}, {LOW}])", -2), ("sum([[1, 2], [3, 4]])", 10), ("product([2, -3, 4])", -24),
    ("product([65536, 32768, -1])", LOW), ("product([65536, 65536, 65536, 0])", 0), (f"product([{LOW}, 1])", LOW), ("min([3, -4, 2])", -4), ("max(3, -4, 2)", 3),
    ("mean([1, 2, 4])", [2, 1]), ("mean([-1, -2])", [-2, 1]), (f"mean([{LOW}, {LOW}, {LOW}])", [LOW, 0]), (f"mean([{HIGH}, {HIGH}, {HIGH - 1}])", [HIGH - 1, 2]),
    ("mean(-7, 7)", [0, 0]), ("dot([1, 2], [3, 4])", 11), ("norm2([3, 4])", 25), ("norm2([[1, 2], [3, 4]])", 30), ("matmul([[2]], [[3]])", [[6]]),
    ("sort([3, 1, 2, 1])", [1, 1, 2, 3]), ("reverse(sort([3, 1, 2]))", [3, 2, 1]), ("transpose([[1, 2, 3], [4, 5, 6]])", [[1, 4], [2, 5], [3, 6]]),
    ("abs([-3, 3, 0])", [3, 3, 0]), ("-[1, -2]", [-1, 2]), ("minimum([1, 5], [4, 2])", [1, 2]), ("maximum([1, 5], 3)", [3, 5]),
    ("divmod(-7, 2)", [-4, 1]), ("divmod([7, 8], 3)", [[2, 2], [1, 2]]), ("pow(3, 4)", 81), ("pow(7, 100, 1000)", 1), ("pow(-7, 3, 5)", -343 % 5), ("pow(2, 0, 1)", 0),
    (f"pow({HIGH - 1}, {HIGH}, {HIGH})", pow(HIGH - 1, HIGH, HIGH)), ("isqrt([0, 1, 15, 16, 2147483647])", [0, 1, 3, 4, 46340]),
    ("factorial([0, 1, 5, 12])", [1, 1, 120, 479001600]), ("gcd(12, 18)", 6), ("gcd([12, 18, 27])", 3), ("gcd(-4, 6, 0)", 2), ("gcd(0, 0)", 0), ("gcd(-5)", 5),
    ("gcd([12, 0], [18, -5])", [6, 5]), ("lcm(4, 6, 10)", 60), ("lcm([4, 6, 10])", 60), ("lcm(-4, 6)", 12), ("lcm(0, 5)", 0), ("lcm(-7)", 7), (f"lcm({LOW}, 0)", 0),
    ("range(4)", [0, 1, 2, 3]), ("range(3, -4, -2)", [3, 1, -1, -3]), (f"range({LOW}, {HIGH}, {HIGH})", [LOW, -1, HIGH - 1]), ("len([4, 5])", 2), ("len([[1, 2, 3]])", 1),
    ("is_prime([2, 3, 5, 7, 9, 25, 49, 4, 6, 8, 0, 1, -7, 561, 2047, 1373653])", [1, 1, 1, 1] + [0] * 12), ("(2 < 3) * (4 > 5)", 0),
    ("sum(range(1, 11) ** 2)", 385), ("1 + 2 * 3 - 4", 3), ("[1 + 1, 2 * 3]", [2, 6]), ("5", 5), ("[[1], [2]]", [[1], [2]])])
def test_value(text, expected, device):
    assert value(text, device) == expected


def test_every_function_and_operator_has_a_kernel_that_is_there():
    used = {k for f in FUNCTIONS.values() for k in f.kernels} | {k for _, kernels in OPERATORS.values() for k in kernels} | {"compare", "negate"}
    assert used == set(kernel_names())
    assert all(name in FUNCTIONS for name in ALIASES.values()) and not set(ALIASES) & set(FUNCTIONS)


@pytest.mark.parametrize("text, what", [
    (f"{HIGH} + 1", "2147483647 + 1"), (f"{LOW} - 1", "-2147483648 - 1"), ("[1, 65536] * [2, -65536]", "65536 * -65536"), ("46341 ** 2", "46341 ** 2"),
    ("2 ** 31", "2 ** 31"), ("3 ** 1000000", "3 ** 1000000"), (f"{LOW} // -1", "-2147483648 // -1"), (f"-({LOW} + 0)", "-(-2147483648)"), (f"abs({LOW})", "abs(-2147483648)"),
    (f"sum([{HIGH}, 1])", "the sum of a list of 2"), ("product([65536, 32768])", "the product"), (f"product([{LOW}, -1])", "the product"),
    ("product([65536, 65536, 65536, 65536, 65536])", "the product"), ("factorial(13)", "factorial(13)"), (f"factorial({HIGH})", "factorial"),
    (f"gcd({LOW}, 0)", "gcd(-2147483648, 0)"), ("lcm(65536, 65537)", "lcm"), (f"lcm({LOW}, {LOW})", "lcm"), (f"[{LOW}, {LOW}, {LOW}, {LOW}] @ [{LOW}, {LOW}, {LOW}, {LOW}]", "the dot"),
    (f"[[{LOW}, {LOW}, {LOW}, {LOW}]] @ [[{LOW}], [{LOW}], [{LOW}], [{LOW}]]", "row 1 times column 1"), ("[[1, 0], [0, 65536]] @ [[1, 0], [0, 32768]]", "row 2 times column 2"),
    ("norm2([46341])", "the dot")])
def test_overflow_is_said(text, what, device):
    with pytest.raises(Overflow) as e:
        calculate(text, device)
    assert what in e.value.what and "does not fit in 32 bits" in e.value.what and e.value.where.startswith("expression, character")


@pytest.mark.parametrize("text, what, fix", [
    ("3 // 0", "division by 0", "divisor"), ("[1, 2] % [1, 0]", "division by 0", ""), ("2 ** -1", "below 0", "from 0 on"), ("isqrt(-1)", "below 0", ""),
    ("factorial(-1)", "below 0", ""), ("pow(2, 3, 0)", "modulo a number below 1", ""), ("pow(2, -3, 5)", "below 0", ""), ("[1, 2] + [1, 2, 3]", "a list of 2 and a list of 3", "one length"),
    ("[[1, 2]] + [[1], [2]]", "a 1 x 2 matrix and a 2 x 1 matrix", ""), ("[1, 2] @ [1, 2, 3]", "sizes differ", "columns"), ("2 @ 3", "with a number", "*"), ("[1, [2]]", "different sizes", ""),
    ("[[[1]]]", "two levels", ""), ("[]", "empty list", ""), ("foo(2)", "no function 'foo'", "functions: sum"), ("sqrt(4)", "'sqrt'", "isqrt"), ("summ([1])", "'summ'", "did you mean sum"),
    ("max([1], [2])", "several lists", "one list"), ("sort(3)", "sorting a number", ""), ("transpose([1, 2])", "a list of 2", ""), ("dot([1], 2)", "dot of", ""), ("gcd()", "takes 1 to 64", ""),
    ("isqrt(1, 2)", "takes 1 argument, not 2", ""), ("range(3, 1)", "empty", "left out"), ("range(1, 5, 0)", "steps of 0", ""), ("range(100000)", "100,000", "4096"), ("len(3)", "length of a number", ""),
    ("reverse([[1]])", "matrix", "list"), ("range([1])", "range of lists", "")])
def test_refusals(text, what, fix, device):
    with pytest.raises(UsageError) as e:
        calculate(text, device)
    assert what in e.value.what and fix in e.value.fix and e.value.where.startswith("expression, character"), str(e.value)


@pytest.mark.parametrize("machine", [ARTICLE, pytest.param(DEFAULT, marks=pytest.mark.slow)], ids=lambda m: m.name)
def test_more_numbers_than_a_launch_takes(machine):
    device = Device(lambda: ReferenceEngine(machine), check=False)
    n = 70 if machine is ARTICLE else 600
    a, b = (RNG.integers(-1000, 1000, n).astype(np.int32) for _ in range(2))
    assert tiles.elementwise(device, "add", a, b)[0].tolist() == (a + b).tolist() and len(device.launched) == 3
    device.begin()
    assert tiles.total(device, np.tile(a, 8))[0].tolist() == [8 * int(a.sum())] and len(device.launched) > 1
    assert tiles.dot(device, np.tile(a, 4), np.tile(b, 4)) == (4 * int(a @ b), False)
    assert tiles.extreme(device, "least", np.tile(a, 8)) == a.min() and tiles.extreme(device, "greatest", np.tile(a, 8)) == a.max()
    assert tiles.reverse(device, a).tolist() == a[::-1].tolist()
    assert tiles.steps(device, -50, 7, n).tolist() == list(range(-50, -50 + 7 * n, 7))
    ones = np.ones(130, np.int32)
    ones[[3, 125]] = -2, 3
    assert tiles.product(device, ones) == (-6, False)


def test_a_list_that_is_too_long(device, monkeypatch):
    monkeypatch.setattr("qgpu.chat.calculate.MOST_ELEMENTS", 10)
    with pytest.raises(UsageError, match="list is too long"):
        calculate("[range(6), range(6)]", device)


def test_a_later_tile_overflows(device):
    a = np.ones(70, np.int32)
    a[[40, 69]] = HIGH
    lost = tiles.elementwise(device, "add", a, np.ones(70, np.int32))[1]
    assert np.flatnonzero(lost).tolist() == [40, 69]
    assert tiles.dot(device, np.full(200, LOW, np.int32), np.full(200, LOW, np.int32))[1]
    assert tiles.dot(device, np.array([HIGH] * 200, np.int32), np.array([1, -1] * 100, np.int32)) == (0, False)


def test_sorting_by_several_launches(device):
    a = RNG.integers(-50, 50, 70).astype(np.int32)
    a[0] = HIGH
    assert tiles.sort(device, a).tolist() == sorted(a.tolist())


@pytest.mark.parametrize("n", range(1, 12))
def test_the_sorting_network(n):
    pairs = list(tiles.exchanges(n))
    for bits in itertools.product((0, 1), repeat=n):
        work = list(bits)
        for low, high in pairs:
            work[low], work[high] = sorted((work[low], work[high]))
        assert work == sorted(bits)


def test_matrices_of_several_tiles(device):
    a, b = RNG.integers(-99, 99, (6, 9)).astype(np.int32), RNG.integers(-99, 99, (9, 5)).astype(np.int32)
    out, lost = tiles.matmul(device, a, b)
    assert out.tolist() == (a.astype(int) @ b).tolist() and not lost.any()
    assert tiles.transpose(device, a).tolist() == a.T.tolist()


def test_primes_below_1000(device):
    a = np.arange(900, 1000, dtype=np.int32)
    assert tiles.primes(device, a).tolist() == [int(n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))) for n in a.tolist()]


def test_answers(device):
    answer = calculate(" mean([1, 2, 4])\n", device)
    assert (answer.expression, answer.text(), answer.note) == ("mean([1, 2, 4])", "[2, 1]", "quotient (rounded down), remainder")
    assert [one.kernel for one in answer.launches] == ["sum", "share"] and answer.launches[0].items == 3
    assert answer.as_dict()["launches"][0]["tokens"]["generated"] > 10
    assert calculate("3 < 4", device).note == "1 is true, 0 is false"
    long = calculate("range(1000)", device)
    assert long.text().startswith("[0, 1, 2") and long.text().endswith("998, 999] (a list of 1000)") and len(long.text()) < 1500


def test_the_result_is_the_machines_own():
    """A machine whose memory holds another number makes another answer: nothing is computed beside it."""
    device = Device(lambda: ReferenceEngine(ARTICLE, wrong_word=(2, 77)), check=False)
    assert value("20 + 3", device) == 77
    assert value("20 + [3]", device) == [77]


def test_a_launch_that_was_stopped_leaves_the_device_usable(device):
    class Stop:
        def waiting(self, text):
            from contextlib import nullcontext
            return nullcontext()

        def begin(self):
            pass

        def step(self):
            raise KeyboardInterrupt

        def close(self):
            pass

    assert value("1 + 1", device) == 2
    device.progress = Stop()
    with pytest.raises(KeyboardInterrupt):
        calculate("1 + 1", device)
    device.progress = None
    assert value("2 + 3", device) == 5


def test_too_many_launches(device, monkeypatch):
    monkeypatch.setattr("qgpu.chat.device.MOST_LAUNCHES", 3)
    with pytest.raises(FaultError, match="too many launches"):
        calculate("1 + 1 + 1 + 1 + 1", device)
