"""What a model remembers between calls: one object that can be copied to fork a conversation.

A linear layer keeps the last K-1 inputs of its convolution and a matrix for each value head; a full layer keeps the
keys and values of every position. Arrays are replaced or grown, never shared between copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qgpu.bf16 import decode, encode
from qgpu.qwen.config import LINEAR, Config

F32 = NDArray[np.float32]


@dataclass
class LinearCache:
    """conv: (K-1, C) float32, oldest first. state: (Hv, Dk, Dv) float32. started: a token has been seen.

    ``started`` chooses the rule: one token onto a started state is the recurrent rule, anything else the chunked one.
    """

    conv: F32
    state: F32
    started: bool = False

    def copy(self) -> LinearCache:
        return LinearCache(self.conv.copy(), self.state.copy(), self.started)


@dataclass
class FullCache:
    """Keys (after norm and rotation) and values, (capacity, G, E), bf16 bits or float32; ``length`` rows are in use."""

    keys: NDArray
    values: NDArray
    length: int = 0

    def append(self, keys: F32, values: F32) -> None:
        """Add n positions. keys, values: (n, G, E) float32; in a bf16 cache they must already be bf16 numbers."""
        end = self.length + keys.shape[0]
        self.reserve(keys.shape[0])
        if self.keys.dtype == np.uint16:
            keys, values = encode(keys), encode(values)
        self.keys[self.length : end] = keys
        self.values[self.length : end] = values
        self.length = end

    def reserve(self, n: int) -> None:
        """Make room for n more positions."""
        end = self.length + n
        if end > self.keys.shape[0]:
            capacity = max(end, 2 * self.keys.shape[0], 64)
            self.keys, self.values = _grow(self.keys, capacity), _grow(self.values, capacity)

    def read(self) -> tuple[F32, F32]:
        """All keys and values so far as float32: two arrays (length, G, E)."""
        keys, values = self.keys[: self.length], self.values[: self.length]
        return (decode(keys), decode(values)) if keys.dtype == np.uint16 else (keys, values)

    def copy(self) -> FullCache:
        return FullCache(self.keys[: self.length].copy(), self.values[: self.length].copy(), self.length)


@dataclass
class Cache:
    """One entry a layer, and how many tokens they have seen."""

    layers: list[LinearCache | FullCache] = field(default_factory=list)
    position: int = 0

    def copy(self) -> Cache:
        """An independent copy: what happens to one is not seen by the other."""
        return Cache([layer.copy() for layer in self.layers], self.position)


def new_linear_cache(cfg: Config) -> LinearCache:
    """An empty cache for one linear layer."""
    shape = (cfg.linear_num_value_heads, cfg.linear_key_head_dim, cfg.linear_value_head_dim)
    return LinearCache(
        conv=np.zeros((cfg.linear_conv_kernel_dim - 1, cfg.conv_dim), np.float32),
        state=np.zeros(shape, np.float32),
    )


def new_full_cache(cfg: Config) -> FullCache:
    """An empty cache for one full layer."""
    dtype = np.uint16 if cfg.dtype == "bfloat16" else np.float32
    shape = (0, cfg.num_key_value_heads, cfg.head_dim)
    return FullCache(np.zeros(shape, dtype), np.zeros(shape, dtype))


def new_cache(cfg: Config) -> Cache:
    """An empty cache for the whole model."""
    return Cache([new_linear_cache(cfg) if kind == LINEAR else new_full_cache(cfg) for kind in cfg.layer_types])


def _grow(array: NDArray, capacity: int) -> NDArray:
    out = np.zeros((capacity, *array.shape[1:]), array.dtype)
    out[: array.shape[0]] = array
    return out
