"""The default engine: only nonzero weights, and of those only what can add something at this token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compile.compiler import CircuitWeights
from ..compile.memory_map import memory_banks, read_words
from ..errors import FaultError
from .kernel import run, step
from .plan import build_plan


def groups(rows: list, width: int):
    """(trigger dims (n, 2) int32, their off values (n, 2) float32, spans (n, width) int32) of a plan's group table."""
    table = np.asarray(rows, np.float64).reshape(-1, 4 + width)
    return table[:, [0, 2]].astype(np.int32), table[:, [1, 3]].astype(np.float32), table[:, 4:].astype(np.int32)


class SparseEngine:
    """One token stream on the compiled layers. Implements runtime.engine_api.Engine."""

    kind = "sparse"

    def __init__(self, weights: CircuitWeights) -> None:
        self.weights = c = weights
        self.machine = m = c.machine
        plan = build_plan(m, c.layers, c.constants)
        self.plan = plan
        self._layer_units = np.asarray(plan.layer_units, np.int32)
        self._layer_heads = np.asarray(plan.layer_heads, np.int32)
        self._unit_part = (groups(plan.unit_groups, 2), plan.f.arrays(), plan.g.arrays(), plan.out.arrays(),
                           np.asarray(plan.tap, np.int32))
        self._memory_part = (
            groups(plan.row_groups, 4), np.asarray(plan.head_groups, np.int32),
            (*groups(plan.decodes, 6), np.asarray(plan.head_decodes, np.int32), np.asarray(plan.decode_dim, np.int32),
             np.asarray(plan.decode_high, np.float32), np.asarray(plan.decode_key, np.int64),
             np.asarray(plan.decode_row, np.int32)), plan.row.arrays(),
            np.asarray(plan.row_number, np.int32), np.asarray(plan.head_halves, np.int32), plan.halve.arrays(),
            np.asarray(plan.head_values, np.int32), plan.value.arrays(), np.asarray(plan.value_dim, np.int32),
            np.asarray(plan.value_tap, np.int32), plan.const.arrays(), groups(plan.gate_groups, 2),
            np.asarray(plan.head_gates, np.int32), plan.gate.arrays(), np.asarray(plan.gate_dim, np.int32),
            plan.gate_out.arrays())
        looks_back = [bool(np.any(layer.conv[:, :3])) for layer in c.layers]
        self._slot = np.asarray([sum(looks_back[:i]) if b else -1 for i, b in enumerate(looks_back)], np.int32)
        back = [sorted({d for r, d in zip(layer.qkv.rows, layer.qkv.cols) if layer.conv[r, :3].any()})
                for layer, b in zip(c.layers, looks_back) if b]
        self._kept = (np.cumsum([0, *map(len, back)]).astype(np.int32), np.asarray(sum(back, []), np.int32))
        self._embedding = c.embedding()
        self._code_dims = np.asarray(c.code_dims, np.int32)
        keys = ((c.codes.astype(np.int64) > 0) << np.arange(c.codes.shape[1])).sum(1)
        order = np.argsort(keys)
        self._keys, self._key_ids = keys[order], order.astype(np.int64)
        self._x = np.zeros(m.hidden, np.float32)
        self._delta = np.zeros((1 << 17, 2), np.float64)
        self._banks = memory_banks(layer.head_kinds for layer in c.layers)
        self.reset()

    def reset(self) -> None:
        """Empty recurrent and conv states."""
        m = self.weights.machine
        self._states = np.zeros((len(self.plan.where), m.head_dim, m.head_dim), np.float32)
        self._history = np.zeros((max(1, int(self._slot.max()) + 1), 3, m.hidden), np.float32)
        self.seen = 0

    def fork(self) -> "SparseEngine":
        """A second stream that continues from here; weights are shared."""
        other = object.__new__(SparseEngine)
        other.__dict__.update(self.__dict__)
        other._states, other._history = self._states.copy(), self._history.copy()
        other._x, other._delta = self._x.copy(), self._delta.copy()
        return other

    def feed(self, ids: Sequence[int]) -> int:
        """Consume token ids (at least one); the id that the model writes next. Raises FaultError where it writes none."""
        ids = np.asarray(ids, np.int64)
        found = run(ids, self._embedding, self._code_dims, self._keys, self._key_ids, self._x, self._delta,
                    self._history, self._slot, self._kept, self.seen, self._states, self._unit_part, self._memory_part,
                    self._layer_units, self._layer_heads)
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
            step(x, self._delta, self._history, self._slot[i:i + 1], self._kept, self.seen, self._states, self._unit_part,
                 self._memory_part, self._layer_units[i:i + 2], self._layer_heads[i:i + 2])
            out.append(x.copy())
        self.seen += 1
        return np.stack(out)

    @property
    def states(self) -> np.ndarray:
        """(memory heads, rows, dims) float32: recurrent states, in the order of plan.where; a 1 in value dim 2 + j is held as 1."""
        return self._states

    def read_global(self, words: int) -> list[int]:
        """Global memory's first words, 32-bit unsigned, from the recurrent state of one of its heads."""
        return read_words(self._banks, words, lambda layer, h: self._states[self.plan.where.index((layer + 1, h))], 1)
