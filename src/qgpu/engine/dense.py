"""The dense engine: the same layers as full bf16 tensors, run by Qwen's own forward pass (`qgpu.qwen.naive`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compile.compiler import CircuitWeights
from ..compile.export import circuit_config, layer_tensors
from ..compile.tensors import CompiledLayer
from ..machine.description import WORD, Machine
from ..qwen.cache import LinearCache, new_linear_cache
from ..qwen.config import from_dict
from ..qwen.naive import linear_layer
from ..qwen.weights import LINEAR_NAMES, LinearLayer

def dense_layer(m: Machine, layer: CompiledLayer) -> LinearLayer:
    """All tensors of a circuit layer, float32 arrays of bf16 numbers."""
    tensors = layer_tensors(m, layer)
    record = {field: tensors[name] for field, name in LINEAR_NAMES.items()}
    return LinearLayer(**{**record, "conv": layer.conv})


class DenseEngine:
    """One token stream on dense layers. Implements runtime.engine_api.Engine.

    Tensors are expanded a layer at a time unless `resident` (about 120 MiB a layer).
    """

    kind = "dense"

    def __init__(self, weights: CircuitWeights, *, resident: bool = True) -> None:
        self.weights = weights
        m = weights.machine
        self.config = from_dict(circuit_config(m, len(weights.layers), len(weights.codes)))
        self._layers = [dense_layer(m, layer) for layer in weights.layers] if resident else None
        self._embedding = weights.embedding()
        self._memory = next((i, h) for i, layer in enumerate(weights.layers)
                            for h, kind in enumerate(layer.head_kinds) if kind.endswith(".memory"))
        self.reset()

    def reset(self) -> None:
        """Empty recurrent and conv states."""
        self.caches: list[LinearCache] = [new_linear_cache(self.config) for _ in self.weights.layers]
        self.seen = 0

    def fork(self) -> "DenseEngine":
        """A second stream that continues from here; weights are shared."""
        other = object.__new__(DenseEngine)
        other.__dict__.update(self.__dict__)
        other.caches = [c.copy() for c in self.caches]
        return other

    def forward(self, ids: Sequence[int], boundaries: list | None = None) -> np.ndarray:
        """Residual stream (n, D) after the last layer; one call of several tokens takes the chunked rule.

        boundaries, if a list, receives the (n, D) input of every layer and the output.
        """
        h = self._embedding[np.asarray(ids, np.int64)]
        for i, layer in enumerate(self.weights.layers):
            if boundaries is not None:
                boundaries.append(h)
            w = self._layers[i] if self._layers else dense_layer(self.weights.machine, layer)
            h = linear_layer(h, w, self.config, self.caches[i])
        if boundaries is not None:
            boundaries.append(h)
        self.seen += len(ids)
        return h

    def feed(self, ids: Sequence[int]) -> int:
        """Consume token ids in one call; the id that the model writes next: argmax over the tied head."""
        h = self.forward(ids)[-1]
        return int(np.argmax(self.weights.codes.astype(np.float32) @ np.sign(h[self.weights.code_dims])))

    def read_global(self, words: int) -> list[int]:
        """Global memory's first words, 32-bit unsigned, from the recurrent state of one of its heads."""
        layer, h = self._memory
        state = self.caches[layer].state[h]
        return [sum(int(round(float(state[w, 2 + k]) / 128)) << k for k in range(WORD)) for w in range(words)]
