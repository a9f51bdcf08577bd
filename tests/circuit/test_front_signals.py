"""Records and front: what the circuit holds at every token of a launch, against the machine interpreter."""

import random

import pytest
from circuit_runner import GROUPED, MACHINES, SMALL, CircuitRunner, follow
from machine_programs import random_setup, setup_ids, word

from qgpu.circuit.core import Circuit
from qgpu.circuit.counter import check_counting
from qgpu.circuit.latch import increment
from qgpu.circuit.records import build_records, code_of, code_table, payload_bits, payload_layout
from qgpu.machine.description import ARTICLE, DEFAULT
from qgpu.machine.encoding import Block, Instruction, Register, Source
from qgpu.machine.tokens import KINDS, Token, Vocabulary

I, F = Instruction, frozenset


# ---- codes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("machine", [SMALL, GROUPED, ARTICLE, DEFAULT], ids=lambda m: m.name)
def test_every_token_has_its_own_code(machine):
    table = code_table(machine)
    assert len(table) == Vocabulary(machine).size and len({tuple(c) for c in table}) == len(table)
    assert {v for c in table for v in c} == {-1, 1} and all(c[-1] == 1 for c in table)
    assert all(sum(v == 1 for v in c[:len(KINDS)]) == 1 for c in table)


def payload(m, token):
    return code_of(m, token)[len(KINDS):-1]


def bits(m, value):
    return [1 if value >> k & 1 else -1 for k in range(payload_bits(m))]


def test_codes_by_hand():
    m = ARTICLE
    codes = {Token("SVAL", (5,)): 5, Token("PROG", (13, 31)): 31 | 13 << 5, Token("CONFIG", (3, 2)): 2 | 0b1100 << 3,
             Token("GRID", (2,)): 0b100, Token("MEM", (77,)): 77, Token("BLOCK", (1,)): 0b010, Token("WARP", (5, 1, 0)): 5 | 0b01 << 3,
             Token("WARP", (2, 0, 1)): 2 | 0b10 << 3, Token("INIT", (0,)): 0, Token("PARK", ((0, 1, 2, 2),)): 0b1110 | 0b1100 << 4,
             Token("EXEC", (9, (0, 1, 2, 2))): 0b1110 | 0b1100 << 4 | 9 << 8, Token("NEXT", (0, (1, 0, 0, 2))): 0b1001 | 0b1000 << 4}
    for token, value in codes.items():
        assert payload(m, token) == bits(m, value), token


def test_codes_of_groups_by_hand():
    """The outcome lies where EXEC, NEXT and PARK share it, the group where INIT and NEXT do; shared memory has words of its own."""
    m = DEFAULT
    codes = {Token("CONFIG", (8, 30)): 7 | 7 << 3 | 0b1100 << 6, Token("CONFIG", (1, 4)): 0, Token("MEM", (4095,)): 4095,
             Token("MEM", (4096 + 1023,)): 1023 | 1 << 12, Token("INIT", (6,)): 6 << 8, Token("NEXT", (5, (2, 1, 0, 0))): 0b11 | 0b01 << 4 | 5 << 8,
             Token("EXEC", (125, (0, 0, 0, 1))): 0b1000 | 125 << 8, Token("WARP", (7, 1, 1)): 7 | 0b11 << 3}
    for token, value in codes.items():
        assert payload(m, token) == bits(m, value), token


@pytest.mark.parametrize("machine, widest", [(ARTICLE, 13), (DEFAULT, 15)], ids=lambda m: getattr(m, "name", m))
def test_code_dims_are_as_few_as_the_widest_record_needs(machine, widest):
    c = Circuit()
    rec = build_records(c, machine)
    assert len(rec.code) == len(KINDS) + widest + 1 <= 32
    assert payload_bits(machine) == max(sum(w for _, w in f) for f in payload_layout(machine).values()) == widest


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


class Counted:
    """What the interpreter does not keep: items sent since the last EXEC or NEXT, where each value of them goes, the last header."""

    def __init__(self, m):
        self.m, self.since, self.due, self.group, self.running, self.ran = m, None, [], 0, False, None

    def step(self, judge, token):
        """The group before this token is .group_before."""
        self.group_before, self.group = self.group, judge.group
        if token.kind in ("EXEC", "NEXT"):
            self.since, self.due, self.running = 0, [i for i in judge._items], True
            self.ran = list(judge.last_exec.active)
        elif self.since is not None:
            self.since += token.kind in ("SVAL", "MEM")
        if token.kind in ("PARK", "WARP", "INIT", "BLOCK", "CONFIG"):
            self.running = False

    def written(self, token):
        """(lane, register) that this token completes, or None."""
        if token.kind != "SVAL" or not self.running or not 1 <= self.since <= len(self.due):
            return None
        item = self.due[self.since - 1]
        return (item.lane, item.register) if item.kind == "value" and item.register is not None else None


def check_place(r, judge, token, now):
    """Thread block, warp, group and block of the program."""
    m, place = r.machine, r.mc.front.place
    if not judge.running:
        return
    assert r.number(place.warp) == judge.warp and r.value[place.is_last_warp] == (judge.warp == judge.warps - 1)
    assert (r.value[place.parked], r.value[place.first]) == (judge.parked, judge.first)
    assert r.number(place.next_warp) == (judge.warp + 1) % (1 << m.warp_bits)
    assert r.number(place.group) == judge.group and r.value[place.running] == now.running
    assert r.number(place.written_group) == (now.group_before if token.kind in ("EXEC", "NEXT") else judge.group)
    if now.ran is not None:
        assert r.number(place.block) == judge.block
    last = [judge.index[a] == judge.grid[a] - 1 for a in range(3)]
    assert [r.number(bits) for bits in place.index] == judge.index and [r.value[s] for s in place.is_last] == last
    assert [r.number(bits) for bits in place.next_index] == [0 if end else i + 1 for i, end in zip(judge.index, last)]


def check_targets(r, judge, token):
    """Lane targets, of the current group and of the one whose outcome came; the ballot."""
    front, group = r.mc.front, r.number(r.mc.front.place.written_group)
    assert [r.number(t) for t in front.targets] == judge.targets[judge.warp][judge.group]
    assert [r.number(t) for t in front.written_targets] == judge.targets[judge.warp][group]
    assert r.number(front.ballot) == judge.ballots[judge.warp]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(3))
def test_front_of_random_programs(seed, machine):
    """Place, header, targets, ballot, active lanes, item count and register writes at every token."""
    m, ran = MACHINES[machine], 0
    now, most = Counted(m), m.stages * m.lanes + 2 * m.lanes
    for r, judge, token in follow(random_setup(seed, m, 4), limit=150, machine=m):
        front = r.mc.front
        now.step(judge, token)
        check_place(r, judge, token, now)
        if token.kind in ("EXEC", "NEXT"):
            header = header_of(m, judge.program[judge.block])
            assert {n: r.number(b) for n, b in front.header.items()} == header and r.value[front.run] == 1
            assert [r.value[a] for a in front.active] == [float(a) for a in judge.active]
            ran += 1
        else:
            assert not any(r.number(b) for b in front.header.values()) and not any(r.value[a] for a in front.active)
            assert r.value[front.run] == 0
        if judge.running:
            check_targets(r, judge, token)
            count = [r.value[s] for s in r.mc.circuit.signals.values() if s.name.startswith("front.count") and s.name[11:].isdigit()]
            assert len(count) == most and sum(count) == bool(now.since and now.since <= most)
            assert not sum(count) or count[now.since - 1] == 1
        if now.ran is not None:
            assert [r.value[s] for s in front.ran] == now.ran
        lanes, place = [r.value[s] for s in front.write_lane], now.written(token)
        assert lanes == [float(place is not None and k == place[0]) for k in range(m.lanes)]
        assert r.number(front.write_dest) == (place[1] if place else 0)
    assert ran


def selected_items(r):
    f, m = r.mc.front, r.machine
    names = [f"result{s}.{lane}" for s in range(m.stages) for lane in range(m.lanes)]
    selected = [n for n, s in zip(names, [s for row in f.select_result for s in row]) if r.value[s]]
    selected += [f"data{lane}" for lane, s in enumerate(f.select_data) if r.value[s]]
    selected += [f"word{lane}" for lane, s in enumerate(f.select_store) if r.value[s]]
    return selected + ["done"] * bool(r.value[f.done])


def test_the_item_selected_is_the_interpreter_s():
    """Exactly one of: a result, store data, a store's word, done; the one that the interpreter owes next. None after a control record."""
    m = SMALL
    blocks = [Block((I(F({"add"}), Source.TID, Source.IMMEDIATE, immediate=300), I(F({"add", "st"}), Source.ZERO, Source.IMMEDIATE,
                                                                                  Register(1), m.global_base)), (1, 2), m.exit_target)]
    seen = []
    for r, judge, token in follow(setup_ids(m, blocks, 3, grid=(2, 1, 1))):
        selected = selected_items(r)
        if judge.running and token.kind in ("EXEC", "VAL", "SVAL", "MEM") and r.value[r.mc.front.place.running]:
            assert len(selected) == 1
            seen += [n for n in selected if not seen or seen[-1] != n]
        else:
            assert not selected
    assert seen == ["result0.0", "result0.1", "result1.0", "result1.1", "data0", "word0", "data1", "word1", "done",
                    "result0.0", "result1.0", "data0", "word0", "done"] * 2


@pytest.mark.parametrize("seed", range(50, 53))
def test_one_item_is_selected_while_a_group_s_run_is_told(seed):
    m, runs = GROUPED, 0
    for r, judge, token in follow(random_setup(seed, m, 4), limit=120, machine=m):
        telling = judge.running and r.value[r.mc.front.place.running] == 1
        trapped = telling and token.kind in ("EXEC", "NEXT") and judge.last_exec.bad_lanes
        selected = selected_items(r)
        assert len(selected) == telling, (token, selected)
        if telling and not trapped:
            owed = judge._items[0] if judge._items else None
            kind = selected[0].rstrip("0123456789.")
            assert kind == ("done" if owed is None else "word" if owed.kind == "mem" else "data" if owed.register is None else "result")
            assert owed is None or int(selected[0].split(".")[-1].lstrip("resultdatawo")) == owed.lane
            runs += 1
    assert runs


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
