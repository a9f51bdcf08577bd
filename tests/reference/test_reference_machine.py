"""The machine interpreter against programs of `article` assembled and worked out by hand (docs/machine.md)."""

from __future__ import annotations

import pytest
from machine_assembly import ARTICLE, words

from qgpu.errors import FaultError
from qgpu_reference.machine import MachineInterpreter, check_stream
from qgpu_reference.tokens import Sizes, value_ids

SIZES, EXIT, G = ARTICLE.sizes, 32, 512
stage, block, ids, setup = ARTICLE.stage, ARTICLE.block, ARTICLE.ids, ARTICLE.setup
XOR1, XOR2 = 0x4812, 0x2184  # rows of source lanes: lane 0 takes 1, 1 takes 0, 2 takes 3, 3 takes 2; and the same by 2


def launch(blocks, memory=None, **shape):
    machine = MachineInterpreter(SIZES)
    return machine, machine.run(setup(blocks, memory, **shape), max_tokens=2000)


DOT = [
    block(stage("shl", "tid", "imm", imm=2), stage("add ld", "r1'", "imm", imm=G), stage("add ld", "r1'", "imm", imm=G + 16),
          stage("mul", "r2'", "r3'"), live=[4], dest=(0, 0, 0, 1), fall=1),
    block(stage("shfl", "r1", imm=XOR1), stage("add", "r1", "r1'"), stage("shfl", "r2'", imm=XOR2), stage("add", "r2'", "r3'"),
          live=[4], dest=(0, 0, 0, 2), fall=2),
    block(stage(), stage(), stage(), stage("set gt", "tid"), branch=1, taken=EXIT, fall=3),
    block(stage("add st", "imm", c="r2", imm=G + 32), store=1),
]
DOT_MEMORY = {0: 1, 1: 2, 2: 3, 4: 4, 5: 5, 6: 6}


def test_dot_product_stream_and_result():
    machine, out = launch(DOT, DOT_MEMORY)
    assert out == ids("""EXEC 0 ....; SVAL 4; SVAL 10; SVAL 18; SVAL 0; EXEC 1 FFFF; SVAL 32; SVAL 32; SVAL 32; SVAL 32
                         EXEC 2 FFFF; EXEC 3 FTTT; SVAL 32; MEM 8; PARK F...; END""")
    assert machine.memory[8] == 32 and machine.ended == "END"
    assert [lane[2] for lane in machine.registers[0][0]] == [32] * 4


def test_divergent_branch_reconverges_at_the_smallest_block():
    program = [block(stage(), stage(), stage(), stage("set lt", "tid", "imm", imm=2), branch=1, fall=1, taken=2),
               block(stage("add", "imm", imm=7), live=[1], dest=(5, 0, 0, 0), fall=2),
               block(stage("add", "tid", "r5"), live=[1], dest=(6, 0, 0, 0))]
    machine, out = launch(program)
    assert out == ids("""EXEC 0 ....; EXEC 1 TTFF; SVAL 7; SVAL 7; EXEC 2 ..FF
                         SVAL 0; SVAL 1; SVAL 9; SVAL 10; PARK FFFF; END""")
    assert [lane[6] for lane in machine.registers[0][0]] == [0, 1, 9, 10]


def test_loop_runs_each_lane_its_own_number_of_times():
    # r1 = tid; do r1 -= 1 while r1 >= 0 (signed): lane t goes round t + 1 times.
    program = [block(stage("add", "tid"), live=[1], dest=(1, 0, 0, 0), fall=1),
               block(stage("sub", "r1", "imm", imm=1), stage(), stage(), stage("set gt eq signed", "r1'"), live=[1],
                     dest=(1, 0, 0, 0), branch=1, taken=1, fall=EXIT)]
    _, out = launch(program)
    assert out == ids("""EXEC 0 ....; SVAL 0; SVAL 1; SVAL 2; SVAL 3
                         EXEC 1 FFFF; SVAL 2047; SVAL 0; SVAL 1; SVAL 2
                         EXEC 1 FTTT; SVAL 2047; SVAL 0; SVAL 1
                         EXEC 1 .FTT; SVAL 2047; SVAL 0
                         EXEC 1 ..FT; SVAL 2047; PARK ...F; END""")


def test_early_exit_leaves_the_others_running():
    program = [block(stage(), stage(), stage(), stage("and", "tid", "imm", imm=1), branch=1, taken=EXIT, fall=1),
               block(stage("add", "tid", "imm", imm=100), live=[1], dest=(1, 0, 0, 0))]
    machine, out = launch(program)
    assert out == ids("EXEC 0 ....; EXEC 1 FTFT; SVAL 100; SVAL 102; PARK F.F.; END")
    assert [lane[1] for lane in machine.registers[0][0]] == [100, 0, 102, 0]


def test_two_warps_the_last_one_short():
    program = [block(stage("add", "tid"), live=[1], dest=(3, 0, 0, 0))]
    machine, out = launch(program, warps=2, last=2)
    assert out == ids("""EXEC 0 ....; SVAL 0; SVAL 1; SVAL 2; SVAL 3; PARK FFFF
                         WARP 1 0 1; EXEC 0 ....; SVAL 4; SVAL 5; PARK FF..; END""")
    assert [lane[3] for lane in machine.registers[1][0]] == [4, 5, 0, 0]
    assert machine.targets == [[[EXIT] * 4]] * 2 + [[[0] * 4]] * 6


def test_stores_to_one_word_come_in_lane_order():
    machine, out = launch([block(stage("add", "tid", "imm", imm=50), stage("add st", "imm", c="r1'", imm=G + 20), store=1)])
    assert out == ids("EXEC 0 ....; SVAL 50; MEM 5; SVAL 51; MEM 5; SVAL 52; MEM 5; SVAL 53; MEM 5; PARK FFFF; END")
    assert machine.memory[5] == 53


def test_a_load_reads_memory_from_before_the_blocks_store():
    program = [block(stage("add st", "imm", c="r9", imm=G), stage("add ld", "imm", imm=G), store=1, live=[2],
                     dest=(0, 4, 0, 0))]
    machine, out = launch(program, {0: 77}, last=1)
    assert out == ids("EXEC 0 ....; SVAL 77; SVAL 0; MEM 0; PARK F...; END")
    assert machine.registers[0][0][0][4] == 77 and machine.memory[0] == 0


def test_live_results_come_stage_by_stage_and_register_0_drops_its_value():
    program = [block(stage("add", "tid"), stage("add", "r1'", "imm", imm=10), stage("add", "r2'", "r2'"), live=[1, 3],
                     dest=(0, 0, 2, 0))]
    machine, out = launch(program, last=2)
    assert out == ids("EXEC 0 ....; SVAL 0; SVAL 1; SVAL 20; SVAL 22; PARK FF..; END")
    assert machine.registers[0][0][1][:3] == [0, 0, 22]


def test_branch_needs_the_flag():
    program = [block(stage(), stage(), stage(), stage("add", "imm", imm=1), taken=0, fall=EXIT)]
    assert launch(program)[1] == ids("EXEC 0 ....; PARK FFFF; END")


@pytest.mark.parametrize("address", [G + 2, G + 1, G + 126 * 4, G + 127 * 4, 0, 4, 2 * G, 2 * G + 4, 3 * G, 5 * G, 0x80000200,
                                     65536])
@pytest.mark.parametrize("kind", ["ld", "st"])
def test_bad_address_of_an_active_lane_traps(address, kind):
    program = [block(stage("add", "imm", imm=1), stage(f"add {kind}", "imm", imm=address), store=int(kind == "st"),
                     live=[1], dest=(1, 0, 0, 0))]
    machine, out = launch(program)
    assert out == ids("EXEC 0 ....; TRAP")
    assert machine.ended == "TRAP" and machine.registers[0][0][0][1] == 0 and machine.last_exec.bad_lanes == (0, 1, 2, 3)


def test_the_last_word_is_good_and_lanes_that_wait_do_not_trap():
    # Lanes 1..3 skip block 1, whose address is good for lane 0 alone (the last word).
    program = [block(stage(), stage(), stage(), stage("set gt", "tid"), branch=1, taken=EXIT, fall=1),
               block(stage("shl", "tid", "imm", imm=2), stage("add ld", "r1'", "imm", imm=G + 500), live=[2], dest=(0, 1, 0, 0))]
    machine, out = launch(program, {125: -3})
    assert out == ids("EXEC 0 ....; EXEC 1 FTTT; SVAL 2045; PARK F...; END")
    assert machine.registers[0][0][0][1] == 2 ** 32 - 3
    assert machine.last_exec.stages[1].result == [2 ** 32 - 3, 0, 0, 0]  # words beyond the last read 0


@pytest.mark.parametrize("address, value", [
    (G, 11), (G + 4, 22), (G + 5, 22), (G + 7, 22), (G + 4 + 4 * G, 22), (0x80000000 + G + 4, 22), (4, 0), (2 * G + 4, 0),
    (3 * G + 4, 0), (4 * G + 4, 0), (G + 500, 33), (G + 504, 0), (G + 508, 0)])
def test_a_load_looks_at_address_bits_2_to_10_only(address, value):
    # Lane 1 is inactive in block 1, but its load shuffles into lane 0.
    program = [block(stage(), stage(), stage(), stage("set gt", "tid"), branch=1, taken=EXIT, fall=1),
               block(stage("set eq", "tid"), stage("mul", "r1'", "imm", imm=G - address), stage("add ld", "r2'", "imm", imm=address),
                     stage("shfl", "r3'", imm=XOR1), live=[4], dest=(0, 0, 0, 1))]
    machine, out = launch(program, {0: 11, 1: 22, 125: 33})
    assert out == ids(f"EXEC 0 ....; EXEC 1 FTTT; SVAL {value}; PARK F...; END")
    assert machine.last_exec.stages[2].result == [11, value, value, value]


CHUNKS = [(0, "SVAL 0"), (1, "SVAL 1"), (-1, "SVAL 2047"), (1023, "SVAL 1023"), (-1024, "SVAL 1024"),
          (1024, "VAL 1024; SVAL 0"), (2047, "VAL 2047; SVAL 0"), (-1025, "VAL 1023; SVAL 2047"), (2048, "VAL 0; SVAL 1"),
          (-2048, "VAL 0; SVAL 2047"), (2 ** 21 - 1, "VAL 2047; SVAL 1023"), (2 ** 21, "VAL 0; VAL 1024; SVAL 0"),
          (-2 ** 21, "VAL 0; SVAL 1024"), (-2 ** 21 - 1, "VAL 2047; VAL 1023; SVAL 2047"),
          (2 ** 31 - 1, "VAL 2047; VAL 2047; SVAL 511"), (-2 ** 31, "VAL 0; VAL 0; SVAL 1536"),
          (0xDEADBEEF, "VAL 1775; VAL 1463; SVAL 1914")]


@pytest.mark.parametrize("value, text", CHUNKS)
def test_values_are_cut_into_chunks(value, text):
    assert value_ids(Sizes.of(SIZES), value) == ids(text) == words(value)
    program = [block(stage("add", "imm", imm=value), live=[1], dest=(1, 0, 0, 0))]
    machine, out = launch(program, last=1)
    assert out == ids(f"EXEC 0 ....; {text}; PARK F...; END")
    assert machine.registers[0][0][0][1] == value % 2 ** 32


INT_MIN, M1 = 0x80000000, 0xFFFFFFFF
OPERATIONS = [
    ("add", M1, 2, 0, 1), ("sub", 0, 1, 0, M1), ("sub", INT_MIN, 1, 0, 0x7FFFFFFF), ("xor", 0xF0F0, 0xFF00, 0, 0x0FF0),
    ("and", 0xF0F0, 0xFF00, 0, 0xF000), ("xor and", 0xF0F0, 0xFF00, 0, 0xFFF0),
    ("set lt", 1, M1, 0, 1), ("set lt signed", 1, M1, 0, 0), ("set lt signed", INT_MIN, 0, 0, 1), ("set lt", INT_MIN, 0, 0, 0),
    ("set eq", 5, 5, 0, 1), ("set eq", 5, 6, 0, 0), ("set gt", M1, 0, 0, 1), ("set gt signed", M1, 0, 0, 0),
    ("set lt gt", 5, 5, 0, 0), ("set lt gt", 5, 6, 0, 1), ("set lt eq", 6, 5, 0, 0), ("set lt eq gt", 6, 5, 0, 1),
    ("minmax lt", 1, M1, 0, 1), ("minmax lt signed", 1, M1, 0, M1), ("minmax gt", 1, M1, 0, M1),
    ("minmax gt signed", 1, M1, 0, 1), ("minmax eq", 4, 9, 0, 9),
    ("sel", 3, 4, 1, 3), ("sel", 3, 4, 2, 4), ("sel", 3, 4, 3, 3),
    ("mul", M1, M1, 5, 6), ("mul", 0x10000, 0x10000, 7, 7), ("mul", INT_MIN, 3, 1, INT_MIN + 1),
    ("shl", 1, 31, 0, INT_MIN), ("shl", 1, 32, 0, 0), ("shl", 3, M1, 0, 0), ("shl", 5, 0, 0, 5),
    ("shr", INT_MIN, 31, 0, 1), ("shr", M1, 32, 0, 0), ("sar", INT_MIN, 31, 0, M1), ("sar", INT_MIN, 32, 0, M1),
    ("sar", 0x7FFFFFFF, 32, 0, 0), ("sar", INT_MIN, 4, 0, 0xF8000000), ("sar", M1, M1, 0, M1), ("", 9, 9, 9, 0),
]


@pytest.mark.parametrize("lines, a, b, c, result", OPERATIONS)
def test_operation(lines, a, b, c, result):
    body = stage(lines, "r1", "r2", "r3")
    at = 2 if lines == "mul" else 3
    stages = [stage()] * (at - 1) + [body]
    program = [block(stage("add", "imm", imm=a), stage("add", "imm", imm=b), stage("add", "imm", imm=c), live=[1, 2, 3],
                     dest=(1, 2, 3, 0), fall=1),
               block(*stages, live=[at], dest=(4, 4, 4, 4))]
    machine, _ = launch(program, last=1)
    assert machine.registers[0][0][0][4] == result
    trace = machine.last_exec.stages[at - 1]
    assert (trace.a[0], trace.b[0], trace.c[0], trace.result[0]) == (a, b, c, result)


def test_memory_and_registers_outlive_a_launch():
    machine, _ = launch(DOT, DOT_MEMORY)
    again = ids("SVAL 10; MEM 0; CONFIG 2; WARP 0 0 1")  # three threads: lane 3 stays away
    out = machine.run(again)
    assert out[:5] == ids("EXEC 0 ....; SVAL 40; SVAL 10; SVAL 18; EXEC 1 FFF.")
    assert machine.registers[0][0][3][1:3] == [0, 32]  # untouched since the first launch
    assert machine.memory[8] == 68


def test_a_forged_value_is_what_the_register_holds():
    machine = MachineInterpreter(SIZES)
    for token in setup(DOT, DOT_MEMORY):
        machine.feed(token)
    assert machine.feed(ids("EXEC 0 ....")[0]) == ids("SVAL 4")[0]
    other = machine.copy()
    assert machine.feed(ids("VAL 4")[0]) == ids("SVAL 0")[0]  # chunk 1 of 4
    assert machine.feed(ids("SVAL 1")[0]) == ids("SVAL 10")[0]
    assert machine.registers[0][0][0][1] == 2048 + 4
    assert other.feed(ids("SVAL 2047")[0]) == ids("SVAL 10")[0]
    assert other.registers[0][0][0][1] == M1 and machine.registers[0][0][0][1] == 2052
    for token in ids("SVAL 10; SVAL 18; SVAL 0"):
        last = other.feed(token)
    assert last == ids("EXEC 1 FFFF")[0]
    assert other.feed(last) == ids("SVAL 27")[0]  # -1 + 10 + 18


def test_a_forged_outcome_and_block_are_followed():
    machine = MachineInterpreter(SIZES)
    for token in setup(DOT, DOT_MEMORY) + ids("EXEC 0 ....; SVAL 4; SVAL 10; SVAL 18; SVAL 0"):
        machine.feed(token)
    # Lane 3 is not recorded: it stays at block 0, which then is the smallest target.
    assert machine.feed(ids("EXEC 1 FFF.")[0]) == ids("SVAL 32")[0]
    assert machine.active == [True, True, True, False]
    for token in ids("SVAL 32; SVAL 32"):
        machine.feed(token)
    assert machine.feed(ids("SVAL 32")[0]) == ids("EXEC 0 FFF.")[0]
    # A block that nobody waits for runs without lanes and owes nothing.
    assert machine.feed(ids("EXEC 5 FFF.")[0]) == ids("EXEC 0 ....")[0]
    assert machine.active == [False] * 4


def test_forged_store_data_and_word():
    program = [block(stage("add st", "imm", c="r1", imm=G), store=1)]
    machine = MachineInterpreter(SIZES)
    for token in setup(program, last=1) + ids("EXEC 0 ....; SVAL 9"):
        expected = machine.feed(token)
    assert expected == ids("MEM 0")[0]
    assert machine.feed(ids("MEM 7")[0]) == ids("PARK F...")[0]
    assert machine.memory[7] == 9 and machine.memory[0] == 0


BEGIN = setup([block(stage("add", "tid"), live=[1], dest=(1, 0, 0, 0))])
ILLEGAL = [
    ("PROG 0", "no value"), ("MEM 0", "no value"), ("GRID y", "no value"), ("BLOCK y", "no value"),
    ("SVAL 1; NOP", "needs PROG"), ("SVAL 1; SVAL 2", "needs PROG"), ("VAL 1; GRID x", "not complete"),
    ("VAL 1024; SVAL 0; GRID x", "at most 1024"),
    ("VAL 1; PROG 0", "not complete"), ("VAL 1; VAL 1; VAL 1", "at most 3"), ("SVAL 1; CONFIG 0", "needs PROG"),
    ("WARP 0 0 1", "CONFIG"), ("EXEC 0 ....", "no launch"), ("NEXT 0 ....", "no launch"), ("PARK ....", "no launch"),
    ("INIT 0", "no launch"), ("END", "no launch"), ("TRAP", "no launch"),
]


@pytest.mark.parametrize("text, why", ILLEGAL)
def test_illegal_setup(text, why):
    machine = MachineInterpreter(SIZES)
    *start, last = ids(text)
    for token in start:
        machine.feed(token)
    with pytest.raises(FaultError, match=why) as e:
        machine.feed(last)
    assert e.value.where == f"token {len(start)}"


@pytest.mark.parametrize("text, last", [
    ("", "SVAL 1"), ("", "NOP"), ("", "MEM 0"), ("EXEC 0 ....", "EXEC 0 ...."), ("EXEC 0 ....", "MEM 3"),
    ("EXEC 0 ....; VAL 1; VAL 2", "VAL 3"), ("EXEC 0 ....; SVAL 0", "END"), ("EXEC 0 ....", "PROG 3"),
    ("EXEC 0 ....; SVAL 0; SVAL 1; SVAL 2; SVAL 3", "SVAL 0"), ("EXEC 0 ....", "TRAP"), ("EXEC 0 ....", "CONFIG 3"),
    ("EXEC 0 ....", "PARK FFFF"), ("EXEC 0 ....; SVAL 0", "WARP 0 0 1"), ("EXEC 0 ....", "INIT 0"),
    ("EXEC 0 ....", "NEXT 0 FFFF"),
    ("EXEC 0 ....", "GRID x"), ("EXEC 0 ....", "BLOCK x"),
])
def test_illegal_generated_token(text, last):
    machine = MachineInterpreter(SIZES)
    for token in BEGIN + ids(text):
        machine.feed(token)
    before = machine.expected
    with pytest.raises(FaultError, match="cannot come here"):
        machine.feed(ids(last)[0])
    assert machine.expected == before and machine.position == len(BEGIN) + len(ids(text))
    machine.feed(before)  # still goes on as it should


@pytest.mark.parametrize("token", [-1, 7498, 10 ** 9])
def test_ids_outside_the_vocabulary(token):
    with pytest.raises(FaultError, match="not one of the machine's"):
        MachineInterpreter(SIZES).feed(token)


WRONG_PROGRAMS = [
    (block(stage("mul", "tid"), live=[1]), "stage 1 cannot multiply"),
    (block(stage(), stage("shl", "tid")), "stage 2 cannot shift"),
    (block(stage("add sub", "tid")), "operation lines add sub"),
    (block(stage("set", "tid")), "operation lines set"), (block(stage("ld", "tid")), "operation lines ld"),
    (block(stage("lt", "tid")), "operation lines lt"), (block(stage("add signed", "tid")), "operation lines"),
    (block(stage("add", "r2'")), "not earlier"), (block(stage("add", "r1'")), "not earlier"),
    (block([1 | 1 << 15, 1, 0]), "2 sources for operand A"), (block([1 << 24, 1, 0]), "beyond its fields"),
    (block([0, 1 << 27, 0]), "beyond its lines"), (block(stage("popc", "tid")), "stage 1 cannot count bits"),
    (block(stage(), stage(), stage(), stage("mulhi", "tid")), "stage 4 cannot give the upper half"),
    (block([1, 1 | 1 << 22, 0]), "2 sources for operand A"), (block([0, 1 | 3 << 22, 0]), "2 sources for operand A"),
    (block(stage("shfl", "tid", imm=0x8420)), "lane 0 0 source lanes"),
    (block(stage("shfl", "tid", imm=0x8423)), "lane 0 2 source lanes"),
    (block(stage("shfl", "tid", imm=0x18421)), "beyond the lanes"),
    (block(stage("add st", "imm", imm=G)), "store flag is 0"), (block(store=1), "store flag is 1"),
    (block(stage("add st", "imm", imm=G), stage("add st", "imm", imm=G), store=1), "more than one store"),
    (block(vote=1, fall=1, taken=2), "targets differ"), (block(vote=1, fall=1, taken=1, branch=1), "votes and branches"),
    ([0, 1 << 21] + [0] * 12, "header word 1"), ([1 << 16] + [0] * 13, "header word 0"),
    (block(fall=33), "neither a block nor EXIT"), (block(taken=63), "neither a block nor EXIT"),
]


@pytest.mark.parametrize("words_, why", WRONG_PROGRAMS)
def test_programs_without_a_meaning(words_, why):
    machine = MachineInterpreter(SIZES)
    for token in setup([words_]):
        machine.feed(token)
    with pytest.raises(FaultError, match=why):
        machine.feed(machine.expected)


def test_endless_loop_meets_the_limit():
    with pytest.raises(FaultError, match="did not end within 50 tokens"):
        MachineInterpreter(SIZES).run(setup([block(fall=0)]), max_tokens=50)


def test_check_stream_lists_differences():
    start = setup(DOT, DOT_MEMORY)
    good = MachineInterpreter(SIZES).run(start)
    n = len(start)
    assert check_stream(SIZES, start + good, n) == []
    late = good[:12] + ids("SVAL 33; MEM 8; PARK F...; END")
    assert check_stream(SIZES, start + late, n) == [(n + 12, ids("SVAL 32")[0], ids("SVAL 33")[0])]
    illegal = good[:1] + ids("MEM 1; END")
    assert check_stream(SIZES, start + illegal, n) == [(n + 1, ids("SVAL 4")[0], ids("MEM 1")[0])]
    assert check_stream(SIZES, start + good[:-1], n) == [(n + 15, ids("END")[0], None)]
    assert check_stream(SIZES, start + good + good[-1:], n) == [(n + 16, None, ids("END")[0])]
    forged = good[:1] + ids("SVAL 5") + good[2:6] + ids("SVAL 33") * 4 + good[10:12] + ids("SVAL 33; MEM 8; PARK F...; END")
    assert check_stream(SIZES, start + forged, n) == [(n + 1, ids("SVAL 4")[0], ids("SVAL 5")[0])]
    machine = MachineInterpreter(SIZES)
    assert check_stream(SIZES, start + good, n, machine) == []
    assert check_stream(SIZES, ids("WARP 0 0 1") + good, 1, machine) == []


def test_reset_forgets_everything():
    machine, out = launch(DOT, DOT_MEMORY)
    machine.reset()
    assert machine.memory == [0] * 126 and machine.position == 0 and machine.expected is None
    assert machine.run(setup(DOT, DOT_MEMORY)) == out and out[-1] == 7496
