"""Temporary files and folders that move into place when they are complete, with the permissions that any new file has; where caches lie."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def _name(folder: Path) -> Path:
    return folder / f".qgpu-{secrets.token_hex(8)}"


def cache_folder() -> Path:
    """`$QGPU_CACHE`, or the platform's cache folder for qgpu. Raises RuntimeError where there is no home folder."""
    if chosen := os.environ.get("QGPU_CACHE"):
        return Path(chosen)
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "qgpu"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qgpu"
    if os.name == "nt" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "qgpu"
    return Path.home() / ".cache" / "qgpu"


def new_file(folder: Path) -> tuple[BinaryIO, Path]:
    """A fresh file in a folder, open for writing bytes, and its path. Raises OSError."""
    path = _name(folder)
    return open(path, "xb"), path


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write bytes to that takes path's place when the block ends, and leaves nothing if the block raises. Raises OSError."""
    out, temporary = new_file(path.parent)
    try:
        with out:
            yield out
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def new_folder(folder: Path) -> Path:
    """A fresh folder in a folder. Raises OSError."""
    path = _name(folder)
    path.mkdir()
    return path


def usual_permissions(path: Path) -> None:
    """Give a file that a library wrote the permissions that any new file beside it has. Raises OSError."""
    f, example = new_file(path.parent)
    f.close()
    try:
        os.chmod(path, stat.S_IMODE(example.stat().st_mode))
    finally:
        example.unlink()
