"""Records and front: what the circuit holds at every token of a launch, against the machine interpreter."""

import random

import pytest
from circuit_runner import SMALL, CircuitRunner, follow
from machine_programs import random_setup, setup_ids, word

from qgpu.circuit.core import Circuit
from qgpu.circuit.control import increment
from qgpu.circuit.counter import check_counting
from qgpu.circuit.records import build_records, code_of, code_table, payload_layout
from qgpu.machine.description import ARTICLE
from qgpu.machine.encoding import Block, Instruction, Register, Source
from qgpu.machine.tokens import KINDS, Token, Vocabulary

I, F = Instruction, frozenset


# ---- codes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("machine", [SMALL, ARTICLE], ids=lambda m: m.name)
def test_every_token_has_its_own_code(machine):
    table = code_table(machine)
    assert len(table) == Vocabulary(machine).size and len({tuple(c) for c in table}) == len(table)
    assert {v for c in table for v in c} == {-1, 1} and all(c[-1] == 1 for c in table)
    assert all(sum(v == 1 for v in c[:len(KINDS)]) == 1 for c in table)


def test_codes_by_hand():
    m = ARTICLE
    payload = lambda token: code_of(m, token)[len(KINDS):-1]
    bits = lambda value, n=None: [1 if value >> k & 1 else -1 for k in range(n or len(payload(Token("NOP"))))]
    assert payload(Token("SVAL", (5,))) == bits(5)
    assert payload(Token("PROG", (13, 31))) == bits(31 | 13 << 5)
    assert payload(Token("CONFIG", (3, 2))) == bits(2 | 0b1100 << 3)
    assert payload(Token("EXEC", (9, (0, 1, 2, 2)))) == bits(9 | 0b1110 << 5 | 0b1100 << 9)


def test_code_dims_are_as_few_as_the_widest_record_needs():
    c = Circuit()
    rec = build_records(c, ARTICLE)
    assert len(rec.code) == len(KINDS) + 13 + 1 <= 32
    assert max(sum(w for _, w in f) for f in payload_layout(ARTICLE).values()) == 13


# ---- values ---------------------------------------------------------------------------------------------------------
def test_values_from_their_chunks():
    """After SVAL the 32 value bits are the value sent, however many chunks it took; chunk says which one comes next."""
    r, rng, v = CircuitRunner(SMALL), random.Random(3), Vocabulary(SMALL)
    sizes = set()
    for i in range(60):
        value = word(rng) if i % 2 else rng.getrandbits(rng.randrange(1, 33))
        tokens = v.value_tokens(value)
        sizes.add(len(tokens))
        for k, t in enumerate(tokens):
            r.feed(v.id_of(t))
            after = (k + 1) % len(tokens)
            assert [r.form(f) for f in r.mc.records.chunk] == [float(j == after) for j in range(SMALL.chunks)]
        assert r.number(r.mc.records.value) == value & 0xFFFFFFFF
    assert sizes == {1, 2, 3, 4}


# ---- scheduling -----------------------------------------------------------------------------------------------------
def header_of(m, words):
    return {name: words[w] >> bit & (1 << n) - 1 for name, (w, bit, n) in m.header_fields.items()}


@pytest.mark.parametrize("seed", range(3))
def test_front_of_random_programs(seed):
    """Header, targets, active lanes, warp, item count and register writes at every token."""
    m, ran = SMALL, 0
    since, due = 0, []
    for r, judge, token in follow(random_setup(seed, m, 4), limit=40):
        front = r.mc.front
        if token.kind == "WARP":
            assert r.number(front.warp) == judge.warp and r.value[front.is_last_warp] == (judge.warp == judge.warps - 1)
            assert r.number(front.next_warp) == (judge.warp + 1) % (1 << m.warp_bits)
            since = 0
        if token.kind == "EXEC":
            header = header_of(m, judge.program[judge.block])
            assert {n: r.number(b) for n, b in front.header.items()} == header
            assert [r.value[a] for a in front.active] == [float(a) for a in judge.active]
            since, due = 0, [(i.lane, i.register) for i in judge._items]
            ran += 1
        else:
            assert not any(r.number(b) for b in front.header.values()) and not any(r.value[a] for a in front.active)
        if judge.running:
            assert [r.number(t) for t in front.targets] == judge.targets[judge.warp]
            since += token.kind in ("SVAL", "MEM")
            count = [r.value[s] for s in r.mc.circuit.signals.values() if s.name.startswith("front.count") and s.name[11:].isdigit()]
            assert sum(count) == (since > 0) and (not since or count[since - 1] == 1)
        lanes = [r.form(f) for f in front.write_lane]
        if token.kind == "SVAL" and due and due[since - 1][1] is not None:
            lane, register = due[since - 1]
            assert lanes == [float(k == lane) for k in range(m.lanes)] and r.number(front.write_dest) == register
        elif token.kind != "SVAL":
            assert not any(lanes) and r.number(front.write_dest) == 0
    assert ran


def test_the_item_selected_is_the_interpreter_s():
    """Exactly one of: a result, store data, a store's word, done; the one that the interpreter owes next."""
    m = SMALL
    blocks = [Block((I(F({"add"}), Source.TID, Source.IMMEDIATE, immediate=300), I(F({"add", "st"}), Source.ZERO, Source.IMMEDIATE,
                                                                                  Register(1), m.global_base)), (1, 2), m.exit_target)]
    seen = []
    for r, judge, token in follow(setup_ids(m, blocks, 3)):
        if token.kind not in ("EXEC", "VAL", "SVAL", "MEM"):
            continue
        f = r.mc.front
        names = [f"result{s}.{lane}" for s in range(m.stages) for lane in range(m.lanes)]
        selected = [n for n, s in zip(names, [s for row in f.select_result for s in row]) if r.value[s]]
        selected += [f"data{lane}" for lane, s in enumerate(f.select_data) if r.value[s]]
        selected += [f"word{lane}" for lane, s in enumerate(f.select_store) if r.value[s]]
        selected += ["done"] * bool(r.value[f.done])
        if judge.running and judge.last_exec is not None:
            assert len(selected) == 1
            seen += [n for n in selected if not seen or seen[-1] != n]
    assert seen == ["result0.0", "result0.1", "result1.0", "result1.1", "data0", "word0", "data1", "word1", "done",
                    "result0.0", "result1.0", "data0", "word0", "done"]


def test_increment_wraps():
    c = Circuit()
    bits = [c.signal(f"x{k}", is_input=True) for k in range(3)]
    out = increment(c, bits, "y")
    for x in range(8):
        values = c.evaluate({b: x >> k & 1 for k, b in enumerate(bits)})
        assert sum(int(values[s]) << k for k, s in enumerate(out)) == (x + 1) % 8


# ---- the counter's own proof ----------------------------------------------------------------------------------------
def counter(f, g, w=0.5, most=4):
    c = Circuit()
    power = c.signal("power", 0, 128)
    power.fractional = True
    hot = c.signal("hot")
    c.unit(f(power), g(power), {hot: w}, "two items")
    return check_counting(c, most)


def test_the_counter_is_proved_value_by_value():
    from fractions import Fraction
    y = lambda p: p * Fraction(1, 32)                                     # 4 * 2^-n
    assert counter(lambda p: 2 - y(p), lambda p: 4 * y(p) - 2, Fraction(1, 2)) == []
    assert counter(lambda p: 2 - y(p), lambda p: 4 * y(p) - 1, Fraction(1, 2))        # on at n = 3, too: a fraction
    assert counter(lambda p: 3 - y(p), lambda p: 4 * y(p) - 2, Fraction(1, 2))        # on at n = 1
    assert counter(lambda p: 2 - y(p), lambda p: 4 * y(p) - 2, 1)                     # adds 2 to a bit
    assert counter(lambda p: 2 - 3 * y(p), lambda p: 4 * y(p) - 2, Fraction(1, 2))    # 3/32 and 2 are no two exact terms
    assert counter(lambda p: 2 - y(p), lambda p: Fraction(2) + 0 * p, Fraction(1, 2))  # on for ever after
