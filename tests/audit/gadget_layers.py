"""One part of the circuit alone, compiled to real layers and run by Qwen's forward pass in bf16, many inputs as so many tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qgpu.bf16 import encode
from qgpu.compile.compiler import CircuitWeights
from qgpu.compile.exactness import check_layers
from qgpu.compile.export import circuit_config
from qgpu.compile.layout import lay_out
from qgpu.compile.schedule import schedule
from qgpu.compile.tensors import RESIDUAL_CONSTANT, write_layers
from qgpu.circuit.core import Circuit, Signal
from qgpu.engine.dense import bf16_weights
from qgpu.machine.description import Machine
from qgpu.qwen.cache import new_cache
from qgpu.qwen.config import from_dict
from qgpu.qwen.fast import FastModel

TOKENS = 512
"""Inputs that go through the layers in one call: eight chunks of the delta rule."""


class GadgetLayers:
    """The layers of a circuit that reads `inputs` and writes `outputs`.

    hidden: width of the residual stream; heads: of a layer. Both only add zeros to what the gadget itself is.
    copied: a last layer copies the outputs. The scheduler writes all of a circuit's outputs in one layer, which outputs that are summed
    up over several layers cannot be.
    """

    def __init__(self, c: Circuit, inputs: Sequence[Signal], outputs: Sequence[Signal], *, hidden: int = 512, heads: int = 3,
                 copied: bool = False) -> None:
        m = Machine("gadget", hidden=hidden, heads=heads)
        written = [c.signal(f"copy{k}", s.lo, s.hi) for k, s in enumerate(outputs)] if copied else list(outputs)
        for s, out in zip(outputs, written if copied else ()):
            c.unit(1, s, out, "copy")
        keep = set(written)
        plan = schedule(c, m, keep)
        self.layout = lay_out(c, m, plan, list(inputs), keep)
        layers = write_layers(c, m, plan, self.layout)
        assert check_layers(m, layers, self.layout.constants) == []
        self.inputs, self.outputs, self.machine = list(inputs), list(outputs), m
        self.dims = [self.layout.dim_of[s] for s in written]
        one = np.ones((1, 1), np.int8)
        self.weights = bf16_weights(CircuitWeights(m, layers, one, [hidden - 1], self.layout.constants, self.layout.reserved))
        self.config = from_dict(circuit_config(m, len(layers), TOKENS))
        self.model = FastModel(self.config, self.weights)
        self.layers = len(layers)

    def rows(self, values: Mapping[Signal, np.ndarray], n: int) -> np.ndarray:
        """The residual stream (n, hidden) float32 that holds these inputs; those left out are 0."""
        x = np.zeros((n, self.machine.hidden), np.float32)
        x[:, self.layout.constants] = RESIDUAL_CONSTANT
        for s in self.inputs:
            if s in values:
                x[:, self.layout.dim_of[s]] = values[s]
        return x

    def run(self, values: Mapping[Signal, np.ndarray], *, together: int = TOKENS, one_stream: bool = False) -> dict[Signal, np.ndarray]:
        """Every output for n inputs, float32 (n,): `together` tokens a call, in one stream or in a stream of their own each call.

        together=1 in one stream is the recurrent rule from the second token on.
        """
        n = max(len(v) for v in values.values() if isinstance(v, np.ndarray))
        cache, parts = new_cache(self.config), []
        for at in range(0, n, together):
            part = {s: v[at:at + together] if isinstance(v, np.ndarray) else v for s, v in values.items()}
            some = min(together, n - at)
            self.weights.embed = encode(self.rows(part, some))
            if not one_stream:
                cache = new_cache(self.config)
            parts.append(self.model._layers(np.arange(some), cache)[:, self.dims].copy())
        found = np.concatenate(parts)                                     # (n, outputs)
        return {s: found[:, i] for i, s in enumerate(self.outputs)}


def bits_of(signals: Sequence[Signal], values: np.ndarray) -> dict[Signal, np.ndarray]:
    """Inputs that spell numbers (n,)."""
    return {s: (values >> k & 1).astype(np.float32) for k, s in enumerate(signals)}


def number_of(found: Mapping[Signal, np.ndarray], signals: Sequence[Signal]) -> np.ndarray:
    """The numbers (n,) that outputs spell; every one must be exactly 0 or 1."""
    total = np.zeros(len(found[signals[0]]), np.int64)
    for k, s in enumerate(signals):
        assert np.all((found[s] == 0) | (found[s] == 1)), (s.name, np.unique(found[s])[:8])
        total += found[s].astype(np.int64) << k
    return total
