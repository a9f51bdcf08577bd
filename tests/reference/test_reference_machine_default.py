"""What `default` adds to a block: register classes, shared memory, bit counts and upper products (docs/machine.md 3 and 4)."""

from __future__ import annotations

import pytest
from machine_assembly import ARTICLE, DEFAULT, MIDDLE, words

from qgpu.errors import FaultError
from qgpu_reference.machine import MachineInterpreter

stage, block = DEFAULT.stage, DEFAULT.block
GLOBAL, SHARED = 1 << 14, 2 << 14
M1, INT_MIN = 0xFFFFFFFF, 0x80000000


def launch(blocks, memory=None, hand=DEFAULT, last=1, **shape):
    machine = MachineInterpreter(hand.sizes)
    return machine, machine.run(hand.setup(blocks, memory, last=last, **shape), max_tokens=2000)


# ---- words by hand -----------------------------------------------------------------------------------------------------
def test_words_of_the_assembler():
    """The assembler itself, by numbers: register 31 is 1 + 3 * 10, so port 1 holds 11."""
    made = block(stage("mul", "r31", "r30", "r29"), stage("clz", "r1'"), stage("add", "ballot", "imm", imm=7),
                  stage("mulhi", "r2'", "r3'", "r1'"), fall=128, taken=5, live=[2, 4], dest=(1, 31, 0, 2), branch=1, clear=1)
    assert made[0] == 1 | 31 << 5 | 2 << 15
    assert made[1] == 128 | 5 << 8 | 0b1010 << 16 | 0b10001 << 20
    assert made[2:5] == [11 | 11 << 4 | 10 << 8 | 1 << 13 | 1 << 15 | 1 << 20, 1 << 13, 0]  # a_p1, b_p0, c_p2
    assert made[5:8] == [1 << 21, 1 << 19, 0]  # a_r1
    assert made[8:11] == [1 << 28, 1 | 1 << 26, 7]  # b_imm, a_ballot
    assert made[11:14] == [1 << 22 | 1 << 27 | 1 << 29, 1 << 21, 0]  # a_r2, b_r3, c_r1


def test_all_31_registers_are_written_and_read_through_their_ports():
    writes = [block(*[stage("add", "imm", imm=1000 + r if r else 0) for r in range(k, k + 4)], live=[1, 2, 3, 4], fall=k // 4 + 1,
                    dest=range(k, k + 4)) for k in range(0, 32, 4)]
    reads = [block(stage("add", f"r{r}"), stage("add", "imm", f"r{r}"), stage(), stage("mul", "0", "0", f"r{r}"), live=[1, 2, 4],
                   fall=128 if r == 31 else 8 + r) for r in range(1, 32)]
    machine, out = launch(writes + reads)
    assert machine.registers[0][0][0] == [0] + [1000 + r for r in range(1, 32)]
    expected = []
    for r in range(1, 32):
        expected += DEFAULT.ids(f"EXEC {7 + r} F...") + words(1000 + r) * 3
    assert out[-len(expected) - 2:] == expected + DEFAULT.ids("PARK F...; END")


@pytest.mark.parametrize("a, b, c", [("r31", "r30", "r29"), ("r30", "r29", "r31"), ("r29", "r31", "r30"), ("r3", "r3", "r3"),
                                     ("r3", "r4", "r3"), ("r1", "r2", "0"), ("0", "r8", "r8")])
def test_an_instruction_reads_one_register_of_each_class(a, b, c):
    content = {f"r{r}": 3 * r + 1 for r in range(1, 32)} | {"0": 0}
    machine = MachineInterpreter(DEFAULT.sizes)
    for token in DEFAULT.setup([block(stage(), stage("mul", a, b, c), live=[2], dest=(0, 7, 0, 0))], last=1):
        machine.feed(token)
    machine.registers[0][0][0] = [0] + [3 * r + 1 for r in range(1, 32)]
    machine.run([])
    assert machine.registers[0][0][0][7] == content[a] * content[b] + content[c]


def operand_words(word):
    return block([word, 1, 0], live=[1], dest=(1, 0, 0, 0))


def test_ports_that_read_nothing():
    # a_p0 with p0 = 0 reads nothing, with p0 = 1 register 0; p1 = 2 (register 4) that no operand selects does nothing.
    for word in (1 << 12, 1 | 1 << 12, 2 << 4):
        machine, out = launch([operand_words(word)])
        assert out[-3:] == DEFAULT.ids("SVAL 0; PARK F...; END")


@pytest.mark.parametrize("word, why", [
    (12 | 1 << 12, "beyond r31"), (12 << 4 | 1 << 13, "beyond r31"), (11 << 8 | 1 << 14, "beyond r31"), (15, "beyond r31"),
    (2 | 2 << 4 | 3 << 12, "2 sources for operand A"), (2 | 1 << 12 | 1 << 24, "2 sources for operand A"),
    (1 << 24 | 1 << 28 | 1 << 15, "2 sources for operand B"), (1 << 21, "not earlier"), (1 << 31, "not earlier")])
def test_operand_words_without_a_meaning(word, why):
    with pytest.raises(FaultError, match=why):
        launch([operand_words(word)])


@pytest.mark.parametrize("content, why", [
    (block(stage(), stage("add ld", "imm", imm=GLOBAL)), "stage 2 cannot load"), (block(stage("mul", "tid")), "stage 1 cannot multiply"),
    (block(stage("popc", "tid")), "stage 1 cannot count bits"), (block(stage("mulhi", "tid")), "stage 1 cannot give the upper half"),
    (block(stage(), stage("popc clz", "tid")), "operation lines clz popc"), (block(stage(), stage("popc add", "tid")), "operation lines"),
    (block(stage(), stage(), stage(), stage("mul mulhi", "tid")), "operation lines mul mulhi"),
    (block(fall=126), "neither a block nor EXIT"), (block(fall=129), "neither a block nor EXIT"),
    (block(vote=1, fall=3, taken=4), "targets differ"), ([0, 128 | 1 << 25] + [0] * 12, "header word 1"),
    ([1 << 20, 128] + [0] * 12, "header word 0")])
def test_programs_without_a_meaning(content, why):
    with pytest.raises(FaultError, match=why):
        launch([content])


def test_the_last_block_of_the_rom():
    _, out = launch({0: block(fall=125), 125: block(stage("add", "imm", imm=9), live=[1], dest=(1, 0, 0, 0))})
    assert out[-5:] == DEFAULT.ids("EXEC 0 ....; EXEC 125 F...; SVAL 9; PARK F...; END")


# ---- operations --------------------------------------------------------------------------------------------------------
OPERATIONS = [
    ("popc", 0, 0, 0), ("popc", M1, 0, 32), ("popc", 0x80000001, 0, 2), ("popc", 0x0F0F1234, 5, 13),
    ("clz", 0, 0, 32), ("clz", 1, 0, 31), ("clz", M1, 0, 0), ("clz", 0x00010000, 7, 15),
    ("brev", 1, 0, INT_MIN), ("brev", INT_MIN, 9, 1), ("brev", 0x12345678, 0, 0x1E6A2C48), ("brev", M1, 0, M1), ("brev", 0, 0, 0),
    ("mulhi", M1, M1, 0xFFFFFFFE), ("mulhi", 0x10000, 0x10000, 1), ("mulhi", INT_MIN, 2, 1), ("mulhi", 0xFFFF, 0x10001, 0),
    ("mulhi", 0x12345678, 0x9ABCDEF0, 0x0B00EA4E),
]


@pytest.mark.parametrize("lines, a, b, result", OPERATIONS)
def test_operation(lines, a, b, result):
    at = 4 if lines == "mulhi" else 2
    program = [block(stage("add", "imm", imm=a), stage("add", "imm", imm=b), stage("add", "imm", imm=M1), live=[1, 2, 3],
                     dest=(1, 2, 3, 0), fall=1),
               block(*[stage()] * (at - 1), stage(lines, "r1", "r2", "r3"), live=[at], dest=(4, 4, 4, 4))]
    assert launch(program)[0].registers[0][0][0][4] == result


def test_shuffles_stay_within_a_group():
    # Lane d takes A of lane 3 - d.
    machine, _ = launch([MIDDLE.block(MIDDLE.stage("shfl", "tid", imm=0x1248), live=[1], dest=(1, 0, 0, 0))], hand=MIDDLE, last=8)
    assert [[lane[1] for lane in group] for group in machine.registers[0]] == [[3, 2, 1, 0], [7, 6, 5, 4]]


def test_thread_numbers_count_warps_groups_and_lanes():
    machine, _ = launch([block(stage("add", "tid"), live=[1], dest=(1, 0, 0, 0))], warps=3, last=32)
    assert [lane[1] for warp in machine.registers[:3] for group in warp for lane in group] == list(range(96))


# ---- memory ------------------------------------------------------------------------------------------------------------
def test_shared_words_are_numbered_after_global_ones():
    program = [block(stage(), stage("add", "imm", imm=77), stage("add st", "imm", c="r2'", imm=SHARED + 4 * 1023), store=1, fall=1),
               block(stage("add ld", "imm", imm=SHARED + 4 * 1023), stage(), stage("add st", "imm", c="r1'", imm=GLOBAL + 4 * 4095),
                     store=1, live=[1], dest=(1, 0, 0, 0))]
    machine, out = launch(program)
    assert out[-8:] == DEFAULT.ids("SVAL 77; MEM 5119; EXEC 1 F...; SVAL 77; SVAL 77; MEM 4095; PARK F...; END")
    assert machine.memory[5119] == machine.memory[4095] == 77 and sum(map(bool, machine.memory)) == 2


GOOD = [(128, 0), (204, 19), (256, 20), (284, 27)]
BAD = [0, 4, 124, 129, 130, 208, 252, 288, 257, 384, 388, 512, 512 + 128, 0x80000080, 128 + 1024]


@pytest.mark.parametrize("address, word", GOOD + [(a, None) for a in BAD])
@pytest.mark.parametrize("kind", ["ld", "st"])
def test_good_and_bad_addresses(address, word, kind):
    # 20 global words at 128 and 8 shared ones at 256, in windows of 128 bytes.
    program = [MIDDLE.block(MIDDLE.stage(f"add {kind}", "imm", imm=address, c="r1"), store=int(kind == "st"))]
    machine, out = launch(program, hand=MIDDLE)
    expected = "TRAP" if word is None else "PARK F...; END" if kind == "ld" else f"SVAL 0; MEM {word}; PARK F...; END"
    assert out == MIDDLE.ids("INIT 1; EXEC 0 ....;" + expected)
    assert machine.last_exec.bad_lanes == ((0,) if word is None else ())


@pytest.mark.parametrize("address, value", [
    (132, 11), (260, 22), (133, 11), (135, 11), (132 + 512, 11), (260 + 512, 22), (260 + 0xFFFFFE00, 22), (204, 33), (208, 0),
    (4, 0), (516, 0), (384, 0), (388, 0), (284, 44), (288, 0), (128 + 1, 55)])
def test_loads_of_any_address(address, value):
    # Lane 1 of a block of one thread is never active: its load shows in the trace, and lane 0 takes it.
    s = MIDDLE.stage
    program = [MIDDLE.block(s("set eq", "tid"), s("mul", "r1'", "imm", imm=128 - address), s("add ld", "r2'", "imm", imm=address),
                            s("shfl", "r3'", imm=0x2222), live=[4], dest=(0, 0, 0, 1))]
    machine, out = launch(program, {0: 55, 1: 11, 19: 33, 21: 22, 27: 44}, hand=MIDDLE)
    assert out == MIDDLE.ids(f"INIT 1; EXEC 0 ....; SVAL {value}; PARK F...; END")
    assert machine.last_exec.stages[2].result == [55, value, value, value]


def test_a_load_of_default_looks_at_address_bits_2_to_15():
    machine = MachineInterpreter(DEFAULT.sizes)
    for token in DEFAULT.setup([block(stage("add ld", "r1"))], {1: 11, 4097: 22, 0: 1, 4096: 2}, last=1):
        machine.feed(token)
    addresses = [GLOBAL + 4, SHARED + 4 + (1 << 16), 3 * GLOBAL + 4, SHARED + 4096]
    for lane, address in enumerate(addresses):
        machine.registers[0][0][lane][1] = address
    for token in DEFAULT.ids("INIT 1-7; EXEC 0 ...."):
        machine.feed(token)
    assert machine.last_exec.stages[0].result == [11, 22, 0, 0] and machine.last_exec.bad_lanes == ()


def test_without_shared_words_the_shared_window_is_empty():
    program = [ARTICLE.block(ARTICLE.stage("add ld", "imm", imm=1024))]
    assert launch(program, hand=ARTICLE)[1] == ARTICLE.ids("EXEC 0 ....; TRAP")


def test_a_store_is_seen_by_the_next_block_but_not_by_loads_of_its_own_pass():
    s = MIDDLE.stage
    program = [MIDDLE.block(s("add st", "imm", c="r9", imm=256), s("add ld", "imm", imm=256), store=1, live=[2], dest=(0, 4, 0, 0), fall=1),
               MIDDLE.block(s("add ld", "imm", imm=256), live=[1], dest=(5, 0, 0, 0))]
    machine, out = launch(program, {20: 77}, hand=MIDDLE)
    assert out == MIDDLE.ids("INIT 1; EXEC 0 ....; SVAL 77; SVAL 0; MEM 20; EXEC 1 F...; SVAL 0; PARK F...; END")
