"""A plan as the arrays that the sparse kernel reads.

Two things are laid out anew here. Triggers become pairs of comparisons without branches: a group rests if dims a and b both hold their
off values, or dims c and d both hold theirs. And heads that are addressed by the same bits (the banks and copies of one memory) share
one decoder, which finds the rows of all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compile.tensors import CompiledLayer
from .kernel import MOST_READS
from .plan import Csr, Plan, looked_back

NEVER = float("nan")
"""Equal to nothing: a trigger that never rests."""


class Forms(NamedTuple):
    """Linear forms over dims: form r is bias[r] + sum of val[p] * x[idx[p]], p from ptr[r] to ptr[r+1]."""

    ptr: NDArray[np.uint32]
    idx: NDArray[np.uint32]
    val: NDArray[np.float32]
    bias: NDArray[np.float32]


class Groups(NamedTuple):
    """dims, offs: (4, groups), two triggers of two dims each. span: (groups, width), what the group holds."""

    dims: NDArray[np.uint32]
    offs: NDArray[np.float32]
    span: NDArray[np.int64]


class Decoders(NamedTuple):
    """Rows by the pattern of bits that addresses them.

    Decoder k reads bits bit[ptr[k]:ptr[k+1]] (1 where a dim holds `high`) `tap[k]` tokens ago; its patterns are keys[first[k]:last[k]],
    sorted; pattern i addresses hits[hit_ptr[i]:hit_ptr[i+1]], each (head, row, whether to write).
    """

    ptr: NDArray[np.int64]
    bit: NDArray[np.uint32]
    high: NDArray[np.float32]
    tap: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    keys: NDArray[np.int64]
    hit_ptr: NDArray[np.int64]
    hits: NDArray[np.int64]


class Units(NamedTuple):
    groups: Groups
    f: Forms
    g: Forms
    out: Forms
    tap: NDArray[np.int64]


class Heads(NamedTuple):
    """Memory heads. rows: groups of (first row, last row, whether to write, tap, head). value, gate: by head, see head_*."""

    decoders: Decoders
    rows: Groups
    row: Forms
    row_number: NDArray[np.int64]
    halves: NDArray[np.int64]
    halve: Forms
    head_values: NDArray[np.int64]
    value: Forms
    value_dim: NDArray[np.int64]
    value_tap: NDArray[np.int64]
    const: Forms
    head_gates: NDArray[np.int64]
    gates: Groups
    gate: Forms
    gate_dim: NDArray[np.int64]
    gate_out: Forms


SPANS = ("unit groups", "decoders", "row groups", "heads")
"""What a layer's row of `Tables.layers` spans, two columns each; the last column is its slot of looked-back inputs, or -1."""


class Tables(NamedTuple):
    """All that `kernel.step` reads. layers: (layers, 2 * len(SPANS) + 1). kept_ptr, kept_dims: dims that each slot needs."""

    layers: NDArray[np.int64]
    kept_ptr: NDArray[np.int64]
    kept_dims: NDArray[np.int64]
    units: Units
    heads: Heads


def forms(csr: Csr) -> Forms:
    ptr, idx, val, bias = csr.arrays()
    return Forms(ptr.astype(np.uint32), idx.astype(np.uint32), val, bias)


def groups(rows: list, width: int, triggers: int) -> Groups:
    """Groups of `triggers` (one or two) triggers and `width` further columns."""
    table = np.asarray(rows, np.float64).reshape(-1, 4 * triggers + width)
    n = len(table)
    dims, offs = np.zeros((4, n), np.uint32), np.full((4, n), NEVER, np.float32)
    for t in range(triggers):
        d, x, e, y = table[:, 4 * t:4 * t + 4].T
        some = d >= 0
        one = some & (e < 0)
        dims[2 * t] = np.where(some, d, 0)
        dims[2 * t + 1] = np.where(one, d, np.where(some, e, 0))
        offs[2 * t] = np.where(some, x, NEVER)
        offs[2 * t + 1] = np.where(one, x, np.where(some, y, NEVER))
    return Groups(dims, offs, table[:, 4 * triggers:].astype(np.int64))


def decoders(plan: Plan) -> tuple[Decoders, list[int]]:
    """The plan's decodes, those of a layer that read the same bits merged, and where each layer's decoders begin."""
    ptr, bits, highs, taps, first, last, keys, hit_ptr, hits = [0], [], [], [], [], [], [], [0], []
    layer_ptr = [0]
    for h0, h1 in zip(plan.layer_heads, plan.layer_heads[1:]):
        shared: dict[tuple, dict[int, list[tuple[int, int, int]]]] = {}
        for h in range(h0, h1):
            for *_, d0, d1, k0, k1, is_key, tap in plan.decodes[plan.head_decodes[h]:plan.head_decodes[h + 1]]:
                read = (tuple(plan.decode_dim[d0:d1]), tuple(plan.decode_high[d0:d1]), tap)
                table = shared.setdefault(read, {})
                for k in range(k0, k1):
                    table.setdefault(plan.decode_key[k], []).append((h, plan.decode_row[k], is_key))
        for (dims, high, tap), table in shared.items():
            bits += dims
            highs += high
            ptr.append(len(bits))
            taps.append(tap)
            first.append(len(keys))
            for key in sorted(table):
                keys.append(key)
                hits += table[key]
                hit_ptr.append(len(hits))
            last.append(len(keys))
        layer_ptr.append(len(taps))
    i64 = lambda a: np.asarray(a, np.int64)
    return Decoders(i64(ptr), np.asarray(bits, np.uint32), np.asarray(highs, np.float32), i64(taps), i64(first), i64(last),
                    i64(keys), i64(hit_ptr), i64(hits).reshape(-1, 3)), layer_ptr


def tables(plan: Plan, layers: Sequence[CompiledLayer]) -> Tables:
    """Everything the kernel needs of a plan and of the layers' convolutions."""
    i64 = lambda a: np.asarray(a, np.int64)
    found, layer_decoders = decoders(plan)
    rows, layer_rows = [], [0]
    for h0, h1 in zip(plan.layer_heads, plan.layer_heads[1:]):
        rows += [(*g, h) for h in range(h0, h1) for g in plan.row_groups[plan.head_groups[h]:plan.head_groups[h + 1]]]
        layer_rows.append(len(rows))
    back = [looked_back(layer) for layer in layers]
    looks = [bool(np.any(layer.conv[:, :3])) for layer in layers]
    slots = [sum(looks[:i]) if b else -1 for i, b in enumerate(looks)]
    kept = [dims for dims, b in zip(back, looks) if b]
    starts = (plan.layer_pairs, layer_decoders, layer_rows, plan.layer_heads)
    spans = np.stack([i64(column) for s in starts for column in (s[:-1], s[1:])] + [i64(slots)], axis=1)
    units = Units(groups(plan.unit_pairs, 2, 2), forms(plan.f), forms(plan.g), forms(plan.out), i64(plan.tap))
    heads = Heads(found, groups(rows, 5, 1), forms(plan.row), i64(plan.row_number), i64(plan.head_halves), forms(plan.halve),
                  i64(plan.head_values), forms(plan.value), i64(plan.value_dim), i64(plan.value_tap), forms(plan.const),
                  i64(plan.head_gates), groups(plan.gate_groups, 2, 1), forms(plan.gate), i64(plan.gate_dim), forms(plan.gate_out))
    return Tables(spans, i64(np.cumsum([0, *map(len, kept)])), i64(sum(kept, [])), units, heads)


def room(t: Tables) -> tuple[NDArray, ...]:
    """Scratch of one stream: what a layer adds (dim and amount), a flag a group, and by head of a layer the row that is written, the
    number of rows read and which; one float32."""
    groups_of = int((t.layers[:, 1] - t.layers[:, 0]).max(initial=0))
    heads = int((t.layers[:, 7] - t.layers[:, 6]).max(initial=0))
    most = 1 << 17
    return (np.zeros(most, np.uint32), np.zeros(most, np.float32), np.zeros(groups_of, np.bool_), np.zeros(heads, np.int64),
            np.zeros(heads, np.int64), np.zeros((heads, MOST_READS), np.int64), np.zeros(1, np.float32))
