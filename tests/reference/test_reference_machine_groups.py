"""Groups, barriers, ballots and grids of the machine interpreter, on streams worked out by hand (docs/machine.md section 2)."""

from __future__ import annotations

import pytest
from machine_assembly import ARTICLE, DEFAULT, MIDDLE

from qgpu.errors import FaultError
from qgpu_reference.machine import MachineInterpreter, check_stream

EXIT = 32
stage, block, ids = MIDDLE.stage, MIDDLE.block, MIDDLE.ids


def launch(blocks, memory=None, hand=MIDDLE, **shape):
    machine = MachineInterpreter(hand.sizes)
    return machine, machine.run(hand.setup(blocks, memory, **shape), max_tokens=10_000)


def begun(blocks, text, **shape):
    """A machine of MIDDLE that was fed a setup and then these records, whatever they are; and what it expects."""
    machine = MachineInterpreter(MIDDLE.sizes)
    for token in MIDDLE.setup(blocks, **shape) + ids(text):
        expected = machine.feed(token)
    return machine, expected


def of_lanes(values):
    return "; ".join(f"SVAL {v}" for v in values)


TID = [block(stage("add", "tid"), live=[1], dest=(5, 0, 0, 0))]


# ---- groups ------------------------------------------------------------------------------------------------------------
def test_groups_run_one_after_another():
    machine, out = launch(TID)
    assert out == ids("""INIT 1; EXEC 0 ....; SVAL 0; SVAL 1; SVAL 2; SVAL 3
                         NEXT 1 FFFF; SVAL 4; SVAL 5; SVAL 6; SVAL 7; PARK FFFF; END""")
    assert [[lane[5] for lane in group] for group in machine.registers[0]] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("last, rest, targets", [
    (1, "SVAL 0; PARK F...; END", [[0, EXIT, EXIT, EXIT], [EXIT] * 4]),
    (4, "SVAL 0; SVAL 1; SVAL 2; SVAL 3; PARK FFFF; END", [[0] * 4, [EXIT] * 4]),
    (6, "SVAL 0; SVAL 1; SVAL 2; SVAL 3; NEXT 1 FFFF; SVAL 4; SVAL 5; PARK FF..; END", [[0] * 4, [0, 0, EXIT, EXIT]]),
])
def test_lanes_without_a_thread_exit_at_once(last, rest, targets):
    assert launch(TID, last=last)[1] == ids("INIT 1; EXEC 0 ....; " + rest)
    assert begun(TID, "INIT 1", last=last)[0].targets[0] == targets


def test_only_the_last_warp_is_partial():
    machine, out = launch(TID, warps=2, last=1)
    assert out == ids("""INIT 1; EXEC 0 ....; SVAL 0; SVAL 1; SVAL 2; SVAL 3
                         NEXT 1 FFFF; SVAL 4; SVAL 5; SVAL 6; SVAL 7; PARK FFFF
                         WARP 1 0 1; INIT 1; EXEC 0 ....; SVAL 8; PARK F...; END""")
    assert machine.registers[1][0][0][5] == 8 and machine.registers[1][1][0][5] == 0


def test_groups_diverge_and_a_block_is_run_for_group_0_even_if_idle():
    # Threads 0..4 go to block 2, the others by block 1.
    program = [block(stage(), stage(), stage(), stage("set lt", "tid", "imm", imm=5), branch=1, fall=1, taken=2),
               block(stage("add", "imm", imm=7), live=[1], dest=(1, 0, 0, 0), fall=2),
               block(stage("add", "tid", "r1"), live=[1], dest=(2, 0, 0, 0))]
    machine, out = launch(program)
    assert out == ids("""INIT 1; EXEC 0 ....; NEXT 1 TTTT
                         EXEC 1 TFFF; NEXT 1 ....; SVAL 7; SVAL 7; SVAL 7
                         EXEC 2 .FFF; SVAL 0; SVAL 1; SVAL 2; SVAL 3
                         NEXT 1 FFFF; SVAL 4; SVAL 12; SVAL 13; SVAL 14; PARK FFFF; END""")
    assert machine.targets[0] == [[EXIT] * 4] * 2


def test_next_skips_idle_groups():
    # Groups 2 and 5 of 8 (bits of 36) go on to block 1.
    s, b = DEFAULT.stage, DEFAULT.block
    program = [b(s("shr", "tid", "imm", imm=2), s(), s("shr", "imm", "r1'", imm=36), s("and", "r3'", "imm", imm=1), branch=1, taken=1),
               b(s("add", "tid"), live=[1], dest=(31, 0, 0, 0))]
    machine, out = launch(program, hand=DEFAULT)
    assert out == DEFAULT.ids(f"""INIT 1-7; EXEC 0 ....; NEXT 1 FFFF; NEXT 2 FFFF; NEXT 3 TTTT; NEXT 4 FFFF; NEXT 5 FFFF
                                  NEXT 6 TTTT; NEXT 7 FFFF; EXEC 1 FFFF; NEXT 2 ....; {of_lanes(range(8, 12))}
                                  NEXT 5 FFFF; {of_lanes(range(20, 24))}; PARK FFFF; END""")
    assert machine.registers[0][5][3][31] == 23


def test_the_last_warp_of_the_default_machine_fills_some_groups():
    machine, out = launch([DEFAULT.block(DEFAULT.stage("add", "tid"), live=[1], dest=(1, 0, 0, 0))], hand=DEFAULT, warps=8, last=9)
    tail = DEFAULT.ids(f"""WARP 7 0 1; INIT 1-7; EXEC 0 ....; {of_lanes(range(224, 228))}; NEXT 1 FFFF; {of_lanes(range(228, 232))}
                           NEXT 2 FFFF; SVAL 232; PARK F...; END""")
    assert out[-len(tail):] == tail


def test_a_block_that_jumps_to_itself_starts_again_at_group_0():
    # r1 = tid >> 2 (the group); block 1 counts it down and is left below 0.
    program = [block(stage("shr", "tid", "imm", imm=2), live=[1], dest=(1, 0, 0, 0), fall=1),
               block(stage("sub", "r1", "imm", imm=1), stage(), stage(), stage("set gt eq signed", "r1'"), live=[1],
                     dest=(1, 0, 0, 0), branch=1, taken=1, fall=EXIT)]
    _, out = launch(program)
    assert out == ids(f"""INIT 1; EXEC 0 ....; {of_lanes([0] * 4)}; NEXT 1 FFFF; {of_lanes([1] * 4)}
                          EXEC 1 FFFF; {of_lanes([2047] * 4)}; NEXT 1 FFFF; {of_lanes([0] * 4)}
                          EXEC 1 TTTT; NEXT 1 ....; {of_lanes([2047] * 4)}; PARK FFFF; END""")


def test_stores_and_traps_belong_to_a_group():
    # Thread t stores at word 4t of 20, so thread 4 is the last with a good address.
    program = [block(stage("shl", "tid", "imm", imm=4), stage("add st", "r1'", "imm", c="r9", imm=128), store=1)]
    machine, out = launch(program)
    assert out == ids("INIT 1; EXEC 0 ....; SVAL 0; MEM 0; SVAL 0; MEM 4; SVAL 0; MEM 8; SVAL 0; MEM 12; NEXT 1 FFFF; TRAP")
    assert machine.last_exec.bad_lanes == (1, 2, 3) and machine.last_exec.group == 1


def test_a_later_group_sees_the_stores_of_an_earlier_one():
    # Each thread adds 1 to word 0, in one block: lanes of a group all read the same, the second group what the first stored.
    program = [block(stage("add ld", "imm", imm=128), stage("add", "r1'", "imm", imm=1), stage("add st", "imm", c="r2'", imm=128),
                     store=1)]
    machine, _ = launch(program, {0: 10})
    assert machine.memory[0] == 12


# ---- barriers ----------------------------------------------------------------------------------------------------------
# Warp 1 leaves in block 0. Block 1 is a barrier.
BARRIER = [block(stage("shr", "tid", "imm", imm=3), stage(), stage(), stage("set eq", "r1'", "imm", imm=1), branch=1, taken=EXIT,
                 fall=1),
           block(stage("add", "tid"), live=[1], dest=(1, 0, 0, 0), barrier=1, fall=2),
           block(stage("add", "r1", "imm", imm=1), live=[1], dest=(2, 0, 0, 0))]
BARRIER_STREAM = """INIT 1; EXEC 0 ....; NEXT 1 FFFF
    EXEC 1 FFFF; SVAL 0; SVAL 1; SVAL 2; SVAL 3; NEXT 1 FFFF; SVAL 4; SVAL 5; SVAL 6; SVAL 7; PARK FFFF
    WARP 1 1 1; INIT 1; EXEC 0 ....; NEXT 1 TTTT; PARK TTTT
    WARP 2 1 1; INIT 1; EXEC 0 ....; EXEC 1 F...; SVAL 16; PARK F...
    WARP 0 0 0; EXEC 2 ....; SVAL 1; SVAL 2; SVAL 3; SVAL 4; NEXT 1 FFFF; SVAL 5; SVAL 6; SVAL 7; SVAL 8; PARK FFFF
    WARP 1 0 0; WARP 2 0 0; EXEC 2 ....; SVAL 17; PARK F...; """


def test_barrier_with_a_warp_that_left_early():
    machine, out = launch(BARRIER, warps=3, last=1)
    assert out == ids(BARRIER_STREAM + "END")
    assert (machine.warp, machine.parked, machine.first) == (2, False, False)


def test_rounds_of_two_barriers():
    # Blocks 0 and 1 are barriers; thread 8 alone makes warp 1. A parked warp makes a round even if the last warp is through.
    program = [block(stage(), stage(), stage(), stage("set eq", "tid", "imm", imm=8), branch=1, taken=2, fall=1, barrier=1),
               block(barrier=1, fall=2), block()]
    _, out = launch(program, warps=2, last=1)
    assert out == ids("""INIT 1; EXEC 0 ....; NEXT 1 FFFF; PARK FFFF; WARP 1 1 1; INIT 1; EXEC 0 ....; PARK T...
                         WARP 0 0 0; EXEC 1 ....; NEXT 1 FFFF; PARK FFFF; WARP 1 1 0; EXEC 2 ....; PARK F...
                         WARP 0 0 0; EXEC 2 ....; NEXT 1 FFFF; PARK FFFF; WARP 1 0 0; END""")


def test_a_barrier_stops_the_whole_warp_and_it_goes_on_at_the_smallest_target():
    # Odd lanes wait at block 2 while the even ones reach the barrier, block 1.
    program = [block(stage(), stage(), stage(), stage("and", "tid", "imm", imm=1), branch=1, taken=2, fall=1),
               block(barrier=1, fall=3), block(fall=3), block()]
    _, out = launch(program, last=4)
    assert out == ids("""INIT 1; EXEC 0 ....; EXEC 1 FTFT; PARK F.F.
                         WARP 0 0 0; EXEC 2 ....; EXEC 3 .F.F; PARK FFFF; END""")


def test_barriers_in_article():
    s, b = ARTICLE.stage, ARTICLE.block
    program = [b(s("add", "tid"), live=[1], dest=(1, 0, 0, 0), barrier=1, fall=1), b(s("add", "r1", "r1"), live=[1], dest=(2, 0, 0, 0))]
    _, out = launch(program, hand=ARTICLE, warps=2, last=1)
    assert out == ARTICLE.ids("""EXEC 0 ....; SVAL 0; SVAL 1; SVAL 2; SVAL 3; PARK FFFF; WARP 1 1 1; EXEC 0 ....; SVAL 4; PARK F...
                                 WARP 0 0 0; EXEC 1 ....; SVAL 0; SVAL 2; SVAL 4; SVAL 6; PARK FFFF
                                 WARP 1 0 0; EXEC 1 ....; SVAL 8; PARK F...; END""")


# ---- ballots -----------------------------------------------------------------------------------------------------------
READ = block(stage("add", "ballot"), live=[1], dest=(1, 0, 0, 0))


def test_a_vote_is_read_by_the_next_block():
    program = [block(stage(), stage(), stage(), stage("set lt", "tid", "imm", imm=5), vote=1, clear=1, fall=1, taken=1), READ]
    machine, out = launch(program)
    assert out == ids(f"""INIT 1; EXEC 0 ....; NEXT 1 TTTT; EXEC 1 TFFF; {of_lanes([31] * 4)}; NEXT 1 FFFF; {of_lanes([31] * 4)}
                          PARK FFFF; END""")
    assert machine.ballots == [31, 0, 0]


def test_a_ballot_has_32_bits():
    s, b = DEFAULT.stage, DEFAULT.block
    program = [b(s(), s(), s(), s("and", "tid", "imm", imm=1), vote=1, fall=1, taken=1),
               b(s("add", "ballot"), live=[1], dest=(1, 0, 0, 0))]
    machine, _ = launch(program, hand=DEFAULT, warps=2, last=6)
    assert machine.ballots[:3] == [0xAAAAAAAA, 0x2A, 0]
    assert machine.registers[0][7][3][1] == 0xAAAAAAAA and machine.registers[1][1][1][1] == 0x2A


@pytest.mark.parametrize("clear, seen", [(0, 0xF5), (1, 0x05)])
def test_clear_forgets_the_votes_of_groups_that_stay_away(clear, seen):
    # All vote 1; group 1 leaves for block 3; group 0 votes again; block 3 reads.
    program = [block(stage(), stage(), stage(), stage("add", "imm", imm=1), vote=1, fall=1, taken=1),
               block(stage(), stage(), stage(), stage("set gt", "tid", "imm", imm=3), branch=1, fall=2, taken=3),
               block(stage(), stage(), stage(), stage("xor", "tid", "imm", imm=1), vote=1, clear=clear, fall=3, taken=3), READ]
    machine, out = launch(program)
    assert out == ids(f"""INIT 1; EXEC 0 ....; NEXT 1 TTTT; EXEC 1 TTTT; NEXT 1 FFFF; EXEC 2 TTTT; EXEC 3 TFTF
                          {of_lanes([seen] * 4)}; NEXT 1 FFFF; {of_lanes([seen] * 4)}; PARK FFFF; END""")
    assert machine.ballots[0] == seen


def test_lanes_that_do_not_vote_lose_their_bit():
    # Without clear: in the second vote the odd lanes of both groups are elsewhere.
    program = [block(stage(), stage(), stage(), stage("add", "imm", imm=1), vote=1, fall=1, taken=1),
               block(stage(), stage(), stage(), stage("and", "tid", "imm", imm=1), branch=1, fall=2, taken=3),
               block(stage(), stage(), stage(), stage("add", "imm", imm=1), vote=1, fall=3, taken=3), READ]
    assert launch(program)[0].ballots[0] == 0x55


def test_a_vote_block_sees_the_ballot_after_clear_and_before_its_own_groups_vote():
    program = [block(stage(), stage(), stage(), stage("add", "imm", imm=1), vote=1, fall=1, taken=1),
               block(stage("add", "ballot"), stage(), stage(), stage("add", "imm", imm=1), live=[1], dest=(1, 0, 0, 0), vote=1, clear=1,
                     fall=2, taken=2), block()]
    _, out = launch(program)
    assert out == ids(f"""INIT 1; EXEC 0 ....; NEXT 1 TTTT; EXEC 1 TTTT; {of_lanes([0] * 4)}; NEXT 1 TTTT; {of_lanes([15] * 4)}
                          EXEC 2 TTTT; NEXT 1 FFFF; PARK FFFF; END""")


def test_park_records_votes_and_a_warp_has_its_own_ballot():
    program = [block(stage(), stage(), stage(), stage("set lt", "tid", "imm", imm=10), vote=1, fall=EXIT, taken=EXIT)]
    machine, out = launch(program, warps=2, last=5)
    assert out == ids("INIT 1; EXEC 0 ....; NEXT 1 TTTT; PARK TTTT; WARP 1 0 1; INIT 1; EXEC 0 ....; NEXT 1 TTFF; PARK F...; END")
    assert machine.ballots == [0xFF, 0x03, 0]


def test_exec_after_init_records_no_votes_as_a_vote():
    # The block before is the vote of warp 0: the untouched outcome makes the last group's bits of warp 1 zero.
    program = [block(stage(), stage(), stage(), stage("add", "imm", imm=1), vote=1, fall=EXIT, taken=EXIT)]
    machine, _ = begun(program, "INIT 1; EXEC 0 ....; NEXT 1 TTTT; PARK TTTT; WARP 1 0 1; INIT 1", warps=2)
    machine.ballots[1] = 0xFF
    machine.feed(ids("EXEC 0 ....")[0])
    assert machine.ballots == [0xFF, 0x0F, 0]


# ---- grids -------------------------------------------------------------------------------------------------------------
INDEX = [block(stage("add", "ctax"), stage("add", "ctay"), stage("add", "ctaz"), live=[1, 2, 3], dest=(1, 2, 3, 0))]
TURN = {"x": "SVAL 1; BLOCK x; WARP 0 0 1", "y": "SVAL 0; BLOCK x; SVAL 1; BLOCK y; WARP 0 0 1",
        "z": "SVAL 0; BLOCK x; SVAL 0; BLOCK y; SVAL 1; BLOCK z; WARP 0 0 1"}


def at(x, y, z):
    return f"INIT 1; EXEC 0 ....; SVAL {x}; SVAL {y}; SVAL {z}; PARK F..."


def test_a_grid_of_2_by_2_by_2():
    machine, out = launch(INDEX, last=1, grid=(2, 2, 2))
    assert out == ids(";".join([
        at(0, 0, 0), TURN["x"], at(1, 0, 0), TURN["y"], at(0, 1, 0), TURN["x"], at(1, 1, 0), TURN["z"],
        at(0, 0, 1), TURN["x"], at(1, 0, 1), TURN["y"], at(0, 1, 1), TURN["x"], at(1, 1, 1), "END"]))
    assert machine.index == [1, 1, 1] and machine.grid == [2, 2, 2]


def test_a_grid_of_2_by_1_by_2():
    _, out = launch(INDEX, last=1, grid=(2, 1, 2))
    assert out == ids(";".join([at(0, 0, 0), TURN["x"], at(1, 0, 0), TURN["z"], at(0, 0, 1), TURN["x"], at(1, 0, 1), "END"]))


def test_a_long_grid():
    # Thread block k stores k at word 0: 1024 of them, the most there can be.
    program = [block(stage("add", "ctax"), stage("add st", "imm", c="r1'", imm=128), store=1)]
    machine, out = launch(program, last=1, grid=(1024, 1, 1))
    assert out[:9] == ids("INIT 1; EXEC 0 ....; SVAL 0; MEM 0; PARK F...; SVAL 1; BLOCK x; WARP 0 0 1; INIT 1")
    assert out[-7:] == ids("WARP 0 0 1; INIT 1; EXEC 0 ....; SVAL 1023; MEM 0; PARK F...; END") and machine.memory[0] == 1023


def test_barriers_in_a_grid():
    machine, out = launch(BARRIER, warps=3, last=1, grid=(1, 2, 1))
    assert out == ids(BARRIER_STREAM + "SVAL 0; BLOCK x; SVAL 1; BLOCK y; WARP 0 0 1; " + BARRIER_STREAM + "END")


def test_a_second_launch_has_its_own_grid():
    machine, _ = launch(INDEX, last=1, grid=(1, 1, 2))
    again = ids("SVAL 1; GRID x; SVAL 0; GRID z; SVAL 0; BLOCK z; WARP 0 0 1")
    assert machine.run(again) == ids(";".join([at(0, 0, 0), TURN["x"], at(1, 0, 0), "END"]))


# ---- forged tokens -----------------------------------------------------------------------------------------------------
FORK = [block(stage(), stage(), stage(), stage("set lt", "tid", "imm", imm=5), branch=1, fall=1, taken=2), block(fall=2), block()]


def expects(blocks, text, expected, **shape):
    machine, found = begun(blocks, text, **shape)
    assert machine.describe(found) == machine.describe(ids(expected)[0])
    return machine


def test_forged_outcomes_and_groups_are_followed():
    machine = expects(FORK, "INIT 1; EXEC 0 ....; NEXT 1 FTT.", "EXEC 0 TFFF")
    assert machine.targets[0] == [[1, 2, 2, 0], [0] * 4]  # lane 3 was not recorded and waits at block 0
    machine = expects(FORK, "INIT 1; EXEC 0 ....; NEXT 0 TTTT", "NEXT 1 ....")
    assert machine.group == 0 and machine.active == [False] * 4
    expects(FORK, "INIT 1; EXEC 0 ....; NEXT 1 TTTT; EXEC 2 TTTT", "NEXT 1 FFFF")


def test_forged_park_stops_a_warp():
    machine = expects(FORK, "INIT 1; EXEC 0 ....; PARK TTTT", "WARP 1 1 1", warps=2)
    assert machine.targets[0] == [[2] * 4, [0] * 4]
    expects(FORK, "INIT 1; EXEC 0 ....; PARK TTTT", "WARP 0 0 0")
    expects(FORK, "INIT 1; EXEC 0 ....; PARK TTTT; WARP 0 0 0", "EXEC 0 ....")


def test_forged_warps_and_inits_are_followed():
    expects(FORK, "INIT 1; INIT 0", "INIT 1")
    expects(FORK, "INIT 1; EXEC 0 ....; WARP 1 1 1", "INIT 1", warps=2)
    machine = expects(FORK, "INIT 1; EXEC 0 ....; WARP 1 1 1; WARP 0 1 0", "EXEC 0 ....", warps=2)
    assert (machine.warp, machine.parked, machine.first, machine.last_exec) == (0, True, False, None)
    # A warp that is through hands on the flag it was given.
    expects([block()], "INIT 1; EXEC 0 ....; NEXT 1 FFFF; PARK FFFF; WARP 0 1 0", "WARP 1 1 0", warps=2)
    expects([block()], "INIT 1; EXEC 0 ....; NEXT 1 FFFF; PARK FFFF; WARP 0 1 0", "WARP 0 0 0")


def test_forged_thread_block_indices_are_followed():
    done = "INIT 1; EXEC 0 ....; SVAL 0; SVAL 0; SVAL 0; PARK F..."
    machine = expects(INDEX, done + "; SVAL 2; BLOCK x", "WARP 0 0 1", last=1, grid=(4, 1, 1))
    assert machine.index == [2, 0, 0]
    expects(INDEX, done + "; SVAL 0; BLOCK x", "SVAL 0", last=1, grid=(4, 1, 1))  # the next index along y
    machine = expects(INDEX, done + "; SVAL 0; BLOCK z", "WARP 0 0 1", last=1, grid=(4, 1, 1))
    assert machine.index == [0, 0, 0]
    expects(INDEX, done + "; VAL 1", "SVAL 0", last=1, grid=(4, 1, 1))
    expects(INDEX, done + "; WARP 0 0 1", "INIT 1", last=1, grid=(4, 1, 1))  # without its index
    assert begun(INDEX, done + "; END", last=1, grid=(4, 1, 1))[0].ended == "END"


@pytest.mark.parametrize("text, last", [
    ("SVAL 1", "WARP 0 0 1"), ("VAL 1", "WARP 0 0 1"), ("SVAL 1", "MEM 0"), ("", "BLOCK x"), ("", "MEM 0"), ("SVAL 1", "GRID x")])
def test_thread_block_indices_that_cannot_be(text, last):
    machine, _ = begun(INDEX, "INIT 1; EXEC 0 ....; SVAL 0; SVAL 0; SVAL 0; PARK F...;" + text, last=1, grid=(4, 1, 1))
    before = machine.expected
    with pytest.raises(FaultError, match="cannot come here"):
        machine.feed(ids(last)[0])
    assert machine.expected == before


def test_a_copy_goes_its_own_way():
    machine, _ = begun(BARRIER, "INIT 1; EXEC 0 ....", warps=3, last=1)
    other = machine.copy()
    other.run([])
    assert other.ended == "END" and machine.running and machine.registers[0][0][1][1] == 0 and machine.targets[0][1] == [0] * 4
    assert machine.run([]) == ids(BARRIER_STREAM + "END")[2:]


def test_check_stream_with_groups():
    start = MIDDLE.setup(BARRIER, warps=3, last=1)
    good, n = ids(BARRIER_STREAM + "END"), len(start)
    assert check_stream(MIDDLE.sizes, start + good, n) == []
    wrong = list(good)
    wrong[good.index(ids("WARP 1 1 1")[0])] = ids("WARP 1 0 1")[0]  # the flag is lost, and with it the next one's
    differences = check_stream(MIDDLE.sizes, start + wrong, n)
    assert [(e, f) for _, e, f in differences] == [(ids("WARP 1 1 1")[0], ids("WARP 1 0 1")[0]), (ids("WARP 2 0 1")[0], ids("WARP 2 1 1")[0])]
