"""Tensors: bf16 numbers throughout, rows that mean the forms they came from, text silenced, budgets refused."""

from fractions import Fraction

import numpy as np
import pytest
from small_machine import MACHINES, SMALL, compiled

from qgpu.bf16 import is_bf16
from qgpu.circuit.core import Form, MemoryHead
from qgpu.compile.export import layer_tensors
from qgpu.compile.tensors import FORGET, HEAD_CONSTANT, KEEP, OUT_SCALE, RESIDUAL_CONSTANT, SCALE, LayerWriter
from qgpu.errors import CompileError
from qgpu.machine.description import ARTICLE
from qgpu.compile.cache import compiled_weights


@pytest.mark.parametrize("machine", [*MACHINES, "article"])
def test_every_number_is_bf16(machine):
    w = compiled(machine).weights if machine in MACHINES else compiled_weights(ARTICLE)
    for layer in w.layers:
        for n in ("qkv", "z", "a", "b", "out"):
            assert np.all(is_bf16(np.asarray(getattr(layer, n).vals, np.float64).astype(np.float32)))
            assert np.all(np.asarray(getattr(layer, n).vals) == np.asarray(getattr(layer, n).vals, np.float32))
        for n in ("conv", "a_log", "dt_bias", "norm_in"):
            assert np.all(is_bf16(getattr(layer, n)))
    assert np.all(is_bf16(w.embedding()))


@pytest.mark.parametrize("machine", MACHINES)
def test_no_entry_is_put_twice(machine):
    """Two entries of one place would add up to what may be no bf16 number."""
    for layer in compiled(machine).weights.layers:
        for n in ("qkv", "z", "a", "b", "out"):
            coo = getattr(layer, n)
            assert len(set(zip(coo.rows, coo.cols))) == len(coo.rows), n


def test_dense_tensors_are_bf16_and_of_the_shapes_of_the_config():
    m, layer = SMALL, compiled().weights.layers[0]
    tensors = layer_tensors(m, layer)
    assert tensors["linear_attn.in_proj_qkv.weight"].shape == (3 * m.heads * m.head_dim, m.hidden)
    assert tensors["linear_attn.conv1d.weight"].shape == (3 * m.heads * m.head_dim, 1, 4)
    assert all(np.all(is_bf16(t)) for t in tensors.values())


def rows(coo, constants):
    out = {}
    for r, c, v in zip(coo.rows, coo.cols, coo.vals):
        out.setdefault(r, {}).setdefault("const" if c in constants else c, 0.0)
        out[r]["const" if c in constants else c] += v
    return out


@pytest.mark.parametrize("machine", MACHINES)
def test_units_come_out_as_their_forms(machine):
    """Every unit of every layer is found again: f in a v row, g in the z row, weights in the out column."""
    c, m = compiled(machine), MACHINES[machine]
    n, kd = m.head_dim, m.heads * m.head_dim
    spell = lambda form: tuple(sorted([(c.layout.dim_of[s], float(k)) for s, k in form.coef.items() if s in c.layout.dim_of] +
                                      ([(-1, float(form.const))] if form.const else [])))
    for i, layer in enumerate(c.weights.layers):
        qkv, z = rows(layer.qkv, c.layout.constants), rows(layer.z, c.layout.constants)
        out = {}
        for r, col, v in zip(layer.out.rows, layer.out.cols, layer.out.vals):
            out.setdefault(col, []).append((r, v / OUT_SCALE))
        tidy = lambda row: tuple(sorted((-1 if k == "const" else k, v / SCALE) for k, v in row.items() if v))
        found = sorted((tidy(qkv.get(2 * kd + h * n + j, {})), tidy(z[h * n + j]), tuple(sorted(out[h * n + j])),
                        3 - int(np.argmax(layer.conv[2 * kd + h * n + j])))
                       for h, kind in enumerate(layer.head_kinds) if kind == "logic" for j in range(2, n) if h * n + j in out)
        units = c.schedule.layer_units[i] + c.layout.clears[i]
        wanted = sorted((spell(u.f), spell(u.g), tuple(sorted((c.layout.dim_of[s], float(w)) for s, w in u.outs)), u.tap) for u in units)
        assert found == wanted and layer.units == len(units) == sum(layer.groups.values())


def test_norm_and_decay_constants():
    for w in (compiled().weights, compiled_weights(ARTICLE)):
        n, d = len(w.constants), w.machine.hidden
        rms = RESIDUAL_CONSTANT * (n / d) ** 0.5
        assert rms == {1024: 2 ** 16, 2048: 2 ** 15}[d]
        for layer in w.layers:
            free = np.ones(d, bool)
            free[w.constants] = False
            assert np.all(layer.norm_in[free] == rms) and np.all(1 + layer.norm_in[~free] == rms / RESIDUAL_CONSTANT)
            for h, kind in enumerate(layer.head_kinds):
                assert layer.dt_bias[h] == (FORGET if kind == "logic" else 0 if kind.endswith("counter") else KEEP)
            assert np.all(layer.a_log == 0)


def test_text_addresses_nothing():
    """Every head's q and k read the reserved dims with +-2^100, in rows that nothing else uses."""
    for w in (compiled().weights, compiled_weights(ARTICLE)):
        m = w.machine
        for layer in w.layers:
            at = {(r, c): v for r, c, v in zip(layer.qkv.rows, layer.qkv.cols, layer.qkv.vals)}
            for h in range(len(layer.head_kinds)):
                for base in (0, m.heads * m.head_dim):
                    for row, sign in ((m.head_dim - 2, 1), (m.head_dim - 1, -1)):
                        r = base + h * m.head_dim + row
                        assert {c: v for (q, c), v in at.items() if q == r} == {c: sign * 2.0 ** 100 for c in w.reserved}
            assert not set(layer.out.rows) & set(w.reserved + w.constants)
            break                                          # one layer of each: the loop above is slow


def writer():
    c = compiled()
    return LayerWriter(SMALL, c.layout, 1), c.circuit.records.code


def test_numbers_that_do_not_fit_are_refused():
    w, code = writer()
    with pytest.raises(CompileError, match="coefficient 257"):
        w.put_form(w.layer.z, 0, 257 * code[0], SCALE, "a unit")
    with pytest.raises(CompileError, match="constant 23456248059221 needs more"):
        w.put_form(w.layer.z, 0, Form({}, 0x155555555555), SCALE, "a unit")
    with pytest.raises(CompileError, match="output weight 1/3"):
        w.put_out(0, code[0], Fraction(1, 3), "a unit")


def test_too_many_heads_and_too_large_heads_are_refused():
    w, code = writer()
    for _ in range(SMALL.heads):
        w.start_head("logic")
    with pytest.raises(CompileError, match="layer 1 needs more than 16 heads"):
        w.start_head("logic")
    w, code = writer()
    one = Form.of(1)
    wide = MemoryHead("wide", {0: one}, {0: one}, [one] * 127, [one] * 127, [()] * 127)
    tall = MemoryHead("tall", {126: one}, {0: one}, [one], [one], [()])
    for head in (wide, tall):
        with pytest.raises(CompileError, match=f"memory head {head.name} is too large"):
            w.memory_head(head)


def test_head_constants_are_far_above_the_data():
    assert HEAD_CONSTANT / SCALE > 2 ** 26 * 128
