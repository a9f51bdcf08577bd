"""The functions of expressions: their arguments, their checks, the launches they take.

A value is an int32 array of no, one or two dimensions. Checks look at inputs only; results come from launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import FaultError, UsageError
from . import tiles
from .device import Device
from .syntax import LEAST, MOST

Array = np.ndarray
MOST_ELEMENTS = 4096


class Overflow(FaultError):
    """A result that 32 bits do not hold; the machine found it, by a kernel's own mark."""


def overflow(what: str) -> Overflow:
    """The error for a result beyond 32 bits. what: the operation with its numbers, such as "65536 * 65536"."""
    return Overflow(f"{what} does not fit in 32 bits", why=f"integers run from {LEAST} to {MOST}; nothing is wrapped around",
                    fix="use smaller numbers, or compute modulo m with % m or pow(a, b, m)")


def need(holds: bool, what: str, fix: str) -> None:
    """Raise UsageError unless the inputs are what the operation takes."""
    if not holds:
        raise UsageError(what, fix=fix)


def shape_text(a: Array) -> str:
    """"a number", "a list of 3" or "a 2 x 3 matrix"."""
    return ("a number", f"a list of {a.size}", "a {} x {} matrix".format(*a.shape, *(0, 0)))[a.ndim]


def same_shape(name: str, arrays: Sequence[Array]) -> tuple[list[Array], tuple[int, ...]]:
    """Flat arrays of one size; numbers are repeated to the others' shape. Raises UsageError where shapes differ."""
    shape = max((a.shape for a in arrays), key=len)
    for a in arrays:
        need(a.ndim == 0 or a.shape == shape, f"{name} of {' and '.join(shape_text(x) for x in arrays)}: sizes differ",
             "use lists of one length, or a number with a list")
    return [np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(-1) for a in arrays], shape


def elementwise(device: Device, kernel: str, sign: str, *arrays: Array, can_overflow: bool = True,
                extra: tuple[int, ...] = ()) -> Array:
    """An element-wise kernel on values of any one shape. sign: how the operation is written, "{} + {}". Raises Overflow."""
    flat, shape = same_shape(sign.replace("{}", " ").strip(), arrays)
    out, lost = tiles.elementwise(device, kernel, *flat, can_overflow=can_overflow, extra=extra)
    for at in np.flatnonzero(lost)[:1]:
        raise overflow(sign.format(*(int(a[at]) for a in flat)))
    return out.reshape(shape)


# ---- element by element -------------------------------------------------------------------------------------------------
def add(d: Device, a: Array, b: Array) -> Array:
    return elementwise(d, "add", "{} + {}", a, b)


def subtract(d: Device, a: Array, b: Array) -> Array:
    return elementwise(d, "subtract", "{} - {}", a, b)


def multiply(d: Device, a: Array, b: Array) -> Array:
    return elementwise(d, "multiply", "{} * {}", a, b)


def floor_divide(d: Device, a: Array, b: Array) -> Array:
    need(bool(np.all(b)), "division by 0", "use a divisor that is not 0")
    return elementwise(d, "floor_divide", "{} // {}", a, b)


def modulo(d: Device, a: Array, b: Array) -> Array:
    need(bool(np.all(b)), "remainder of a division by 0", "use a divisor that is not 0")
    return elementwise(d, "modulo", "{} % {}", a, b, can_overflow=False)


def power(d: Device, a: Array, b: Array) -> Array:
    need(bool(np.all(b >= 0)), "a power with an exponent below 0 is no integer", "use exponents from 0 on")
    return elementwise(d, "power", "{} ** {}", a, b)


def negate(d: Device, a: Array) -> Array:
    return elementwise(d, "negate", "-({})", a)


def absolute(d: Device, a: Array) -> Array:
    return elementwise(d, "absolute", "abs({})", a)


def smaller(d: Device, a: Array, b: Array) -> Array:
    return elementwise(d, "smaller", "minimum({}, {})", a, b, can_overflow=False)


def larger(d: Device, a: Array, b: Array) -> Array:
    return elementwise(d, "larger", "maximum({}, {})", a, b, can_overflow=False)


def isqrt(d: Device, a: Array) -> Array:
    need(bool(np.all(a >= 0)), "a square root of a number below 0", "use numbers from 0 on")
    return elementwise(d, "isqrt", "isqrt({})", a, can_overflow=False)


def factorial(d: Device, a: Array) -> Array:
    need(bool(np.all(a >= 0)), "a factorial of a number below 0", "use numbers from 0 on")
    return elementwise(d, "factorial", "factorial({})", a)


def is_prime(d: Device, a: Array) -> Array:
    return tiles.primes(d, a.reshape(-1)).reshape(a.shape)


RELATIONS = {"<": 1, "==": 2, "<=": 3, ">": 4, "!=": 5, ">=": 6}
"""Operator -> the kernel's bits: 1 less, 2 equal, 4 greater."""


def compare(d: Device, operator: str, a: Array, b: Array) -> Array:
    return elementwise(d, "compare", "{} " + operator + " {}", a, b, can_overflow=False, extra=(RELATIONS[operator],))


def power_modulo(d: Device, a: Array, b: Array, m: Array) -> Array:
    """a ** b % m, whatever the size of a ** b."""
    need(bool(np.all(m > 0)), "a power modulo a number below 1", "use a modulus above 0")
    need(bool(np.all(b >= 0)), "a power with an exponent below 0", "use exponents from 0 on")
    return elementwise(d, "powmod", "pow({}, {}, {})", modulo(d, a, m), b, m, can_overflow=False)


# ---- many numbers to one --------------------------------------------------------------------------------------------------
def number(value: int) -> Array:
    return np.array(value, np.int32)


def total(d: Device, a: Array) -> Array:
    sum64, lost = tiles.total(d, a.reshape(-1))
    if lost:
        raise overflow(f"the sum of {shape_text(a)}")
    return number(int(sum64.view(np.int32)[0]))


def product(d: Device, a: Array) -> Array:
    found, lost = tiles.product(d, a.reshape(-1))
    if lost:
        raise overflow(f"the product of {shape_text(a)}")
    return number(found)


def least(d: Device, a: Array) -> Array:
    return number(tiles.extreme(d, "least", a.reshape(-1)))


def greatest(d: Device, a: Array) -> Array:
    return number(tiles.extreme(d, "greatest", a.reshape(-1)))


def mean(d: Device, a: Array) -> Array:
    """[quotient, remainder] of the sum divided by the number of elements."""
    sum64, _ = tiles.total(d, a.reshape(-1))
    return np.array(tiles.share(d, sum64, a.size), np.int32)


def folded(operation: Callable[[Device, Array, Array], Array]) -> Callable[..., Array]:
    """A function of two numbers as one of two values, element by element, or of one list, halved again and again."""
    def fold(d: Device, a: Array, *others: Array) -> Array:
        if others:
            for other in others:
                a = operation(d, a, other)
            return a
        rest = a.reshape(-1)
        if rest.size == 1:
            return operation(d, rest, number(0) if operation is gcd else number(1)).reshape(())
        while rest.size > 1:
            half = rest.size // 2
            rest = np.concatenate([operation(d, rest[:half], rest[half:2 * half]), rest[2 * half:]])
        return rest.reshape(())
    return fold


def gcd(d: Device, a: Array, b: Array) -> Array:
    return elementwise(d, "gcd", "gcd({}, {})", a, b)


def lcm(d: Device, a: Array, b: Array) -> Array:
    """|a // gcd * b|. The gcd 2^31 goes around to -2^31, whose sign the last step takes off, and a 0 makes it 0."""
    (x, y), shape = same_shape("lcm", (a, b))
    common, _ = tiles.elementwise(d, "gcd", x, y)
    part = floor_divide(d, x, larger(d, common, number(1)))
    return absolute(d, elementwise(d, "multiply", "lcm: {} * {}", part, y)).reshape(shape)


# ---- lists and matrices -----------------------------------------------------------------------------------------------------
def divmod_(d: Device, a: Array, b: Array) -> Array:
    """[quotient, remainder], each of the operands' shape."""
    q, r = floor_divide(d, a, b), modulo(d, a, b)
    need(q.ndim < 2, "divmod of matrices", "use a // b and a % b")
    return np.stack([q, r])


def dot(d: Device, a: Array, b: Array) -> Array:
    """Sum of products of two lists of one length."""
    need(a.ndim == b.ndim == 1 and a.size == b.size, f"dot of {shape_text(a)} and {shape_text(b)}", "use two lists of one length")
    found, lost = tiles.dot(d, a, b)
    if lost:
        raise overflow(f"the dot product of two lists of {a.size}")
    return number(found)


def matmul(d: Device, a: Array, b: Array) -> Array:
    """a @ b: lists and matrices, as in Python's numpy."""
    need(a.ndim > 0 and b.ndim > 0, "@ with a number", "write * for products of numbers")
    need(a.shape[-1] == b.shape[0], f"{shape_text(a)} @ {shape_text(b)}: sizes differ",
         "the left one's columns must be as many as the right one's rows")
    if a.ndim == b.ndim == 1:
        return dot(d, a, b)
    need(a.shape[0] * b.shape[-1] <= MOST_ELEMENTS or 1 in (a.ndim, b.ndim), "the product of these matrices is too large",
         f"it may have {MOST_ELEMENTS} elements")
    left, right = a.reshape(-1, a.shape[-1]), b.reshape(b.shape[0], -1)
    out, lost = tiles.matmul(d, left, right)
    for row, column in np.argwhere(lost)[:1]:
        raise overflow(f"row {row + 1} times column {column + 1}")
    return out.reshape(a.shape[:-1] + b.shape[1:])


def norm2(d: Device, a: Array) -> Array:
    """Sum of squares."""
    return dot(d, a.reshape(-1), a.reshape(-1))


def sort(d: Device, a: Array) -> Array:
    need(a.ndim == 1, f"sorting {shape_text(a)}", "sort a list")
    return tiles.sort(d, a)


def reverse(d: Device, a: Array) -> Array:
    need(a.ndim == 1, f"reversing {shape_text(a)}", "reverse a list")
    return tiles.reverse(d, a)


def transpose(d: Device, a: Array) -> Array:
    need(a.ndim == 2, f"transposing {shape_text(a)}", "transpose a matrix, as in transpose([[1, 2], [3, 4]])")
    return tiles.transpose(d, a)


def length(d: Device, a: Array) -> Array:
    """How many elements a list has, or rows a matrix: known without a launch."""
    need(a.ndim > 0, "the length of a number", "give a list")
    return number(a.shape[0])


def range_(d: Device, *ends: Array) -> Array:
    """Python's range as a list."""
    need(all(e.ndim == 0 for e in ends), "range of lists", "give numbers, as in range(1, 101)")
    bounds = range(*(int(e) for e in ends)) if len(ends) < 3 or int(ends[2]) else None
    need(bounds is not None, "a range in steps of 0", "use a step that is not 0")
    need(0 < len(bounds), "this range is empty", "the last number, stop, is left out: range(1, 4) is [1, 2, 3]")
    need(len(bounds) <= MOST_ELEMENTS, f"a range of {len(bounds):,} numbers", f"use at most {MOST_ELEMENTS}")
    return tiles.steps(d, bounds.start, bounds.step, len(bounds))


# ---- the table ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Function:
    """least, most: arguments. gather: several numbers as arguments are one list. kernels: what it launches."""

    run: Callable[..., Array]
    least: int
    most: int
    about: str
    kernels: tuple[str, ...]
    gather: bool = False


MANY = 64
FUNCTIONS = {
    "sum": Function(total, 1, MANY, "sum of all elements", ("sum",), True),
    "product": Function(product, 1, MANY, "product of all elements", ("product",), True),
    "min": Function(least, 1, MANY, "smallest element", ("least",), True),
    "max": Function(greatest, 1, MANY, "largest element", ("greatest",), True),
    "mean": Function(mean, 1, MANY, "[quotient, remainder] of the sum by the number of elements", ("sum", "share"), True),
    "sort": Function(sort, 1, 1, "ascending order", ("sort",)),
    "reverse": Function(reverse, 1, 1, "the last element first", ("reverse",)),
    "dot": Function(dot, 2, 2, "sum of products of two lists", ("dot",)),
    "norm2": Function(norm2, 1, 1, "sum of squares", ("dot",)),
    "matmul": Function(matmul, 2, 2, "matrix product, as a @ b", ("matmul", "dot")),
    "transpose": Function(transpose, 1, 1, "rows to columns", ("transpose",)),
    "minimum": Function(smaller, 2, 2, "the smaller of two, element by element", ("smaller",)),
    "maximum": Function(larger, 2, 2, "the larger of two, element by element", ("larger",)),
    "abs": Function(absolute, 1, 1, "without the sign", ("absolute",)),
    "divmod": Function(divmod_, 2, 2, "[a // b, a % b]", ("floor_divide", "modulo")),
    "pow": Function(lambda d, a, b, *m: power_modulo(d, a, b, *m) if m else power(d, a, b), 2, 3,
                    "a ** b; pow(a, b, m) is a ** b % m for any size of a ** b", ("power", "modulo", "powmod")),
    "isqrt": Function(isqrt, 1, 1, "square root, rounded down", ("isqrt",)),
    "factorial": Function(factorial, 1, 1, "1 * 2 * ... * n; n is at most 12", ("factorial",)),
    "is_prime": Function(is_prime, 1, 1, "1 for a prime, else 0", ("passes",)),
    "gcd": Function(folded(gcd), 1, MANY, "greatest common divisor", ("gcd",)),
    "lcm": Function(folded(lcm), 1, MANY, "least common multiple", ("gcd", "larger", "floor_divide", "multiply", "absolute")),
    "range": Function(range_, 1, 3, "start to stop, which is left out, in steps; as a list", ("range",)),
    "len": Function(length, 1, 1, "how many elements", ()),
}
ALIASES = {"prod": "product", "sorted": "sort", "reversed": "reverse", "average": "mean", "avg": "mean", "isprime": "is_prime",
           "prime": "is_prime", "arange": "range", "norm_squared": "norm2", "power": "pow", "absolute": "abs", "mod_pow": "pow",
           "powmod": "pow", "inner": "dot"}
OPERATORS = {"+": (add, ("add",)), "-": (subtract, ("subtract",)), "*": (multiply, ("multiply",)),
             "//": (floor_divide, ("floor_divide",)), "%": (modulo, ("modulo",)), "**": (power, ("power",)),
             "@": (matmul, ("matmul", "dot"))}
HINTS = {"sqrt": "isqrt(x) is the square root rounded down", "round": "all numbers are whole already",
         "float": "integers only: scale the numbers", "int": "all numbers are whole already", "exp": "integers only: write a ** b",
         "log": "integers only: compare powers, as in 2 ** 10 <= 1000", "norm": "norm2(x) is the norm squared",
         "print": "give the expression alone", "array": "write [1, 2, 3]", "list": "write [1, 2, 3], or range(1, 4) itself",
         "median": "sort(x) puts the middle elements in the middle", "count": "sum(x == 3) counts the threes", "fibonacci": "compute it "
         "step by step with +"}


