"""A stage's results, loads, stores and address checks at every EXEC and NEXT, against the machine interpreter."""

import random

import pytest
from circuit_runner import GROUPED, MACHINES, SMALL, CircuitRunner, follow
from machine_programs import random_setup, setup_ids, word

from qgpu.circuit.machine import build_machine
from qgpu.machine.description import ARTICLE, DEFAULT
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
    for number, (trap, instruction) in enumerate(zip(r.mc.bus.trap, run.program.instructions)):
        wrong = [lane for lane, on in enumerate(run.active) if on and instruction.lines & {"ld", "st"}
                 and not is_word(r.machine, run.stages[number].a[lane] + run.stages[number].b[lane] & MASK)]
        assert (r.value[trap] > 0) == bool(wrong), (number + 1, wrong)
    store = run.program.store_stage
    for lane in range(r.machine.lanes):
        if store is None:
            assert r.number(r.mc.bus.data[lane]) == r.number(r.mc.bus.word[lane]) == 0
        elif not run.bad_lanes:
            assert r.number(r.mc.bus.data[lane]) == run.stages[store].c[lane]
            if run.active[lane]:
                word = r.number(r.mc.bus.word[lane])
                shared, index = divmod(word, 1 << r.machine.window_bits - 2)
                base = r.machine.shared_base if shared else r.machine.global_base
                assert base + 4 * index == run.stages[store].result[lane]


def is_word(m, address):
    """Whether a byte address names a word of global or shared memory."""
    words = {m.global_base + 4 * k for k in range(m.global_words)} | {m.shared_base + 4 * k for k in range(m.shared_words)}
    return address in words


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(100, 103))
def test_random_programs(seed, machine):
    executed = 0
    for r, judge, token in follow(random_setup(seed, MACHINES[machine], 5), limit=150, machine=MACHINES[machine]):
        if token.kind in ("EXEC", "NEXT"):
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


def bytes_of(m):
    """(address, whether it is good): both windows from first to last word, around them, and with bits far above."""
    first, last = m.global_base, m.global_base + 4 * (m.global_words - 1)
    out = [(first, True), (first + 4, True), (last, True), (last + 4, False), (first - 4, False), (first + 1, False), (first + 2, False),
           (0, False), (0x20000, False), (0x80010000, False), (first | 1 << 15, False), (first | 1 << 31, False), (0x30000, False),
           (0xFFFFFFFC, False), (m.shared_base - 4, m.global_words == 1 << m.window_bits - 2), (m.shared_base | m.global_base, False)]
    end = m.shared_base + 4 * m.shared_words
    return out + [(m.shared_base, bool(m.shared_words)), (end - 4, bool(m.shared_words)), (end, False), (end + 2, False),
                  (m.shared_base << 1, False)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("line", ["ld", "st"])
def test_which_addresses_are_good(line, machine):
    """Alignment, window and size are checked; word by word what the page says."""
    m = MACHINES[machine]
    r, v = CircuitRunner(m), Vocabulary(m)
    dest = (1 if line == "ld" else 0,) + (0,) * (m.stages - 1)
    block = Block((I(F({"add", line}), Source.ZERO, Source.IMMEDIATE),), dest, m.exit_target)
    for i in setup_ids(m, [block], 1):
        r.feed(i)
    inits = [Token("INIT", (g,)) for g in range(1, m.groups)]
    outcomes = set()
    for address, good in bytes_of(m):                    # only the immediate changes
        again = [*v.value_tokens(address), Token("PROG", (4, 0)), Token("WARP", (0, 0, 1)), *inits, Token("EXEC", (0, (0,) * m.lanes))]
        for token in again:
            r.feed(v.id_of(token))
        assert good == is_word(m, address)
        assert (r.value[r.mc.bus.trap[0]] == 0) == good, hex(address)
        assert (r.next_token() != v.id_of(Token("TRAP"))) == good
        outcomes.add(good)
    assert outcomes == {True, False}


def test_addresses_of_inactive_lanes_do_not_trap():
    m = SMALL
    block = Block((I(F({"add", "ld"}), Source.TID, Source.IMMEDIATE, immediate=m.global_base),), (1, 0), m.exit_target)
    for threads, trapped in ((1, 0), (2, 1)):            # thread 1's address is not aligned
        for r, judge, token in follow(setup_ids(m, [block], threads), limit=1):
            pass
        assert token.kind == "EXEC" and (r.value[r.mc.bus.trap[0]] > 0) == trapped == bool(judge.last_exec.bad_lanes)


def test_a_block_s_own_store_is_not_seen_by_its_load():
    m = SMALL
    block = Block((I(F({"add", "ld"}), Source.ZERO, Source.IMMEDIATE, immediate=m.global_base),
                   I(F({"add", "st"}), Source.ZERO, Source.IMMEDIATE, Source.ZERO, m.global_base)), (1, 0), m.exit_target)
    for r, judge, token in follow(setup_ids(m, [block], 1, {0: 77}), limit=1):
        pass
    assert r.number(r.mc.results[0][0]) == 77


def test_every_word_of_both_memories_is_loaded_from_its_row():
    """Global words in two heads, shared ones behind them: the immediate goes over all."""
    m = GROUPED
    r, v = CircuitRunner(m), Vocabulary(m)
    block = Block((I(F({"add", "ld"}), Source.ZERO, Source.IMMEDIATE),), (1, 0, 0), m.exit_target)
    held = {k: 0x9E3779B9 * (k + 1) & MASK for k in range(m.words)}
    for i in setup_ids(m, [block], 1, held):
        r.feed(i)
    for k, value in held.items():
        address = m.global_base + 4 * k if k < m.global_words else m.shared_base + 4 * (k - m.global_words)
        for token in [*v.value_tokens(address), Token("PROG", (4, 0)), Token("WARP", (0, 0, 1)), Token("EXEC", (0, (0, 0)))]:
            r.feed(v.id_of(token))
        assert r.number(r.mc.results[0][0]) == value, k


def test_registers_of_every_group_and_warp_are_their_own():
    """Each thread writes its number times 1000 plus the register's to every register, then all are read, a class each port."""
    m = GROUPED
    last = m.exit_target
    write = [Block((None, I(F({"mul"}), Source.TID, Source.IMMEDIATE, Source.ZERO, 1000),
                    I(F({"add"}), Result(2), Source.IMMEDIATE, immediate=k)), (0, 0, k), k) for k in range(1, m.registers + 1)]
    read = Block((I(F({"sub"}), Register(2), Register(1)), I(F({"mul"}), Register(3), Register(4), Register(5)),
                  I(F({"add"}), Register(5), Register(3))), (0, 0, 0), last)
    blocks = [*write, read]
    checked = 0
    for r, judge, token in follow(setup_ids(m, blocks, 2 * m.warp_size), 900, machine=m):
        if token.kind in ("EXEC", "NEXT"):
            check_results(r, judge)
            checked += judge.block == m.registers and all(judge.active)
    assert checked == 2 * m.groups and judge.ended == "END"
    assert judge.registers[1][3][1][1:] == [15 * 1000 + k for k in range(1, m.registers + 1)]


@pytest.mark.parametrize("machine, mul, shift, bits, high", [(ARTICLE, "24", "13", "", ""), (DEFAULT, "24", "13", "2", "4"), (GROUPED, "2", "1", "2", "3")],
                         ids=["article", "default", "grouped"])
def test_units_only_where_the_description_puts_them(machine, mul, shift, bits, high):
    """In every lane of those stages; loads only where stage_load says."""
    c = build_machine(machine).circuit
    parts = {u.group for u in c.units}
    for name, stages in (("mul", mul), ("shift", shift), ("bits", bits), ("mulhi", high)):
        wanted = {f"s{s}.l{lane}.{name}" for s in stages for lane in range(machine.lanes)}
        assert {".".join(p.split(".")[:3]) for p in parts if p.split(".")[2:3] == [name]} == wanted
    assert {h.name.split(".")[0] for h in c.heads if ".memory" in h.name} == {f"s{s}" for s in machine.stage_load}
