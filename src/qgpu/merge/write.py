"""Safetensors files written a piece at a time: nothing larger than one tensor of the circuit is ever held.

Zeros are skipped over, so that file systems with sparse files do not store them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..bf16 import encode
from ..errors import CheckpointError
from ..qwen.tensors import Entry

PIECE = 1 << 24
WIDTHS = {"BF16": 2, "F16": 2, "F32": 4}


@dataclass
class Item:
    """One tensor to write: bytes of `source`, then those of `extra`; zeros where it has neither.

    dtype: as safetensors names it. digest: sha256 of the source's bytes, once written; written_digest: of `extra` alone.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    source: Entry | None = None
    source_bytes: int = 0
    extra: NDArray | None = None
    digest: str = ""
    written_digest: str = ""

    @property
    def nbytes(self) -> int:
        if self.source is not None:
            return self.source_bytes + (0 if self.extra is None else self.extra.nbytes)
        return int(np.prod(self.shape, dtype=np.int64)) * WIDTHS[self.dtype]


@dataclass
class ShardWriter:
    """Writes shards into a folder and keeps the index."""

    folder: Path
    total: int
    index: dict[str, str] = field(default_factory=dict)
    nbytes: int = 0
    count: int = 0

    def write(self, items: list[Item], metadata: dict | None = None) -> Path:
        """One shard. Fills in the items' digests."""
        self.count += 1
        name = f"model-{self.count:05d}-of-{self.total:05d}.safetensors"
        path = self.folder / name
        with path.open("wb") as file:
            file.write(header_bytes(items, metadata or {"format": "pt"}))
            for item in items:
                start = file.tell()
                write_item(file, item)
                assert file.tell() - start == item.nbytes, item.name
                self.index[item.name] = name
                self.nbytes += item.nbytes
            file.truncate()
        return path


def header_bytes(items: Iterable[Item], metadata: dict) -> bytes:
    """Length and JSON header of a safetensors file whose tensors lie one after another."""
    header: dict = {"__metadata__": metadata}
    at = 0
    for item in items:
        header[item.name] = {"dtype": item.dtype, "shape": list(item.shape), "data_offsets": [at, at + item.nbytes]}
        at += item.nbytes
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw


def write_item(file, item: Item) -> None:
    """The bytes of one tensor."""
    if item.source is not None:
        own = hashlib.sha256()
        with item.source.path.open("rb") as source:
            source.seek(item.source.start)
            left = item.source_bytes
            while left:
                piece = source.read(min(PIECE, left))
                if not piece:
                    raise CheckpointError("the file ends early", where=str(item.source.path), why=f"in tensor {item.name}",
                                          fix="download the checkpoint again")
                own.update(piece)
                file.write(piece)
                left -= len(piece)
        item.digest = own.hexdigest()
        if item.extra is not None:
            file.write(item.extra.tobytes())
    elif item.extra is not None:
        data = item.extra.tobytes()
        item.written_digest = hashlib.sha256(data).hexdigest()
        write_sparse(file, data)
    else:
        file.seek(item.nbytes, os.SEEK_CUR)


def write_sparse(file, data: bytes, block: int = 1 << 16) -> None:
    """Write data, seeking over blocks of zeros."""
    empty = bytes(block)
    for at in range(0, len(data), block):
        piece = data[at:at + block]
        if piece == empty[:len(piece)]:
            file.seek(len(piece), os.SEEK_CUR)
        else:
            file.write(piece)


def bf16_item(name: str, array: NDArray[np.float32]) -> Item:
    """A tensor of the circuit; one that is wholly zero takes no memory."""
    shape = tuple(array.shape)
    return Item(name, "BF16", shape, extra=np.ascontiguousarray(encode(array)) if array.any() else None)
