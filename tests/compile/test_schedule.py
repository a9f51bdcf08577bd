"""The layer schedule: nothing is read before it is complete, nothing revised before it is read, ties kept, budgets kept."""

import pytest
from small_machine import MACHINES, compiled

from qgpu.circuit.core import Circuit, MemoryHead, Unit
from qgpu.compile.schedule import components, live_ops, outputs_of, schedule
from qgpu.errors import CompileError
from qgpu.machine.description import Machine

TINY = Machine("tiny", hidden=64, heads=2, head_dim=6)       # 4 units a head


def layers_by_signal(sched, ops):
    """signal -> (layers that add to it, layers that read it)."""
    adds, reads = {}, {}
    for op in ops:
        layer = sched.layer_of[id(op)]
        for s in outputs_of(op):
            adds.setdefault(s, []).append(layer)
        for s in op.reads():
            reads.setdefault(s, []).append(layer)
    return adds, reads


def check_order(c, sched, keep):
    ops = [op for op in [*c.units, *c.heads] if id(op) in sched.layer_of]
    adds, reads = layers_by_signal(sched, ops)
    pairs = 0
    for s, where in reads.items():
        t = s
        while t is not None:                       # s holds everything that its bases received
            if t in adds:
                assert max(adds[t]) < min(where), (s.name, t.name)
                pairs += 1
            t = t.base
    for s, where in adds.items():
        t = s.base
        while t is not None:
            if t in reads:
                assert max(reads[t]) <= min(where), (s.name, t.name)
                pairs += 1
            t = t.base
    for op in ops:
        for s in getattr(op, "after", ()):         # not read, but complete before
            while s is not None:
                assert all(layer < sched.layer_of[id(op)] for layer in adds.get(s, ())), (op.name, s.name)
                pairs += s in adds
                s = s.base
    last = {layer for s in keep for layer in adds.get(s, ())}
    assert last == ({sched.layers} if last else set())
    return pairs


@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_s_schedule(machine):
    m, c = MACHINES[machine], compiled(machine)
    sched, circuit = c.schedule, c.circuit.circuit
    assert check_order(circuit, sched, set(c.circuit.next_code)) > 1000
    placed = [*sum(sched.layer_units, []), *sum(sched.layer_heads, [])]
    assert len(placed) == len({id(op) for op in placed}) == len(live_ops(circuit, set(c.circuit.next_code)))
    for units, heads in zip(sched.layer_units, sched.layer_heads):
        assert len(heads) + -(-len(units) // (m.head_dim - 2)) <= m.heads
    ties = {}
    for u in circuit.units:
        if u.tie and id(u) in sched.layer_of:
            ties.setdefault(u.tie, set()).add(sched.layer_of[id(u)])
    assert len(ties) > 20 and all(len(layers) == 1 for layers in ties.values())


def chain(n):
    c = Circuit()
    s = [c.signal("x0", is_input=True)]
    for k in range(n):
        s.append(c.signal(f"x{k + 1}"))
        c.unit(s[k], 1, s[k + 1], f"step {k}")
    return c, s


def test_a_chain_takes_a_layer_a_step():
    c, s = chain(7)
    sched = schedule(c, TINY, {s[-1]})
    assert [sched.layer_of[id(u)] for u in c.units] == list(range(1, 8)) and sched.critical == 7


def test_what_nobody_reads_is_left_out():
    c, s = chain(3)
    dead = c.signal("dead")
    unit = c.unit(s[1], 1, dead, "for nothing")
    c.unit(dead, 1, c.signal("dead too"), "for nothing either")
    assert id(unit) not in schedule(c, TINY, {s[-1]}).layer_of


def test_a_layer_holds_no_more_than_its_heads():
    c = Circuit()
    x = c.signal("x", is_input=True)
    out = c.bits("out", 30)
    for o in out:
        c.unit(x, 1, o, "copy")
    total = c.signal("sum", 0, 30)
    for o in out:
        c.unit(o, 1, total, "count")
    end = c.signal("end", 0, 30)
    c.unit(total, 1, end, "the end")
    sched = schedule(c, TINY, {end})
    assert all(len(u) <= 8 for u in sched.layer_units) and sched.layers >= 9
    check_order(c, sched, {end})


def test_revisions_wait_for_every_reader_of_what_they_change():
    c = Circuit()
    x = c.signal("x", is_input=True)
    a = c.signal("a")
    c.unit(x, 1, a, "a")
    b = c.revise(a, "b", 0, 2)
    late = [c.signal(f"late{k}") for k in range(4)]
    c.unit(x, 1, late[0], "delay")
    for k in range(3):
        c.unit(late[k], 1, late[k + 1], "delay")
    reader = c.unit(a + late[3] - 1, 1, c.signal("seen"), "reads a at the end of the delay")
    change = c.unit(1, 1, b, "changes a")
    final = c.unit(b + c.signals["seen"], 1, c.signal("end", 0, 3), "reads b")
    sched = schedule(c, TINY, {c.signals["end"]})
    layer = {op.note: sched.layer_of[id(op)] for op in c.units if id(op) in sched.layer_of}
    assert layer[reader.note] == 5 and layer[change.note] == 5 and layer[final.note] == 6


def test_ties_share_a_layer():
    c, s = chain(4)
    out = c.signal("out", 0, 3)
    with c.together():
        first = c.unit(s[0], 1, out, "ready at once")
        second = c.unit(s[4], 1, out, "ready late")
    c.unit(out, 1, c.signal("end", 0, 3), "end")
    sched = schedule(c, TINY, {c.signals["end"]})
    assert sched.layer_of[id(first)] == sched.layer_of[id(second)] == 5


def test_a_memory_head_counts_as_a_whole_head():
    c = Circuit()
    x = c.signal("x", is_input=True)
    for k in range(3):
        c.add_head(MemoryHead(f"m{k}", {0: x.form()}, {0: x.form()}, [x.form()], [x.form()], [((c.signal(f"y{k}"), 1),)]))
    end = c.signal("end", 0, 3)
    c.unit(sum((c.signals[f"y{k}"] for k in range(3)), x * 0), 1, end, "sum")
    sched = schedule(c, TINY, {end})
    assert [len(h) for h in sched.layer_heads] == [2, 1, 0] and [len(u) for u in sched.layer_units] == [0, 0, 1]


def waiting(eager, window, after=()):
    """Layer of a copy of the input whose only reader is at the end of a chain of 8; after: links of the chain it waits for."""
    c, s = chain(8)
    with c.eager(eager):
        side = c.signal("side")
        head = c.add_head(MemoryHead("side", {0: s[0].form()}, {0: s[0].form()}, [s[0].form()], [s[0].form()], [((side, 1),)],
                                     after=tuple(s[k] for k in after)))
        unit = c.unit(s[0], 1, c.signal("copy"), "copy")
    end = c.signal("end")
    c.unit(side + c.signals["copy"] + s[8] - 2, 1, end, "end")
    sched = schedule(c, TINY, {end}, window=window)
    check_order(c, sched, {end})
    assert sched.layers == 9
    return sched.layer_of[id(head)], sched.layer_of[id(unit)]


def test_nothing_starts_long_before_it_is_needed():
    """A result takes a dim from its first layer on: ops wait until `window` layers before their last chance, eager ones do not."""
    assert waiting(False, 1) == (7, 7) and waiting(False, 3) == (5, 5) and waiting(False, 0) == (8, 8)
    assert waiting(True, 1) == (1, 1)


def test_a_head_waits_for_what_it_comes_after():
    assert waiting(True, 1, after=[5]) == (6, 1) and waiting(False, 1, after=[7]) == (8, 7)


def test_a_layer_may_be_full_from_the_end():
    """Many late readers: the schedule from the end backwards keeps the budget, too, and the latest chance moves down with it."""
    c, s = chain(4)
    sides = []
    for k in range(20):
        sides.append(c.signal(f"side{k}"))
        c.unit(s[0], 1, sides[-1], "copy")
    end = c.signal("end", 0, 21)
    c.unit(sum(sides, s[4] * 1), 1, end, "end")
    sched = schedule(c, TINY, {end}, window=0)
    assert sched.layers == 5 and all(len(u) <= 8 for u in sched.layer_units)
    check_order(c, sched, {end})


def test_spare_slots_are_kept_free():
    c, s = chain(3)
    end = c.signal("end", 0, 21)
    sides = c.bits("side", 6)
    for x in sides:
        c.unit(s[0], 1, x, "copy")
    c.unit(sum(sides, s[3] * 1), 1, end, "end")
    sched = schedule(c, TINY, {end}, window=0, spare_units=4)
    assert all(len(u) <= 4 for u in sched.layer_units)
    check_order(c, sched, {end})


def test_cycles_and_double_revisions_are_refused():
    c, s = chain(2)
    c.unit(s[2], 1, s[1], "back")
    with pytest.raises(CompileError, match="cycle"):
        schedule(c, TINY, {s[2]})
    c, s = chain(2)
    for name in ("one", "two"):
        c.unit(1, 1, c.revise(s[1], name), name)
    with pytest.raises(CompileError, match="revised twice"):
        schedule(c, TINY, {s[2]})


def test_components():
    assert len(set(components([[1], [2], [0], [0], []]))) == 3
    found = components([[1], [2], [0], [0], []])
    assert found[0] == found[1] == found[2] != found[3]


def test_every_op_is_a_unit_or_a_head():
    c = compiled()
    assert all(isinstance(u, Unit) for u in sum(c.schedule.layer_units, []))
    assert all(isinstance(h, MemoryHead) for h in sum(c.schedule.layer_heads, []))
