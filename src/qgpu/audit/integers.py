"""A circuit's units in plain integers, layer by layer, over many tokens at once: what its signals must hold.

Nothing here reads a tensor. Units come from the signal map, as named forms; what a memory head reads is handed in, from the
reference interpreter's state (`qgpu.audit.architecture`). Numbers are dyadic and small: float64 holds them exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .signals import Form, SignalMap, is_clear

TAPS = 3
"""Tokens before the first of a batch whose signals are kept: units look back at most so far."""

F64 = NDArray[np.float64]


@njit(cache=True)
def _forms(x, ptr, col, val, const, tap, seen, out):
    """out (forms, n): values of forms at n tokens. x (signals, 3 + n). A tap before the stream's first token gives 0."""
    n = out.shape[1]
    for r in range(out.shape[0]):
        at = TAPS - tap[r]
        for t in range(n):
            out[r, t] = const[r]
        for p in range(ptr[r], ptr[r + 1]):
            row, k = x[col[p]], val[p]
            for t in range(n):
                out[r, t] += k * row[at + t]
        for t in range(min(n, max(0, tap[r] - seen))):
            out[r, t] = 0


@njit(cache=True)
def _scatter(x, item, col, weight, amount):
    """x[col] += weight * amount[item], token by token, at the batch's tokens."""
    for p in range(item.shape[0]):
        for t in range(amount.shape[1]):
            x[col[p], TAPS + t] += weight[p] * amount[item[p], t]


class Forms:
    """Forms over signals, each with its conv tap."""

    def __init__(self, forms: list[Form], taps: list[int]) -> None:
        self.ptr = np.cumsum([0, *(len(f) - 1 for f in forms)]).astype(np.int64)
        self.col = np.array([s for f in forms for s, _ in f[1:]], np.int64)
        self.val = np.array([k for f in forms for _, k in f[1:]], np.float64)
        self.const = np.array([f[0] for f in forms], np.float64)
        self.tap = np.array(taps, np.int64)

    def __call__(self, x: F64, seen: int) -> F64:
        """(forms, n) from x (signals, 3 + n); seen: tokens before the batch."""
        out = np.empty((len(self.const), x.shape[1] - TAPS))
        _forms(x, self.ptr, self.col, self.val, self.const, self.tap, seen, out)
        return out


class Adds:
    """Weighted contributions of items to signals, and to every signal that continues one of them."""

    def __init__(self, outs: list[list], m: SignalMap) -> None:
        rows = [(i, t, w) for i, part in enumerate(outs) for s, w in part for t in (s, *m.continuations.get(s, ()))]
        self.item, self.col = (np.array([r[k] for r in rows], np.int64) for k in (0, 1))
        self.weight = np.array([r[2] for r in rows], np.float64)

    def __call__(self, x: F64, amount: F64) -> None:
        _scatter(x, self.item, self.col, self.weight, amount)


@dataclass
class Layer:
    """One layer's units, and its memory heads by name with their gates and outputs."""

    f: Forms
    g: Forms
    adds: Adds
    heads: list[tuple[str, Forms, Adds]]


class Integers:
    """Evaluates a map's circuit.

    x (signals, 3 + n): every signal's value so far at each token of the batch, the three tokens before it in front. A signal that
    continues another starts from its value.
    """

    def __init__(self, m: SignalMap) -> None:
        self.map = m
        self.layers = []
        for heads in m.layers:
            units = [u for head in heads if head["kind"] == "logic" for u in head["units"] if not is_clear(u)]
            memory = [h for h in heads if h["kind"] == "memory"]
            self.layers.append(Layer(
                Forms([u["f"] for u in units], [u["tap"] for u in units]), Forms([u["g"] for u in units], [0] * len(units)),
                Adds([u["outs"] for u in units], m),
                [(h["name"], Forms(h["gate"], [0] * len(h["gate"])), Adds(h["outs"], m)) for h in memory]))
        self.reset()

    def reset(self) -> None:
        """Before the first token of a stream."""
        self.x = np.zeros((len(self.map.names), TAPS))
        self.seen = 0

    def begin(self, n: int) -> None:
        """A batch of n tokens: only the last three tokens before it are kept."""
        old = self.x[:, self.x.shape[1] - TAPS:]
        self.x = np.zeros((len(self.map.names), TAPS + n))
        self.x[:, :TAPS] = old

    @property
    def now(self) -> F64:
        """(signals, n): a view of the batch."""
        return self.x[:, TAPS:]

    def set(self, signal: int, values: F64, mask: NDArray[np.bool_]) -> None:
        """Put values (n,) of a complete signal where mask (n,) is set; what continues it moves along."""
        change = np.where(mask, values - self.now[signal], 0)
        for t in (signal, *self.map.continuations.get(signal, ())):
            self.now[t] += change

    def step(self, number: int, reads: dict[str, F64]) -> None:
        """Add what layer `number` (from 1) adds. reads: head -> (value dims, n) that its queried row holds."""
        layer = self.layers[number - 1]
        h = np.maximum(layer.f(self.x, self.seen), 0) * np.maximum(layer.g(self.x, self.seen), 0)
        amounts = [(adds, reads[name] * np.maximum(gate(self.x, self.seen), 0)) for name, gate, adds in layer.heads]
        layer.adds(self.x, h)
        for adds, amount in amounts:
            adds(self.x, amount)

    def end(self) -> None:
        """The batch is over."""
        self.seen += self.now.shape[1]
