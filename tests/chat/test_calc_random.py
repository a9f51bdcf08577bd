"""Random expressions on the compiled weights, every launch checked, against Python's integers.

A tree is computed twice: by qgpu from its text, and here with Python's unlimited integers, where a result that 32 bits do not
hold raises Wrap at the very operation; qgpu must then say so.
"""

import math

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from qgpu.chat.calculate import calculate
from qgpu.chat.functions import Overflow
from qgpu.errors import UsageError

HIGH, LOW = 2**31 - 1, -2**31


class Wrap(Exception):
    pass


class NoValue(Exception):
    pass


def held(v):
    if isinstance(v, list):
        return [held(x) for x in v]
    if not LOW <= v <= HIGH:
        raise Wrap
    return int(v)


def each(f, a, b):
    if isinstance(a, list) or isinstance(b, list):
        n = len(a) if isinstance(a, list) else len(b)
        a, b = (x if isinstance(x, list) else [x] * n for x in (a, b))
        return [each(f, x, y) for x, y in zip(a, b, strict=True)]
    return f(a, b)


def one(f, a):
    return [one(f, x) for x in a] if isinstance(a, list) else f(a)


def divide(f):
    def g(a, b):
        if b == 0:
            raise NoValue
        return f(a, b)
    return g


def power(a, b):
    if b < 0:
        raise NoValue
    if abs(a) > 1 and b > 40:
        raise Wrap
    return a**b


def least(bound, f):
    def g(a):
        if a < bound:
            raise NoValue
        return f(a)
    return g


def prime(n):
    return int(n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1)))


INFIX = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": divide(lambda a, b: a // b), "%": divide(lambda a, b: a % b),
         "**": power, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
         "!=": lambda a, b: a != b}
TWO = {"minimum": min, "maximum": max, "gcd": math.gcd}
ONE = {"abs": abs, "-": lambda a: -a, "isqrt": least(0, math.isqrt), "factorial": least(0, lambda n: math.factorial(min(n, 20))), "is_prime": prime}
MANY = {"sum": sum, "product": math.prod, "min": min, "max": max, "mean": lambda a: list(divmod(sum(a), len(a))), "sort": sorted,
        "norm2": lambda a: sum(x * x for x in a), "reverse": lambda a: a[::-1]}


def compute(tree):
    """The value by Python's integers. Raises Wrap or NoValue."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, list):
        return [compute(x) for x in tree]
    name, *arguments = tree
    values = [compute(a) for a in arguments]
    if name in INFIX and len(values) == 2:
        return held(each(INFIX[name], *values))
    if name == "dot":
        return held(sum(x * y for x, y in zip(*values, strict=True)))
    if name == "matmul":
        return held([[sum(x * y for x, y in zip(row, column)) for column in zip(*values[1])] for row in values[0]])
    if name in TWO:
        return held(each(TWO[name], *values))
    return held(one(ONE[name], *values) if name in ONE else MANY[name](*values))


def written(tree):
    if isinstance(tree, int):
        return str(tree) if tree >= 0 else f"({tree})"
    if isinstance(tree, list):
        return "[" + ", ".join(map(written, tree)) + "]"
    name, *arguments = tree
    if name in INFIX and len(arguments) == 2:
        return f"({written(arguments[0])} {name} {written(arguments[1])})"
    if name == "dot":
        return f"{written(arguments[0])} @ {written(arguments[1])}"
    if name == "-":
        return f"(-({written(arguments[0])} + 0))"
    return f"{name}({', '.join(map(written, arguments))})"


SMALL, EDGE = st.integers(-30, 30), st.sampled_from([0, 1, -1, 2, HIGH, LOW, HIGH - 1, LOW + 1, 65536, -65536, 46340, 46341])
NUMBERS = st.one_of(SMALL, SMALL, st.integers(LOW, HIGH), EDGE)


@st.composite
def operations(draw, n):
    """An operation on lists of n numbers, or on numbers where n is 0."""
    def leaf():
        return draw(NUMBERS) if n == 0 else draw(st.lists(NUMBERS, min_size=n, max_size=n))

    def inner():
        choice = draw(st.integers(0, 3))
        return (draw(st.sampled_from(sorted(INFIX))), leaf(), draw(SMALL)) if choice == 0 else leaf()
    kind = draw(st.sampled_from(["infix", "infix", "two", "one", "many", "dot"] if n else ["infix", "infix", "two", "one"]))
    if kind == "infix":
        name = draw(st.sampled_from(sorted(INFIX)))
        return (name, inner(), draw(st.integers(0, 40)) if name == "**" else inner())
    if kind == "two":
        return (draw(st.sampled_from(sorted(TWO))), inner(), inner())
    if kind == "one":
        name = draw(st.sampled_from(sorted(ONE)))
        return (name, draw(st.integers(-2, 14)) if name == "factorial" and not n else inner())
    if kind == "dot":
        return ("dot", leaf(), leaf())
    return (draw(st.sampled_from(sorted(MANY))), inner())


@st.composite
def matrices(draw):
    rows, depth, columns = (draw(st.integers(1, 4)) for _ in range(3))
    numbers = draw(st.sampled_from([SMALL, NUMBERS]))
    return ("matmul", *(draw(st.lists(st.lists(numbers, min_size=c, max_size=c), min_size=r, max_size=r)) for r, c in ((rows, depth), (depth, columns))))


EXPRESSIONS = st.one_of(operations(0), operations(1), *(st.integers(2, most).flatmap(operations) for most in (4, 9, 36)), matrices())


def judge(tree, device):
    text = written(tree)
    try:
        expected = compute(tree)
    except Wrap:
        with pytest.raises(Overflow):
            calculate(text, device)
    except NoValue:
        with pytest.raises(UsageError):
            calculate(text, device)
    else:
        answer = calculate(text, device)
        assert answer.value.tolist() == expected, text
        assert answer.launches and all(one.checked == one.generated > 0 for one in answer.launches)


@seed(20)
@settings(max_examples=15, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.one_of(operations(0), operations(3)))
def test_a_few_expressions(circuit, tree):
    judge(tree, circuit)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPRESSIONS)
def test_expressions(circuit, tree):
    judge(tree, circuit)


@pytest.mark.slow
@pytest.mark.parametrize("text, expected", [
    ("pow(7, 100, 1000)", 1), ("lcm([4, 6, 10])", 60), ("divmod(-7, 2)", [-4, 1]), ("transpose([[1, 2, 3], [4, 5, 6]])", [[1, 4], [2, 5], [3, 6]]), ("range(3, 80, 7)", list(range(3, 80, 7))),
    ("sum(range(1, 101))", 5050), ("is_prime([2147483647, 2147483645, 97])", [1, 0, 1])])
def test_the_other_functions(text, expected, circuit):
    answer = calculate(text, circuit)
    assert answer.value.tolist() == expected and all(one.checked == one.generated for one in answer.launches)
