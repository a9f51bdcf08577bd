"""What a .cu source may contain before a compiler sees it: the source is untrusted.

A compiler quotes the lines it complains about, so `#include "/etc/passwd"` would print a file. Here every directive
that opens a file is checked against the list of headers that qgpu stands in for, on a proper token scan (comments,
strings, spliced lines), and the few spellings that could hide a directive from the scan are refused.
"""

from __future__ import annotations

import bisect
import re

from qgpu.errors import FrontEndError

MAX_SOURCE_BYTES = 1 << 20

# Headers that are accepted, and that compile to nothing but what qgpu_cuda.h (and qgpu_host.h) declare.
DEVICE_HEADERS = (
    "stdint.h", "cstdint", "stddef.h", "cstddef", "limits.h", "climits", "stdbool.h", "inttypes.h", "cinttypes",
    "device_launch_parameters.h", "device_functions.h", "sm_30_intrinsics.h", "vector_types.h",
)
HOST_HEADERS = (
    "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring", "assert.h", "cassert", "math.h", "cmath", "time.h", "ctime",
    "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "driver_types.h", "algorithm",
)
HEADERS = frozenset(DEVICE_HEADERS + HOST_HEADERS)

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\f\v]+ | //[^\n]* | /\*.*?\*/)
    | (?P<newline>\n)
    | (?P<open>/\*)
    | (?P<raw>(?:u8|[uUL])?R")
    | (?P<string>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+')
    | (?P<quote>["'])
    | (?P<number>\.?[0-9](?:[eEpP][+-]|'?[0-9A-Za-z_]|\.)*)
    | (?P<word>[A-Za-z_$\u0080-\U0010ffff][0-9A-Za-z_$\u0080-\U0010ffff]*)
    | (?P<hash>\#\#?|%:)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SPLICE = re.compile(r"\\[ \t\f\v]*\n")
_HEADER = re.compile(r"""[ \t\f\v]*(?:<([^>\n]*)>|"([^"\n]*)")""")
_OPENS_A_FILE = frozenset({"include", "include_next", "import", "embed"})
_ASKS_FOR_A_FILE = frozenset({"__has_include", "__has_include_next", "__has_embed"})
_ASKED = re.compile(r"[ \t]*\(" + _HEADER.pattern)


def check_source(source: str, filename: str) -> str:
    """The source with `\\n` line ends, safe to hand to a compiler; raises FrontEndError with `file:line` otherwise."""
    if len(source) > MAX_SOURCE_BYTES or len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        raise FrontEndError("the source is too large", where=filename, why=f"the limit is {MAX_SOURCE_BYTES} bytes",
                            fix="compile it elsewhere and give qgpu the .ptx file")
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    _refuse_spelling(source, filename)
    for line, name, header in _directives(source, filename):
        if header is None:
            raise FrontEndError(f"{name} needs a header written out as <name> or \"name\"", where=f"{filename}:{line}",
                                fix="write the header's name, or leave the line out")
        if header not in HEADERS:
            raise FrontEndError(f"header {header!r} is not available", where=f"{filename}:{line}",
                                why="kernels are compiled alone, without other files; CUDA's device functions need no header",
                                fix="leave the line out, or paste what you need from it (accepted: the C headers and cuda_runtime.h)")
    return source


def _refuse_spelling(source: str, filename: str) -> None:
    for spelling, what in (("\0", "a NUL character"), ("??/", "the trigraph ??/"), ("??=", "the trigraph ??=")):
        at = source.find(spelling)
        if at >= 0:
            raise FrontEndError(f"{what} in the source", where=f"{filename}:{source.count(chr(10), 0, at) + 1}", fix="remove it")
    try:
        source.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FrontEndError("the source is not UTF-8 text", where=f"{filename}:{source.count(chr(10), 0, error.start) + 1}",
                            fix="save the file as UTF-8") from None


def _directives(source: str, filename: str):
    """Every use of a header: (line, directive, header name, or None where it is not spelled out)."""
    text, line_of = _unsplice(source)
    at, fresh, last_word = 0, True, ""  # fresh: nothing but space since the start of the line, so that a # begins a directive
    while at < len(text):
        token = _TOKEN.match(text, at)
        kind, at = token.lastgroup, token.end()
        if kind == "space":
            continue
        if kind in ("open", "quote", "raw"):
            what = {"open": "a comment that is never closed", "raw": "a raw string",
                    "quote": "a quotation mark without its partner"}[kind]
            raise FrontEndError(f"{what} in the source", where=f"{filename}:{line_of(token.start())}",
                                fix="close it" if kind != "raw" else "write an ordinary string")
        if kind == "hash" and fresh and token.group() != "##":
            word = _next_word(text, at)
            if word is not None and word.group() in _OPENS_A_FILE:
                header = _HEADER.match(text, _skip_space(text, word.end()))
                name = _header_name(header)
                yield line_of(token.start()), f"#{word.group()}", name
                at = header.end() if header is not None else word.end()
        elif kind == "word" and token.group() in _ASKS_FOR_A_FILE and last_word not in ("ifdef", "ifndef", "defined"):
            header = _ASKED.match(text, at)
            name = _header_name(header)
            if name is None or "/" in name or "\\" in name:
                yield line_of(token.start()), token.group(), None
            at = header.end() if header is not None else at
        fresh = kind == "newline"
        last_word = token.group() if kind == "word" else last_word


def _header_name(match: re.Match | None) -> str | None:
    if match is None:
        return None
    return match.group(1) if match.group(1) is not None else match.group(2)


def _next_word(text: str, at: int):
    word = _TOKEN.match(text, _skip_space(text, at))
    return word if word is not None and word.lastgroup == "word" else None


def _skip_space(text: str, at: int) -> int:
    while (token := _TOKEN.match(text, at)) is not None and token.lastgroup == "space":
        at = token.end()
    return at


def _unsplice(source: str):
    """The text with backslash-newline pairs removed, and a function from an offset in it to the source's line."""
    pieces, places, at, length = [], [], 0, 0  # places: offsets in the joined text at which a new source line begins
    for splice in _SPLICE.finditer(source):
        pieces.append(source[at:splice.start()])
        places += [length + m.end() for m in re.finditer("\n", pieces[-1])]
        length += len(pieces[-1])
        places.append(length)
        at = splice.end()
    pieces.append(source[at:])
    places += [length + m.end() for m in re.finditer("\n", pieces[-1])]
    return "".join(pieces), lambda offset: bisect.bisect_right(places, offset) + 1
