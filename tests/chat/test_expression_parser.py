"""The parser of expressions: what it takes, and that everything else gets a message with a place and a way out, at once."""

import ast
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qgpu.chat.parser import MOST_DEPTH, MOST_OPERATIONS, parse
from qgpu.chat.syntax import Binary, Call, Items, Number, Unary
from qgpu.errors import UsageError


def written(node):
    """A tree as Python text with every parenthesis."""
    match node:
        case Number(value):
            return f"({value})"
        case Items(items):
            return "[" + ", ".join(map(written, items)) + "]"
        case Unary(operator, operand):
            return f"({operator}{written(operand)})"
        case Binary(operator, left, right):
            return f"({written(left)} {operator} {written(right)})"
        case Call(name, arguments):
            return f"{name}(" + ", ".join(map(written, arguments)) + ")"


def as_python(text):
    """The same by Python's own parser; negative literals are numbers, as here."""
    class Fold(ast.NodeTransformer):
        def visit_UnaryOp(self, node):
            self.generic_visit(node)
            if isinstance(node.op, ast.UAdd):
                return node.operand
            return ast.Constant(-node.operand.value) if isinstance(node.operand, ast.Constant) else node
    return ast.dump(Fold().visit(ast.parse(text, mode="eval")))


@pytest.mark.parametrize("text", [
    "1 + 2 * 3", "(1 + 2) * 3", "2 ** 3 ** 2", "-2 ** 2", "2 ** -1", "- - 3", "-(3)", "+4", "7 // 2 % 3", "1 - 2 - 3", "1 < 2 + 3",
    "[1, 2] @ [3, 4] * 2", "[[1, 2], [3, 4]]", "sum([1, 2,])", "max(1, 2) == f(3) ** 2", "-x(1) ** 2", "0x1F + 1_000", "1\n+\t2", "[-1, - 2]",
    "-2147483648", "3 - -4", "(1 < 2) * (3 >= 2) != 0"])
def test_same_tree_as_python(text):
    assert as_python(written(parse(text))) == as_python(text.replace("\n", " "))


NUMBERS = st.integers(0, 2**31 - 1).map(str)


@st.composite
def trees(draw, inner):
    kind = draw(st.integers(0, 4))
    a, b = draw(inner), draw(inner)
    return [f"({a})", f"{a} {draw(st.sampled_from(['+', '-', '*', '//', '%', '@', '**']))} {b}", f"[{a}, {b}]", f"f({a}, {b})",
            f"-{a}"][kind]


@given(st.recursive(NUMBERS, trees, max_leaves=12))
@settings(max_examples=150, deadline=None)
def test_random_trees_are_pythons(text):
    assert as_python(written(parse(text))) == as_python(text)


def test_signs_that_models_write():
    assert written(parse("2 × 3 − 1 ≤ 6 · 1")) == "((((2) * (3)) - (1)) <= ((6) * (1)))"
    assert written(parse("math.gcd(4, np.sum([6]))")) == "gcd((4), sum([(6)]))"
    assert written(parse("True + false")) == "((1) + (0))"


@pytest.mark.parametrize("text, what, fix", [
    ("1.5 + 1", "1.5 is not a whole number", "scale it"), ("3.0", "not a whole number", "write 3"), ("1e9", "1e9 is not a whole", "scale"),
    ("2147483648", "2147483648 does not fit in 32 bits", "smaller"), ("-2147483649", "2147483649 does not fit", "smaller"),
    ("0x1_0", "does not belong", ""), ("0x123456789", "does not fit", ""), ("9" * 5000, "(5000 digits) does not fit", ""),
    ("7 / 2", "'/' is no part", "a // b"), ("5!", "'!'", "factorial(5)"), ("2 ^ 3", "'^'", "**"), ("1 < 2 < 3", "cannot be chained", "(1 < 2) * (2 < 3)"),
    ("(1, 2)", "tuple", "[1, 2, 3]"), ("2(3)", "'(' does not belong", "2 * (3 + 4)"), ("1 000", "'0' does not belong", "thousands"),
    ("x + 1", "'x' has no value", "no variables"), ("[x for x in range(3)]", "'x' has no value", ""),
    ("sum(1 for y in 3)", "'for' does not belong", "range(1, 6) ** 2"), ("1 < 2 and 3 < 4", "'and' does not belong", "multiply"),
    ("[1, 2][0]", "'[' does not belong", "single elements"), ("3 * * 4", "'*' does not belong", "without a space"), ("[1, 2", "never closed", "add ']'"),
    ("(1", "never closed", "add ')'"), ("1 +", "stops too early", "go on with"), ("", "no expression", "write one"), (" \n ", "no expression", ""),
    ("1; 2", "';'", "one expression"), ("not 1", "no 'not'", "x == 0"), ("\N{FULLWIDTH DIGIT ONE}", "U+FF11 (FULLWIDTH DIGIT ONE)", "use digits"),
    ("1\N{RIGHT-TO-LEFT OVERRIDE}", "U+202E", ""), ("\ud800", "U+D800", ""), ("\0", r"'\x00'", ""), ("1 ÷ 2", "DIVISION SIGN", "a // b"),
    ("\N{ARABIC-INDIC DIGIT THREE}", "ARABIC-INDIC DIGIT THREE", ""), ("a\N{COMBINING ACUTE ACCENT}", "COMBINING ACUTE ACCENT", ""),
    ("\U0001F600", "GRINNING FACE", ""), ("'a'", "is no part", "no text")])
def test_messages(text, what, fix):
    with pytest.raises(UsageError) as e:
        parse(text)
    assert what in e.value.what and fix in e.value.fix + e.value.why, str(e.value)
    assert e.value.where.startswith("expression") and len(str(e.value)) < 600


@pytest.mark.parametrize("name, text", [
    ("line", "1" * 10_000_000), ("open", "(" * 30_000), ("lists", "[" * 30_000), ("signs", "-" * 30_000 + "1"), ("powers", "2**" * 10_000 + "1"),
    ("calls", "f(" * 10_000), ("sums", "1+" * 10_000 + "1"), ("commas", "[" + "1," * 16_000 + "]"), ("names", "a" * 32_000),
    ("spaces", " " * 32_768), ("marks", "\N{COMBINING ACUTE ACCENT}" * 30_000), ("digits", "9" * 32_000), ("hex", "0x" + "f" * 32_000),
    ("points", "1." * 16_000), ("under", "1_" * 16_000), ("exponent", "1" * 32_000 + "e"), ("dots", "a." * 16_000), ("emoji", "\U0001F600" * 30_000),
    ("surrogates", "\udcff" * 30_000), ("unclosed", "[1," * 10_000)])
def test_hostile_text_gets_an_answer_at_once(name, text):
    start = time.perf_counter()
    with pytest.raises(UsageError) as e:
        parse(text)
    assert time.perf_counter() - start < 1
    assert len(str(e.value)) < 600


@given(st.text(max_size=60) | st.text("0123456789+-*/%@()[],<>=! .exf_", max_size=60))
@settings(max_examples=400, deadline=None)
def test_any_text_gives_a_tree_or_a_message(text):
    try:
        parse(text)
    except UsageError as error:
        assert error.where.startswith("expression") and str(error)


def test_limits_are_where_they_are_said_to_be():
    parse("(" * (MOST_DEPTH - 1) + "1" + ")" * (MOST_DEPTH - 1))
    with pytest.raises(UsageError, match=f"more than {MOST_DEPTH} levels"):
        parse("(" * MOST_DEPTH + "1" + ")" * MOST_DEPTH)
    parse("+".join(["1"] * (MOST_OPERATIONS + 1)))
    with pytest.raises(UsageError, match=f"more than {MOST_OPERATIONS} operations"):
        parse("+".join(["1"] * (MOST_OPERATIONS + 2)))
