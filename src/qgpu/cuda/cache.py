"""Compiled PTX, kept by the hash of everything it depends on."""

from __future__ import annotations

import hashlib

from ..files import cache_folder, whole_file


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
        return (cache_folder() / "ptx" / f"{name}.ptx").read_text("utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError):
        return None


def store(name: str, text: str) -> None:
    """Keep the text, in one atomic step; a cache that cannot be written is no error."""
    try:
        folder = cache_folder() / "ptx"
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / f"{name}.ptx") as out:
            out.write(text.encode())
    except (OSError, RuntimeError):
        pass
