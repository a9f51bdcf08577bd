"""Control flow, warps, barriers and calls in the PTX interpreter."""

from __future__ import annotations

import pytest
from ptx_snippets import OUT, module, per_thread, run, words

from qgpu.errors import FaultError
from qgpu_reference.ptx import launch


def test_special_registers_in_three_dimensions():
    names = ["%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x",
             "%nctaid.y", "%nctaid.z", "%laneid", "%warpid", "%nwarpid", "WARP_SZ", "%lanemask_lt", "%lanemask_le", "%lanemask_gt",
             "%lanemask_ge", "%lanemask_eq"]
    count = len(names)
    body = """ld.param.u64 %rd1, [p0];
    mov.u32 %r1, %tid.z; mov.u32 %r2, %tid.y; mad.lo.u32 %r1, %r1, 3, %r2; mov.u32 %r2, %tid.x; mad.lo.u32 %r1, %r1, 5, %r2;
    mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r3, 30, %r1;""" + f"mul.wide.u32 %rd2, %r1, {4 * count}; add.u64 %rd2, %rd2, %rd1;"
    body += "".join(f"mov.u32 %r5, {name}; st.global.u32 [%rd2+{4 * k}], %r5;" for k, name in enumerate(names)) + "ret;"
    out = words(run(body, [bytes(4 * count * 60)], block=(5, 3, 2), grid=(1, 2), warp_size=8).arrays[0])
    for block in range(2):
        for z in range(2):
            for y in range(3):
                for x in range(5):
                    flat = (z * 3 + y) * 5 + x
                    lane = flat % 8
                    at = (block * 30 + flat) * count
                    assert out[at:at + count] == [
                        x, y, z, 5, 3, 2, 0, block, 0, 1, 2, 1, lane, flat // 8, 4, 8, 2 ** lane - 1, 2 ** (lane + 1) - 1,
                        255 - (2 ** (lane + 1) - 1), 255 - (2 ** lane - 1), 2 ** lane]


def test_loop_with_its_own_length_in_each_lane():
    body = """mov.u32 %r1, 0; mov.u32 %r2, %r0;
    LOOP: setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE; add.u32 %r1, %r1, %r2; sub.u32 %r2, %r2, 1; bra.uni LOOP;
    DONE: st.global.u32 [%rd2], %r1;"""
    assert per_thread(body, 9) == [n * (n + 1) // 2 for n in range(9)]


def test_lanes_run_together_again_after_a_branch():
    body = """and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN; activemask.b32 %r2; bra JOIN;
    EVEN: activemask.b32 %r2;
    JOIN: activemask.b32 %r3; shl.b32 %r3, %r3, 8; or.b32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2;"""
    assert per_thread(body, 4, warp_size=4) == [0xF05, 0xF0A, 0xF05, 0xF0A]


def test_guarded_instructions_and_early_exit():
    body = """setp.gt.u32 %p1, %r0, 1; mov.u32 %r1, 5; @%p1 mov.u32 %r1, 6; @!%p1 add.u32 %r1, %r1, 10;
    setp.eq.u32 %p2, %r0, 2; @%p2 exit; st.global.u32 [%rd2], %r1; setp.eq.u32 %p2, %r0, 0; @%p2 ret; st.global.u32 [%rd2], 99;"""
    assert per_thread(body, 4, initial=[1, 1, 1, 1]) == [15, 99, 1, 99]


def test_indexed_branch():
    body = """mov.u32 %r1, 7; ts: .branchtargets A, B, C; brx.idx %r0, ts;
    A: mov.u32 %r1, 10; bra DONE; B: add.u32 %r1, %r1, 10; C: add.u32 %r1, %r1, 1; DONE: st.global.u32 [%rd2], %r1;"""
    assert per_thread(body, 3) == [10, 18, 8]
    with pytest.raises(FaultError, match="target 3 of 3"):
        per_thread(body, 4)


# ---- shuffles: expectations lane by lane from CUDA's documentation of __shfl_*_sync

def shuffle(mode, delta, width, threads, warp_size=32):
    clamp = 0 if mode == "up" else 31
    body = f"add.u32 %r1, %r0, 100; shfl.sync.{mode}.b32 %r2|%p1, %r1, {delta}, {(32 - width) << 8 | clamp}, -1;"
    body += "selp.u32 %r3, 1000, 0, %p1; add.u32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2;"
    return per_thread(body, threads, warp_size=warp_size)


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("delta", [0, 1, 2, 3, 5, 16, 31])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffle_within_segments(mode, delta, width):
    expected = []
    for lane in range(32):
        segment, place = lane // width * width, lane % width
        if mode == "up":
            source = lane - delta if place - delta >= 0 else None
        elif mode == "down":
            source = lane + delta if place + delta < width else None
        elif mode == "bfly":
            source = lane ^ delta if (lane ^ delta) < segment + width else None  # a lower segment may be read
        else:
            source = segment + delta % width
        expected.append(100 + lane if source is None else 1100 + source)
    assert shuffle(mode, delta, width, 32) == expected


def test_shuffle_clamps_by_the_last_operand():
    body = "shfl.sync.{}.b32 %r2|%p1, %r0, {}, {}, -1; selp.u32 %r3, 1000, 0, %p1; add.u32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2;"
    assert per_thread(body.format("up", 1, 5), 32) == [1000 + i - 1 if i - 1 >= 5 else i for i in range(32)]
    assert per_thread(body.format("down", 2, 9), 32) == [1000 + i + 2 if i + 2 <= 9 else i for i in range(32)]
    assert per_thread(body.format("bfly", 8, 20), 32) == [1000 + (i ^ 8) if i ^ 8 <= 20 else i for i in range(32)]
    assert per_thread(body.format("idx", 33, 0), 32) == [i for i in range(32)]  # lane 1 is beyond lane 0
    assert per_thread(body.format("idx", 3, 24 << 8 | 2), 32) == [i for i in range(32)]  # place 3 of 8 is beyond 2


def test_shuffle_in_a_warp_of_four():
    assert shuffle("down", 2, 4, 8, warp_size=4) == [1102, 1103, 102, 103, 1106, 1107, 106, 107]
    assert shuffle("up", 1, 4, 4, warp_size=4) == [100, 1100, 1101, 1102]
    assert shuffle("bfly", 1, 4, 4, warp_size=4) == [1101, 1100, 1103, 1102]
    assert shuffle("idx", 2, 2, 4, warp_size=4) == [1100, 1100, 1102, 1102]


def test_shuffle_from_a_lane_that_is_not_there():
    with pytest.raises(FaultError, match="read from lane 3, which is not active there") as e:
        shuffle("down", 1, 32, 3)
    assert "thread (2, 0, 0)" in str(e.value)
    unused = "shfl.sync.down.b32 %r2, %r0, 1, 31, -1; st.global.u32 [%rd2], %r0;"
    assert per_thread(unused, 3) == [0, 1, 2]
    exited = "setp.eq.u32 %p1, %r0, 1; @%p1 exit; shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1; st.global.u32 [%rd2], %r2;"
    with pytest.raises(FaultError, match="read from lane 1, which is not active there"):
        per_thread(exited, 4)


def test_a_warp_operation_waits_for_its_members():
    # Odd lanes come later, from the other side of a branch; the shuffle still sees all of them.
    body = """and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; add.u32 %r3, %r0, 10; @%p1 bra GO; add.u32 %r3, %r3, 50;
    GO: shfl.sync.bfly.b32 %r2, %r3, 1, 31, 15; st.global.u32 [%rd2], %r2;"""
    assert per_thread(body, 4) == [61, 10, 63, 12]
    apart = """setp.lt.u32 %p1, %r0, 2; @%p1 bra LOW; vote.sync.ballot.b32 %r2, 1, 12; bra END; LOW: vote.sync.ballot.b32 %r2, 1, 3;
    END: st.global.u32 [%rd2], %r2;"""
    assert per_thread(apart, 4) == [3, 3, 12, 12]
    with pytest.raises(FaultError, match="without being in its member mask 0x3"):
        per_thread("shfl.sync.idx.b32 %r2, %r0, 0, 31, 3;", 4)
    with pytest.raises(FaultError, match="deadlock") as e:
        per_thread("setp.lt.u32 %p1, %r0, 2; @%p1 bra A; bar.sync 0; bra END; A: vote.sync.ballot.b32 %r2, 1, -1; END:", 4)
    assert "2 threads wait in bar.sync 0 at" in str(e.value) and "2 threads wait in vote.sync.ballot.b32 %r2" in str(e.value)


@pytest.mark.parametrize("mode, expected", [("all", [0, 1, 0]), ("any", [1, 1, 0]), ("uni", [0, 1, 1]), ("ballot", [0b0110, 0b1111, 0])])
def test_votes(mode, expected):
    # Votes: lanes 1 and 2 yes; all yes; none.
    for (low, high), result in zip(((1, 2), (0, 3), (9, 9)), expected):
        test = f"setp.ge.u32 %p1, %r0, {low}; setp.le.and.u32 %p1, %r0, {high}, %p1;"
        if mode == "ballot":
            body = test + "vote.sync.ballot.b32 %r2, %p1, -1; st.global.u32 [%rd2], %r2;"
        else:
            body = test + f"vote.sync.{mode}.pred %p2, %p1, -1; selp.u32 %r2, 1, 0, %p2; st.global.u32 [%rd2], %r2;"
        assert per_thread(body, 4) == [result] * 4


def test_match_redux_elect():
    body = "shr.u32 %r1, %r0, 1; match.any.sync.b32 %r2, %r1, -1; st.global.u32 [%rd2], %r2;"
    assert per_thread(body, 5) == [3, 3, 12, 12, 16]
    body = "mov.u32 %r1, 7; match.all.sync.b32 %r2|%p1, %r1, -1; selp.u32 %r3, 100, 200, %p1; add.u32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2;"
    assert per_thread(body, 3) == [107] * 3
    assert per_thread(body.replace("%r1, 7", "%r1, %r0"), 3) == [200] * 3
    for name, expected in (("add.s32", -6), ("min.s32", -3), ("max.s32", 0), ("min.u32", 0), ("max.u32", -1), ("and.b32", 0),
                           ("or.b32", -1), ("xor.b32", -1 ^ -2 ^ -3)):
        body = f"neg.s32 %r1, %r0; redux.sync.{name} %r2, %r1, -1; st.global.u32 [%rd2], %r2;"
        assert per_thread(body, 4) == [expected % 2 ** 32] * 4
    body = "setp.gt.u32 %p2, %r0, 0; @!%p2 exit; elect.sync %r2|%p1, 14; selp.u32 %r3, 10, 0, %p1; add.u32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2;"
    assert per_thread(body, 4) == [0, 11, 1, 1]


# ---- barriers

TILE = ".shared .align 4 .b8 tile[512];\n"


def test_barrier_between_warps():
    body = """mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 4, %r1; mul.lo.u32 %r3, %r0, %r0; st.shared.u32 [%r2], %r3; bar.sync 0;
    mov.u32 %r4, %ntid.x; sub.u32 %r4, %r4, 1; sub.u32 %r4, %r4, %r0; mad.lo.u32 %r4, %r4, 4, %r1; ld.shared.u32 %r5, [%r4];
    st.global.u32 [%rd2], %r5;"""
    for warp_size in (4, 32):
        assert per_thread(body, 70, TILE, warp_size=warp_size) == [(69 - i) ** 2 for i in range(70)]
    with pytest.raises(FaultError, match="uninitialised"):
        per_thread(body.replace("bar.sync 0;", ""), 70, TILE)


def test_barrier_after_early_return():
    body = """setp.gt.u32 %p1, %r0, 5; @%p1 ret; st.shared.u32 [tile], 3; barrier.sync.aligned 0; barrier.cta.sync 1; bar.cta.sync 0;
    ld.shared.u32 %r5, [tile]; st.global.u32 [%rd2], %r5;"""
    assert per_thread(body, 12, TILE, warp_size=4) == [3] * 6 + [0] * 6


def test_barrier_reductions():
    body = """setp.lt.u32 %p1, %r0, 3; bar.red.popc.u32 %r1, 0, %p1; barrier.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, !%p1;
    selp.u32 %r2, 100, 0, %p2; selp.u32 %r3, 1000, 0, %p3; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%rd2], %r1;"""
    assert per_thread(body, 8, warp_size=4) == [1003] * 8
    assert per_thread(body, 3, warp_size=4) == [103] * 3


def test_producer_and_consumer_barriers():
    body = """setp.lt.u32 %p1, %r0, 4; mov.u32 %r1, 5; mov.u32 %r6, 0; @%p1 bra MAKE;
    TAKE: bar.sync 1, 8; ld.shared.u32 %r2, [tile]; add.u32 %r6, %r6, %r2; bar.arrive 2, 8; sub.u32 %r1, %r1, 1;
      setp.ne.u32 %p2, %r1, 0; @%p2 bra TAKE; bra END;
    MAKE: st.shared.u32 [tile], %r1; bar.arrive 1, 8; bar.sync 2, 8; sub.u32 %r1, %r1, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra MAKE;
    END: st.global.u32 [%rd2], %r6;"""
    assert per_thread(body, 8, TILE, warp_size=4) == [0] * 4 + [15] * 4


def test_barriers_misused():
    with pytest.raises(FaultError, match="barrier divergence") as e:
        per_thread("setp.lt.u32 %p1, %r0, 2; @%p1 bra A; bar.sync 0; bra END; A: bar.sync 0; END:", 4)
    assert "another thread of the warp" in str(e.value)
    per_thread("setp.lt.u32 %p1, %r0, 4; @%p1 bra A; bar.sync 0; bra END; A: bar.sync 0; END:", 8, warp_size=4)  # whole warps
    per_thread("setp.lt.u32 %p1, %r0, 2; @%p1 bra A; barrier.sync 0; bra END; A: barrier.sync 0; END:", 4)  # not .aligned
    with pytest.raises(FaultError, match="deadlock") as e:
        per_thread("setp.lt.u32 %p1, %r0, 4; @%p1 bra A; bar.sync 0; bra END; A: bar.sync 1; END:", 8, warp_size=4)
    assert "4 threads wait in bar.sync 0" in str(e.value) and "4 threads wait in bar.sync 1" in str(e.value)
    with pytest.raises(FaultError, match="barrier 16 does not exist"):
        per_thread("bar.sync 16;")
    with pytest.raises(FaultError, match="multiple of the warp size"):
        per_thread("bar.sync 1, 6;", 8, warp_size=4)


# ---- loops that do not end

def test_step_limit():
    with pytest.raises(FaultError, match="did not end within 1000 steps"):
        per_thread("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; bra L;", max_steps=1000)


def test_a_loop_that_changes_nothing_is_told_at_once():
    with pytest.raises(FaultError, match="endless loop") as e:
        per_thread("mov.u32 %r1, 0; L: xor.b32 %r1, %r1, 3; bra L;")
    assert "thread (0, 0, 0)" in str(e.value)


def test_spin_lock_within_a_warp_is_told():
    lock = """L: atom.global.cas.b32 %r1, [%rd1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;
    add.u32 %r2, %r0, 0; st.global.u32 [%rd1], 0;"""
    assert per_thread(lock, 4, warp_size=1) == [0] * 4  # one lane a warp: each gets its turn
    with pytest.raises(FaultError, match="endless loop") as e:
        per_thread(lock, 4, warp_size=4)
    assert "1 threads of the same warp wait behind the loop" in str(e.value) and "lock" in str(e.value)


def test_waiting_for_another_warp_goes_on():
    body = """setp.ge.u32 %p1, %r0, 4; @%p1 bra SET; L: ld.volatile.global.u32 %r1, [%rd1+16]; setp.eq.u32 %p2, %r1, 0; @%p2 bra L;
    st.global.u32 [%rd2], %r1; ret; SET: st.global.u32 [%rd1+16], 8;"""
    assert per_thread(body, 5, warp_size=4) == [8] * 5


def test_a_loop_that_waits_for_another_block_is_told():
    with pytest.raises(FaultError, match="endless loop"):
        run(OUT + "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @!%p1 bra SET; L: ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0;"
            "@%p2 bra L; ret; SET: st.global.u32 [%rd1], 1; ret;", [bytes(4)], grid=2)


# ---- calls

FUNCTIONS = """
.func (.param .b32 result) square_plus(.param .b32 a, .param .b64 b)
{ .reg .b32 %r<4>; .reg .b64 %rd<4>; .local .align 4 .b8 spill[4];
  ld.param.u32 %r1, [a]; ld.param.u64 %rd1, [b]; st.local.u32 [spill], %r1; mul.lo.s32 %r1, %r1, %r1;
  cvt.u32.u64 %r2, %rd1; add.u32 %r1, %r1, %r2; ld.local.u32 %r3, [spill]; setp_free: add.u32 %r1, %r1, %r3; sub.u32 %r1, %r1, %r3;
  st.param.b32 [result], %r1; ret; }
.func (.param .b32 result) factorial(.param .b32 n)
{ .reg .b32 %r<8>; .reg .pred %p<2>; ld.param.u32 %r1, [n]; setp.gt.u32 %p1, %r1, 1; @%p1 bra MORE; st.param.b32 [result], 1; ret;
  MORE: sub.u32 %r2, %r1, 1;
  { .param .b32 in; .param .b32 out; st.param.b32 [in], %r2; call.uni (out), factorial, (in); ld.param.b32 %r3, [out]; }
  mul.lo.u32 %r3, %r3, %r1; st.param.b32 [result], %r3; ret; }
.func (.reg .b32 %out) twice(.reg .b32 %in) { add.u32 %out, %in, %in; }
.func nothing() { ret; }
.func forever(.param .b32 n) { .param .b32 m; st.param.b32 [m], 1; call forever, (m); ret; }
"""
CALL = """{ .param .b32 p0x; .param .b64 p1x; .param .b32 back; add.u32 %r5, %r0, 3; st.param.b32 [p0x], %r5; st.param.b64 [p1x], 1000;
  call.uni (back), square_plus, (p0x, p1x); ld.param.b32 %r6, [back]; }"""


def test_calls_through_param_space():
    body = "mov.u32 %r1, 77; " + CALL + "add.u32 %r6, %r6, %r1; sub.u32 %r6, %r6, 77; st.global.u32 [%rd2], %r6;"
    assert per_thread(body, 4, FUNCTIONS) == [1009, 1016, 1025, 1036]


def test_recursion_with_diverging_depth():
    body = """{ .param .b32 in; .param .b32 out; st.param.b32 [in], %r0; call (out), factorial, (in); ld.param.b32 %r6, [out]; }
    activemask.b32 %r7; mad.lo.u32 %r6, %r7, 1000, %r6; st.global.u32 [%rd2], %r6;"""
    assert per_thread(body, 6, FUNCTIONS, warp_size=8) == [63000 + f for f in (1, 1, 2, 6, 24, 120)]


def test_register_parameters_and_calls_without_values():
    assert per_thread("call nothing; call (%r5), twice, (%r0); call (%r6), twice, (21); add.u32 %r5, %r5, %r6; st.global.u32 [%rd2], %r5;",
                      3, FUNCTIONS) == [42, 44, 46]


def test_calls_that_go_wrong():
    with pytest.raises(FaultError, match="nested more than 256 deep"):
        per_thread("{ .param .b32 m; st.param.b32 [m], 1; call forever, (m); }", 1, FUNCTIONS)
    with pytest.raises(FaultError, match="uninitialised"):
        per_thread("{ .param .b32 a; .param .b64 b; .param .b32 c; st.param.b64 [b], 1; call (c), square_plus, (a, b); ld.param.b32 %r1, [c]; }"
                   "st.global.u32 [%rd2], %r1;", 1, FUNCTIONS)


def test_functions_have_their_own_shared_variables():
    before = """.func (.reg .b32 %out) next() { .shared .b32 tile; .reg .b32 %r<3>; atom.shared.exch.b32 %r1, [tile], 5; mov.u32 %out, 1; }
    .func (.reg .b32 %out) put() { .shared .b32 tile; .reg .b32 %r<3>; st.shared.u32 [tile], 5; ld.shared.u32 %out, [tile]; }
    .shared .b32 outer;"""
    body = "st.shared.u32 [outer], 1; call (%r5), put; ld.shared.u32 %r6, [outer]; add.u32 %r5, %r5, %r6; st.global.u32 [%rd2], %r5;"
    assert per_thread(body, 1, before) == [6]
    with pytest.raises(FaultError, match="uninitialised"):  # next() has another tile than put()
        per_thread("call (%r5), put; call (%r5), next;", 1, before)


def test_blocks_run_one_after_another():
    body = OUT + "atom.global.add.u32 %r1, [%rd1], 1; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r2, %r2, 2, %r0; mul.wide.u32 %rd3, %r2, 4;"
    body += "add.u64 %rd3, %rd3, %rd1; st.global.u32 [%rd3+4], %r1; ret;"
    out = launch(module(body, ".param .u64 p0"), "k", (3,), (2,), [bytes(28)])
    assert words(out.arrays[0]) == [6, 0, 1, 2, 3, 4, 5] and out.steps == 6 * (body.count(";"))
