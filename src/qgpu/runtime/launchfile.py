"""Launch descriptions: a JSON file, or a `// qgpu: {...}` comment in the kernel's source. Strict in every key."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .arguments import Argument, from_json

KEYS = ("kernel", "grid", "block", "args", "shared_bytes")
EXAMPLE = '{"kernel": "dot", "grid": [1,1,1], "block": [4,1,1], "args": [{"type": "i32", "data": [1,2,3]}, 3]}'
MOST_BYTES = 1 << 24
MOST_LINES = 1000
"""Lines that one launch comment may take."""

_COMMENT = re.compile(r"^[ \t]*//[ \t]*qgpu:[ \t]*(.*)$")
_CONTINUED = re.compile(r"^[ \t]*//[ \t]*(?!qgpu:)(.*)$")


@dataclass
class LaunchSpec:
    """How to launch a kernel; None where the description leaves something out.

    expect: arrays that a test expects after the launch, parallel to args, None for "do not look"; no launch reads it.
    where: file, or file:line of the comment.
    """

    where: str = ""
    kernel: str | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    args: list[Argument] | None = None
    shared_bytes: int = 0
    expect: list[list[int] | None] | None = None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"key {key!r} appears twice")
        out[key] = value
    return out


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not an integer")


def _decode(text: str) -> Any:
    """Strict JSON: no duplicate keys, no NaN or Infinity. Raises ValueError."""
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_launch_file(path: str | Path) -> LaunchSpec:
    """The launch that a JSON file describes. Raises UsageError naming file, key and what to change."""
    place = str(path)
    try:
        file = Path(path)
        if not file.is_file():
            raise UsageError("no such launch file", where=place, fix="write one such as " + EXAMPLE)
        if file.stat().st_size > MOST_BYTES:
            raise UsageError("the launch file is too large", where=place, fix=f"at most {MOST_BYTES} bytes")
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read the launch file: {e}", where=place) from None
    try:
        value = _decode(text)
    except json.JSONDecodeError as e:
        raise UsageError(f"this is not JSON: {e.msg}", where=f"{place}:{e.lineno}", fix="write it such as " + EXAMPLE) from None
    except ValueError as e:
        raise UsageError(f"this launch file cannot be used: {e}", where=place) from None
    return parse_launch(value, place)


def find_launch_comments(text: str, filename: str) -> list[LaunchSpec]:
    """Every launch in `// qgpu: {...}` comments, in order. A launch may go on over the `//` lines that follow.

    A comment starts its line. An "expect" key is allowed here. Raises UsageError where one is not right.
    """
    lines = text.splitlines()
    return [parse_launch(_decode_comment(m.group(1), lines[number:], f"{filename}:{number}"), f"{filename}:{number}",
                         expect=True)
            for number, line in enumerate(lines, 1) if (m := _COMMENT.match(line)) is not None]


def _decode_comment(start: str, following: list[str], where: str) -> Any:
    """The JSON value that begins in a comment and goes on over as many of the `//` lines below as it needs."""
    try:
        return _decode(start)
    except ValueError as e:
        error = e.msg if isinstance(e, json.JSONDecodeError) else str(e)
    text = start
    for line in following[:MOST_LINES]:
        if (m := _CONTINUED.match(line)) is None:
            break
        text += " " + m.group(1)
        try:
            return _decode(text)
        except ValueError:
            continue
    raise UsageError(f"the launch comment cannot be read: {error}", where=where, fix="write // qgpu: " + EXAMPLE)


def parse_launch(value: Any, where: str, *, expect: bool = False) -> LaunchSpec:
    """A decoded launch description; `where` goes into messages. Raises UsageError naming the key."""
    if not isinstance(value, dict):
        raise UsageError("a launch is a JSON object", where=where, fix="write it such as " + EXAMPLE)
    known = (*KEYS, "expect") if expect else KEYS
    for key in value:
        if key not in known:
            raise UsageError(f"unknown key {key!r}", where=where, fix="a launch has the keys " + ", ".join(KEYS))
    spec = LaunchSpec(where)
    if "kernel" in value:
        if not isinstance(value["kernel"], str) or not value["kernel"]:
            raise UsageError('"kernel" is not a name', where=where, fix='write "kernel": "dot"')
        spec.kernel = value["kernel"]
    for key in ("grid", "block"):
        if key in value:
            setattr(spec, key, dimensions(value[key], f'{where}, key "{key}"'))
    if "args" in value:
        spec.args = [from_json(a, f'{where}, key "args", argument {i}') for i, a in enumerate(_list(value, "args", where), 1)]
    if "shared_bytes" in value:
        n = value["shared_bytes"]
        if not isinstance(n, int) or isinstance(n, bool) or n < 0:
            raise UsageError('"shared_bytes" is not a count of bytes', where=where, fix='write "shared_bytes": 0')
        spec.shared_bytes = n
    if "expect" in value:
        spec.expect = _list(value, "expect", where)
        if spec.args is None or len(spec.expect) != len(spec.args):
            raise UsageError('"expect" needs one entry for each argument', where=where, fix="write null where nothing is expected")
        for i, e in enumerate(spec.expect, 1):
            if e is not None and not (isinstance(e, list) and all(type(v) is int for v in e)):
                raise UsageError("an expectation is a list of integers or null", where=f'{where}, key "expect", argument {i}')
    return spec


def _list(value: dict, key: str, where: str) -> list:
    if not isinstance(value[key], list):
        raise UsageError(f'"{key}" is not a list', where=where, fix=f'write "{key}": [...]')
    return value[key]


def dimensions(value: Any, where: str) -> tuple[int, int, int]:
    """A grid or block size: an int or up to three of them, each at least 1; the rest is 1. Raises UsageError."""
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not 1 <= len(items) <= 3 or not all(type(v) is int and 1 <= v < 1 << 31 for v in items):
        raise UsageError("a size is one to three integers, each at least 1", where=where,
                         fix="write 4,1,1" if where.startswith("--") else "write [4, 1, 1]")
    x, y, z = (items + [1, 1])[:3]
    return x, y, z


def parse_dimensions(text: str, where: str) -> tuple[int, int, int]:
    """`--grid` and `--block`: `4`, `4,2` or `4,2,1`. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 12 for part in parts):
        raise UsageError(f"{text!r} is not a size", where=where, fix="write X, X,Y or X,Y,Z such as 4,1,1")
    return dimensions([int(part) for part in parts], where)
