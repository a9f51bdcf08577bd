"""Arguments of a launch: from JSON values and `--arg` texts to NumPy arrays and ints.

An argument is a one-dimensional NumPy array of one of eight integer types, or a Python int (a scalar parameter).
Nothing here evaluates text: `--arg` has a small grammar of its own.

    argument = [ type ":" ] ( integer | "[" [ integer { "," integer } ] "]" | "zeros(" count ")" | "@" file )
    integer  = [ "-" | "+" ] ( decimal digits | "0x" hexadecimal digits )
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from ..errors import UsageError

TYPES = {name: np.dtype(dtype) for name, dtype in (
    ("i8", "int8"), ("u8", "uint8"), ("i16", "int16"), ("u16", "uint16"),
    ("i32", "int32"), ("u32", "uint32"), ("i64", "int64"), ("u64", "uint64"))}
"""Array types of launch files and `--arg`, and their NumPy types."""

NAME_OF = {dtype: name for name, dtype in TYPES.items()}
DEFAULT_TYPE = "i32"
MOST_ELEMENTS = 1 << 24
"""Arrays longer than this are refused before they are allocated; the machine's own limit is far lower."""

Argument = Union[np.ndarray, int]

_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)")
_MOST_DIGITS = 40  # more than any 64-bit integer needs


def type_name(array: np.ndarray) -> str:
    """"i32" for an int32 array (any byte order). Raises UsageError for a type that kernels here cannot have."""
    name = NAME_OF.get(array.dtype.newbyteorder("=")) if isinstance(array.dtype, np.dtype) else None
    if name is None:
        raise UsageError(f"an array of {array.dtype} cannot be an argument", fix="use one of: " + ", ".join(TYPES))
    return name


def _lookup(name: Any, where: str) -> np.dtype:
    if not isinstance(name, str) or name not in TYPES:
        raise UsageError(f"unknown array type {_short(name)}", where=where, fix="use one of: " + ", ".join(TYPES))
    return TYPES[name]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _array(values: Sequence[int], dtype: np.dtype, where: str) -> np.ndarray:
    """Ints to an array; every one must fit the type."""
    info = np.iinfo(dtype)
    for index, value in enumerate(values):
        if not info.min <= value <= info.max:
            fits = [name for name, d in TYPES.items() if np.iinfo(d).min <= min(values) and max(values) <= np.iinfo(d).max]
            raise UsageError(f"element {index} is {_short(value)}, which {NAME_OF[dtype]} cannot hold", where=where,
                             why=f"{NAME_OF[dtype]} holds {info.min} to {info.max}",
                             fix=f"use type {fits[0]}" if fits else "no type holds all these values")
    return np.array(values, dtype)


def _zeros(count: int, dtype: np.dtype, where: str) -> np.ndarray:
    if not 0 <= count <= MOST_ELEMENTS:
        raise UsageError(f"an array of {_short(count)} elements is impossible here", where=where,
                         fix=f"give 0 to {MOST_ELEMENTS} elements")
    return np.zeros(count, dtype)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def from_json(value: Any, where: str) -> Argument:
    """One entry of a launch file's "args": an int, {"type", "data"} or {"type", "zeros"}. Raises UsageError."""
    if _is_int(value):
        return value
    if isinstance(value, float):
        raise UsageError(f"{value} is not an integer", where=where, why="scalars are integers, and nothing is rounded",
                         fix="write a whole number without point or exponent")
    if not isinstance(value, dict):
        raise UsageError(f"{_short(value)} is not an argument", where=where,
                         fix='write an integer, {"type": "i32", "data": [1, 2]} or {"type": "i32", "zeros": 2}')
    for key in value:
        if key not in ("type", "data", "zeros"):
            raise UsageError(f"unknown key {_short(key)}", where=where, fix='an array has "type" and "data" or "zeros"')
    dtype = _lookup(value.get("type", DEFAULT_TYPE), f"{where}, key \"type\"")
    if ("data" in value) == ("zeros" in value):
        raise UsageError('an array needs either "data" or "zeros"', where=where,
                         fix='write {"type": "i32", "data": [1, 2]} or {"type": "i32", "zeros": 2}')
    if "zeros" in value:
        if not _is_int(value["zeros"]):
            raise UsageError(f"{_short(value['zeros'])} is not a count", where=f'{where}, key "zeros"',
                             fix="write how many elements the array has")
        return _zeros(value["zeros"], dtype, f'{where}, key "zeros"')
    data, place = value["data"], f'{where}, key "data"'
    if not isinstance(data, list):
        raise UsageError(f"{_short(data)} is not a list", where=place, fix="write the elements as [1, 2, 3]")
    for index, element in enumerate(data):
        if not _is_int(element):
            raise UsageError(f"element {index} is {_short(element)}, not an integer", where=place,
                             fix="write whole numbers without point or exponent")
    return _array(data, dtype, place)


def from_text(text: str, where: str) -> Argument:
    """One `--arg`: `3`, `[1,2,3]`, `zeros(16)`, `@file.npy`, each with an optional type in front (`u8:[1,2]`).

    Arrays without a type are i32; a file keeps its own. Raises UsageError.
    """
    body, dtype = text.strip(), None
    head, colon, rest = body.partition(":")
    if colon and head.strip().isalnum() and not body.startswith("@"):
        dtype, body = _lookup(head.strip(), where), rest.strip()
    if body.startswith("@"):
        return _from_file(body[1:], dtype, where)
    if (m := re.fullmatch(r"zeros\(\s*([0-9]{1,20})\s*\)", body)) is not None:
        return _zeros(int(m.group(1)), dtype or TYPES[DEFAULT_TYPE], where)
    if body.startswith("[") and body.endswith("]"):
        inner = body[1:-1].strip()
        values = [_integer(part, where) for part in inner.split(",")] if inner else []
        return _array(values, dtype or TYPES[DEFAULT_TYPE], where)
    value = _integer(body, where)
    if dtype is not None:
        _array([value], dtype, where)
    return value


def _integer(text: str, where: str) -> int:
    text = text.strip()
    if _INTEGER.fullmatch(text) is None or len(text) > _MOST_DIGITS:
        raise UsageError(f"{_short(text)} is not an integer or an array", where=where,
                         fix="write 3, [1,2,3], u8:[1,2,3], zeros(16) or @file.npy")
    return int(text, 16 if "x" in text.lower() else 10)


def _from_file(name: str, dtype: np.dtype | None, where: str) -> np.ndarray:
    """An .npy file as a flat array in C order; nothing pickled is ever loaded."""
    path = Path(name)
    place = f"{where}, {name}"
    fix = "save an integer array with numpy.save"
    try:
        if not path.is_file():
            raise UsageError("no such file", where=place, fix=fix)
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            array.close()
            raise UsageError("this file holds several arrays", where=place, fix=fix)
        if array.size > MOST_ELEMENTS:
            raise UsageError(f"an array of {array.size} elements is impossible here", where=place,
                             fix=f"give at most {MOST_ELEMENTS} elements")
        own = TYPES[type_name(array)]
        flat = np.array(array, dtype=own).reshape(-1)  # (n,)
    except UsageError as e:
        raise UsageError(e.what, where=e.where or place, why=e.why, fix=e.fix) from None
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError) as e:
        raise UsageError("this is not a readable .npy file", where=place, why=str(e).splitlines()[0] if str(e) else "",
                         fix=fix) from None
    return flat if dtype is None or dtype == own else _array(flat.tolist(), dtype, place)


def to_json(argument: Argument) -> list[int] | None:
    """What `--json` prints for an argument after the launch: the elements, or None for a scalar."""
    return argument.reshape(-1).tolist() if isinstance(argument, np.ndarray) else None
