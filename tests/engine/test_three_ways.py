"""Random straight-line and branching programs: circuit = machine interpreter = PTX interpreter, on every token and on memory.

Operands are edge values (0, -1, INT_MIN, 31, 32 and others) as often as not. Programs of raw machine blocks, which no compiler would
write, are held to the machine interpreter alone.
"""

from functools import cache

import pytest
from circuit_judges import follow, random_three_ways, three_ways
from engine_machines import GROUPED, weights
from hypothesis import HealthCheck, given, settings
from machine_programs import random_setup
from ptx_programs import EDGES, programs, seeded_program
from simt_programs import seeded_simt_program

from qgpu.engine.sparse import SparseEngine
from qgpu.machine.description import ARTICLE, DEFAULT, Machine
from qgpu.machine.tokens import Vocabulary


@cache
def engine(machine: Machine = ARTICLE) -> SparseEngine:
    return SparseEngine(weights(machine))


CHECKS = dict(deadline=None, suppress_health_check=list(HealthCheck))


def test_edge_values_are_among_the_operands():
    assert {0, -1, -2**31, 31, 32} <= set(EDGES)


@settings(max_examples=12, **CHECKS)
@given(programs(statements=8))
def test_random_programs(p):
    random_three_ways(engine(), p)


@pytest.mark.parametrize("seed", range(3000, 3012))
def test_seeded_programs(seed):
    random_three_ways(engine(), seeded_program(seed, statements=8))


@pytest.mark.parametrize("machine", [ARTICLE, GROUPED], ids=lambda m: m.name)
@pytest.mark.parametrize("seed", range(12))
def test_raw_machine_programs(seed, machine):
    """Every operand source, dead results, votes, barriers, grids, traps, endless loops: the first 150 tokens."""
    e = engine(machine)
    e.reset()
    assert follow(e, random_setup(seed, machine, 2 + seed % 5), 150)[0]


@pytest.mark.slow
@settings(max_examples=500, **CHECKS)
@given(programs(statements=14))
def test_many_random_programs(p):
    random_three_ways(engine(), p)


@pytest.mark.slow
def test_many_seeded_programs():
    ran = [random_three_ways(engine(), seeded_program(seed, statements=12)) for seed in range(10_000, 10_500)]
    fitted = [len(ids) for ids in ran if ids]
    print(f"{len(fitted)} of {len(ran)} programs fit, {sum(fitted)} tokens, the longest {max(fitted)}")
    assert len(fitted) > 400


@pytest.mark.slow
@pytest.mark.parametrize("machine, programs", [(ARTICLE, 500), (GROUPED, 500), (DEFAULT, 150)], ids=lambda x: getattr(x, "name", None))
def test_many_raw_machine_programs(machine, programs):
    e, tokens, ends = engine(machine), 0, []
    for seed in range(500, 500 + programs):
        e.reset()
        out, judge = follow(e, random_setup(seed, machine, min(2 + seed % 12, machine.blocks)), 300)
        tokens, ends = tokens + len(out), ends + [judge.ended]
    assert tokens > 40 * programs and {"END", "TRAP", ""} == set(ends)


@pytest.mark.slow
def test_seeded_programs_for_warps_of_32():
    """The machine `default`: barriers, votes, shuffles, atomics, shared memory, thread blocks."""
    ran = [random_three_ways(engine(DEFAULT), seeded_simt_program(seed, statements=10)) for seed in range(30_000, 30_030)]
    kinds = {Vocabulary(DEFAULT).token(i).kind for ids in ran for i in ids}
    assert sum(map(bool, ran)) > 20 and kinds >= {"INIT", "EXEC", "NEXT", "PARK", "WARP", "BLOCK", "MEM", "END"}


# ---- hundreds of blocks ---------------------------------------------------------------------------------------------
LONG = """.version 8.0
.target sm_75
.address_size 32
.visible .entry long(.param .b32 p0)
{{
	.reg .pred %p<4>;
	.reg .b32 %r<10>;
	ld.param.b32 %r0, [p0];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 2;
	add.s32 %r0, %r0, %r2;
	ld.global.b32 %r3, [%r0];
	mov.b32 %r4, 0;
	mov.b32 %r5, {start};
$outer:
	and.b32 %r6, %r3, 3;
	setp.eq.s32 %p0, %r6, %r1;
	@%p0 bra $odd;
	shr.u32 %r7, %r3, {shift};
	xor.b32 %r3, %r3, %r7;
	mad.lo.s32 %r3, %r3, {factor}, %r4;
	bra $join;
$odd:
	mov.b32 %r8, %r1;
$inner:
	sub.s32 %r3, %r3, %r8;
	setp.lt.s32 %p1, %r3, %r5;
	@%p1 add.s32 %r5, %r5, 31;
	add.s32 %r8, %r8, 1;
	setp.lt.s32 %p2, %r8, 6;
	@%p2 bra $inner;
$join:
	add.s32 %r4, %r4, 1;
	setp.lt.s32 %p3, %r4, {rounds};
	@%p3 bra $outer;
	xor.b32 %r3, %r3, %r5;
	st.global.b32 [%r0], %r3;
	ret;
}}
"""


@pytest.mark.parametrize("threads, rounds, start, shift, factor", [(4, 60, 0, 31, -1), (7, 25, -2**31, 3, 1103515245),
                                                                   (12, 12, 2**31 - 1, 32, 2**31 - 1)])
def test_hundreds_of_blocks(threads, rounds, start, shift, factor):
    """Nested loops that diverge by lane."""
    data = [EDGES[(5 * k + 3) % len(EDGES)] for k in range(threads)]
    ids = three_ways(engine(), LONG.format(start=start, shift=shift, factor=factor, rounds=rounds), (threads, 1, 1), [data], [])
    kinds = [Vocabulary(ARTICLE).token(i).kind for i in ids]
    assert kinds.count("EXEC") > 200 and kinds.count("WARP") == kinds.count("PARK") - 1 == -(-threads // 4) - 1
