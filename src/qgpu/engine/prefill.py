"""All positions of a stream, one layer at a time: what the layers write after each token, without decoding any.

The sparse engine takes a token through all layers; here a layer takes up to PIECE tokens before the next layer has its turn. A layer's
nonzeros stay in cache, its units run over the token axis in vector instructions, and only memory heads go through the
positions in order. The arithmetic is the sparse engine's, term by term, so the bits are the same.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ..compile.compiler import CircuitWeights
from ..compile.memory_map import memory_banks, read_words
from ..compile.tensors import RESIDUAL_CONSTANT
from .plan import Csr, Plan, Row, build_plan, groups, looked_back
from .prefill_kernel import PAST, piece
from .sparse import code_keys

PIECE = 384
"""Positions that go through a layer together: a residual stream of 2,048 dims then takes three megabytes."""

MOST_THREADS = 8


def touched(plan: Plan) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Per layer, the dims that it adds to, so that what it adds can be kept apart until all of it has been read.

    Returns (ptr (layers + 1,), dims), and the places in a layer's dims of every entry of plan.out and of plan.gate_out.
    """
    heads = [(plan.head_gates[a], plan.head_gates[b]) for a, b in zip(plan.layer_heads, plan.layer_heads[1:])]
    unit_at, gate_at = np.zeros(len(plan.out.idx), np.int32), np.zeros(len(plan.gate_out.idx), np.int32)
    ptr, dims = [0], []
    for layer, (first, last) in enumerate(zip(plan.layer_units, plan.layer_units[1:])):
        spans = [(plan.out, unit_at, *plan.unit_groups[k][-2:]) for k in range(first, last)]
        spans += [(plan.gate_out, gate_at, *plan.gate_groups[k][-2:]) for k in range(*heads[layer])]
        spans = [(csr, at, csr.ptr[a], csr.ptr[b]) for csr, at, a, b in spans]
        own = sorted({d for csr, _, a, b in spans for d in csr.idx[a:b]})
        place = {d: i for i, d in enumerate(own)}
        for csr, at, a, b in spans:
            at[a:b] = [place[d] for d in csr.idx[a:b]]
        dims += own
        ptr.append(len(dims))
    return np.asarray(ptr, np.int32), np.asarray(dims, np.int32), unit_at, gate_at


def shared_gates(plan: Plan) -> tuple[Csr, list[int], list[tuple[int, int, int]], list[int]]:
    """Gates of a head that have the same form, found once: most heads have one form for all their words.

    Returns (forms, their ptr by head (heads + 1,), (form within the head, first, last) of runs of gates, ptr of runs by head).
    """
    forms, form_ptr, runs, run_ptr = Csr(), [0], [], [0]
    gate = plan.gate
    for h in range(len(plan.where)):
        known: dict[tuple, int] = {}
        for k in range(plan.head_gates[h], plan.head_gates[h + 1]):
            for q in range(*plan.gate_groups[k][-2:]):
                at = slice(gate.ptr[q], gate.ptr[q + 1])
                form = (tuple(gate.idx[at]), tuple(gate.val[at]), gate.bias[q])
                if form not in known:
                    known[form] = len(known)
                    forms.add(Row(gate.idx[at], gate.val[at], gate.bias[q]))
                if len(runs) > run_ptr[-1] and runs[-1][0] == known[form] and runs[-1][2] == q:
                    runs[-1] = (known[form], runs[-1][1], q + 1)
                else:
                    runs.append((known[form], q, q + 1))
        form_ptr.append(len(forms.bias))
        run_ptr.append(len(runs))
    return forms, form_ptr, runs, run_ptr


def bit_sets(plan: Plan) -> list[int]:
    """By decode: a number within its layer that decodes share if they read the same bits, as the banks of a memory do."""
    out = []
    for a, b in zip(plan.layer_heads, plan.layer_heads[1:]):
        known: dict[tuple, int] = {}
        for *_, d0, d1, _, _, _, tap in plan.decodes[plan.head_decodes[a]:plan.head_decodes[b]]:
            out.append(known.setdefault((*plan.decode_dim[d0:d1], *plan.decode_high[d0:d1], tap), len(known)))
    return out


def value_sets(plan: Plan) -> list[int]:
    """By head: a number that heads of a layer share if they store the same values, as copies of registers and memory do."""
    out = []
    for a, b in zip(plan.layer_heads, plan.layer_heads[1:]):
        known: dict[tuple, int] = {}
        for h in range(a, b):
            spans = [slice(plan.value.ptr[v], plan.value.ptr[v + 1]) for v in range(plan.head_values[h], plan.head_values[h + 1])]
            values = slice(plan.head_values[h], plan.head_values[h + 1])
            forms = tuple((*plan.value.idx[s], *plan.value.val[s]) for s in spans)
            out.append(known.setdefault((forms, *plan.value.bias[values], *plan.value_tap[values]), h))
    return out


def most_rows(plan: Plan) -> list[int]:
    """By head: how many rows may hold anything, from the first on."""
    out = []
    for h in range(len(plan.where)):
        rows = [r for g in plan.row_groups[plan.head_groups[h]:plan.head_groups[h + 1]] if g[6] for r in plan.row_number[g[4]:g[5]]]
        rows += [r for g in plan.decodes[plan.head_decodes[h]:plan.head_decodes[h + 1]] if g[8] for r in plan.decode_row[g[6]:g[7]]]
        out.append(max(rows, default=-1) + 1)
    return out


def stages(costs: Sequence[int], threads: int | None) -> list[tuple[int, int]]:
    """Layers in parts of about the same cost: (first, last + 1) of each."""
    wanted = max(1, min(threads or min(os.cpu_count() or 1, MOST_THREADS), len(costs)))
    share = np.cumsum(costs) / max(1, sum(costs)) * wanted
    ends = [int(np.searchsorted(share, k)) + 1 for k in range(1, wanted)]
    cuts = sorted({0, len(costs), *(e for e in ends if e < len(costs))})
    return list(zip(cuts, cuts[1:]))


class PrefillEngine:
    """One token stream on the compiled layers, read many positions at a time."""

    kind = "prefill"

    def __init__(self, weights: CircuitWeights, *, threads: int | None = None) -> None:
        """threads: as many parts of the layers work on successive pieces at the same time; by default one a processor, at most 8."""
        self.weights = c = weights
        self.machine = m = c.machine
        self.plan = plan = build_plan(m, c.layers, c.constants)
        ints = lambda rows: np.asarray(rows, np.int32)
        ptr, dims, unit_at, gate_at = touched(plan)
        self._touched = (ptr, dims)
        out_ptr, _, out_weight, _ = plan.out.arrays()
        starts = [row[-2] for row in plan.unit_pairs]
        part_ptr = [bisect_left(starts, row[-2]) for row in plan.unit_groups] + [len(starts)]
        self._units = (groups(plan.unit_groups, 2), ints(part_ptr), groups([row[4:] for row in plan.unit_pairs], 2), plan.f.arrays(),
                       plan.g.arrays(), (out_ptr, unit_at, out_weight), ints(plan.tap))
        forms, form_ptr, runs, run_ptr = shared_gates(plan)
        gate_ptr, _, gate_weight, _ = plan.gate_out.arrays()
        self._memory = (
            (groups(plan.row_groups, 4), ints(plan.head_groups), plan.row.arrays(), ints(plan.row_number)),
            (groups(plan.decodes, 6), ints(plan.head_decodes), ints(bit_sets(plan)), ints(plan.decode_dim),
             np.asarray(plan.decode_high, np.float32), np.asarray(plan.decode_key, np.int64), ints(plan.decode_row)),
            (ints(plan.head_halves), plan.halve.arrays(), ints(most_rows(plan))),
            (ints(plan.head_values), ints(value_sets(plan)), plan.value.arrays(), ints(plan.value_dim), ints(plan.value_tap),
             plan.const.arrays()),
            (ints(form_ptr), forms.arrays(), ints(runs).reshape(-1, 3), ints(run_ptr), ints(plan.gate_dim), gate_ptr, gate_at, gate_weight))
        self._layer_units, self._layer_heads = ints(plan.layer_units), ints(plan.layer_heads)
        self._most = (max(1, int(np.diff(form_ptr).max(initial=0))), max(bit_sets(plan), default=0) + 1)
        back = [looked_back(layer) for layer in c.layers]
        self._back = (np.cumsum([0, *map(len, back)]).astype(np.int32), ints(sum(back, [])))
        self._code_dims = ints(c.code_dims)
        self._codes = np.ascontiguousarray(c.codes, np.int8)
        self._keys, self._key_ids = code_keys(c.codes)
        self._banks = memory_banks(layer.head_kinds for layer in c.layers)
        self._x = np.zeros((m.hidden, PAST + PIECE), np.float32)
        self._stages = stages([layer.nonzeros for layer in c.layers], threads)
        self._added = [np.zeros(int(np.diff(ptr).max(initial=1)) * (PAST + PIECE), np.float32) for _ in self._stages]
        self.reset()

    def reset(self) -> None:
        """Empty recurrent and conv states."""
        m = self.machine
        self._states = np.zeros((len(self.plan.where), m.head_dim, m.head_dim), np.float32)
        self._history = np.zeros((len(self._back[1]), 3), np.float32)
        self.seen = 0

    def feed(self, ids: Sequence[int]) -> NDArray[np.int64]:
        """Consume n token ids of the vocabulary. Returns (n,): what the model writes after each, -1 where that is no token's code."""
        ids = np.asarray(ids, np.int64)
        rooms, waiting, out = [self._x, *(np.zeros_like(self._x) for _ in self._stages)], deque(), [np.zeros(0, np.int64)]
        with ThreadPoolExecutor(len(self._stages)) as pool:
            before: list[Future | None] = [None] * len(self._stages)             # each stage's last piece
            for i, at in enumerate(range(0, len(ids), PIECE)):
                if len(waiting) == len(rooms):
                    out.append(waiting.popleft().result())
                x = rooms[i % len(rooms)]
                columns, source = self._embed(ids[at:at + PIECE], x)
                self.seen += len(columns)
                ready: Future | None = None
                for k in range(len(self._stages)):
                    ready = before[k] = pool.submit(self._stage, k, x, columns, source, before[k], ready)
                waiting.append(ready)
            return np.concatenate([*out, *(w.result() for w in waiting)])

    def _stage(self, k: int, x: NDArray, columns: NDArray[np.uint64], source: NDArray[np.int64], *after: Future | None) -> NDArray | None:
        """One stage's layers over the tokens in x, once `after` is done. The last stage returns the next ids."""
        for one in after:
            if one is not None:
                one.result()
        self._layers(x, columns, source, *self._stages[k], self._added[k])
        if k + 1 < len(self._stages):
            return None
        now = x[self._code_dims][:, columns.astype(np.int64)] > 0                      # (codes, n)
        key = (now.astype(np.int64) << np.arange(len(now))[:, None]).sum(0)            # (n,)
        at = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[at] == key, self._key_ids[at], -1)

    def _embed(self, ids: NDArray[np.int64], x: NDArray) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The input of the first layer, into x. Returns the column (n,) of every token and `source`, see prefill_kernel.piece."""
        n = len(ids)
        columns = np.empty(n, np.int64)
        columns[np.argsort(ids, kind="stable")] = np.arange(PAST, PAST + n)
        x[:] = 0
        x[self.weights.constants, PAST:PAST + n] = RESIDUAL_CONSTANT
        x[self._code_dims[:, None], columns] = self._codes[ids].T
        source = np.empty((3, PAST + PIECE), np.int64)
        before = np.concatenate([np.arange(PAST - 3, PAST), columns])                  # (3 + n,): columns of the tokens before, too
        for tap in (1, 2, 3):
            source[tap - 1, columns] = np.where(np.arange(self.seen, self.seen + n) < tap, -1, before[3 - tap:3 - tap + n])
        return columns.astype(np.uint64), source

    def _layers(self, x: NDArray, columns: NDArray[np.uint64], source: NDArray[np.int64], first: int, last: int, added: NDArray) -> None:
        """Layers first..last-1 (from 0) over the tokens in x."""
        piece(x.reshape(-1), np.uint64(PAST + PIECE), columns - np.uint64(PAST), source, added, self._states, self._history, self._back,
              self._touched, self._units, self._memory, self._layer_units, self._layer_heads, self._most, first, last)

    def boundaries(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Consume at most PIECE ids; the residual stream (layers + 1, n, D) at every layer boundary."""
        columns, source = self._embed(np.asarray(ids, np.int64), self._x)
        at = columns.astype(np.int64)
        out = [self._x[:, at].T.copy()]
        for layer in range(len(self.weights.layers)):
            self._layers(self._x, columns, source, layer, layer + 1, self._added[0])
            out.append(self._x[:, at].T.copy())
        self.seen += len(ids)
        return np.stack(out)

    def read_global(self, words: int) -> list[int]:
        """Global memory's first words, 32-bit unsigned, from the recurrent state of one of its heads."""
        return read_words(self._banks, words, lambda layer, h: self._states[self.plan.where.index((layer + 1, h))], 1)
