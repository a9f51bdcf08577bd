"""Barriers, atomics, divisions, calls, memory spaces: one small kernel for each, on `default`, against plain Python."""

from __future__ import annotations

import dataclasses
import random

import pytest
from lower_harness import HEADER, Ran, run_ptx, three_operands
from qgpu.errors import LoweringError, UnsupportedError, UsageError
from qgpu.lower import LaunchShape, lower
from qgpu.lower.blocks import Maker
from qgpu.lower.divide import constant_quotient
from qgpu.lower.evaluate import evaluate
from qgpu.lower.ir import Block, Op
from qgpu.machine.description import DEFAULT
from qgpu.ptx import parse_ptx

BASE = DEFAULT.global_base
MASK = 0xFFFFFFFF


def kernel(body: str, before: str = "", parameters: str = ".param .b32 k_param_0") -> str:
    head = HEADER.replace(HEADER[HEADER.index("(") + 1:HEADER.index(")")], parameters)
    return head.replace(".visible", before + ".visible") + body + "\n\tret;\n}\n"


def run(body: str, threads, words: int, before: str = "", grid=(1, 1, 1), memory: list[int] | None = None, shared: int = 0) -> Ran:
    ran = run_ptx(kernel("\tld.param.b32 %r31, [k_param_0];\n\tmov.u32 %r30, %tid.x;\n" + body, before), [BASE], threads,
                  memory or [0] * words, DEFAULT, grid, shared)
    assert ran.machine.ended == "END"
    return ran


# ---- atomics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op, start, step", [
    ("add.u32", 5, lambda m, t: m + t), ("and.b32", 0xFF0F, lambda m, t: m & (t | 0xF000)), ("or.b32", 1, lambda m, t: m | t),
    ("xor.b32", 9, lambda m, t: m ^ t), ("min.s32", 4, lambda m, t: min(m, t)), ("max.u32", 4, lambda m, t: max(m, t)),
    ("inc.u32", 3, lambda m, t: 0 if m >= 10 else m + 1), ("dec.u32", 3, lambda m, t: 10 if m == 0 or m > 10 else m - 1)])
def test_atomics_of_all_threads_on_one_word(op: str, start: int, step) -> None:
    """Old values are those of some order in which the threads go one by one; with inc and dec each value is fixed by the place in it."""
    operand = "10" if op[:3] in ("inc", "dec") else "%r2"
    ran = run(f"""
	or.b32 %r2, %r30, {0xF000 if op.startswith('and') else 0};
	atom.global.{op} %r1, [%r31], {operand};
	mad.lo.s32 %r3, %r30, 4, %r31;
	st.global.b32 [%r3+4], %r1;
""", 70, 71, memory=[start, *[0] * 70])
    words = ran.words(0, 71)
    value = start
    seen = []
    for t in sorted(range(70), key=lambda t: 0):
        seen.append(value)
        value = step(value, t)
    assert words[0] == value
    if op[:3] in ("inc", "dec", "add"):
        # A chain: every old value but the first is an old value changed by the thread that saw it.
        after = {step(old, t) for t, old in enumerate(words[1:])} | {start}
        assert set(words[1:]) | {words[0]} == after
    else:
        assert start in words[1:]


def test_exchange_and_compare() -> None:
    """70 threads push themselves onto a list: each learns the one before, so the list holds everyone once."""
    ran = run("""
	add.s32 %r2, %r30, 1;
	atom.global.exch.b32 %r1, [%r31], %r2;
	mad.lo.s32 %r3, %r30, 4, %r31;
	st.global.b32 [%r3+4], %r1;
	atom.global.cas.b32 %r4, [%r31+284], 0, %r2;
	st.global.b32 [%r3+288], %r4;
""", 70, 142)
    head, *before = ran.words(0, 71)
    order = []
    while head:
        order.append(head)
        head = before[head - 1]
    assert sorted(order) == list(range(1, 71))
    winner, answers = ran.words(71, 1)[0], ran.words(72, 70)
    assert answers == [0 if t + 1 == winner else winner for t in range(70)]


def test_wide_atomics_do_not_lose_carries() -> None:
    ran = run("""
	mov.b64 %rd1, {%r30, 1};
	mov.b32 %r2, -2;
	mov.b64 %rd2, {%r2, %r30};
	atom.global.add.u64 %rd3, [%r31], %rd2;
	red.global.max.u64 [%r31+8], %rd1;
""", 40, 4)
    low, high, *most = ran.words(0, 4)
    assert high << 32 | low == sum(t << 32 | 0xFFFFFFFE for t in range(40)) % 2**64
    assert most == [39, 1]


def test_bytes_of_one_word_by_different_lanes() -> None:
    ran = run("""
	add.s32 %r1, %r31, %r30;
	cvt.u16.u32 %rs1, %r30;
	st.global.u8 [%r1], %rs1;
	mad.lo.s32 %r2, %r30, 2, %r31;
	sub.s32 %r3, 0, %r30;
	cvt.u16.u32 %rs2, %r3;
	st.global.u16 [%r2+64], %rs2;
	bar.sync 0;
	xor.b32 %r4, %r30, 63;
	add.s32 %r4, %r4, %r31;
	ld.global.s8 %r5, [%r4];
	mad.lo.s32 %r6, %r30, 4, %r31;
	st.global.b32 [%r6+192], %r5;
""", 64, 112)
    data = b"".join(w.to_bytes(4, "little") for w in ran.words(0, 48))
    assert list(data[:64]) == list(range(64))
    assert [int.from_bytes(data[64 + 2 * t:66 + 2 * t], "little") for t in range(64)] == [-t & 0xFFFF for t in range(64)]
    assert ran.words(48, 64) == [63 - t for t in range(64)]


# ---- warps, barriers, grids -------------------------------------------------------------------------------------------


def test_a_shuffle_across_groups() -> None:
    ran = run("""
	mul.lo.s32 %r1, %r30, 3;
	shfl.sync.down.b32 %r2|%p1, %r1, 9, 31, -1;
	@!%p1 mov.b32 %r2, -1;
	shfl.sync.idx.b32 %r4, %r1, %r30, 6175, -1;
	mad.lo.s32 %r3, %r30, 8, %r31;
	st.global.b32 [%r3], %r2;
	st.global.b32 [%r3+4], %r4;
""", 64, 128)
    words = ran.words(0, 128)
    assert words[0::2] == [3 * (t + 9) if t % 32 < 23 else MASK for t in range(64)]
    assert words[1::2] == [3 * (t // 8 * 8 + t % 8) for t in range(64)]


def test_votes_of_a_partial_warp() -> None:
    ran = run("""
	and.b32 %r1, %r30, 3;
	setp.eq.s32 %p1, %r1, 1;
	vote.sync.ballot.b32 %r2, %p1, -1;
	vote.sync.any.pred %p2, %p1, -1;
	vote.sync.all.pred %p3, %p1, -1;
	vote.sync.uni.pred %p4, %p3, -1;
	selp.b32 %r3, 1, 0, %p2;
	@%p3 add.s32 %r3, %r3, 2;
	@%p4 add.s32 %r3, %r3, 4;
	activemask.b32 %r4;
	mad.lo.s32 %r5, %r30, 12, %r31;
	st.global.b32 [%r5], %r2;
	st.global.b32 [%r5+4], %r3;
	st.global.b32 [%r5+8], %r4;
""", 38, 114)
    words = ran.words(0, 114)
    for t in range(38):
        lanes = range(32) if t < 32 else range(6)
        assert words[3 * t:3 * t + 3] == [sum(1 << k for k in lanes if k % 4 == 1), 5, sum(1 << k for k in lanes)]


def test_barriers_that_count() -> None:
    ran = run("""
	setp.lt.u32 %p1, %r30, 37;
	barrier.red.popc.u32 %r1, 0, %p1;
	bar.red.and.pred %p2, 0, %p1;
	bar.red.or.pred %p3, 0, %p1;
	setp.lt.u32 %p1, %r30, 5;
	bar.red.popc.u32 %r2, 0, %p1;
	selp.b32 %r3, 1, 0, %p2;
	@%p3 add.s32 %r3, %r3, 2;
	shl.b32 %r3, %r3, 16;
	mad.lo.s32 %r1, %r1, 256, %r2;
	add.s32 %r3, %r3, %r1;
	mad.lo.s32 %r4, %r30, 4, %r31;
	st.global.b32 [%r4], %r3;
""", 80, 80)
    assert ran.words(0, 80) == [2 << 16 | 37 << 8 | 5] * 80


def test_indices_of_grids_and_blocks() -> None:
    ran = run("""
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ctaid.y;
	mov.u32 %r3, %ctaid.z;
	mov.u32 %r4, %tid.y;
	mov.u32 %r5, %tid.z;
	mad.lo.s32 %r6, %r3, 3, %r2;
	mad.lo.s32 %r6, %r6, 2, %r1;
	mul.lo.s32 %r6, %r6, 30;
	mad.lo.s32 %r7, %r5, 3, %r4;
	mad.lo.s32 %r7, %r7, 5, %r30;
	add.s32 %r6, %r6, %r7;
	mad.lo.s32 %r8, %r6, 4, %r31;
	mad.lo.s32 %r9, %r3, 10, %r2;
	mad.lo.s32 %r9, %r9, 10, %r1;
	mad.lo.s32 %r9, %r9, 10, %r5;
	mad.lo.s32 %r9, %r9, 10, %r4;
	mad.lo.s32 %r9, %r9, 10, %r30;
	st.global.b32 [%r8], %r9;
""", (5, 3, 2), 360, grid=(2, 3, 2))
    want = [int(f"{z}{y}{x}{c}{b}{a}") for z in range(2) for y in range(3) for x in range(2) for c in range(2) for b in range(3)
            for a in range(5)]
    assert ran.words(0, 360) == want


# ---- memory spaces ----------------------------------------------------------------------------------------------------


def test_shared_memory_static_and_dynamic() -> None:
    ran = run("""
	mov.b32 %r1, fixed;
	mov.b32 %r2, dyn;
	shl.b32 %r3, %r30, 2;
	add.s32 %r4, %r1, %r3;
	add.s32 %r5, %r2, %r3;
	st.shared.b32 [%r4], %r30;
	add.s32 %r6, %r30, 100;
	st.shared.b32 [%r5], %r6;
	bar.sync 0;
	sub.s32 %r7, 188, %r3;
	add.s32 %r4, %r1, %r7;
	add.s32 %r5, %r2, %r7;
	cvta.shared.u32 %r5, %r5;
	ld.shared.b32 %r8, [%r4];
	ld.b32 %r9, [%r5];
	isspacep.shared %p1, %r5;
	@!%p1 mov.b32 %r9, 0;
	mad.lo.s32 %r10, %r30, 8, %r31;
	st.global.v2.b32 [%r10], {%r8, %r9};
""", 48, 96, ".shared .align 4 .b8 fixed[192];\n.extern .shared .align 16 .b8 dyn[];\n", shared=192)
    assert ran.words(0, 96) == [v for t in range(48) for v in (47 - t, 147 - t)]
    assert ran.program.shared_words >= 96


def test_tables_and_variables() -> None:
    before = (".const .align 2 .b8 odd[5] = {1, 2, 3, 200, 5};\n.global .align 4 .u32 count = 40;\n"
              ".global .align 4 .u32 places[2] = {count, generic(count)};\n")
    ran = run("""
	mov.b32 %r1, odd;
	add.s32 %r1, %r1, %r30;
	ld.const.u8 %r2, [%r1];
	red.global.add.u32 [count], %r2;
	bar.sync 0;
	ld.global.b32 %r3, [places+4];
	ld.b32 %r4, [%r3];
	mad.lo.s32 %r5, %r30, 8, %r31;
	st.global.b32 [%r5], %r2;
	st.global.b32 [%r5+4], %r4;
""", 5, 10, before)
    assert ran.words(0, 10) == [v for b in (1, 2, 3, 200, 5) for v in (b, 251)]


def test_local_arrays() -> None:
    ran = run("""
	.local .align 8 .b8 depot[16];
	mov.b32 %r1, depot;
	cvta.local.u32 %r2, %r1;
	and.b32 %r3, %r30, 3;
	st.local.v4.b32 [%r1], {0, 1, 2, 3};
	mad.lo.s32 %r4, %r3, 4, %r2;
	st.b32 [%r4], 50;
	ld.local.v2.b32 {%r5, %r6}, [%r1];
	ld.local.b64 %rd1, [%r1+8];
	mov.b64 {%r7, %r8}, %rd1;
	mad.lo.s32 %r9, %r30, 16, %r31;
	st.global.v4.b32 [%r9], {%r5, %r6, %r7, %r8};
""", 9, 36)
    assert ran.words(0, 36) == [50 if k == t % 4 else k for t in range(9) for k in range(4)]
    assert ran.program.frame_words == 4


def test_too_much_memory() -> None:
    for before, text in ((".shared .align 4 .b8 big[4100];\n", "4100 bytes of shared"), (".global .align 4 .b8 big[16385];\n", "words of global")):
        with pytest.raises(UsageError, match=text):
            run("\tmov.b32 %r1, big;\n\tst.global.b32 [%r31], %r1;", 1, 1, before)


# ---- calls and branches -----------------------------------------------------------------------------------------------

POWER = """.func (.param .b32 back) power(.param .b32 base, .param .b32 exponent)
{
	.reg .pred %p<2>;
	.reg .b32 %r<5>;
	ld.param.b32 %r1, [base];
	ld.param.b32 %r2, [exponent];
	mov.b32 %r3, 1;
$again:
	setp.eq.s32 %p1, %r2, 0;
	@%p1 bra $out;
	mul.lo.s32 %r3, %r3, %r1;
	sub.s32 %r2, %r2, 1;
	bra $again;
$out:
	st.param.b32 [back], %r3;
	ret;
}
"""


def test_calls() -> None:
    call = "\t{{ .param .b32 a; .param .b32 b; .param .b32 r;\n\tst.param.b32 [a], {0};\n\tst.param.b32 [b], {1};\n\tcall (r), power, (a, b);\n" \
           "\tld.param.b32 {2}, [r];\n\t}}\n"
    ran = run(call.format("3", "%r30", "%r1") + "\tmov.b32 %r2, 0;\n\tsetp.gt.s32 %p1, %r30, 2;\n\t@!%p1 bra $past;\n"
              + call.format("%r30", "2", "%r2") + "$past:\n\tadd.s32 %r3, %r1, %r2;\n\tmad.lo.s32 %r4, %r30, 4, %r31;\n"
              "\tst.global.b32 [%r4], %r3;", 6, 6, POWER)
    assert ran.words(0, 6) == [3**t + (t * t if t > 2 else 0) for t in range(6)]


def test_recursion_is_refused() -> None:
    loop = POWER.replace("mul.lo.s32 %r3, %r3, %r1;", "{ .param .b32 x; .param .b32 y; .param .b32 z;\n\tcall (z), power, (x, y);\n\t}")
    with pytest.raises(UnsupportedError, match="power calls itself"):
        run("\t{ .param .b32 a; .param .b32 b; .param .b32 r;\n\tcall (r), power, (a, b);\n\t}", 1, 1, loop)


def test_indexed_branches() -> None:
    ran = run("""
	mov.b32 %r1, 9;
	brx.idx %r30, table;
table: .branchtargets $a, $b, $c;
$a:
	mov.b32 %r1, 100;
	bra $end;
$b:
	add.s32 %r1, %r1, 1;
$c:
	add.s32 %r1, %r1, 1;
$end:
	mad.lo.s32 %r4, %r30, 4, %r31;
	st.global.b32 [%r4], %r1;
""".replace("table: .branchtargets", "table:\n\t.branchtargets"), 3, 3)
    assert ran.words(0, 3) == [100, 11, 10]


def test_trap_stops_the_launch() -> None:
    text = kernel("\tmov.u32 %r1, %tid.x;\n\tsetp.eq.s32 %p1, %r1, 5;\n\t@%p1 trap;")
    assert run_ptx(text, [BASE], 8, [0], DEFAULT).machine.ended == "TRAP"
    assert run_ptx(text, [BASE], 5, [0], DEFAULT).machine.ended == "END"


# ---- division ---------------------------------------------------------------------------------------------------------


def value_of(ops: list[Op], result, a: Op, number: int) -> int:
    known = {a: number}
    for op in ops:
        known[op] = evaluate(op, [known[x] if isinstance(x, Op) else x for x in op.args])
    return known[result] if isinstance(result, Op) else result


def test_division_by_every_kind_of_constant() -> None:
    rng = random.Random(5)
    divisors = [*range(2, 70), 641, 1000, 65535, 65537, 10**9 + 7, 2**31 - 1, 2**31 + 1, 2**32 - 1, *(rng.getrandbits(32) | 3 for _ in range(200))]
    for d in divisors:
        if d & (d - 1) == 0:
            continue
        for high in (MASK, 1 << 31, 1023, d):
            block, a = Block(""), Op("ld")
            result = constant_quotient(Maker(block, a), a, d, high)
            for n in {0, 1, d - 1, d, d + 1, high, high - 1, high // d * d, high // d * d - 1, *(rng.randint(0, high) for _ in range(8))}:
                if 0 <= n <= high:
                    assert value_of(block.ops, result, a, n) == n // d, (d, high, n)


def test_division_by_zero_gives_ones() -> None:
    for what, want in (("div.u32", MASK), ("rem.u32", 7), ("div.s32", MASK), ("rem.s32", 7)):
        ran = run_ptx(three_operands(f"{what} %r0, %r1, %r2;"), [BASE, BASE + 4, BASE + 8, BASE + 12], 1, [7, 0, 0, 0], DEFAULT)
        assert ran.words(3, 1) == [want]


# ---- registers --------------------------------------------------------------------------------------------------------


def test_values_go_to_memory() -> None:
    """Twelve values around a loop, on a machine with seven registers; on one whose memory is full there is an error."""
    few = dataclasses.replace(DEFAULT, name="few", registers=7).validate()
    loads = "".join(f"\tld.global.b32 %r{k}, [%r31+{4 * k}];\n" for k in range(1, 13))
    loop = "".join(f"\txor.b32 %r{k}, %r{k}, %r{k % 12 + 1};\n" for k in range(1, 13))
    stores = "".join(f"\tst.global.b32 [%r31+{4 * k}], %r{k};\n" for k in range(1, 13))
    body = f"{loads}\tmov.b32 %r30, 3;\n$loop:\n{loop}\tsub.s32 %r30, %r30, 1;\n\tsetp.ne.s32 %p1, %r30, 0;\n\t@%p1 bra $loop;\n{stores}"
    text = kernel("\tld.param.b32 %r31, [k_param_0];\n" + body)
    memory = [5 * k * k + 1 for k in range(13)]
    ran = run_ptx(text, [BASE], 1, memory, few)
    want = list(memory)
    for _ in range(3):
        for k in range(1, 13):
            want[k] ^= want[k % 12 + 1]
    assert ran.words(0, 13) == want and ran.program.frame_words >= 5
    assert run_ptx(text, [BASE], 1, memory, DEFAULT).program.frame_words == 0
    full = dataclasses.replace(few, global_words=14).validate()
    with pytest.raises((UsageError, LoweringError), match="words of global memory|registers"):
        lower(parse_ptx(text), None, full, LaunchShape((1, 1, 1), (1, 1, 1), [full.global_base], 0, 13))
