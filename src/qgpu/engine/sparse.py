"""The default engine: only nonzero weights, and of those only what can add something at this token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..compile.compiler import CircuitWeights
from ..compile.memory_map import memory_banks, read_words
from ..errors import FaultError
from .kernel import run, step
from .table_cache import tables_of
from .tables import room


def code_keys(codes: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Token ids by their codes. codes: (vocabulary, code dims), +1 or -1. Returns the codes as sorted integers, and each one's id."""
    keys = ((codes.astype(np.int64) > 0) << np.arange(codes.shape[1])).sum(1)
    order = np.argsort(keys)
    return keys[order], order.astype(np.int64)


class SparseEngine:
    """One token stream on the compiled layers. Implements runtime.engine_api.Engine."""

    kind = "sparse"

    def __init__(self, weights: CircuitWeights) -> None:
        self.weights = c = weights
        self.machine = m = c.machine
        self._tables, self.where = tables_of(c)
        self._embedding = c.embedding()
        self._code_dims = np.asarray(c.code_dims, np.int32)
        self._keys, self._key_ids = code_keys(c.codes)
        self._x = np.zeros(m.hidden, np.float32)
        self._room = room(self._tables)
        self._banks = memory_banks(layer.head_kinds for layer in c.layers)
        self.reset()

    def reset(self) -> None:
        """Empty recurrent and conv states."""
        m = self.weights.machine
        self._states = np.zeros((len(self.where), m.head_dim, m.head_dim), np.float32)
        self._history = np.zeros((max(1, int(self._tables.layers[:, -1].max()) + 1), 3, m.hidden), np.float32)
        self.seen = 0

    def fork(self) -> "SparseEngine":
        """A second stream that continues from here; weights are shared."""
        other = object.__new__(SparseEngine)
        other.__dict__.update(self.__dict__)
        other._states, other._history = self._states.copy(), self._history.copy()
        other._x, other._room = self._x.copy(), room(self._tables)
        return other

    def feed(self, ids: Sequence[int]) -> int:
        """Consume token ids (at least one); the id that the model writes next. Raises FaultError where it writes none."""
        ids = np.asarray(ids, np.int64)
        found = run(ids, self._embedding, self._code_dims, self._keys, self._key_ids, self._x, self._room,
                    self._history, self.seen, self._states, self._tables.layers, self._tables)
        self.seen += len(ids)
        if found < 0:
            raise FaultError("the layers' output is no token's code", where=f"position {self.seen - 1}",
                             why="the token stream is not one that a launch produces")
        return int(found)

    def trace(self, token_id: int) -> np.ndarray:
        """Feed one token layer by layer. Returns the residual stream (layers + 1, D) float32 at every layer boundary."""
        out = [self._embedding[token_id].copy()]
        x = out[0].copy()
        for i in range(len(self.weights.layers)):
            step(x, self._room, self._history, self.seen, self._states, self._tables.layers[i:i + 1], self._tables)
            out.append(x.copy())
        self.seen += 1
        return np.stack(out)

    @property
    def states(self) -> np.ndarray:
        """(memory heads, rows, dims) float32: recurrent states, in the order of plan.where; a 1 in value dim 2 + j is held as 1."""
        return self._states

    def read_global(self, words: int) -> list[int]:
        """Global memory's first words, 32-bit unsigned, from the recurrent state of one of its heads."""
        return read_words(self._banks, words, lambda layer, h: self._states[self.where.index((layer + 1, h))], 1)
