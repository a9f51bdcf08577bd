"""Tensors out of ``.safetensors`` files, memory-mapped: nothing is read until it is used, nothing is executed.

A file is eight bytes of header length, a JSON header that gives each tensor's dtype, shape and byte range, and the
bytes. bf16 tensors come back as uint16 bits, float32 ones as float32, float16 ones as float16. Files are checked when
they are opened: a header that is cut short, ranges that leave the file or do not match their shapes are CheckpointErrors.
"""

from __future__ import annotations

import json
import math
import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qgpu.errors import CheckpointError
from qgpu.qwen.config import read_json

DTYPES = {"BF16": np.dtype("<u2"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
OTHER_SIZES = {"F64": 8, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
MAX_HEADER = 100_000_000
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
AGAIN = "download or export the checkpoint again"


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies. start: offset of its first byte in the file."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int


class Tensors:
    """All tensors of a checkpoint folder by name."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self._files: dict[Path, NDArray[np.uint8]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def get(self, name: str) -> NDArray:
        """The tensor as a read-only view of the mapped file. Raises CheckpointError if there is none by that name."""
        entry = self.entries.get(name)
        if entry is None:
            raise CheckpointError(f"the checkpoint has no tensor {name}", fix=AGAIN)
        dtype = DTYPES.get(entry.dtype)
        if dtype is None:
            raise CheckpointError(
                f"tensor {name} has dtype {entry.dtype}",
                where=str(entry.path),
                why="weights must be BF16, F32 or F16; quantised checkpoints are not supported",
            )
        if entry.path not in self._files:
            self._files[entry.path] = np.memmap(entry.path, np.uint8, mode="r")
        size = math.prod(entry.shape) * dtype.itemsize
        raw = self._files[entry.path][entry.start : entry.start + size]
        return raw.view(dtype).reshape(entry.shape)


    def release(self) -> None:
        """Let the system take back the pages that were read; they are read again when used."""
        for file in self._files.values():
            mapped = getattr(file, "_mmap", None)
            if mapped is not None and hasattr(mapped, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)


def open_folder(folder: str | Path) -> Tensors:
    """The tensors of a folder, one file or sharded. Raises CheckpointError for anything missing or malformed."""
    folder = Path(folder)
    entries: dict[str, Entry] = {}
    if (folder / INDEX).is_file():
        for name, path in _read_index(folder).items():
            if path not in {e.path for e in entries.values()}:
                entries |= _read_header(path)
            if name not in entries or entries[name].path != path:
                raise CheckpointError(
                    f"the index places tensor {name} in {path.name}, which does not hold it",
                    where=str(folder / INDEX),
                    fix=AGAIN,
                )
    elif (folder / SINGLE).is_file():
        entries = _read_header(folder / SINGLE)
    else:
        pickled = sorted(p.name for p in folder.glob("*.bin"))
        raise CheckpointError(
            f"the folder has neither {SINGLE} nor {INDEX}",
            where=str(folder),
            why=f"{pickled[0]} is a pickle, which is never loaded" if pickled else "",
            fix="convert the checkpoint to safetensors" if pickled else "check the path",
        )
    return Tensors(entries)


def _read_index(folder: Path) -> dict[str, Path]:
    """Tensor name to shard, from the index; every shard is known to exist and to lie in the folder."""
    index = folder / INDEX
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError("weight_map is missing or empty", where=str(index), fix=AGAIN)
    shards: dict[str, Path] = {}
    known: dict[str, Path] = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            raise CheckpointError(f"weight_map[{name!r}] is {shard!r}, not a file name", where=str(index), fix=AGAIN)
        if shard not in known:
            if shard in ("", ".", "..") or "/" in shard or "\\" in shard:
                raise CheckpointError(
                    f"weight_map[{name!r}] is {shard!r}", where=str(index), why="shards must lie beside the index"
                )
            known[shard] = folder / shard
            if not known[shard].is_file():
                raise CheckpointError(
                    f"the shard {shard} is missing", where=str(folder), why="the index names it", fix=AGAIN
                )
        shards[name] = known[shard]
    return dict(sorted(shards.items(), key=lambda item: item[1].name))


def _read_header(path: Path) -> dict[str, Entry]:
    """Every tensor of one file, each checked to lie inside it."""

    def bad(what: str, why: str = "") -> CheckpointError:
        return CheckpointError(what, where=str(path), why=why, fix=AGAIN)

    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < 8 or length > min(MAX_HEADER, size - 8):
                raise bad("the file is cut short or is not a safetensors file", f"it is {size} bytes long")
            raw = file.read(length)
    except OSError as error:
        raise bad("the file cannot be read", error.strerror or str(error)) from None
    try:
        header = json.loads(raw)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise bad("the safetensors header is not JSON", str(error)) from None
    if not isinstance(header, dict):
        raise bad("the safetensors header is not an object")
    entries = {}
    for name, item in header.items():
        if name == "__metadata__":
            continue
        if not _well_formed(item):
            raise bad(f"the header entry of tensor {name} is malformed")
        begin, end = item["data_offsets"]
        width = DTYPES[item["dtype"]].itemsize if item["dtype"] in DTYPES else OTHER_SIZES.get(item["dtype"])
        if width is not None and end - begin != width * math.prod(item["shape"]):
            raise bad(f"tensor {name} has {end - begin} bytes", f"its shape {item['shape']} does not match")
        if 8 + length + end > size:
            raise bad(
                "the file is cut short", f"tensor {name} ends at byte {8 + length + end}, the file at byte {size}"
            )
        entries[name] = Entry(path, item["dtype"], tuple(item["shape"]), 8 + length + begin)
    return entries


def _well_formed(item: object) -> bool:
    """Whether a header entry has a dtype, a shape and a byte range of the right kinds."""

    def counts(value: object) -> bool:
        return isinstance(value, list) and all(type(v) is int and v >= 0 for v in value)

    return (
        isinstance(item, dict)
        and isinstance(item.get("dtype"), str)
        and counts(item.get("shape"))
        and counts(item.get("data_offsets"))
        and len(item["data_offsets"]) == 2
        and item["data_offsets"][0] <= item["data_offsets"][1]
    )
