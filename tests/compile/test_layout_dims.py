"""Residual dims: one live signal each, cleared before the next takes over, constants and reserved dims left alone."""

import numpy as np
import pytest
from small_machine import MACHINES, SMALL, compiled

from qgpu.circuit.core import Circuit
from qgpu.compile.layout import clearing_units, constant_dims, lay_out
from qgpu.compile.schedule import outputs_of, schedule
from qgpu.errors import CompileError
from qgpu.machine.description import Machine


@pytest.mark.parametrize("machine", MACHINES)
def test_no_dim_holds_two_live_signals(machine):
    """Replays the layers: who adds to a dim or reads it must be its owner, from the first contribution to the clearing."""
    c = compiled(machine)
    layout, sched = c.layout, c.schedule
    root = lambda s: s if s.base is None else root(s.base)
    owner = {layout.dim_of[s]: s for s in c.circuit.records.code}
    used = 0
    for layer in range(1, sched.layers + 1):
        ops = [*sched.layer_units[layer - 1], *sched.layer_heads[layer - 1]]
        for op in ops:
            for s in op.reads():
                if s in layout.dim_of:
                    assert owner[layout.dim_of[s]] is root(s), (layer, s.name)
                    used += 1
        for u in layout.clears[layer - 1]:
            (s, _), = u.outs
            assert owner[layout.dim_of[s]] is root(s), (layer, s.name)
        for u in {id(u.outs[0][0]): u for u in layout.clears[layer - 1]}.values():
            del owner[layout.dim_of[u.outs[0][0]]]
        for op in ops:
            for s in outputs_of(op):
                if s in layout.dim_of:
                    assert owner.setdefault(layout.dim_of[s], root(s)) is root(s), (layer, s.name)
    assert used > 1000
    assert not set(owner) & set(layout.constants + layout.reserved)


@pytest.mark.parametrize("machine", MACHINES)
def test_cleared_dims_are_all_that_end(machine):
    """At the end only outputs, fractions, and what the last two layers still used are left."""
    c = compiled(machine)
    cleared = {u.outs[0][0] for units in c.layout.clears for u in units}
    keep = {s for s in c.circuit.next_code}
    for s, dim, first, last in c.layout.spans:
        assert 0 <= first <= last <= c.schedule.layers
        assert s in cleared or s in keep or s.fractional or last == c.schedule.layers
    assert len(cleared) > 300


@pytest.mark.parametrize("machine", MACHINES)
def test_peak_counts_dims_in_use(machine):
    c = compiled(machine)
    assert len(c.layout.peak) == c.schedule.layers and max(c.layout.peak) <= MACHINES[machine].hidden
    assert c.layout.peak == [layer.peak for layer in c.weights.layers]


def test_ranges_cover_constants_and_live_signals():
    c = compiled()
    low, high = c.layout.ranges(1, SMALL.hidden)
    assert np.all(low[c.layout.constants] == 1) and np.all(high[c.layout.constants] == 1)
    code = [c.layout.dim_of[s] for s in c.circuit.records.code]
    assert np.all(low[code] == -1) and np.all(high[code] == 1) and np.count_nonzero(high) == len(code) + len(c.layout.constants)


@pytest.mark.parametrize("hidden, n", [(1024, 4), (2048, 2), (4096, 4), (2560, 10), (5120, 5)])
def test_constant_dims_make_the_norm_a_power_of_two(hidden, n):
    assert constant_dims(hidden) == n
    assert float(np.log2((n / hidden) ** 0.5)).is_integer()


def test_no_constant_dims_for_an_odd_size():
    with pytest.raises(CompileError, match="3000"):
        constant_dims(3000)


@pytest.mark.parametrize("low, high", [(0, 1), (0, 40), (0, 229), (-1, 1), (-200, 256)])
def test_clearing_leaves_zero(low, high):
    c = Circuit()
    s = c.signal("s", low, high)
    for v in {low, 0, 1, high}:
        total = v
        for u in clearing_units(s):
            value = lambda f: float(f.const) + sum(float(k) * v for k in f.coef.values())
            f, g = max(value(u.f), 0), max(value(u.g), 0)
            assert f <= 40 and g <= 256
            total += u.outs[0][1] * f * g
        assert total == 0


def test_a_full_stream_is_refused():
    m = Machine("narrow", hidden=16, heads=4, head_dim=34)
    c = Circuit()
    x = c.signal("x", is_input=True)
    out = c.bits("y", 20)
    for o in out:
        c.unit(x, 1, o, "copy")
    end = c.signal("end", 0, 20)
    c.unit(sum(out, x * 0), 1, end, "sum")
    sched = schedule(c, m, {end})
    with pytest.raises(CompileError, match="full at layer 1"):
        lay_out(c, m, sched, [x], {end})
