"""A place in a list of tokens, with what every part of the parser needs: look, take, expect, complain."""

from __future__ import annotations

from typing import NamedTuple

from qgpu.errors import PtxError
from qgpu.ptx.lexer import Token, line_text

_MAX_NESTING = 32
_MAX_WHAT = 240


class Use(NamedTuple):
    """A name that was used before it was known; the module's end decides."""

    name: str
    token: Token


class Cursor:
    """`kind` and `text_now` describe the next token; `last` is the one taken before it."""

    def __init__(self, tokens: list[Token], text: str, filename: str) -> None:
        self.tokens, self.text, self.filename = tokens, text, filename
        self.at = 0
        self.unresolved: list[Use] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def kind(self) -> str:
        return self.tokens[self.at].kind

    @property
    def text_now(self) -> str:
        return self.tokens[self.at].text

    @property
    def last(self) -> Token:
        return self.tokens[max(self.at - 1, 0)]

    def ahead(self, n: int = 1) -> Token:
        """The token `n` after the next one."""
        return self.tokens[min(self.at + n, len(self.tokens) - 1)]

    def error(self, what: str, token: Token | None = None, *, why: str = "", fix: str = "") -> PtxError:
        """The error to raise: place and text of `token`, or of the next token."""
        token = token or self.token
        shown = f"in {line_text(self.text, token.offset)!r}"
        what = what if len(what) <= _MAX_WHAT else what[:_MAX_WHAT - 3] + "..."  # a name may be a page long
        return PtxError(what, where=f"{self.filename}:{token.line}:{token.column}", why=f"{why}, {shown}" if why else shown, fix=fix)

    def take(self) -> Token:
        token = self.tokens[self.at]
        if token.kind == "end":
            raise self.error("the file ends too early")
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is `text`."""
        token = self.tokens[self.at]
        if token.text == text and token.kind not in ("string", "end"):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.accept(text):
            raise self.error(f"expected {text!r} before {self.text_now[:40]!r}")
        return self.last

    def name(self, what: str) -> Token:
        if self.kind != "word":
            raise self.error(f"expected {what} before {self.text_now[:40]!r}")
        return self.take()

    def integer(self, depth: int = 0) -> int:
        """A constant expression: a literal with signs, or any expression in parentheses (PTX ISA 4.5.4)."""
        if self.accept("-"):
            return _signed(-self.integer(self._deeper(depth)))
        if self.accept("+"):
            return self.integer(self._deeper(depth))
        if self.accept("~"):
            return _signed(~self.integer(self._deeper(depth)))
        if self.accept("!"):
            return int(not self.integer(self._deeper(depth)))
        if self.accept("("):
            value = self._sum(self._deeper(depth))
            self.expect(")")
            return value
        if self.kind != "int":
            raise self.error(f"expected an integer before {self.text_now[:40]!r}")
        return self.take().value

    def _deeper(self, depth: int) -> int:
        if depth >= _MAX_NESTING:
            raise self.error("too deeply nested")
        return depth + 1

    def _sum(self, depth: int, level: int = 0) -> int:
        """Binary operators by precedence, lowest first."""
        levels = (("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
        if level == len(levels):
            return self.integer(depth)
        value = self._sum(depth, level + 1)
        while self.kind in levels[level]:
            operator = self.take()
            other = self._sum(depth, level + 1)
            value = self._apply(operator, value, other)
        return value

    def _apply(self, operator: Token, a: int, b: int) -> int:
        if operator.kind in ("/", "%") and b == 0:
            raise self.error("division by zero in a constant", operator)
        if operator.kind in ("<<", ">>"):
            b &= 63
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if operator.kind in ("/", "%") else 0
        value = {
            "|": lambda: a | b, "^": lambda: a ^ b, "&": lambda: a & b, "<<": lambda: a << b, ">>": lambda: a >> b,
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: quotient, "%": lambda: a - quotient * b,
        }[operator.kind]()
        return _signed(value)

    # ---- parts of the text that carry no meaning for us

    def skip_line(self) -> list[Token]:
        """Take the rest of the line (`.file` and `.loc` have no end mark); returns its tokens."""
        first = self.at
        line = self.token.line
        while self.kind != "end" and self.token.line == line:
            self.at += 1
        return self.tokens[first:self.at]

    def skip_statement(self) -> None:
        """Take everything up to and including `;`."""
        while self.take().kind != ";":
            pass

    def skip_section(self) -> None:
        """`.section .debug_info { ... }`."""
        self.take()
        while self.take().kind != "{":
            pass
        depth = 1
        while depth:
            kind = self.take().kind
            depth += (kind == "{") - (kind == "}")

    def skip_attributes(self) -> None:
        """`.attribute(.managed)`, `.attribute(.unified(1, 2))`, any number of them."""
        while self.accept(".attribute"):
            self.expect("(")
            depth = 1
            while depth:
                kind = self.take().kind
                depth += (kind == "(") - (kind == ")")


def _signed(value: int) -> int:
    """A constant as PTX computes it: 64 bits, kept in [-2^63, 2^64)."""
    if -(1 << 63) <= value < 1 << 64:
        return value
    value &= (1 << 64) - 1
    return value
