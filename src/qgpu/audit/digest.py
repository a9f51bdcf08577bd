"""One digest for a circuit, whether it was just compiled or lies in a checkpoint.

sha256 over every tensor that `qgpu export` writes, in order of names: name, shape, how many numbers are not zero, their places in the
flattened tensor (int64) and their bf16 bits (uint16, both little-endian). A checkpoint holds 1.5 GB, nearly all of it zeros, so this
takes a fraction of a second where the weights are at hand as nonzeros, and one pass over the files where they are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..bf16 import encode
from ..compile.compiler import CircuitWeights
from ..compile.export import attention_tensors, layer_tensors
from ..compile.tensors import RESIDUAL_CONSTANT, Coo
from ..errors import CheckpointError
from ..qwen.tensors import open_folder

MATRICES = {"qkv": "linear_attn.in_proj_qkv.weight", "z": "linear_attn.in_proj_z.weight", "b": "linear_attn.in_proj_b.weight",
            "a": "linear_attn.in_proj_a.weight", "out": "linear_attn.out_proj.weight"}
PART = 1 << 24

Sparse = tuple[tuple[int, ...], NDArray[np.int64], NDArray[np.uint16]]
"""Shape, places of the numbers that are not zero, ascending, and their bits."""


def weights_digest(weights: CircuitWeights) -> str:
    """Digest of a compiled circuit: that of the checkpoint that `qgpu export` would write. 64 hexadecimal digits."""
    m, n = weights.machine, len(weights.layers)
    found: dict[str, Sparse] = {}
    for i, layer in enumerate(weights.layers):
        found |= {f"model.layers.{i}.{name}": _of_coo(getattr(layer, field)) for field, name in MATRICES.items()}
        found |= {f"model.layers.{i}.{name}": _of_dense(encode(t)) for name, t in layer_tensors(m, layer, matrices=False).items()}
    found |= {f"model.layers.{n}.{name}": _of_dense(encode(t)) for name, t in attention_tensors(m).items()}
    found["model.norm.weight"] = _of_dense(np.zeros(m.hidden, np.uint16))
    found["model.embed_tokens.weight"] = _embedding(weights)
    return _digest((name, found[name]) for name in sorted(found))


def checkpoint_digest(folder: str | Path) -> str:
    """Digest of the tensors in a checkpoint's files. Raises CheckpointError where they cannot be read or are not bf16."""
    tensors = open_folder(folder)
    for name, entry in tensors.entries.items():
        if entry.dtype != "BF16":
            raise CheckpointError(f"tensor {name} is {entry.dtype}", where=str(entry.path),
                                  why="the digest is of bf16 tensors, as qgpu export writes them", fix="write the checkpoint with qgpu export")
    return _digest((name, _of_dense(tensors.get(name))) for name in sorted(tensors.entries))


def _digest(tensors: Iterator[tuple[str, Sparse]]) -> str:
    h = hashlib.sha256()
    for name, (shape, places, bits) in tensors:
        h.update(f"{name} {list(shape)} {len(places)}\n".encode())
        h.update(np.ascontiguousarray(places, "<i8"))
        h.update(np.ascontiguousarray(bits, "<u2"))
    return h.hexdigest()


def _of_coo(coo: Coo) -> Sparse:
    """A matrix given by its nonzeros; those put twice add up."""
    flat = np.asarray(coo.rows, np.int64) * coo.shape[1] + np.asarray(coo.cols, np.int64)
    places, of = np.unique(flat, return_inverse=True)
    values = np.bincount(of.reshape(-1), np.asarray(coo.vals, np.float64), len(places)).astype(np.float32)
    keep = values != 0
    return coo.shape, places[keep], encode(values[keep])


def _of_dense(tensor: NDArray[np.uint16]) -> Sparse:
    """A tensor of bf16 bits, mapped or not, four numbers at a time."""
    flat = np.ascontiguousarray(tensor).reshape(-1)
    places = [np.zeros(0, np.int64)]
    for at in range(0, len(flat), PART):
        part = flat[at:at + PART]
        if len(part) % 4 == 0:
            four = np.flatnonzero(part.view(np.uint64))[:, None] * 4 + np.arange(4)
            found = four.reshape(-1)
            places.append(at + found[part[found] != 0])
        else:
            places.append(at + np.flatnonzero(part))
    where = np.concatenate(places)
    return tensor.shape, where, flat[where]


def _embedding(weights: CircuitWeights) -> Sparse:
    """The rows of CircuitWeights.embedding without their zeros."""
    tokens, d = len(weights.codes), weights.machine.hidden
    dims = np.asarray([*weights.code_dims, *weights.constants], np.int64)
    order = np.argsort(dims)
    constants = np.full((tokens, len(weights.constants)), RESIDUAL_CONSTANT)
    values = np.concatenate([weights.codes, constants], axis=1)[:, order]              # (tokens, dims)
    places = np.arange(tokens, dtype=np.int64)[:, None] * d + dims[order]
    return (tokens, d), places.reshape(-1), encode(values.reshape(-1).astype(np.float32))
