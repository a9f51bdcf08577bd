"""Temporary files and folders that move into place when they are complete, with the permissions that any new file has."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import BinaryIO


def _name(folder: Path) -> Path:
    return folder / f".qgpu-{secrets.token_hex(8)}"


def new_file(folder: Path) -> tuple[BinaryIO, Path]:
    """A fresh file in a folder, open for writing bytes, and its path. Raises OSError."""
    path = _name(folder)
    return open(path, "xb"), path


def new_folder(folder: Path) -> Path:
    """A fresh folder in a folder. Raises OSError."""
    path = _name(folder)
    path.mkdir()
    return path
