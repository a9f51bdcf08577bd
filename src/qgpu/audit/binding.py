"""What a recorded stream is bound to: the layers, the kernel, the launch, and the tokens that the host wrote.

The first record of a trace carries it under the key "launch":

    format          1
    checkpoint      digest of the layers that wrote the stream (qgpu.audit.digest)
    source, ptx     {"name", "sha256"} of the kernel's file; sha256 of the PTX that it was compiled to
    kernel, grid, block, shared_bytes, args     the launch, arguments as before it, in a launch file's form
    setup, setup_sha256                         how many tokens the host wrote, and sha256 of their ids (int32, little-endian)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..compile.cache import compiled_weights
from ..machine.description import Machine
from ..merge.sidecar import NAME as MERGED
from ..runtime.arguments import Argument, type_name
from ..runtime.source import Source
from .digest import checkpoint_digest, weights_digest

FORMAT = 1


def ids_digest(ids: Sequence[int]) -> str:
    """sha256 of token ids as little-endian int32."""
    return hashlib.sha256(np.asarray(ids, "<i4").tobytes()).hexdigest()


def text_digest(text: str) -> str:
    """sha256 of a text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def layers_digest(machine: Machine, model: str | Path | None = None) -> str:
    """Digest of the layers that run a launch: the compiled machine's, or those of a checkpoint folder.

    A merged checkpoint answers with the digest of its circuit's description, which has the digest of every tensor of the circuit.
    Raises CheckpointError.
    """
    if model is None:
        return weights_digest(compiled_weights(machine))
    sidecar = Path(model) / MERGED
    return hashlib.sha256(sidecar.read_bytes()).hexdigest() if sidecar.is_file() else checkpoint_digest(model)


def bind(source: Source, ptx: str, kernel: str, grid: Sequence[int], block: Sequence[int], shared_bytes: int, args: Sequence[Argument],
         setup: Sequence[int], checkpoint: str) -> dict:
    """The trace's "launch" entry. args: as they were before the launch. setup: ids that the host wrote. checkpoint: layers_digest."""
    return {"format": FORMAT, "checkpoint": checkpoint, "source": {"name": source.name, "sha256": text_digest(source.text)},
            "ptx": text_digest(ptx), "kernel": kernel, "grid": list(grid), "block": list(block), "shared_bytes": shared_bytes,
            "args": [{"type": type_name(a), "data": a.reshape(-1).tolist()} if isinstance(a, np.ndarray) else int(a) for a in args],
            "setup": len(setup), "setup_sha256": ids_digest(setup)}
