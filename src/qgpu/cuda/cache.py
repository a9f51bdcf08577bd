"""Compiled PTX, kept by the hash of everything it depends on."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from ..files import new_file


def cache_dir() -> Path:
    """`$QGPU_CACHE`, or the platform's cache folder for qgpu."""
    if chosen := os.environ.get("QGPU_CACHE"):
        return Path(chosen)
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "qgpu"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "qgpu"
    if os.name == "nt" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "qgpu"
    return Path.home() / ".cache" / "qgpu"


def key(*parts: str) -> str:
    """A sha256 over the parts, each with its length, so that no two lists of parts collide."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def load(name: str) -> str | None:
    """The cached text, or None."""
    try:
        return (cache_dir() / "ptx" / f"{name}.ptx").read_text("utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError):
        return None


def store(name: str, text: str) -> None:
    """Keep the text, in one atomic step; a cache that cannot be written is no error."""
    try:
        folder = cache_dir() / "ptx"
        folder.mkdir(parents=True, exist_ok=True)
        out, temporary = new_file(folder)
        try:
            with out:
                out.write(text.encode())
            os.replace(temporary, folder / f"{name}.ptx")
        except BaseException:
            os.unlink(temporary)
            raise
    except (OSError, RuntimeError):
        pass
