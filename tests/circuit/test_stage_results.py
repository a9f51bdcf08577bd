"""A stage's results, loads, stores and address checks at every EXEC, against the machine interpreter."""

import random

import pytest
from circuit_runner import SMALL, CircuitRunner, follow
from machine_programs import random_setup, setup_ids, word

from qgpu.circuit.machine import build_machine
from qgpu.machine.description import ARTICLE
from qgpu.machine.encoding import Block, Instruction, Register, Result, Source
from qgpu.machine.tokens import Token, Vocabulary

I, F = Instruction, frozenset
MASK = 0xFFFFFFFF


def check_results(r, judge):
    """All lanes, active or not (a shuffle may take an inactive lane's)."""
    run = judge.last_exec
    for stage, lanes in enumerate(r.mc.results):
        found = [r.number(bits) for bits in lanes]
        assert found == [x & MASK for x in run.stages[stage].result], (stage + 1, run.program.instructions[stage])
    assert (r.value[r.mc.bus.trap] > 0) == bool(run.bad_lanes)
    store = run.program.store_stage
    for lane in range(r.machine.lanes):
        if store is None:
            assert r.number(r.mc.bus.data[lane]) == r.number(r.mc.bus.word[lane]) == 0
        elif not run.bad_lanes:
            assert r.number(r.mc.bus.data[lane]) == run.stages[store].c[lane]
            if run.active[lane]:
                assert r.number(r.mc.bus.word[lane]) == (run.stages[store].result[lane] - r.machine.global_base) // 4


@pytest.mark.parametrize("seed", range(100, 103))
def test_random_programs(seed):
    executed = 0
    for r, judge, token in follow(random_setup(seed, SMALL, 5), limit=40):
        if token.kind == "EXEC":
            check_results(r, judge)
            executed += 1
    assert executed


SHIFTS = [(op, amount) for op in ("shl", "shr", "sar") for amount in (0, 1, 31, 32, 33, 0x80000000)]
BINARY = ["add", "sub", "xor", "and"]


def test_operations_at_edges():
    """Stage 1 adds, shifts and compares; stage 2 multiplies and chooses, on edge operands of registers and immediates."""
    m, rng = SMALL, random.Random(5)
    for _ in range(2):
        blocks = []
        for k in range(m.blocks - 1):
            op, amount = rng.choice(SHIFTS)
            first = rng.choice([I(F({op}), Register(1), Source.IMMEDIATE, immediate=amount),
                                I(F({rng.choice(BINARY)}), Register(1), Source.IMMEDIATE, immediate=word(rng)),
                                I(F({"set", "signed", "lt"}), Register(1), Register(2))])
            second = rng.choice([I(F({"mul"}), Result(1), Register(2), Register(1)), I(F({"sel"}), Register(1), Register(2), Result(1)),
                                 I(F({"minmax", "gt", "signed"}), Result(1), Source.IMMEDIATE, immediate=word(rng))])
            blocks.append(Block((first, second), (1, 2), k + 1))
        blocks.append(Block((I(F({"add", "ld"}), Source.ZERO, Source.IMMEDIATE, immediate=m.global_base), None), (1, 0), m.exit_target))
        memory = {0: word(rng)}
        blocks = [Block((blocks[-1].stages[0], I(F({"add"}), Source.TID, Source.IMMEDIATE, immediate=word(rng))), (1, 2), 1),
                  *[Block(b.stages, b.dest, n) for n, b in zip((2, 3, m.exit_target), blocks[:3])]]
        count = 0
        for r, judge, token in follow(setup_ids(m, blocks, m.lanes, memory), limit=50):
            if token.kind == "EXEC":
                check_results(r, judge)
                count += 1
        assert count == 4


ADDRESSES = [(ARTICLE.global_base, True), (ARTICLE.global_base + 4 * 8, True), (ARTICLE.global_base + 4 * 9, False),
             (ARTICLE.global_base + 1, False), (ARTICLE.global_base + 2, False), (0, False), (0x20000, False), (0x80010000, False),
             (ARTICLE.global_base | 1 << 9, False), (ARTICLE.global_base | 1 << 15, False), (0x30000, False)]


@pytest.mark.parametrize("line", ["ld", "st"])
def test_which_addresses_are_good(line):
    """SMALL has 9 words; alignment, window and size are checked, for active lanes alone."""
    m = SMALL
    r, v = CircuitRunner(m), Vocabulary(m)
    block = Block((I(F({"add", line}), Source.ZERO, Source.IMMEDIATE), None), (1, 0) if line == "ld" else (0, 0), m.exit_target)
    for i in setup_ids(m, [block], 1):
        r.feed(i)
    for address, good in ADDRESSES:                      # only the immediate changes
        again = [*v.value_tokens(address), Token("PROG", (4, 0)), Token("WARP", (0,)), Token("EXEC", (0, (0, 0)))]
        for token in again:
            r.feed(v.id_of(token))
        assert (r.value[r.mc.bus.trap] == 0) == good, hex(address)
        assert (r.next_token() != v.id_of(Token("TRAP"))) == good


def test_a_block_s_own_store_is_not_seen_by_its_load():
    m = SMALL
    block = Block((I(F({"add", "ld"}), Source.ZERO, Source.IMMEDIATE, immediate=m.global_base),
                   I(F({"add", "st"}), Source.ZERO, Source.IMMEDIATE, Source.ZERO, m.global_base)), (1, 0), m.exit_target)
    for r, judge, token in follow(setup_ids(m, [block], 1, {0: 77}), limit=1):
        pass
    assert r.number(r.mc.results[0][0]) == 77


def test_units_only_where_the_description_puts_them():
    names = {s for s in build_machine(ARTICLE).circuit.signals if ".l0.mul" in s or ".l0.shift" in s}
    assert {s[:2] for s in names if "mul" in s} == {"s2", "s4"} and {s[:2] for s in names if "shift" in s} == {"s1", "s3"}
