"""The sparse plan: triggers that keep forms from being positive, rows found by the pattern of their bits."""

import itertools

import numpy as np
import pytest
from engine_machines import GROUPED, SMALL, weights

from qgpu.engine.kernel import _awake, _pattern, _place
from qgpu.engine.plan import ALWAYS, Plan, Row, add_decode, build_plan, group_by_trigger, triggers
from qgpu.engine.tables import decoders, groups


def values(row, low, high):
    """Every choice of values at the ends of the dims' ranges, and the form's value there."""
    dims = sorted(row.idx)
    weight = dict(zip(row.idx, row.val))
    for ends in itertools.product(*[sorted({low[d], high[d]}) for d in dims]):
        at = dict(zip(dims, ends))
        yield at, row.bias + sum(weight[d] * at[d] for d in dims)


def test_triggers_hold_the_form_at_or_below_zero():
    rng = np.random.default_rng(1)
    singles = pairs = 0
    for _ in range(400):
        n = int(rng.integers(1, 6))
        low, high = -rng.integers(0, 2, n).astype(float), rng.integers(1, 4, n).astype(float)
        row = Row(list(range(n)), [float(v) for v in rng.choice([-3, -2, -1, 1, 2], n)], float(rng.integers(-4, 3)))
        found = triggers(row, low, high)
        for d, off, e, off2 in found:
            held = [v for at, v in values(row, low, high) if at[d] == off and (e < 0 or at[e] == off2)]
            assert held and max(held) <= 0
            assert off in (low[d], high[d])
            singles, pairs = singles + (e < 0), pairs + (e >= 0)
        if not found:                                  # nothing was overlooked
            for d, e in itertools.combinations_with_replacement(range(n), 2):
                for x, y in itertools.product((low[d], high[d]), (low[e], high[e])):
                    assert max([v for at, v in values(row, low, high) if at[d] == x and at[e] == y], default=1) > 0
    assert singles > 100 and pairs > 100


def test_a_conjunction_is_off_where_any_literal_is():
    row = Row([3, 5, 9], [1.0, -1.0, 0.5], -0.5)               # bits 3 and not 5, code dim 9 (-1 or 1): 1 at 1, 0, 1
    low, high = np.zeros(10), np.ones(10)
    low[9] = -1
    assert sorted(triggers(row, low, high)) == [(3, 0.0, -1, 0.0), (5, 1.0, -1, 0.0), (9, -1.0, -1, 0.0)]


def test_items_share_the_commonest_trigger():
    a, b, pair = (1, 0.0, -1, 0.0), (2, 0.0, -1, 0.0), (1, 0.0, 2, 0.0)
    assert group_by_trigger([[a, b], [b], [b], [], [pair], [pair, a]]) == {b: [0, 1, 2], ALWAYS: [3], pair: [4], a: [5]}


# ---- patterns -------------------------------------------------------------------------------------------------------
def conjunctions(patterns, n, code=(), tap=0):
    """A plan with one row for each pattern of n dims; dims in `code` hold -1 and 1."""
    low, high = np.array([-1.0 if d in code else 0.0 for d in range(n)]), np.ones(n)
    rows = []
    for p in patterns:
        bits = [p >> d & 1 for d in range(n)]
        scale = [0.5 if d in code else 1.0 for d in range(n)]
        rows.append(Row(list(range(n)), [s if b else -s for s, b in zip(scale, bits)],
                        1.0 - sum(s if b else s * (d in code) for d, (s, b) in enumerate(zip(scale, bits)))))
    plan = Plan()
    numbers = [7 + 3 * k for k in range(len(patterns))]
    return plan, add_decode(plan, numbers, rows, [tap] * len(rows), 0, low, high), rows, numbers, low, high


def decoded(plan, x, past, seen):
    """The row that the tables' decoders address, and the same by the plan's own entry and its trigger."""
    *trigger, d0, d1, k0, k1, is_key, tap = plan.decodes[0]
    plan.layer_heads, plan.head_decodes = [0, 1], [0, 1]
    d, layer_ptr = decoders(plan)
    assert layer_ptr == [0, 1] and len(d.tap) == 1 and d.tap[0] == tap
    if seen < tap:
        return None
    key = _pattern(np.asarray(x, np.float32), past[None], 0, seen, tap, d.bit, d.high, d.ptr[0], d.ptr[1])
    at = _place(d.keys, d.first[0], d.last[0], key)
    hits = [] if at < 0 else d.hits[d.hit_ptr[at]:d.hit_ptr[at + 1]].tolist()
    assert all((h, k) == (0, is_key) for h, _, k in hits) and len(hits) <= 1
    if trigger[0] >= 0 and x[int(trigger[0])] == trigger[1]:
        assert not hits
    return hits[0][1] if hits else None


@pytest.mark.parametrize("tap", [0, 1])
@pytest.mark.parametrize("patterns, code", [((0, 3, 5, 6), ()), ((9, 11, 13), (1,)), ((4, 12, 7, 15), (0, 2)), (range(16), (3,))])
def test_a_pattern_finds_the_row_whose_form_is_one(patterns, code, tap):
    plan, ok, rows, numbers, low, high = conjunctions(list(patterns), 4, code, tap)
    assert ok and len(plan.decodes) == 1
    for ends in itertools.product(*zip(low, high)):
        x, past = np.array(ends), np.zeros((3, 4), np.float32)
        past[:] = 1 - np.abs(x)                                  # what tap 0 must not look at
        if tap:
            past[4 % 3], x = x, np.zeros(4)
        on = [r for r, row in zip(numbers, rows) if row.bias + sum(v * ends[d] for d, v in zip(row.idx, row.val)) > 0]
        assert decoded(plan, x, past, 5) == (on[0] if on else None) and len(on) <= 1
    assert tap == 0 or decoded(plan, np.ones(4), np.ones((3, 4), np.float32), 0) is None


def refused(change):
    plan, _, rows, numbers, low, high = conjunctions([0, 3, 5], 3)
    taps = [0, 0, 0]
    change(rows, taps, low, high)
    fresh = Plan()
    return not add_decode(fresh, numbers, rows, taps, 0, low, high) and not fresh.decodes and not fresh.decode_key


def test_rows_that_are_no_patterns_are_left_to_their_forms():
    assert not refused(lambda *a: None)
    assert refused(lambda rows, taps, low, high: taps.__setitem__(1, 1))
    assert refused(lambda rows, taps, low, high: rows[1].val.__setitem__(0, 2.0))
    assert refused(lambda rows, taps, low, high: setattr(rows[1], "bias", rows[1].bias + 1))
    assert refused(lambda rows, taps, low, high: high.__setitem__(1, 3.0))
    assert refused(lambda rows, taps, low, high: high.__setitem__(1, 2.0))
    assert refused(lambda rows, taps, low, high: (rows[1].idx.pop(), rows[1].val.pop()))
    assert refused(lambda rows, taps, low, high: (rows.__setitem__(1, rows[0])))
    assert refused(lambda rows, taps, low, high: rows.__delitem__(slice(1, None)))


@pytest.mark.parametrize("machine", [SMALL, GROUPED], ids=lambda m: m.name)
def test_a_plan_holds_every_unit_and_row_once(machine):
    w = weights(machine)
    plan = build_plan(machine, w.layers, w.constants)
    assert len(plan.tap) == sum(layer.units for layer in w.layers)
    memory = [(i, h) for i, layer in enumerate(w.layers, 1) for h, kind in enumerate(layer.head_kinds) if kind != "logic"]
    assert plan.where == memory
    rows = 0
    for i, h in memory:
        n, kd = machine.head_dim, machine.heads * machine.head_dim
        used = set(w.layers[i - 1].qkv.rows)
        rows += sum(base + h * n + r in used for base in (0, kd) for r in range(n - 2))
    assert len(plan.row_number) + len(plan.decode_row) == rows and len(plan.decode_row) > rows / 2


def test_heads_addressed_by_the_same_bits_share_a_decoder():
    plan, ok, _, numbers, _, _ = conjunctions([0, 3, 5, 6], 3)
    low, high = np.zeros(3), np.ones(3)
    again = [Row([0, 1, 2], [1.0 if p >> d & 1 else -1.0 for d in range(3)], 1.0 - bin(p).count("1")) for p in (1, 3, 7)]
    first = len(plan.decodes)
    assert ok and add_decode(plan, [40, 41, 42], again, [0] * 3, 1, low, high)
    plan.layer_heads, plan.head_decodes = [0, 2], [0, first, len(plan.decodes)]
    d, layer_ptr = decoders(plan)
    assert layer_ptr == [0, 1] and d.keys.tolist() == [0, 1, 3, 5, 6, 7]
    hits = {int(k): d.hits[a:b].tolist() for k, a, b in zip(d.keys, d.hit_ptr, d.hit_ptr[1:])}
    assert hits[3] == [[0, numbers[1], 0], [1, 41, 1]] and hits[1] == [[1, 40, 1]] and hits[6] == [[0, numbers[3], 0]]


def test_triggers_as_comparisons():
    rows = [(*ALWAYS, *ALWAYS, 0, 1), (2, 1.0, -1, 0.0, *ALWAYS, 1, 2), (2, 1.0, 3, 0.0, 4, -1.0, -1, 0.0, 2, 3)]
    found = groups(rows, 2, 2)
    on = np.zeros(3, bool)
    for x in itertools.product((-1.0, 0.0, 1.0), repeat=5):
        _awake(np.asarray(x, np.float32), found.dims, found.offs, 0, 3, on)
        assert on.tolist() == [True, x[2] != 1, not ((x[2] == 1 and x[3] == 0) or x[4] == -1)]
    assert found.span.tolist() == [[0, 1], [1, 2], [2, 3]]


@pytest.mark.parametrize("machine", [SMALL, GROUPED], ids=lambda m: m.name)
def test_pairs_of_triggers_hold_a_unit_at_zero(machine):
    w = weights(machine)
    plan = build_plan(machine, w.layers, w.constants)
    assert [s[-2] for s in plan.unit_pairs] == [0, *(s[-1] for s in plan.unit_pairs[:-1])] and plan.unit_pairs[-1][-1] == len(plan.tap)
    for layer, (k0, k1) in zip(w.layers, zip(plan.layer_pairs, plan.layer_pairs[1:])):
        for *pair, first, last in plan.unit_pairs[k0:k1]:
            for trigger in (tuple(pair[:4]), tuple(pair[4:])):
                for u in range(first, last):
                    forms = [Row(c.idx[c.ptr[u]:c.ptr[u + 1]], c.val[c.ptr[u]:c.ptr[u + 1]], c.bias[u]) for c in (plan.f, plan.g)]
                    assert trigger == ALWAYS or any(trigger in triggers(f, layer.low, layer.high) for f in forms)
