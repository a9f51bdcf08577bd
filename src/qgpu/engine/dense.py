"""The dense engine: the same layers as full bf16 tensors, run by Qwen's own forward pass.

Plain NumPy (`qgpu.qwen.naive`) is the definition; Numba (`qgpu.qwen.fast`, its sums in strict order) gives the same bits sooner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..bf16 import encode
from ..compile.compiler import CircuitWeights
from ..compile.export import attention_tensors, circuit_config, layer_tensors
from ..compile.memory_map import memory_banks, read_words
from ..compile.tensors import SCALE, CompiledLayer, Coo
from ..machine.description import Machine
from ..qwen.cache import Cache, new_cache
from ..qwen.config import Config, from_dict
from ..qwen.fast import FastModel
from ..qwen.naive import linear_layer
from ..qwen.weights import FULL_NAMES, LINEAR_NAMES, FullLayer, LinearLayer, Weights

MATRICES = ("qkv", "z", "b", "a", "out")


def dense_layer(m: Machine, layer: CompiledLayer) -> LinearLayer:
    """All tensors of a circuit layer, float32 arrays of bf16 numbers."""
    tensors = layer_tensors(m, layer)
    record = {field: tensors[name] for field, name in LINEAR_NAMES.items()}
    return LinearLayer(**{**record, "conv": layer.conv})


def dense_bits(coo: Coo) -> NDArray[np.uint16]:
    """A matrix (rows, cols) as bf16 bits."""
    out = np.zeros(coo.shape, np.uint16)
    out[np.asarray(coo.rows, int), np.asarray(coo.cols, int)] = encode(np.asarray(coo.vals, np.float32))
    return out


def bf16_weights(weights: CircuitWeights) -> Weights:
    """The model that `qgpu export` writes, its matrices as bf16 bits (about 42 MB a layer)."""
    m = weights.machine
    layers: list[LinearLayer | FullLayer] = []
    for layer in weights.layers:
        bits = {name: dense_bits(getattr(layer, name)) for name in MATRICES}
        rest = layer_tensors(m, layer, matrices=False)
        record = {f: encode(rest[name]) for f, name in LINEAR_NAMES.items() if name in rest}
        layers.append(LinearLayer(**record, **bits))
        layers[-1].conv = encode(layer.conv)
    top = attention_tensors(m)
    layers.append(FullLayer(**{f: encode(top[name]) for f, name in FULL_NAMES.items()}))
    embed = encode(weights.embedding())
    return Weights(embed, layers, np.zeros(m.hidden, np.uint16), embed)


def circuit_model_config(weights: CircuitWeights) -> Config:
    """The config of that model."""
    return from_dict(circuit_config(weights.machine, len(weights.layers), len(weights.codes)))


class DenseEngine:
    """One token stream on dense layers. Implements runtime.engine_api.Engine.

    compiled: Numba; otherwise plain NumPy on float32 tensors (about 84 MB a layer).
    """

    kind = "dense"

    def __init__(self, weights: CircuitWeights, *, compiled: bool = True) -> None:
        self.weights, self.machine = weights, weights.machine
        self.config = circuit_model_config(weights)
        self._fast = FastModel(self.config, bf16_weights(weights), strict=True) if compiled else None
        self._layers = [] if compiled else [dense_layer(weights.machine, layer) for layer in weights.layers]
        self._embedding = weights.embedding()
        self._banks = memory_banks(layer.head_kinds for layer in weights.layers)
        self.reset()

    def reset(self) -> None:
        """Empty recurrent and conv states."""
        self.cache: Cache = new_cache(self.config)
        self.seen = 0

    def fork(self) -> "DenseEngine":
        """A second stream that continues from here; weights are shared."""
        other = object.__new__(DenseEngine)
        other.__dict__.update(self.__dict__)
        other.cache = self.cache.copy()
        return other

    def forward(self, ids: Sequence[int], boundaries: list | None = None) -> np.ndarray:
        """By the definition: residual stream (n, D) after the last layer; one call of several tokens takes the chunked rule.

        boundaries, if a list, receives the (n, D) input of every layer and the output.
        """
        h = self._embedding[np.asarray(ids, np.int64)]
        for i, layer in enumerate(self._layers):
            if boundaries is not None:
                boundaries.append(h)
            h = linear_layer(h, layer, self.config, self.cache.layers[i])
        if boundaries is not None:
            boundaries.append(h)
        return h

    def feed(self, ids: Sequence[int]) -> int:
        """Consume token ids in one call; the id that the model writes next: argmax over the tied head."""
        self.seen += len(ids)
        if self._fast is not None:
            return int(np.argmax(self._fast.forward(ids, self.cache, last=True)[0]))
        h = self.forward(ids)[-1]
        return int(np.argmax(self.weights.codes.astype(np.float32) @ np.sign(h[self.weights.code_dims])))

    def read_global(self, words: int) -> list[int]:
        """Global memory's first words, 32-bit unsigned, from the recurrent state of one of its heads."""
        return read_words(self._banks, words, lambda layer, h: self.cache.layers[layer].state[h], SCALE)
