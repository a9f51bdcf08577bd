"""How a module of rules collects them, and the integers of C."""

from __future__ import annotations

from collections.abc import Callable

Values = list[int] | int
Rule = Callable[..., dict[int, list[int] | None]]


class Rules:
    """A decorator that keeps the functions it sees, by name.

    A rule takes the launch's arguments (list or int each) and returns, by position, the arrays that the launch changes; None
    for an argument that has no memory to look at.
    """

    def __init__(self) -> None:
        self.functions: dict[str, Rule] = {}

    def __call__(self, function: Rule) -> Rule:
        self.functions[function.__name__] = function
        return function


def signed(v: int, bits: int = 32) -> int:
    """v modulo 2^bits as a two's-complement number."""
    return (v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def unsigned(v: int, bits: int = 32) -> int:
    """v modulo 2^bits."""
    return v % (1 << bits)


def quotient(a: int, b: int) -> int:
    """a / b rounded towards zero, as in C."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def rows(values: list[int], width: int) -> list[list[int]]:
    """A flat array as rows."""
    return [values[i:i + width] for i in range(0, len(values), width)]


def flat(parts) -> list[int]:
    """Rows, bytes or other sequences one behind the other."""
    return [v for part in parts for v in part]
