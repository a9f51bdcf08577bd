"""What is written next: values in chunks, stores, the next group, block, warp or thread block, end or trap, against the interpreter."""

import itertools
import random

import pytest
from circuit_runner import GROUPED, MACHINES, SMALL, CircuitRunner, follow
from circuit_words import get_word, set_word
from machine_programs import random_setup, setup_ids, word

from qgpu.circuit.core import Circuit
from qgpu.circuit.follow import minimum
from qgpu.circuit.output import OUT_SCALE
from qgpu.machine.encoding import Block, Instruction, Register, Result, Source
from qgpu.machine.tokens import Token
from qgpu_reference.machine import MachineInterpreter

I, F = Instruction, frozenset


def written(ids, limit=80, machine=SMALL):
    """Tokens that the circuit writes after a setup, its own fed back; each checked against the interpreter."""
    out = []
    for r, judge, token in follow(ids, limit, machine=machine):
        if judge.running:
            found = r.next_token()
            assert found == judge.expected, (token, found, judge.expected)
            out.append(r.vocabulary.token(found))
    return out


def control(tokens):
    """All but values and what they are for, in words."""
    return [str(t) for t in tokens if t.kind not in ("VAL", "SVAL", "MEM")]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(200, 203))
def test_random_programs(seed, machine):
    assert written(random_setup(seed, MACHINES[machine], 5), 250, MACHINES[machine])


def test_outputs_are_plus_or_minus_the_scale():
    r = CircuitRunner(SMALL)
    ids = setup_ids(SMALL, [Block((), (), SMALL.exit_target)], 2)
    for i in ids:
        r.feed(i)
        assert all(abs(abs(r.value[s]) - OUT_SCALE) <= 1 for s in r.mc.next_code)
    assert r.vocabulary.token(r.next_token()) == Token("EXEC", (0, (0, 0)))


@pytest.mark.parametrize("value", [0, -1, 127, 128, -128, -129, 2**15 - 1, 2**15, -2**15, 2**23, -2**23 - 1, 2**31 - 1, -2**31, 0x00FFFF80])
def test_values_are_cut_where_the_sign_allows(value):
    blocks = [Block((I(F({"add"}), Source.ZERO, Source.IMMEDIATE, immediate=value & 0xFFFFFFFF), None), (1, 0), SMALL.exit_target)]
    tokens = written(setup_ids(SMALL, blocks, 1))
    assert [t.kind for t in tokens][0] == "EXEC" and tokens[-1].kind == "END"
    r = CircuitRunner(SMALL)
    assert tokens[1:-2] == r.vocabulary.value_tokens(value) and tokens[-2].kind == "PARK"


def test_divergence_warps_and_the_end():
    """Lane 1 branches ahead and waits; the warps follow one another; the last has one thread."""
    m = SMALL
    odd = I(F({"and"}), Source.TID, Source.IMMEDIATE, immediate=1)
    blocks = [Block((None, odd), (0, 0), 1, 2, True), Block((), (), 2), Block((), (), m.exit_target)]
    tokens = written(setup_ids(m, blocks, 3))
    assert control(tokens) == ["EXEC b0 outcome=..", "EXEC b1 outcome=FT", "EXEC b2 outcome=F.", "PARK outcome=FF", "WARP 1 0 1",
                               "EXEC b0 outcome=..", "EXEC b1 outcome=F.", "EXEC b2 outcome=F.", "PARK outcome=F.", "END"]


def test_groups_run_a_block_one_after_the_other():
    """7 threads in 4 groups of 2: the groups that have the block run it in turn; one that went ahead waits; then the smallest target."""
    m = GROUPED
    late = I(F({"set", "gt"}), Source.TID, Source.IMMEDIATE, immediate=3)          # threads 4 to 6
    blocks = [Block((None, None, late), (0, 0, 0), 1, 2, True), Block((), (), 2), Block((), (), m.exit_target)]
    tokens = written(setup_ids(m, blocks, 7), machine=m)
    assert control(tokens) == [
        "INIT 1", "INIT 2", "INIT 3", "EXEC b0 outcome=..", "NEXT g1 outcome=FF", "NEXT g2 outcome=FF", "NEXT g3 outcome=TT",
        "EXEC b1 outcome=T.", "NEXT g1 outcome=FF", "EXEC b2 outcome=FF", "NEXT g1 outcome=FF", "NEXT g2 outcome=FF", "NEXT g3 outcome=FF",
        "PARK outcome=F.", "END"]


def test_groups_without_a_lane_for_the_block_are_passed_over():
    """EXEC always begins with group 0, where nobody may be active; groups 1 and 3 have the block, 2 does not."""
    m = GROUPED
    some = I(F({"and"}), Source.TID, Source.IMMEDIATE, immediate=2)                # threads 2, 3, 6, 7: groups 1 and 3
    low = I(F({"set", "eq"}), Result(1), Source.IMMEDIATE, immediate=0)
    blocks = [Block((some, None, low), (0, 0, 0), 1, 2, True), Block((), (), m.exit_target), Block((), (), m.exit_target)]
    assert control(written(setup_ids(m, blocks, 8), machine=m))[3:] == [
        "EXEC b0 outcome=..", "NEXT g1 outcome=TT", "NEXT g2 outcome=FF", "NEXT g3 outcome=TT",
        "EXEC b1 outcome=FF", "NEXT g1 outcome=..", "NEXT g3 outcome=FF",
        "EXEC b2 outcome=FF", "NEXT g2 outcome=FF", "PARK outcome=FF", "END"]


@pytest.mark.parametrize("machine", MACHINES)
def test_barriers_take_rounds_over_the_warps(machine):
    """Every warp runs to the barrier; a second round goes on behind it; a warp that has left is passed over in it."""
    m = MACHINES[machine]
    leaves = I(F({"set", "lt"}), Source.TID, Source.IMMEDIATE, immediate=m.warp_size)      # the first warp
    empty = (None,) * (m.stages - 1)
    blocks = [Block((*empty, leaves), (0,) * m.stages, 1, m.exit_target, True), Block((), (), 2, barrier=True),
              Block((), (), m.exit_target)]
    tokens = written(setup_ids(m, blocks, m.warp_size + 1), machine=m)
    warps = [t for t in control(tokens) if t.split()[0] in ("WARP", "PARK", "END") or t.startswith("EXEC b2")]
    gone, one, nobody = "T" * m.lanes, "F" + "." * (m.lanes - 1), "." * m.lanes
    assert warps == [f"PARK outcome={gone}", "WARP 1 0 1", f"PARK outcome={one}", "WARP 0 0 0", "WARP 1 0 0",
                     f"EXEC b2 outcome={nobody}", f"PARK outcome={one}", "END"]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_parked_warp_is_remembered_by_those_after_it(machine):
    """The first warp parks, the second leaves: the flag in WARP says that there will be a new round."""
    m = MACHINES[machine]
    stays = I(F({"set", "lt"}), Source.TID, Source.IMMEDIATE, immediate=m.warp_size)
    empty = (None,) * (m.stages - 1)
    blocks = [Block((*empty, stays), (0,) * m.stages, m.exit_target, 1, True), Block((), (), 2, barrier=True),
              Block((), (), 3, barrier=True), Block((), (), m.exit_target)]
    tokens = control(written(setup_ids(m, blocks, 2 * m.warp_size), 200, m))
    assert [t for t in tokens if t.startswith("WARP")] == ["WARP 1 1 1", "WARP 0 0 0", "WARP 1 1 0", "WARP 0 0 0", "WARP 1 0 0"]
    assert tokens[-1] == "END"


def test_votes_reach_every_group():
    """Each group's predicates join the ballot with its outcome, and all groups read it; a block that clears empties it first."""
    m = GROUPED
    chosen = I(F({"set", "gt"}), Source.TID, Source.IMMEDIATE, immediate=3)       # threads 4 to 6
    read = I(F({"add"}), Source.BALLOT, Source.ZERO)
    blocks = [Block((None, None, chosen), (0, 0, 0), 1, vote=True, clear=True), Block((read,), (1, 0, 0), 2),
              Block((), (), 3, clear=True), Block((read,), (2, 0, 0), m.exit_target)]
    ballots = []
    for r, judge, token in follow(setup_ids(m, blocks, 7), 200, machine=m):
        if token.kind in ("EXEC", "NEXT"):
            ballots.append(r.number(r.mc.front.ballot))
        assert not judge.running or r.next_token() == judge.expected
    assert ballots == [0, 0, 0, 0b110000, *[0b1110000] * 4, *[0] * 8] and judge.ended == "END"
    assert [judge.registers[0][t // 2][t % 2][1] for t in range(7)] == [0b1110000] * 7


@pytest.mark.parametrize("machine", MACHINES)
def test_thread_blocks_follow_one_another(machine):
    """x fastest, indices in one value each; a grid of one in y is passed through; END after the last."""
    m = MACHINES[machine]
    blocks = [Block((I(F({"add"}), Source.CTAX, Source.ZERO),), (1,) + (0,) * (m.stages - 1), m.exit_target)]
    tokens, index, seen, value = written(setup_ids(m, blocks, 1, grid=(3, 1, 2)), 400, m), [0, 0, 0], [], None
    for t in tokens:
        if t.kind == "SVAL":
            value = t.fields[0]
        if t.kind == "BLOCK":
            index[t.fields[0]] = value
        if t.kind == "WARP":
            seen.append(tuple(index))
            assert t.fields == (0, 0, 1)
    assert seen == [(1, 0, 0), (2, 0, 0), (0, 0, 1), (1, 0, 1), (2, 0, 1)] and tokens[-1].kind == "END"
    assert [t.fields[0] for t in tokens if t.kind == "BLOCK"] == [0, 0, 0, 1, 2, 0, 0]


def test_the_largest_grid():
    """The index's top bit stays 0, so that it is one token."""
    m = SMALL
    assert m.largest_grid == 128
    r = CircuitRunner(m)
    ids = setup_ids(m, [Block((), (), m.exit_target)], 1, grid=(128, 1, 1))
    v = r.vocabulary
    start = ids[:-7] + [v.id_of(Token(*t)) for t in (("SVAL", (126,)), ("BLOCK", (0,)), ("SVAL", (0,)), ("BLOCK", (1,)), ("SVAL", (0,)),
                                                       ("BLOCK", (2,)), ("WARP", (0, 0, 1)))]
    tokens = []
    for r, judge, token in follow(start, 40, r):
        if judge.running:
            assert r.next_token() == judge.expected
            tokens.append(str(v.token(judge.expected)))
    assert tokens == ["EXEC b0 outcome=..", "PARK outcome=F.", "SVAL 127", "BLOCK 0", "WARP 0 0 1", "EXEC b0 outcome=..",
                      "PARK outcome=F.", "END"]


def test_a_trap_stops_the_launch_before_any_value():
    m = SMALL
    blocks = [Block((I(F({"add"}), Source.TID, Source.IMMEDIATE, immediate=9),
                     I(F({"add", "ld"}), Source.ZERO, Source.IMMEDIATE, immediate=4)), (1, 2), m.exit_target)]
    assert [t.kind for t in written(setup_ids(m, blocks, 2))] == ["EXEC", "TRAP"]


def test_a_second_launch_in_the_same_stream():
    """Registers, memory and program outlive END; a program word may be replaced."""
    m, rng = SMALL, random.Random(8)
    store = I(F({"add", "st"}), Source.ZERO, Source.IMMEDIATE, Register(1), m.global_base + 8)
    blocks = [Block((I(F({"add"}), Register(1), Source.IMMEDIATE, immediate=word(rng)), store), (1, 0), m.exit_target)]
    r, judge = CircuitRunner(m), MachineInterpreter(m)
    for launch in range(2):
        for i in setup_ids(m, blocks, 1 + launch):
            judge.feed(i)
            r.feed(i)
        count = 0
        while judge.running:
            found = r.next_token()
            assert found == judge.expected
            judge.feed(found)
            r.feed(found)
            count += 1
        assert count > 4
        blocks = [Block((I(F({"sub"}), Register(1), Source.IMMEDIATE, immediate=launch), store), (1, 0), m.exit_target)]


def test_minimum_of_all_pairs():
    for n in (2, 3):
        c = Circuit()
        x, y = ([c.signal(f"{name}{k}", is_input=True) for k in range(n)] for name in "xy")
        out = minimum(c, x, y, "least", n)
        for a, b in itertools.product(range(1 << n), repeat=2):
            inputs = {}
            set_word(inputs, x, a)
            set_word(inputs, y, b)
            assert get_word(c.evaluate(inputs), out) == min(a, b)
