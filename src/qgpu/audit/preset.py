"""A compiled machine's tensors as `qgpu export` writes them, without writing them: what the audit reads where no folder is given."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..bf16 import encode
from ..compile.cache import compiled_weights
from ..compile.export import attention_tensors, circuit_config, layer_tensors
from ..compile.signal_map import unpack
from ..machine.description import Machine


class PresetTensors:
    """Tensors by name; one layer's at a time are kept. config, signal_map: what lies beside them in an export."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.weights = machine, compiled_weights(machine)
        self.layers = len(self.weights.layers)
        self.config = circuit_config(machine, self.layers, len(self.weights.codes))
        self.signal_map = unpack(self.weights.packed_map)
        top = {f"model.layers.{self.layers}.{n}" for n in attention_tensors(machine)}
        self._names = {f"model.layers.{i}.{n}" for i in range(self.layers) for n in layer_tensors(machine, self.weights.layers[0])}
        self._names |= top | {"model.norm.weight", "model.embed_tokens.weight"}
        self._kept: tuple[int, dict[str, NDArray]] = (-1, {})

    def names(self) -> Iterable[str]:
        """Names of all tensors."""
        return self._names

    def get(self, name: str) -> NDArray[np.uint16]:
        """bf16 bits of a tensor."""
        if name == "model.norm.weight":
            return encode(np.zeros(self.machine.hidden, np.float32))
        if name == "model.embed_tokens.weight":
            return encode(self.weights.embedding())
        number, _, rest = name.removeprefix("model.layers.").partition(".")
        i = int(number)
        if self._kept[0] != i:
            made = attention_tensors(self.machine) if i == self.layers else layer_tensors(self.machine, self.weights.layers[i])
            self._kept = i, {n: encode(a) for n, a in made.items()}
        return self._kept[1][rest]
