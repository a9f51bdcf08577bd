"""A checkpoint's tensors as they lie in its files: bits, shapes, digests.

The certificate reads tensors through `Tensors.get`. `FileTensors` maps safetensors files; the audit of a preset gives the same
interface over tensors as the exporter would write them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError

DTYPES = {"BF16": np.dtype("<u2"), "F32": np.dtype("<f4")}
LARGEST_HEADER = 1 << 26
BLOCK = 1 << 24


class Tensors(Protocol):
    """Tensors by name: uint16 arrays hold bf16 bits, float32 arrays themselves."""

    def names(self) -> Iterable[str]: ...
    def get(self, name: str) -> NDArray: ...


class FileTensors:
    """Tensors of safetensors files, mapped into memory."""

    def __init__(self, folder: Path) -> None:
        """Raises CheckpointError where the folder has no tensors or a damaged file."""
        self.entries: dict[str, tuple[Path, str, tuple[int, ...], int, int]] = {}
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise CheckpointError("this folder holds no safetensors files", where=str(folder), fix="export or merge a machine first")
        for path in files:
            self._read_header(path)
        self._maps: dict[Path, NDArray[np.uint8]] = {}

    def _read_header(self, path: Path) -> None:
        try:
            size = path.stat().st_size
            with open(path, "rb") as f:
                length = int.from_bytes(f.read(8), "little")
                if length > min(LARGEST_HEADER, size - 8):
                    raise ValueError("its header is longer than the file")
                header = json.loads(f.read(length))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                first, last = entry["data_offsets"]
                shape = tuple(int(n) for n in entry["shape"])
                item = DTYPES[entry["dtype"]].itemsize if entry["dtype"] in DTYPES else 0
                fits = not item or int(np.prod(shape, dtype=object)) * item == last - first
                if min(shape, default=0) < 0 or not 0 <= first <= last <= size - 8 - length or not fits:
                    raise ValueError(f"tensor {name} does not fit its place")
                if name in self.entries:
                    raise ValueError(f"tensor {name} is in two files")
                self.entries[name] = path, entry["dtype"], shape, 8 + length + first, last - first
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError("a tensor file is damaged", where=str(path), why=str(error)[:200],
                                  fix="write the checkpoint again") from None

    def names(self) -> Iterable[str]:
        return self.entries

    def get(self, name: str) -> NDArray:
        """Raises CheckpointError where the tensor is missing or of another dtype than BF16 and F32."""
        if name not in self.entries:
            raise CheckpointError(f"there is no tensor {name}", fix="write the checkpoint again")
        path, dtype, shape, at, nbytes = self.entries[name]
        if dtype not in DTYPES:
            raise CheckpointError(f"tensor {name} has dtype {dtype}", where=str(path), why="the certificate reads BF16 and F32")
        if path not in self._maps:
            self._maps[path] = np.memmap(path, np.uint8, "r")
        return np.frombuffer(self._maps[path][at:at + nbytes], DTYPES[dtype]).reshape(shape)


def sha256(tensor: NDArray) -> str:
    """Digest of a tensor's bytes."""
    h = hashlib.sha256()
    flat = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
    for at in range(0, len(flat), BLOCK):
        h.update(flat[at:at + BLOCK])
    return h.hexdigest()


def read_config(folder: Path) -> dict:
    """config.json, the text part of it merged in. Raises CheckpointError."""
    path = folder / "config.json"
    try:
        if path.stat().st_size > LARGEST_HEADER:
            raise ValueError("it is too large")
        config = json.loads(path.read_bytes())
        return {**config, **config.get("text_config", {})}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError("the configuration cannot be read", where=str(path), why=str(error)[:200]) from None
