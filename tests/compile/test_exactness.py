"""The compiler refuses what would not be exact, and proves the article machine."""

from dataclasses import replace
from fractions import Fraction

import pytest
from small_machine import MACHINES, SMALL, compiled

from qgpu.circuit.core import Circuit, Form, MemoryHead, all_of, not_
from qgpu.circuit.machine import build_machine
from qgpu.circuit.records import build_records
from qgpu.compile import compiler, exactness
from qgpu.compile.exactness import check_circuit, check_head, check_layer, check_layers, check_reuse
from qgpu.compile.tensors import Coo
from qgpu.errors import CompileError


@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_is_proved(machine):
    c = compiled(machine)
    parts = {}
    assert check_circuit(c.circuit, parts) == [] and len(parts) > 500
    assert check_reuse(c.layout, parts) == [] and check_layers(MACHINES[machine], c.weights.layers, c.layout.constants) == []


DAMAGE = {
    "a range too small for its reader": lambda mc: setattr(mc.front.place.warp[0], "hi", 300),
    "a coefficient of nine bits": lambda mc: mc.circuit.units[50].f.coef.update({mc.front.place.warp[0]: 257}),
    "a weight of nine bits": lambda mc: setattr(mc.circuit.units[50], "outs", ((mc.circuit.units[50].outs[0][0], Fraction(257, 256)),)),
    "a counter that counts double": lambda mc: [setattr(u, "f", u.f * 2) for u in mc.circuit.units if u.note == "3 items sent"],
    "memory rows that overlap": lambda mc: mc.circuit.heads[-1].key.update({5: Form.of(1), 6: Form.of(1)}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused_before_anything_is_written(name, monkeypatch):
    def broken(m):
        mc = build_machine(m)
        DAMAGE[name](mc)
        return mc
    monkeypatch.setattr(compiler, "build_machine", broken)
    with pytest.raises(CompileError, match="would not be exact"):
        compiler.compile_machine(SMALL)


def test_too_many_layers_are_refused():
    """One of max_layers is the attention layer."""
    n = len(compiled().weights.layers)
    with pytest.raises(CompileError, match=f"needs {n} layers"):
        compiler.compile_machine(replace(SMALL, max_layers=n))
    assert len(compiler.compile_machine(replace(SMALL, max_layers=n + 1)).weights.layers) == n


# ---- memory heads ---------------------------------------------------------------------------------------------------
def head_problems(change):
    c = Circuit()
    rec = build_records(c, SMALL)
    address = [c.signal(f"a{k}", is_input=True) for k in range(2)]
    rows = {r: all_of(rec.kind["MEM"], *(a if r >> k & 1 else not_(a) for k, a in enumerate(address))) for r in range(4)}
    head = MemoryHead("test", dict(rows), dict(rows), [a.form() for a in address], [Form.of(1)] * 2,
                      [((c.signal(f"out{k}"), 1),) for k in range(2)])
    change(head, c, rec, address)
    return check_head(head, exactness._Bits(c, rec.code))


def test_a_plain_head_is_exact():
    assert head_problems(lambda *a: None) == []


HEADS = {
    "not a conjunction": lambda h, c, rec, a: h.key.update({0: a[0] + a[1]}),
    "too many key rows": lambda h, c, rec, a: h.key.update({0: a[0].form()}),
    "bias": lambda h, c, rec, a: h.query.update({0: a[0] - (1 << 17)}),
    "coefficient 257": lambda h, c, rec, a: h.gate.__setitem__(0, 257 * a[0]),
    "value is not always an integer": lambda h, c, rec, a: h.value.__setitem__(0, a[0] * Fraction(1, 2)),
    "gate is not always an integer": lambda h, c, rec, a: h.gate.__setitem__(0, a[0] * Fraction(1, 2)),
    "value up to 64": lambda h, c, rec, a: h.value.__setitem__(0, 64 * a[0]),
    "gate up to 512": lambda h, c, rec, a: h.gate.__setitem__(0, 256 * a[0] + 256 * a[1]),
    "weight 1/3": lambda h, c, rec, a: h.outs.__setitem__(0, ((c.signals["out0"], Fraction(1, 3)),)),
    "form for constants": lambda h, c, rec, a: setattr(h, "const_form", 2 * a[0]),
}


@pytest.mark.parametrize("what", HEADS)
def test_heads_that_are_not_exact(what):
    problems = head_problems(HEADS[what])
    assert any(what in p for p in problems), problems


def test_rows_read_together():
    """Up to twelve rows of bits at once, values above 1 from one row alone; written is always one row."""
    def read_all(rows, value=1):
        def change(h, c, rec, a):
            h.query = {r: Form.of(1) for r in range(rows)}
            h.value = [value * x for x in a]
        return head_problems(change)
    assert read_all(12) == [] and read_all(1, 40) == []
    assert any("too many query rows" in p for p in read_all(13))
    assert any("value up to 2" in p for p in read_all(2, 2))


def test_only_one_kind_at_a_time():
    """EXEC + WARP is a bit because a token has one kind."""
    assert head_problems(lambda h, c, rec, a: h.key.update({0: rec.kind["EXEC"] + rec.kind["WARP"]})) == []
    assert head_problems(lambda h, c, rec, a: h.key.update({0: rec.kind["EXEC"] + a[0]}))


# ---- layers ---------------------------------------------------------------------------------------------------------
def damaged(change):
    import copy
    c = compiled()
    layer = copy.deepcopy(c.weights.layers[5])
    change(layer)
    return check_layer(SMALL, layer, c.layout.constants)


def test_layer_conditions():
    def norm(layer):
        layer.high[100:110] = 2.0 ** 17

    def values(layer):
        r = 2 * SMALL.heads * SMALL.head_dim + 2
        layer.qkv.put(r, 0, 2.0 ** 40)

    def sums(layer):
        layer.out = Coo(layer.out.shape, [7, 7], [2, 3], [2.0 ** 23, 2.0 ** 40])

    def heads(layer):
        layer.head_kinds = ["logic"] * 17

    assert damaged(lambda layer: None) == []
    assert "move the norm" in damaged(norm)[0]
    assert "move its norm" in damaged(values)[0]
    assert "dim 7 may need more than 24 bits" in damaged(sums)[0]
    assert "17 heads" in damaged(heads)[0]


def test_a_dim_changes_hands_exactly():
    c = compiled()
    ended = {(dim, last): s for s, dim, _, last in c.layout.spans}
    taken = [(s, ended[dim, first]) for s, dim, first, _ in c.layout.spans if first and (dim, first) in ended]
    s = next(s for s, old in taken if s is not old)
    while s.base is not None:
        s = s.base
    assert check_reuse(c.layout, {s: (-256, 256)})
