"""What an expression is made of, and its text cut into symbols.

Every message is meant for a language model as much as for a person: it says what to write instead.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from ..errors import UsageError

LEAST, MOST = -(1 << 31), (1 << 31) - 1
"""The integers: two's complement in 32 bits."""

MOST_CHARACTERS = 1 << 15
MOST_SYMBOLS = 1 << 13


@dataclass(frozen=True)
class Number:
    value: int
    at: int


@dataclass(frozen=True)
class Items:
    """A list. at: place of its first character in the text, from 0; so in every node."""

    items: tuple["Node", ...]
    at: int


@dataclass(frozen=True)
class Unary:
    operator: str
    operand: "Node"
    at: int


@dataclass(frozen=True)
class Binary:
    operator: str
    left: "Node"
    right: "Node"
    at: int


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple["Node", ...]
    at: int


Node = Number | Items | Unary | Binary | Call


@dataclass(frozen=True)
class Symbol:
    """kind: number, name, an operator's own text, or end. at: place of its first character, from 0."""

    kind: str
    text: str
    at: int


SAME = {"×": "*", "·": "*", "⋅": "*", "∗": "*", "−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!="}
"""Signs that models like to write, each with the operator it stands for."""

FIXES = {
    "/": "integers only: write a // b for the quotient and a % b for the remainder",
    "÷": "write a // b for the quotient and a % b for the remainder",
    "^": "write ** for powers",
    "!": "write factorial(5) for 5!, and != for unequal",
    "=": "write == to compare; there are no variables",
    "&": "multiply comparisons to combine them, as in (2 < 3) * (3 < 4)",
    "|": "write abs(x) for |x|; larger(a, b) combines comparisons",
    "{": "write lists in brackets, as in [1, 2, 3]",
    "}": "write lists in brackets, as in [1, 2, 3]",
    ".": "write [1, 2, 3] and sum(x), without points",
    ":": "write the list out, or range(start, stop)",
    ";": "give one expression at a time",
    "√": "write isqrt(x), the square root rounded down",
    "$": "write the expression alone, without $",
    "'": "give numbers, no text", '"': "give numbers, no text", "`": "write the expression alone, without quotes",
}

_SYMBOL = re.compile(r"""
    (?P<space>[ \t\r\n\u00a0]+)
  | (?P<float>[0-9][0-9_]*\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9][0-9_]*[eE][+-]?[0-9]+)
  | (?P<hex>0[xX][0-9a-fA-F]+)
  | (?P<number>[0-9]+(?:_[0-9]+)*)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
  | (?P<operator>\*\*|//|<=|>=|==|!=|[-+*%@<>()\[\],])
""", re.VERBOSE)

MODULES = ("math.", "np.", "numpy.", "operator.", "statistics.", "sympy.")
"""Prefixes of names that are passed over: math.gcd is gcd."""


def mistake(what: str, at: int, text: str, *, why: str = "", fix: str = "") -> UsageError:
    """An error at a place of the expression, with what is written there."""
    here = text[at:at + 24].split("\n")[0]
    return UsageError(what, where=f"expression, character {at + 1}" + (f" ({here!r})" if here else " (its end)"), why=why, fix=fix)


def too_large(digits: str, at: int, text: str) -> UsageError:
    """The error for an integer beyond 32 bits."""
    shown = digits if len(digits) <= 30 else f"{digits[:12]}... ({len(digits)} digits)"
    return mistake(f"{shown} does not fit in 32 bits", at, text, why=f"integers run from {LEAST} to {MOST}",
                   fix="compute with smaller numbers; pow(a, b, m) gives a power modulo m")


def symbols(text: str) -> list[Symbol]:
    """The symbols of an expression, an end mark behind them. Raises UsageError at the first thing that is none."""
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"the expression has {len(text):,} characters", where="expression",
                         why=f"at most {MOST_CHARACTERS:,} are read", fix="split the work into several expressions")
    out: list[Symbol] = []
    at = 0
    while at < len(text):
        found = _SYMBOL.match(text, at)
        if found is None:
            if (operator := SAME.get(text[at])) is None:
                raise _unknown(text, at)
            out.append(Symbol(operator, operator, at))
            at += 1
            continue
        kind, piece = found.lastgroup, found.group()
        if kind == "float":
            whole = re.fullmatch(r"([0-9]{1,10})\.0*", piece)
            raise mistake(f"{piece[:30]} is not a whole number", at, text, why="the GPU computes with 32-bit integers only",
                          fix=f"write {whole.group(1)}" if whole else "scale it: count cents instead of euros, thousandths instead of units")
        if kind in ("number", "hex"):
            out.append(_number(piece, at, text))
        elif kind == "name":
            prefix = next((m for m in MODULES if piece.startswith(m)), "")
            out.append(Symbol("name", piece[len(prefix):], at))
        elif kind == "operator":
            out.append(Symbol(piece, piece, at))
        if len(out) > MOST_SYMBOLS:
            raise UsageError(f"the expression has more than {MOST_SYMBOLS:,} symbols", where="expression",
                             fix="split the work into several expressions")
        at = found.end()
    out.append(Symbol("end", "", len(text)))
    return out


def _number(piece: str, at: int, text: str) -> Symbol:
    """A number's symbol; its text has at most 10 decimal digits, so that no long conversion ever runs."""
    if piece[:2] in ("0x", "0X"):
        digits = piece[2:].lstrip("0") or "0"
        if len(digits) > 8:
            raise too_large(piece, at, text)
        return Symbol("number", str(int(digits, 16)), at)
    digits = piece.replace("_", "").lstrip("0") or "0"
    if len(digits) > 10 or int(digits) > MOST + 1:
        raise too_large(digits, at, text)
    return Symbol("number", digits, at)


def _unknown(text: str, at: int) -> UsageError:
    """The error for a character that no symbol begins with."""
    c = text[at]
    name = unicodedata.name(c, "")
    shown = repr(c) if c.isascii() else f"U+{ord(c):04X}" + (f" ({name})" if name else "")
    return UsageError(f"{shown} is no part of an expression", where=f"expression, character {at + 1}",
                      fix=FIXES.get(c, "use digits, + - * // % ** @, comparisons, ( ) [ ] and functions such as sum([1, 2])"))
