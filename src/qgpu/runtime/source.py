"""What a launch starts from: CUDA text, PTX text or a path, as a parsed PTX module."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ..cuda import compile_cuda
from ..errors import UsageError
from ..ptx import parse_ptx
from ..ptx.model import Module

MOST_BYTES = 1 << 23

_PTX = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A kernel file's text, what it is called in messages, and whether it is PTX already."""

    text: str
    name: str
    is_ptx: bool


def open_source(source: str | Path) -> Source:
    """Text as it is, or the text of a file. A string with a line break or brace is text. Raises UsageError."""
    if isinstance(source, str) and ("\n" in source or "{" in source):
        is_ptx = _PTX.search(source) is not None
        return Source(source, "kernel.ptx" if is_ptx else "kernel.cu", is_ptx)
    if not isinstance(source, (str, Path)):
        raise UsageError(f"a kernel source is text or a path, not {type(source).__name__}")
    path = Path(source)
    name = str(path)
    try:
        if not path.is_file():
            raise UsageError("no such file" if not path.exists() else "this is not a file", where=name or "FILE",
                             fix="give a .cu or .ptx file")
        if path.stat().st_size > MOST_BYTES:
            raise UsageError("this file is too large", where=name, fix=f"give a source of at most {MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError("this file is not UTF-8 text", where=name, fix="give a .cu or .ptx file") from None
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read this file: {e}", where=name) from None
    return Source(text, name, path.suffix.lower() == ".ptx" or (path.suffix.lower() != ".cu" and _PTX.search(text) is not None))


def to_ptx(source: Source, frontend: str | None = None) -> str:
    """PTX text of a source. Raises FrontEndError from the CUDA compiler."""
    if source.is_ptx:
        return source.text
    return compile_cuda(source.text, filename=Path(source.name).name, frontend=frontend).ptx


def to_module(source: Source, ptx: str) -> Module:
    """Parse PTX; messages name the CUDA file for compiled sources' lines. Raises PtxError."""
    if source.is_ptx:
        return parse_ptx(ptx, filename=source.name)
    return replace(parse_ptx(ptx, filename=Path(source.name).with_suffix(".ptx").name), filename=Path(source.name).name)
