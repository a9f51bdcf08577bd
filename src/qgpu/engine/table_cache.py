"""The sparse kernel's tables on disk, beside the weights they were made of: making them takes longer than a short launch."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from ..compile.compiler import CircuitWeights
from ..files import cache_folder, whole_file
from .plan import build_plan
from .tables import Tables, tables

MADE_BY = ("plan.py", "tables.py")
"""Files here that decide the tables."""


def source_digest() -> str:
    """Digest of the source that makes tables of weights."""
    h = hashlib.sha256()
    for name in MADE_BY:
        h.update((Path(__file__).parent / name).read_bytes())
    return h.hexdigest()


def tables_of(c: CircuitWeights) -> tuple[Tables, list[tuple[int, int]]]:
    """The kernel's tables, and (layer from 1, head) of every memory head: from the cache if c came from it and the tables lie there.

    A damaged cache file is ignored; a cache that cannot be written only costs time.
    """
    path = cache_folder() / "circuits" / f"{c.key}-{source_digest()[:16]}.npz" if c.key else None
    if path:
        try:
            return read(path)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError):
            pass
    plan = build_plan(c.machine, c.layers, c.constants)
    made = tables(plan, c.layers)
    if path:
        try:
            write(path, made, plan.where)
        except OSError:
            pass
    return made, plan.where


def arrays(part: Any, name: str = "tables") -> Iterator[tuple[str, np.ndarray]]:
    """(name, array) of every array of nested named tuples."""
    if isinstance(part, np.ndarray):
        yield name, part
    else:
        for field in part._fields:
            yield from arrays(getattr(part, field), f"{name}.{field}")


def assembled(kind: type, found: dict[str, np.ndarray], name: str = "tables") -> Any:
    """A named tuple of this kind from its arrays. Raises KeyError where one is missing."""
    hints = get_type_hints(kind)
    parts = {f: assembled(hints[f], found, f"{name}.{f}") if hasattr(hints[f], "_fields") else found[f"{name}.{f}"] for f in kind._fields}
    return kind(**parts)


def write(path: Path, made: Tables, where: list[tuple[int, int]]) -> None:
    """Store tables at path, whole or not at all. Raises OSError."""
    buffer = io.BytesIO()
    np.savez(buffer, where=np.asarray(where, np.int64).reshape(-1, 2), **dict(arrays(made)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as out:
        out.write(buffer.getbuffer())


def read(path: Path) -> tuple[Tables, list[tuple[int, int]]]:
    """Tables stored at path. Raises OSError, ValueError or KeyError where they are missing or damaged."""
    with np.load(path, allow_pickle=False) as data:
        return assembled(Tables, {name: data[name] for name in data.files}), [(int(a), int(b)) for a, b in data["where"]]
