"""What is written next: values in chunks, stores, the next block, warp, end or trap, against the machine interpreter."""

import itertools
import random

import pytest
from circuit_runner import SMALL, CircuitRunner, follow
from circuit_words import get_word, set_word
from machine_programs import random_setup, setup_ids, word

from qgpu.circuit.core import Circuit
from qgpu.circuit.tail import OUT_SCALE, minimum
from qgpu.machine.encoding import Block, Instruction, Register, Source
from qgpu.machine.tokens import Token
from qgpu_reference.machine import MachineInterpreter

I, F = Instruction, frozenset


def written(ids, limit=50):
    """Tokens that the circuit writes after a setup, its own fed back; each checked against the interpreter."""
    out = []
    for r, judge, token in follow(ids, limit):
        if judge.running:
            found = r.next_token()
            assert found == judge.expected, (token, found, judge.expected)
            out.append(r.vocabulary.token(found))
    return out


@pytest.mark.parametrize("seed", range(200, 202))
def test_random_programs(seed):
    assert written(random_setup(seed, SMALL, 5))


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
    assert tokens[1:-1] == r.vocabulary.value_tokens(value)


def test_divergence_warps_and_the_end():
    """Lane 1 branches ahead and waits; the warps follow one another; the last has one thread."""
    m = SMALL
    odd = I(F({"and"}), Source.TID, Source.IMMEDIATE, immediate=1)
    blocks = [Block((None, odd), (0, 0), 1, 2, True), Block((), (), 2), Block((), (), m.exit_target)]
    tokens = written(setup_ids(m, blocks, 3))
    assert [str(t) for t in tokens] == ["EXEC b0 outcome=..", "EXEC b1 outcome=FT", "EXEC b2 outcome=F.", "WARP 1",
                                        "EXEC b0 outcome=..", "EXEC b1 outcome=F.", "EXEC b2 outcome=F.", "END"]


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
