"""From a layer's nonzero weights to a plan that the sparse kernel can run.

On machine tokens the input norm never moves and the head's own norm never moves, so a unit is relu(f) relu(g) of the integers
in the residual stream and a memory head is an addressed store; every step of that arithmetic is exact, and the tests
hold each layer's output to the dense forward pass bit for bit.

Work is grouped by *trigger*: one dim or two such that, while they sit at one end of their range, none of the group's forms can
be positive. A group whose trigger is off adds exactly 0 and is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..compile.tensors import CONST_DIMS, FORGET, HEAD_CONSTANT, OUT_SCALE, SCALE, CompiledLayer, Coo
from ..machine.description import Machine


@dataclass
class Csr:
    """Rows of nonzeros: row r is idx[ptr[r]:ptr[r+1]], val[...]. bias[r]: constant part."""

    ptr: list[int] = field(default_factory=lambda: [0])
    idx: list[int] = field(default_factory=list)
    val: list[float] = field(default_factory=list)
    bias: list[float] = field(default_factory=list)

    def add(self, row: "Row") -> None:
        self.idx += row.idx
        self.val += row.val
        self.bias.append(row.bias)
        self.ptr.append(len(self.idx))

    def arrays(self):
        return (np.asarray(self.ptr, np.int32), np.asarray(self.idx, np.int32), np.asarray(self.val, np.float32),
                np.asarray(self.bias, np.float32))


@dataclass
class Row:
    """One linear form over dims."""

    idx: list[int]
    val: list[float]
    bias: float


def rows_of(coo: Coo, constants: list[int], scale: float) -> dict[int, Row]:
    """Row number -> form divided by scale, with the constant dims (which read 1) folded into the bias."""
    const = set(constants)
    merged: dict[int, dict[int, float]] = {}
    for r, c, v in zip(coo.rows, coo.cols, coo.vals):
        row = merged.setdefault(r, {})
        row[c] = row.get(c, 0.0) + v
    out = {}
    for r, entries in merged.items():
        bias = sum(v for c, v in entries.items() if c in const)
        dims = [c for c, v in entries.items() if c not in const and v]
        out[r] = Row(dims, [entries[c] / scale for c in dims], bias / scale)
    return out


Trigger = tuple[int, float, int, float]
"""(dim, value, dim, value): while both dims hold these values a form cannot be positive; the second dim is -1 for one
dim alone, the first -1 where nothing helps."""

ALWAYS: Trigger = (-1, 0.0, -1, 0.0)


def triggers(row: Row, low, high) -> list[Trigger]:
    """What holds a row at or below 0: every single dim that does, else every pair; empty if there is none."""
    top = row.bias + sum(v * (high[d] if v > 0 else low[d]) for d, v in zip(row.idx, row.val))
    drop = [(d, float(low[d] if v > 0 else high[d]), abs(v) * float(high[d] - low[d])) for d, v in zip(row.idx, row.val)]
    single = [(d, off, -1, 0.0) for d, off, fall in drop if top - fall <= 0]
    if single or len(drop) > 8:
        return single
    return [(d, x, e, y) for i, (d, x, f1) in enumerate(drop) for e, y, f2 in drop[i + 1:] if top - f1 - f2 <= 0]


def group_by_trigger(candidates: list[list[Trigger]]) -> dict[Trigger, list[int]]:
    """Item -> the trigger that most items share; items without one go to ALWAYS."""
    count: dict[Trigger, int] = {}
    for cs in candidates:
        for t in cs:
            count[t] = count.get(t, 0) + 1
    groups: dict[Trigger, list[int]] = {}
    for i, cs in enumerate(candidates):
        best = max(cs, key=lambda t: (t[2] < 0, count[t], -t[0], -t[2])) if cs else ALWAYS
        groups.setdefault(best, []).append(i)
    return groups


@dataclass
class Plan:
    """Flat arrays over all layers; see `kernel.step` for how they are read."""

    unit_groups: list = field(default_factory=list)     # (trigger, first unit, last unit)
    unit_pairs: list = field(default_factory=list)      # (trigger, another of the other factor, first unit, last unit)
    layer_units: list = field(default_factory=lambda: [0])
    layer_pairs: list = field(default_factory=lambda: [0])
    f: Csr = field(default_factory=Csr)
    g: Csr = field(default_factory=Csr)
    tap: list[int] = field(default_factory=list)
    out: Csr = field(default_factory=Csr)
    # memory heads
    layer_heads: list = field(default_factory=lambda: [0])
    head_halves: list[int] = field(default_factory=list)
    halve: Csr = field(default_factory=Csr)
    row_groups: list = field(default_factory=list)      # (trigger, first row, last row, is_key, tap)
    head_groups: list = field(default_factory=lambda: [0])
    decodes: list = field(default_factory=list)         # (trigger, first dim, last dim, first key, last key, is_key, tap)
    head_decodes: list = field(default_factory=lambda: [0])
    decode_dim: list[int] = field(default_factory=list)
    decode_high: list[float] = field(default_factory=list)
    decode_key: list[int] = field(default_factory=list)
    decode_row: list[int] = field(default_factory=list)
    row: Csr = field(default_factory=Csr)
    row_number: list[int] = field(default_factory=list)
    head_values: list = field(default_factory=lambda: [0])
    value: Csr = field(default_factory=Csr)
    value_dim: list[int] = field(default_factory=list)
    value_tap: list[int] = field(default_factory=list)
    const: Csr = field(default_factory=Csr)
    gate_groups: list = field(default_factory=list)     # (trigger, first gate, last gate)
    head_gates: list = field(default_factory=lambda: [0])
    gate: Csr = field(default_factory=Csr)
    gate_dim: list[int] = field(default_factory=list)
    gate_out: Csr = field(default_factory=Csr)
    where: list = field(default_factory=list)           # (layer, head) of every memory head


def looked_back(layer: CompiledLayer) -> list[int]:
    """Dims of earlier tokens that a layer reads."""
    return sorted({d for r, d in zip(layer.qkv.rows, layer.qkv.cols) if layer.conv[r, :3].any()}) if layer.conv[:, :3].any() else []


def columns_of(coo: Coo) -> dict[int, Row]:
    """Column -> (dims, weights) of out_proj, scales undone."""
    out: dict[int, Row] = {}
    for r, c, v in zip(coo.rows, coo.cols, coo.vals):
        row = out.setdefault(c, Row([], [], 0.0))
        row.idx.append(r)
        row.val.append(v / OUT_SCALE)
    return out


EMPTY = Row([], [], 0.0)


def add_layer(plan: Plan, m: Machine, layer: CompiledLayer, number: int, constants: list[int]) -> None:
    """Append one layer to the plan."""
    n, kd = m.head_dim, m.heads * m.head_dim
    qkv = rows_of(layer.qkv, constants, SCALE)
    z = rows_of(layer.z, constants, SCALE)
    a = rows_of(layer.a, constants, 1.0)
    out = columns_of(layer.out)
    low, high = layer.low, layer.high
    tap_of = lambda channel: 3 - int(np.argmax(layer.conv[channel]))
    units: list[tuple[Row, Row, Row, int]] = []
    for h in range(len(layer.head_kinds)):
        if layer.dt_bias[h] == FORGET:
            for j in range(CONST_DIMS, n):
                channel, column = 2 * kd + h * n + j, h * n + j
                if channel in qkv and column in z and column in out:
                    units.append((qkv[channel], z[column], out[column], tap_of(channel)))
        else:
            add_memory(plan, m, layer, h, number, qkv, z, a, out, tap_of)
    plan.layer_heads.append(len(plan.where))
    of_f = [[] if tap else triggers(f, low, high) for f, _, _, tap in units]
    of_g = [triggers(g, low, high) for _, g, _, _ in units]
    for trigger, members in sorted(group_by_trigger([a + b for a, b in zip(of_f, of_g)]).items()):
        first = len(plan.tap)
        others = group_by_trigger([of_g[i] if trigger in of_f[i] else of_f[i] for i in members])
        for other, places in sorted(others.items()):
            start = len(plan.tap)
            for i in places:
                f, g, o, tap = units[members[i]]
                plan.f.add(f)
                plan.g.add(g)
                plan.out.add(o)
                plan.tap.append(tap)
            plan.unit_pairs.append((*trigger, *other, start, len(plan.tap)))
        plan.unit_groups.append((*trigger, first, len(plan.tap)))
    plan.layer_units.append(len(plan.unit_groups))
    plan.layer_pairs.append(len(plan.unit_pairs))


def add_memory(plan, m, layer, h, number, qkv, z, a, out, tap_of) -> None:
    """Append one memory head."""
    n, kd = m.head_dim, m.heads * m.head_dim
    low, high = layer.low, layer.high
    halves = layer.dt_bias[h] == 0.0
    plan.head_halves.append(int(halves))
    plan.halve.add(a.get(h, EMPTY))
    for is_key, base in ((0, 0), (1, kd)):
        rows = [r for r in range(n - 2) if base + h * n + r in qkv]
        forms = [qkv[base + h * n + r] for r in rows]
        taps = [tap_of(base + h * n + r) for r in rows]
        if add_decode(plan, rows, forms, taps, is_key, low, high):
            continue
        candidates = [[] if t else triggers(f, low, high) for f, t in zip(forms, taps)]
        for trigger, members in sorted(group_by_trigger(candidates).items()):
            for tap in sorted({taps[i] for i in members}):
                first = len(plan.row_number)
                for i in members:
                    if taps[i] == tap:
                        plan.row.add(forms[i])
                        plan.row_number.append(rows[i])
                plan.row_groups.append((*trigger, first, len(plan.row_number), is_key, tap))
    plan.head_groups.append(len(plan.row_groups))
    plan.head_decodes.append(len(plan.decodes))
    channel0 = 2 * kd + h * n
    used = [j for j in range(CONST_DIMS, n) if channel0 + j in qkv]
    for j in used:
        plan.value.add(qkv[channel0 + j])
        plan.value_dim.append(j)
        plan.value_tap.append(tap_of(channel0 + j))
    plan.head_values.append(len(plan.value_dim))
    const = qkv[channel0]
    scale = HEAD_CONSTANT / SCALE
    plan.const.add(Row(const.idx, [v / scale for v in const.val], const.bias / scale))
    gated = [j for j in used if h * n + j in z and h * n + j in out]
    candidates = [triggers(z[h * n + j], low, high) for j in gated]
    for trigger, members in sorted(group_by_trigger(candidates).items()):
        first = len(plan.gate_dim)
        for i in members:
            plan.gate.add(z[h * n + gated[i]])
            plan.gate_dim.append(gated[i])
            plan.gate_out.add(out[h * n + gated[i]])
        plan.gate_groups.append((*trigger, first, len(plan.gate_dim)))
    plan.head_gates.append(len(plan.gate_groups))
    plan.where.append((number, h))


def add_decode(plan, rows: list[int], forms: list[Row], taps: list[int], is_key: int, low, high) -> bool:
    """Rows that all are conjunctions of the same bits, each of another pattern: found by the pattern instead of one by one.

    A row is one if every dim holds one of two values, moves the form by 1, and the form's maximum is 1. Returns False where that
    does not hold.
    """
    if len(rows) < 3 or len(set(taps)) > 1:
        return False
    dims = sorted(forms[0].idx)
    if any(sorted(f.idx) != dims for f in forms) or any(high[d] - low[d] not in (1, 2) for d in dims):
        return False
    if any(high[d] - low[d] == 2 and (low[d], high[d]) != (-1, 1) for d in dims):
        return False
    keys = {}
    for r, f in zip(rows, forms):
        weight = dict(zip(f.idx, f.val))
        if any(abs(weight[d]) * (high[d] - low[d]) != 1 for d in dims):
            return False
        if f.bias + sum(v * (high[d] if v > 0 else low[d]) for d, v in weight.items()) != 1:
            return False
        keys[sum(1 << k for k, d in enumerate(dims) if weight[d] > 0)] = r
    if len(keys) < len(rows):
        return False
    common = [d for d in range(len(dims)) if len({key >> d & 1 for key in keys}) == 1] if not taps[0] else []
    trigger = ALWAYS
    if common:                                     # a literal that all rows share
        d, positive = dims[common[0]], next(iter(keys)) >> common[0] & 1
        trigger = (d, float(low[d] if positive else high[d]), -1, 0.0)
    at, first = len(plan.decode_dim), len(plan.decode_key)
    plan.decode_dim += dims
    plan.decode_high += [float(high[d]) for d in dims]
    for key in sorted(keys):
        plan.decode_key.append(key)
        plan.decode_row.append(keys[key])
    plan.decodes.append((*trigger, at, len(plan.decode_dim), first, len(plan.decode_key), is_key, taps[0]))
    return True


def build_plan(m: Machine, layers: list[CompiledLayer], constants: list[int]) -> Plan:
    """The plan of all layers."""
    plan = Plan()
    for number, layer in enumerate(layers, 1):
        add_layer(plan, m, layer, number, constants)
    return plan


def groups(rows: list, width: int):
    """(trigger dims (n, 2) int32, their off values (n, 2) float32, spans (n, width) int32) of a plan's group table."""
    table = np.asarray(rows, np.float64).reshape(-1, 4 + width)
    return table[:, [0, 2]].astype(np.int32), table[:, [1, 3]].astype(np.float32), table[:, 4:].astype(np.int32)
