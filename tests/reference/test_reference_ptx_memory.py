"""Loads, stores, atomics, state spaces and their faults in the PTX interpreter."""

from __future__ import annotations

import struct

import pytest
from ptx_snippets import OUT, module, per_thread, run, u32, words

from qgpu.errors import FaultError, UnsupportedError, UsageError
from qgpu_reference.ptx import launch


def test_widths_and_extension():
    body = """
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
    ld.global.s8 %r1, [%rd1];      st.global.b32 [%rd2], %r1;
    ld.global.u8 %r1, [%rd1];      st.global.b32 [%rd2+4], %r1;
    ld.global.s16 %r1, [%rd1];     st.global.b32 [%rd2+8], %r1;
    ld.global.u16 %r1, [%rd1+2];   st.global.b32 [%rd2+12], %r1;
    ld.global.s32 %rd3, [%rd1+4];  st.global.b64 [%rd2+16], %rd3;
    ld.global.u32 %rd3, [%rd1+4];  st.global.b64 [%rd2+24], %rd3;
    ld.global.s8 %rs1, [%rd1+1];   st.global.b16 [%rd2+32], %rs1;
    ld.global.b64 %rd3, [%rd1];    st.global.b8 [%rd2+34], %rd3;
    add.s64 %rd4, %rd2, 40;        st.global.b32 [%rd4+-4], 77;
    ret;"""
    source = bytes([0x80, 0xFF, 0x34, 0x92, 0xF0, 0xFF, 0xFF, 0xFF])
    out = run(body, [source, bytes(40)]).arrays[1]
    assert struct.unpack("<iIiIqQh", out[:34]) == (-128, 128, -128, 0x9234, -16, 0xFFFFFFF0, -1)
    assert out[34] == 0x80 and out[36:] == u32(77)


def test_vectors_of_all_shapes():
    body = """
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
    ld.global.v4.u32 {%r1, %r2, _, %r4}, [%rd1];
    st.global.v2.u32 [%rd2], {%r4, %r1};
    ld.global.v2.u64 {%rd3, %rd4}, [%rd1];
    st.global.u64 [%rd2+8], %rd4;
    ld.global.v4.u8 {%rs1, %rs2, %rs3, %rs4}, [%rd1+4];
    st.global.v4.u8 [%rd2+16], {%rs4, %rs3, %rs2, %rs1};
    ld.global.nc.v2.u16 {%rs1, %rs2}, [%rd1+12];
    st.global.v2.u16 [%rd2+20], {%rs2, 9};
    ret;"""
    out = run(body, [u32(0x11, 0x55667788, 0x33, 0xAABBCCDD), bytes(24)]).arrays[1]
    assert words(out) == [0xAABBCCDD, 0x11, 0x33, 0xAABBCCDD, 0x88776655, 0x0009AABB]


def test_modifiers_that_order_or_cache_change_nothing():
    body = """
    ld.param.u64 %rd1, [p0];
    ld.volatile.global.u32 %r1, [%rd1]; ld.relaxed.gpu.global.u32 %r2, [%rd1]; ld.acquire.cta.global.u32 %r3, [%rd1];
    ld.global.ca.L1::evict_last.u32 %r4, [%rd1]; ld.global.nc.L2::128B.u32 %r5, [%rd1]; ldu.global.u32 %r6, [%rd1];
    add.u32 %r1, %r1, %r2; add.u32 %r3, %r3, %r4; add.u32 %r5, %r5, %r6; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r5;
    membar.gl; fence.acq_rel.gpu; prefetch.global.L2 [%rd1]; nanosleep.u32 100;
    st.release.sys.global.u32 [%rd1], %r1; ret;"""
    assert words(run(body, [u32(7)]).arrays[0]) == [42]


def test_param_space_struct_and_address():
    body = """
    ld.param.u64 %rd1, [out]; ld.param.v2.u32 {%r1, %r2}, [st+8]; ld.param.s8 %r3, [st+2];
    mov.b64 %rd2, st; ld.param.u32 %r4, [%rd2+4]; cvta.param.u64 %rd3, %rd2; ld.u32 %r5, [%rd3+12]; ld.param.s16 %r6, [n];
    st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%rd1+16], {%r5, %r6}; ret;"""
    struct_bytes = bytes([1, 2, 0xFE, 4]) + u32(50, 60, 70)
    out = run(body, [-2, bytes(24), struct_bytes], params=".param .u16 n, .param .u64 out, .param .align 8 .b8 st[16]")
    assert words(out.arrays[1]) == [60, 70, 2 ** 32 - 2, 50, 70, 2 ** 32 - 2]
    assert out.arrays[0] is None and out.arrays[2] is None


def test_32_bit_addresses():
    body = """
    ld.param.u32 %r1, [p0]; cvta.to.global.u32 %r2, %r1; mov.u32 %r3, %tid.x; shl.b32 %r4, %r3, 2; add.s32 %r5, %r2, %r4;
    ld.global.u32 %r6, [%r5+4]; st.global.u32 [%r5], %r6; ret;"""
    out = run(body, [u32(1, 2, 3)], block=2, bits=32)
    assert words(out.arrays[0]) == [2, 3, 3]


def test_the_arguments_are_not_changed_and_bases_can_be_chosen():
    data = bytearray(u32(5))
    out = run(OUT + "st.global.u64 [%rd2], %rd1; ret;", [bytearray(8)], bases=[0x20000])
    assert struct.unpack("<Q", out.arrays[0]) == (0x20000,) and out.addresses == [0x20000]
    out = run(OUT + "st.global.u32 [%rd2], 9; ret;", [data])
    assert words(data) == [5] and words(out.arrays[0]) == [9] and out.steps == 6


SHARED = ".shared .align 4 .b8 tile[64];\n"


def test_shared_memory_through_all_addresses():
    body = """
    shl.b32 %r1, %r0, 2; mov.u32 %r2, tile; add.u32 %r3, %r2, %r1; add.u32 %r4, %r0, 10; st.shared.u32 [%r3], %r4;
    bar.sync 0;
    mov.u64 %rd5, tile; cvta.shared.u64 %rd6, %rd5; xor.b32 %r5, %r0, 3; mul.wide.u32 %rd7, %r5, 4; add.u64 %rd8, %rd6, %rd7;
    ld.u32 %r6, [%rd8]; isspacep.shared %p1, %rd8; selp.u32 %r7, 100, 0, %p1; isspacep.global %p2, %rd8; selp.u32 %r8, 1000, 0, %p2;
    cvta.to.shared.u64 %rd9, %rd8; ld.shared.u32 %r9, [%rd9]; sub.u32 %r6, %r6, %r9; add.u32 %r6, %r6, %r9;
    add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; st.global.u32 [%rd2], %r6;"""
    assert per_thread(body, 4, SHARED) == [113, 112, 111, 110]


def test_dynamic_shared_memory():
    body = """
    mov.u32 %r1, dyn; st.shared.u32 [%r1+12], 5; mov.u32 %r3, other; ld.shared.u32 %r2, [%r3+12];
    mov.u32 %r4, %dynamic_smem_size; add.u32 %r2, %r2, %r4; st.global.u32 [%rd2], %r2;"""
    before = ".extern .shared .align 4 .b8 dyn[];\n.extern .shared .align 4 .b8 other[];\n"
    assert per_thread(body, 1, before, shared_bytes=16) == [21]
    with pytest.raises(FaultError, match="out of bounds"):
        per_thread(body, 1, before, shared_bytes=12)


def test_every_block_starts_with_unknown_shared_memory():
    body = OUT + """
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READ; st.shared.u32 [tile], 7;
    READ: ld.shared.u32 %r2, [tile]; st.global.u32 [%rd2], %r2; ret;"""
    assert words(run(body, [u32(0)], before=SHARED).arrays[0]) == [7]
    with pytest.raises(FaultError, match="uninitialised") as e:
        run(body, [u32(0)], before=SHARED, grid=2)
    assert "block (1, 0, 0), thread (0, 0, 0)" in str(e.value) and "shared variable tile at byte 0" in str(e.value)


def test_local_memory_is_each_threads_own():
    body = """
    .local .align 8 .b8 depot[16];
    mov.u64 %rd5, depot; cvta.local.u64 %rd6, %rd5; st.local.u32 [%rd5+4], %r0; st.u32 [%rd6+8], 30;
    ld.u32 %r1, [%rd6+4]; ld.local.u32 %r2, [%rd5+8]; add.u32 %r1, %r1, %r2; st.global.u32 [%rd2], %r1;"""
    assert per_thread(body, 3) == [30, 31, 32]


def test_an_undefined_value_may_be_spilled_but_not_used():
    spill = ".local .b32 slot; st.local.u32 [slot], %r9; ld.local.u32 %r1, [slot]; st.global.u32 [%rd2], %r0;"
    assert per_thread(spill) == [0]
    with pytest.raises(FaultError, match="uninitialised"):
        per_thread(spill.replace("[%rd2], %r0", "[%rd2], %r1"))


def test_constants_globals_and_initialisers():
    before = """.const .align 4 .b32 table[4] = {10, 20, 30};
    .global .align 4 .u32 counter = 5; .global .align 4 .b8 zeros[8];
    .global .align 8 .u64 pointer = generic(counter)+0;
    """
    body = """
    mul.wide.u32 %rd5, %r0, 4; mov.u64 %rd6, table; add.u64 %rd7, %rd6, %rd5; ld.const.u32 %r1, [%rd7];
    cvta.const.u64 %rd8, %rd7; ld.u32 %r2, [%rd8]; add.u32 %r1, %r1, %r2;
    ld.global.u64 %rd9, [pointer]; atom.global.add.u32 %r3, [%rd9], 1; ld.global.u32 %r4, [zeros+4];
    add.u32 %r1, %r1, %r4; add.u32 %r1, %r1, %r3; st.global.u32 [%rd2], %r1; ret;"""
    out = run(OUT + body, [bytes(16)], block=4, before=before)
    assert words(out.arrays[0]) == [25, 46, 67, 8]
    assert words(out.globals["counter"]) == [9]
    with pytest.raises(FaultError, match="read-only"):
        per_thread("mov.u64 %rd6, table; cvta.const.u64 %rd6, %rd6; st.u32 [%rd6], 1;", before=before)


ATOMICS = [("add.u32", 5, 7, 12), ("add.u32", 0xFFFFFFFF, 2, 1), ("min.s32", 5, -1, -1), ("min.u32", 5, -1, 5), ("max.s32", 5, -1, 5),
           ("max.u32", 5, -1, -1), ("and.b32", 12, 10, 8), ("or.b32", 12, 10, 14), ("xor.b32", 12, 10, 6), ("exch.b32", 5, 9, 9),
           ("inc.u32", 5, 9, 6), ("inc.u32", 9, 9, 0), ("inc.u32", 10, 9, 0), ("dec.u32", 5, 9, 4), ("dec.u32", 0, 9, 9),
           ("dec.u32", 10, 9, 9), ("cas.b32", 5, "5, 8", 8), ("cas.b32", 5, "6, 8", 5)]


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("name, old, operand, new", ATOMICS)
def test_atomics(space, name, old, operand, new):
    if space == "shared":
        where, dot, begin, end = "[tile]", ".shared", f"st.shared.u32 [tile], {old};", "ld.shared.u32 %r8, [tile]; st.global.u32 [%rd1], %r8;"
    else:
        where, dot, begin, end = "[%rd1]", ".global" if space == "global" else "", f"st.global.u32 [%rd1], {old};", ""
    body = OUT + f"{begin} atom{dot}.{name} %r1, {where}, {operand}; {end} st.global.u32 [%rd1+4], %r1; ret;"
    assert words(run(body, [bytes(8)], before=SHARED).arrays[0]) == [new % 2 ** 32, old % 2 ** 32]
    if name[:3] not in ("exc", "cas") and space != "shared":
        body = OUT + f"{begin} red.relaxed.gpu{dot}.{name} {where}, {operand}; ret;"
        assert words(run(body, [bytes(4)]).arrays[0]) == [new % 2 ** 32]


def test_wide_atomics_and_lane_order():
    body = OUT + """
    cvt.u64.u32 %rd5, %r0; add.u64 %rd5, %rd5, 0xffffffff; atom.global.add.u64 %rd6, [%rd1], %rd5;
    atom.global.exch.b32 %r3, [%rd1+8], %r0; mul.wide.u32 %rd7, %r0, 4; add.u64 %rd7, %rd7, %rd1; st.global.u32 [%rd7+12], %r3; ret;"""
    out = run(body, [bytes(8) + u32(77, 0, 0, 0)], block=3).arrays[0]
    assert struct.unpack("<Q", out[:8]) == (3 * 0xFFFFFFFF + 3,)
    assert words(out[8:]) == [2, 77, 0, 1]


FAULTS = [
    ("ld.global.u32 %r1, [%rd1+8];", "out of bounds", "0 bytes past the end of the array of argument 1"),
    ("ld.global.u64 %rd5, [%rd1+4];", "misaligned", "multiple of 8"),
    ("st.global.u32 [%rd1+-4], 1;", "out of bounds", "4 bytes before the array of argument 1"),
    ("add.u64 %rd5, %rd1, 6; ld.global.u16 %r1, [%rd5+2];", "out of bounds", "array of argument 1"),
    ("ld.global.u32 %r1, [%rd1+2];", "misaligned", "multiple of 4"),
    ("mov.u64 %rd5, 0; ld.global.u32 %r1, [%rd5];", "null pointer", ""),
    ("mov.u64 %rd5, 0; ld.u32 %r1, [%rd5+8];", "null pointer", ""),
    ("ld.shared.u32 %r1, [tile+64];", "out of bounds", "shared variable tile"),
    ("mov.u32 %r2, 0xfffffffc; ld.shared.u32 %r1, [%r2];", "out of bounds", "shared variable tile"),
    ("ld.local.u32 %r1, [4];", "out of bounds", "no local memory"),
    ("ld.param.u32 %r1, [p0+8];", "out of bounds", "parameter 0"),
    ("mov.u64 %rd5, -8; ld.global.u64 %rd6, [%rd5];", "out of bounds", "array of argument 1"),
    ("ld.global.u32 %r1, [%rd9];", "the address of a load is undefined", "register %rd9, which is uninitialised"),
    ("st.global.u32 [%rd9], 1;", "the address of a store is undefined", "%rd9"),
    ("add.u32 %r5, %r6, 1; st.global.u32 [%rd1], %r5;", "value stored", "register %r6, which is uninitialised"),
    ("add.u32 %r5, %r6, 1; xor.b32 %r5, %r5, %r5; st.global.v2.u32 [%rd1], {1, %r5};", "value stored", "%r6"),
    ("@%p5 bra L; L:", "condition of @%p5 bra L is undefined", "%p5"),
    ("@!%p5 mov.u32 %r1, 1;", "condition of @!%p5", "%p5"),
    ("div.u32 %r5, %r0, 0; st.global.u32 [%rd1], %r5;", "value stored", "division by zero at PTX line"),
    ("rem.s32 %r5, %r0, 0; setp.eq.s32 %p1, %r5, 0; @%p1 bra L; L:", "condition", "division by zero at PTX line"),
    ("atom.shared.add.u32 %r1, [tile], 1;", "memory under an atomic operation is undefined", "tile at byte 0"),
    ("trap;", "trap", ""),
]


@pytest.mark.parametrize("text, what, why", FAULTS)
def test_fault(text, what, why):
    with pytest.raises(FaultError) as e:
        run(OUT + text + " ret;", [bytes(8)], before=SHARED)
    message = str(e.value)
    assert what in message and why in message
    assert "kernel k, block (0, 0, 0), thread (0, 0, 0)" in message and e.value.where.startswith("PTX line ")


def test_undefined_values_that_do_not_matter():
    body = """
    add.u32 %r5, %r6, 1; and.b32 %r7, %r5, 0; or.b32 %r8, %r5, -1; setp.eq.s32 %p1, %r6, 0; setp.eq.s32 %p2, %r0, 99;
    and.pred %p3, %p1, %p2; selp.u32 %r9, 40, 2, %p3; setp.eq.s32 %p4, %r0, 0; selp.u32 %r10, %r9, %r6, %p4;
    add.u32 %r10, %r10, %r7; add.u32 %r10, %r10, %r8; div.u32 %r11, %r0, 0; st.global.u32 [%rd2], %r10;"""
    assert per_thread(body) == [1]


def test_the_fault_names_the_cuda_line_the_block_and_the_thread():
    text = '\n.file 1 "k.cu"\n'
    body = OUT + "\n.loc 1 42 5\n mov.u32 %r1, %ctaid.y; mad.lo.u32 %r1, %r1, 8, %r0; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd3, %rd1; st.global.u32 [%rd3], %r1; ret;"
    with pytest.raises(FaultError) as e:
        run(body, [bytes(48)], before=text, block=(8, 1), grid=(1, 2))
    assert e.value.where.startswith("k.cu:42 (PTX line ")
    assert "block (0, 1, 0), thread (4, 0, 0)" in str(e.value)


UNSUPPORTED = ["sin.approx.f32 %r1, %r2;", "add.f32 %r1, %r2, %r3;", "foo.b32 %r1, %r2;", "add.u16x2 %r1, %r2, %r3;", "ld.global.frob.u32 %r1, [%rd1];",
               "add.s32.frob %r1, %r2, %r3;", "cp.async.ca.shared.global [%r1], [%rd1], 4;", "mov.u32 %r1, %envreg3;", "mov.u32 %r1, %rs1;",
               "add.s32 %p1, %r2, %r3;", "add.s32 %r1, %r2;", "setp.lt.b32 %p1, %r1, %r2;", "atom.global.add.f32 %r1, [%rd1], %r2;",
               "vadd.s32.s32.s32 %r1, %r2, %r3;", "cvt.rn.f32.s32 %r1, %r2;", "shl.u32 %r1, %r2, 3;"]


def test_everything_unsupported_is_listed_at_once():
    with pytest.raises(UnsupportedError) as e:
        run("\n".join(UNSUPPORTED) + "\nret;", [])
    message = str(e.value)
    assert f"{len(UNSUPPORTED)} instructions of kernel k" in message
    for text in UNSUPPORTED:
        assert text.rstrip(";") in message
    assert "opcode foo is not supported" in message and "modifier .frob is not supported" in message


def test_an_instruction_that_is_never_reached_is_not_skipped():
    with pytest.raises(UnsupportedError, match="sqrt"):
        run("ret; sqrt.rn.f32 %r1, %r2;", [])


@pytest.mark.parametrize("arguments, options, why", [
    ([], {}, "takes 1 arguments"), ([bytes(4), 1], {}, "takes 1 arguments"), ([2 ** 64], {}, "does not fit"), ([-2 ** 63 - 1], {}, "does not fit"),
    ([bytes(4)], {"block": 1025}, "too large"), ([bytes(4)], {"block": (1, 1, 65)}, "too large"), ([bytes(4)], {"block": 0}, "positive"),
    ([bytes(4)], {"grid": (1, 65536)}, "too large"), ([bytes(4)], {"grid": (1, 1, 1, 1)}, "one to three"), ([bytes(4)], {"warp_size": 5}, "power of two"),
    ([bytes(4)], {"shared_bytes": 10 ** 6}, "shared memory"),
])
def test_launches_that_do_not_fit(arguments, options, why):
    with pytest.raises(UsageError, match=why):
        run("ret;", arguments, params=".param .u64 p0", **options)


def test_scalars_and_kernel_names():
    kernel = module("ret;", ".param .u32 n")
    with pytest.raises(UsageError, match="cannot hold an address"):
        launch(kernel, "k", 1, 1, [bytes(4)])
    with pytest.raises(UsageError, match="no kernel named other"):
        launch(kernel, "other", 1, 1, [3])
    assert launch(kernel, None, 1, 1, [-1]).arrays == [None]
