"""PTX text to tokens, in one linear pass (PTX ISA 4.1-4.5)."""

from __future__ import annotations

import re
from typing import NamedTuple

from qgpu.errors import PtxError
from qgpu.ptx.model import Pos

MAX_PTX_CHARS = 4 << 20


class Token(NamedTuple):
    """kind: "word" (identifier), "dot" (`.b32`, with the dot), "int", "f32", "f64", "string", "end", or the character itself.

    value: the number for "int"; the IEEE bit pattern for "f32" and "f64"; else None. offset: where it starts in the text.
    """

    kind: str
    text: str
    line: int
    column: int
    offset: int
    value: int | None = None

    @property
    def pos(self) -> Pos:
        return Pos(self.line, self.column)

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


_TOKEN = re.compile(
    r"""
      (?P<skip>[ \t\r\f\v]+ | //[^\n]* | /\*.*?\*/)
    | (?P<newline>\n)
    | (?P<f32>0[fF][0-9a-fA-F]{8}\b)
    | (?P<f64>0[dD][0-9a-fA-F]{16}\b)
    | (?P<hex>0[xX][0-9a-fA-F]+U?\b)
    | (?P<bin>0[bB][01]+U?\b)
    | (?P<decimal>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)\b)
    | (?P<int>[0-9]+U?(?![\w$%]))
    | (?P<word>[A-Za-z_$%][\w$]*)
    | (?P<dot>\.[\w$]+(?:::[\w$]+)*)
    | (?P<string>"(?:\\.|[^"\\\n])*")
    | (?P<mark><<|>>|/(?!\*)|[{}()\[\]<>,;:=|+\-*%!@~^&?])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def tokenize(text: str, filename: str) -> list[Token]:
    """All tokens of the text, with one of kind "end" behind them. Raises PtxError at a character that starts none."""
    if len(text) > MAX_PTX_CHARS:
        raise PtxError("the PTX is too large", where=filename, why=f"the limit is {MAX_PTX_CHARS} characters")
    tokens: list[Token] = []
    line, start, at, size = 1, 0, 0, len(text)
    while at < size:
        match = _TOKEN.match(text, at)
        if match is None:
            raise PtxError(f"unexpected {_shown(text, at)}", where=f"{filename}:{line}:{at - start + 1}",
                           why=f"in {line_text(text, at)!r}")
        kind, word, begin, at = match.lastgroup, match.group(), at, match.end()
        if kind == "newline":
            line, start = line + 1, at
        elif kind == "skip":
            if word[1:2] == "*" and "\n" in word:
                line, start = line + word.count("\n"), begin + word.rindex("\n") + 1
        else:
            column = begin - start + 1
            try:
                tokens.append(_token(kind, word, line, column, begin))
            except ValueError:
                raise PtxError(f"not a number: {word[:40]}", where=f"{filename}:{line}:{column}",
                               why=f"in {line_text(text, begin)!r}") from None
    tokens.append(Token("end", "end of file", line, size - start + 1, size))
    return tokens


def _token(kind: str, word: str, line: int, column: int, begin: int) -> Token:
    if kind in ("word", "dot", "string"):
        return Token(kind, word, line, column, begin)
    if kind == "mark":
        return Token(word, word, line, column, begin)
    if kind in ("f32", "f64"):
        return Token(kind, word, line, column, begin, int(word[2:], 16))
    if kind == "decimal":
        return Token(kind, word, line, column, begin)
    digits = word.removesuffix("U")
    if kind == "int":
        value = int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10) if len(digits) < 30 else 1 << 64
    else:
        value = int(digits[2:], 16 if kind == "hex" else 2)
    if value >= 1 << 64:
        raise ValueError(word)
    return Token("int", word, line, column, begin, value)


def line_text(text: str, offset: int, width: int = 120) -> str:
    """The line around an offset, for messages, cut to `width` characters."""
    begin = text.rfind("\n", max(0, offset - 4096), offset) + 1 or max(0, offset - 4096)
    end = text.find("\n", offset, offset + width)
    return text[begin:end if end >= 0 else offset + width].strip()[:width]


def _shown(text: str, at: int) -> str:
    if text.startswith("/*", at):
        return "comment that is never closed"
    if text[at] == '"':
        return "string that is never closed"
    return repr(text[at]) if not text[at].isalnum() else repr(re.match(r"\w+", text[at:at + 40]).group())
