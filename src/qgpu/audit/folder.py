"""An exported checkpoint's tensors as the sparse engine takes them: what `audit DIR --against-interpreter` runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..bf16 import decode
from ..compile.compiler import CircuitWeights
from ..compile.tensors import CompiledLayer
from ..errors import CheckpointError
from ..merge.sidecar import nonzeros
from .checkpoint import FileTensors
from .signals import SignalMap, read_map

MATRICES = {"qkv": "in_proj_qkv", "z": "in_proj_z", "a": "in_proj_a", "b": "in_proj_b", "out": "out_proj"}
AGAIN = "export the checkpoint again"


def weights_of(folder: str | Path) -> tuple[CircuitWeights, SignalMap]:
    """The circuit's weights as the folder's tensors hold them, and its signal map.

    The engine reads the projections, the convolution and the decays of these; norms and the attention layer on top are the
    certificate's. Raises CheckpointError where the folder is no export, a tensor has another shape, or the embedding is not the machine's.
    """
    folder, m = Path(folder), read_map(folder)
    machine, fixed, tensors = m.machine, m.data["residual"], FileTensors(folder)
    if fixed.get("ones") or fixed.get("ballast"):
        raise CheckpointError("this map is of a merged model", where=str(folder), fix="give a folder that qgpu export wrote")
    kd, d, heads = machine.heads * machine.head_dim, machine.hidden, machine.heads
    shapes = {"in_proj_qkv": (3 * kd, d), "in_proj_z": (kd, d), "in_proj_a": (heads, d), "in_proj_b": (heads, d), "out_proj": (d, kd),
              "conv1d": (3 * kd, 1, 4)}

    def get(name: str, shape: tuple[int, ...]) -> np.ndarray:
        tensor = tensors.get(name)
        if tensor.shape != shape or tensor.dtype != np.uint16:
            raise CheckpointError(f"tensor {name} is {tensor.dtype} {tensor.shape} instead of bf16 {shape}", where=str(folder), fix=AGAIN)
        return tensor

    layers = []
    for i, made in enumerate(m.layers):
        at = f"model.layers.{i}."
        part = lambda name: get(f"{at}linear_attn.{name}.weight", shapes[name])
        vector = lambda name, n: decode(get(at + name, (n,)))
        low, high = np.zeros(d, np.float32), np.zeros(d, np.float32)
        low[fixed["constants"]] = high[fixed["constants"]] = 1
        for dim, _, least, most in m.boundaries[i]:
            low[dim], high[dim] = least, most
        layers.append(CompiledLayer(
            **{field: nonzeros(part(name)) for field, name in MATRICES.items()}, conv=decode(part("conv1d"))[:, 0],
            a_log=vector("linear_attn.A_log", heads), dt_bias=vector("linear_attn.dt_bias", heads),
            norm_in=vector("input_layernorm.weight", d), head_kinds=[h["name"] for h in made],
            units=sum(len(h.get("units", ())) for h in made), low=low, high=high))
    embedding = decode(tensors.get("model.embed_tokens.weight"))                       # (vocabulary, D)
    code_dims = list(fixed["code"])
    codes = np.sign(embedding[:, code_dims]).astype(np.int8)
    weights = CircuitWeights(machine, layers, codes, code_dims, list(fixed["constants"]), [dim for dim, _ in fixed["silence"]])
    if not np.array_equal(weights.embedding(), embedding):
        raise CheckpointError("the embedding is not one of codes and constants", where=str(folder), fix=AGAIN)
    return weights, m
