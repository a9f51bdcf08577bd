"""Whole kernels: the blocks of dot, the order of blocks, register and block limits, and every refusal."""

from __future__ import annotations

import pytest
from lower_harness import BASE, HEADER, run_ptx
from qgpu.errors import LoweringError, QgpuError, UnsupportedError, UsageError
from qgpu.lower import LaunchShape, lower
from qgpu.machine.description import ARTICLE, Machine
from qgpu.ptx import parse_ptx

DOT = """.version 8.0
.target sm_75
.address_size 32
.visible .entry dot(.param .u32 .ptr .align 1 dot_param_0, .param .u32 .ptr .align 1 dot_param_1, .param .u32 .ptr .align 1 dot_param_2)
{
	.reg .pred %p<3>;
	.reg .b32 %r<18>;
	.file 1 "dot.cu"
	.loc 1 6 13
	ld.param.b32 %r6, [dot_param_0];
	ld.param.b32 %r7, [dot_param_1];
	cvta.to.global.u32 %r8, %r7;
	cvta.to.global.u32 %r9, %r6;
	ld.param.b32 %r10, [dot_param_2];
	cvta.to.global.u32 %r1, %r10;
	mov.u32 %r2, %tid.x;
	.loc 1 7 17
	setp.gt.u32 %p1, %r2, 2;
	mov.b32 %r17, 0;
	@%p1 bra $L__BB0_2;
	shl.b32 %r11, %r2, 2;
	add.s32 %r3, %r8, %r11;
	add.s32 %r4, %r9, %r11;
	ld.global.b32 %r12, [%r4];
	ld.global.b32 %r13, [%r3];
	mul.lo.s32 %r17, %r13, %r12;
$L__BB0_2:
	.loc 1 8 12
	shfl.sync.down.b32 %r14, %r17, 2, 7199, -1;
	add.s32 %r15, %r14, %r17;
	.loc 1 9 12
	shfl.sync.down.b32 %r16, %r15, 1, 7199, -1;
	.loc 1 10 11
	setp.ne.b32 %p2, %r2, 0;
	@%p2 bra $L__BB0_4;
	add.s32 %r5, %r15, %r16;
	.loc 1 11 14
	st.global.b32 [%r1], %r5;
$L__BB0_4:
	ret;
}
"""

DOT_BLOCKS = """
b0: ; $entry
  s4 - = set.gt.u tid, #2 ; dot.cu:7
  s4 ? b1 : b2
b1: ; $entry>$L__BB0_2
  s1 r1 = or 0, 0 ; dot.cu:7
  -> b3
b2: ; $after1
  s1 - = shl tid, #2 ; dot.cu:7
  s2 - = ld [s1 + #512] ; dot.cu:7
  s3 - = ld [s1 + #524] ; dot.cu:7
  s4 r1 = mad s3, s2, 0 ; dot.cu:7
  -> b3
b3: ; $L__BB0_2
  s1 - = shfl r1, lanes 2 3 2 3 ; dot.cu:8
  s2 - = add s1, r1 ; dot.cu:8
  s3 - = shfl s2, lanes 1 2 3 3 ; dot.cu:9
  s4 r1 = add s2, s3 ; dot.cu:10
  -> b4
b4:
  s4 - = set.ne tid, 0 ; dot.cu:10
  s4 ? exit : b5
b5: ; $after2
  s1 st [#536 + 0], r1 ; dot.cu:11
  -> exit
"""


def words_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


def test_dot_blocks() -> None:
    program = lower(parse_ptx(DOT), "dot", ARTICLE, LaunchShape((1, 1, 1), (4, 1, 1), [BASE, BASE + 12, BASE + 24]))
    assert words_of(program.text()) == words_of(DOT_BLOCKS)


def test_dot_tokens() -> None:
    ran = run_ptx(DOT, [BASE, BASE + 12, BASE + 24], 4, [1, 2, 3, 4, 5, 6, 0])
    assert ran.words(6, 1) == [32]
    assert len(ran.generated) <= 22
    assert ran.tokens()[-4:] == ["SVAL 32", "MEM 6", "PARK outcome=F...", "END"]


def kernel(body: str, parameters: str = ".param .b32 k_param_0") -> str:
    head = HEADER.replace(HEADER[HEADER.index("(") + 1:HEADER.index(")")], parameters)
    return head + body + "\n\tret;\n}\n"


def test_lanes_meet_again_whatever_the_order_of_the_text() -> None:
    """The join comes before the second side in the text; the shuffle in it must still see all lanes."""
    text = kernel("""
	mov.u32 %r1, %tid.x;
	ld.param.b32 %r2, [k_param_0];
	setp.lt.s32 %p1, %r1, 2;
	@%p1 bra $side;
	add.s32 %r3, %r1, 100;
$join:
	shfl.sync.bfly.b32 %r4, %r3, 3, 7199, -1;
	mad.lo.s32 %r5, %r1, 4, %r2;
	st.global.b32 [%r5], %r4;
	ret;
$side:
	mul.lo.s32 %r3, %r1, 7;
	bra $join;
""")
    ran = run_ptx(text, [BASE], 4, [0] * 4)
    assert ran.words(0, 4) == [103, 102, 7, 0]


def test_loop_exit_waits_for_all_lanes() -> None:
    text = kernel("""
	mov.u32 %r1, %tid.x;
	ld.param.b32 %r2, [k_param_0];
	mov.b32 %r3, 0;
$loop:
	add.s32 %r3, %r3, 5;
	sub.s32 %r1, %r1, 1;
	setp.ge.s32 %p1, %r1, 0;
	@%p1 bra $loop;
	shfl.sync.idx.b32 %r4, %r3, 3, 7199, -1;
	mov.u32 %r1, %tid.x;
	mad.lo.s32 %r5, %r1, 4, %r2;
	st.global.b32 [%r5], %r4;
""")
    assert run_ptx(text, [BASE], 4, [0] * 4).words(0, 4) == [20] * 4


def test_a_load_after_a_store_sees_it() -> None:
    text = kernel("""
	ld.param.b32 %r2, [k_param_0];
	mov.u32 %r1, %tid.x;
	mad.lo.s32 %r3, %r1, 8, %r2;
	st.global.b32 [%r3], 41;
	ld.global.b32 %r4, [%r3];
	add.s32 %r4, %r4, 1;
	st.global.b32 [%r3+4], %r4;
""")
    assert run_ptx(text, [BASE], 2, [0] * 4).words(0, 4) == [41, 42, 41, 42]


def test_the_warp_barrier_orders_lanes() -> None:
    text = kernel("""
	ld.param.b32 %r2, [k_param_0];
	mov.u32 %r1, %tid.x;
	mad.lo.s32 %r3, %r1, 4, %r2;
	add.s32 %r4, %r1, 10;
	st.global.b32 [%r3], %r4;
	bar.warp.sync -1;
	setp.eq.s32 %p1, %r1, 3;
	mov.b32 %r5, 0;
	@!%p1 ld.global.b32 %r5, [%r3+4];
	bar.warp.sync -1;
	st.global.b32 [%r3], %r5;
""")
    assert run_ptx(text, [BASE], 4, [0] * 4).words(0, 4) == [11, 12, 13, 0]


def test_parameters_of_every_form() -> None:
    text = kernel("""
	ld.param.b32 %r2, [k_param_0];
	ld.param.v2.b32 {%r3, %r4}, [k_param_1];
	mov.b64 %rd1, k_param_1;
	ld.param.u32 %r5, [%rd1+8];
	ld.param.s8 %r6, [k_param_2];
	ld.param.u64 %rd2, [k_param_3];
	mov.b64 {%r7, %r8}, %rd2;
	st.global.v4.b32 [%r2], {%r3, %r4, %r5, %r6};
	st.global.u64 [%r2+16], %rd2;
	ld.global.u64 %rd3, [%r2+16];
	mov.b64 {_, %r9}, %rd3;
	st.global.b32 [%r2+24], %r9;
""", ".param .b32 k_param_0, .param .align 4 .b8 k_param_1[12], .param .s8 k_param_2, .param .b64 k_param_3")
    struct = b"".join(v.to_bytes(4, "little") for v in (11, 22, 33))
    ran = run_ptx(text, [BASE, struct, -5, 0x0123456789ABCDEF], 1, [0] * 7)
    assert ran.words(0, 7) == [11, 22, 33, 0xFFFFFFFB, 0x89ABCDEF, 0x01234567, 0x01234567]


def test_nothing_to_do() -> None:
    ran = run_ptx(kernel(""), [BASE], 32, [])
    assert ran.tokens().count("END") == 1 and len(ran.program.blocks) == 1


def test_a_register_never_written_is_zero() -> None:
    text = kernel("\tld.param.b32 %r2, [k_param_0];\n\tadd.s32 %r3, %r9, 6;\n\tst.global.b32 [%r2], %r3;")
    assert run_ptx(text, [BASE], 1, [1]).words(0, 1) == [6]


def test_too_many_values_are_named() -> None:
    loads = "\n".join(f"\tld.global.b32 %r{k}, [%r2+{4 * k}];" for k in range(3, 23))
    loop = "\n".join(f"\txor.b32 %r{k}, %r{k}, %r{k - 1};" for k in range(4, 23)) + "\n\txor.b32 %r3, %r3, %r22;"
    stores = "\n".join(f"\tst.global.b32 [%r2+{4 * k}], %r{k};" for k in range(3, 23))
    text = kernel(f"""
	.file 1 "big.cu"
	ld.param.b32 %r2, [k_param_0];
	mov.b32 %r30, 5;
	.loc 1 3 1
{loads}
$loop:
	.loc 1 9 1
{loop}
	sub.s32 %r30, %r30, 1;
	setp.ne.s32 %p1, %r30, 0;
	@%p1 bra $loop;
{stores}
""")
    with pytest.raises(LoweringError, match="15 registers") as caught:
        lower(parse_ptx(text), None, ARTICLE, LaunchShape((1, 1, 1), (1, 1, 1), [BASE]))
    assert "%r3" in str(caught.value) and "%r22" in str(caught.value) and "big.cu:9" in str(caught.value)
    roomy = Machine("roomy", registers=31, warps=4, blocks=64).validate()
    assert lower(parse_ptx(text), None, roomy, LaunchShape((1, 1, 1), (1, 1, 1), [BASE])).blocks


def test_too_many_blocks() -> None:
    body = "\n".join(f"\tld.global.b32 %r3, [%r2+{4 * k}];\n\tadd.s32 %r3, %r3, 1;\n\tst.global.b32 [%r2+{4 * k}], %r3;" for k in range(40))
    with pytest.raises(LoweringError, match="needs 40 blocks") as caught:
        lower(parse_ptx(kernel("\tld.param.b32 %r2, [k_param_0];\n" + body)), None, ARTICLE, LaunchShape((1, 1, 1), (1, 1, 1), [BASE]))
    assert "32 blocks" in str(caught.value)


def test_everything_unsupported_is_listed() -> None:
    text = kernel("""
	.reg .f32 %f<3>;
	ld.param.b32 %r1, [k_param_0];
	mov.u32 %r2, %clock;
	add.f32 %f1, %f1, %f2;
	bar.sync 1;
	ld.global.f32 %f1, [%r1];
	vote.sync.ballot.b32 %r5, %p1, -1;
	shfl.sync.down.b32 %r5, %r4, 1, 31, -1;
	fns.b32 %r6, %r4, 0, 1;
	mov.u32 %r6, %laneid;
	st.global.b32 [%r1], %r4;
""")
    with pytest.raises(UnsupportedError) as caught:
        lower(parse_ptx(text), None, ARTICLE, LaunchShape((1, 1, 1), (8, 1, 1), [BASE]))
    message = str(caught.value)
    for part in ("%clock", "add.f32", "barrier 0", "32 lanes wide", "width of 4", "fns", "%laneid", "has 4 lanes"):
        assert part in message
    assert message.startswith("8 instructions") and "PTX line 13" in message


@pytest.mark.parametrize("shape, error, message", [
    (LaunchShape((2, 1, 1025), (4, 1, 1), [BASE]), UsageError, "grid"),
    (LaunchShape((1, 1, 1), (4, 3, 3), [BASE]), UsageError, "36 threads"),
    (LaunchShape((1, 1, 1), (4, 1, 1), [BASE], shared_bytes=4), UsageError, "4 bytes of shared memory"),
    (LaunchShape((1, 1, 1), (33, 1, 1), [BASE]), UsageError, "33 threads"),
    (LaunchShape((1, 1, 1), (0, 1, 1), [BASE]), UsageError, "at least 1"),
    (LaunchShape((1, 1, 1), (4, 1, 1), []), UsageError, "0 arguments for 1"),
    (LaunchShape((1, 1, 1), (4, 1, 1), [1 << 32]), UsageError, "does not fit"),
    (LaunchShape((1, 1, 1), (4, 1, 1), [b"12"]), UsageError, "2 bytes"),
])
def test_launch_shapes(shape: LaunchShape, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        lower(parse_ptx(kernel("")), None, ARTICLE, shape)


def test_hook_sees_every_pass() -> None:
    seen: dict[str, str] = {}
    lower(parse_ptx(DOT), None, ARTICLE, LaunchShape((1, 1, 1), (4, 1, 1), [BASE, BASE + 12, BASE + 24]), seen.__setitem__)
    assert list(seen)[:3] == ["translate", "report", "simplify"] and "leave_ssa" in seen
    assert "ldparam" in seen["translate"] and "ldparam" not in seen["simplify"]


def test_a_jump_into_the_middle_of_a_loop() -> None:
    """An irreducible loop has no block order that waits for everyone, but it must still compute."""
    text = kernel("""
	ld.param.b32 %r2, [k_param_0];
	mov.u32 %r1, %tid.x;
	mov.b32 %r3, 0;
	mov.b32 %r4, 0;
	setp.lt.s32 %p1, %r1, 2;
	@%p1 bra $middle;
$top:
	add.s32 %r3, %r3, 10;
$middle:
	add.s32 %r3, %r3, 1;
	add.s32 %r4, %r4, 1;
	setp.lt.s32 %p2, %r4, 3;
	@%p2 bra $top;
	mad.lo.s32 %r5, %r1, 4, %r2;
	st.global.b32 [%r5], %r3;
""")
    assert run_ptx(text, [BASE], 4, [0] * 4).words(0, 4) == [23, 23, 33, 33]


def test_a_loop_that_does_nothing() -> None:
    with pytest.raises(LoweringError, match="endless loop"):
        lower(parse_ptx(kernel("$here:\n\tbra $here;")), None, ARTICLE, LaunchShape((1, 1, 1), (1, 1, 1), [BASE]))


def test_loop_variables_that_change_places() -> None:
    """a, b, c = b, c, a in every round: copies that must read before they write."""
    text = kernel("""
	ld.param.b32 %r2, [k_param_0];
	mov.u32 %r1, %tid.x;
	mov.b32 %r3, 1;
	mov.b32 %r4, 20;
	mov.b32 %r5, 300;
	mov.b32 %r9, 0;
$loop:
	mov.b32 %r6, %r3;
	mov.b32 %r3, %r4;
	mov.b32 %r4, %r5;
	mov.b32 %r5, %r6;
	add.s32 %r9, %r9, 1;
	setp.le.s32 %p1, %r9, %r1;
	@%p1 bra $loop;
	shl.b32 %r7, %r4, 12;
	add.s32 %r7, %r7, %r3;
	mad.lo.s32 %r8, %r1, 4, %r2;
	st.global.b32 [%r8], %r7;
""")
    turns = [(20, 300), (300, 1), (1, 20), (20, 300)]
    assert run_ptx(text, [BASE], 4, [0] * 4).words(0, 4) == [a + (b << 12) for a, b in turns]


POINTED = """.version 6.4
.target sm_75
.address_size 32
.visible .global .align 4 .u32 table[2] = {_Z3onei, _Z3twoi};
.func _Z3onei() { ret; }
.func _Z3twoi() { ret; }
.func malloc() ;
.entry k(.param .u32 k_param_0)
{
    .reg .b32 %r<4>;
    BODY
    ret;
}
"""


def refused(body: str) -> str:
    module = parse_ptx(POINTED.replace("BODY", body), "pointers.ptx")
    with pytest.raises(QgpuError) as caught:
        lower(module, "k", ARTICLE, LaunchShape(arguments=(0,)))
    return str(caught.value)


def test_function_pointers_and_the_heap_are_refused_by_name() -> None:
    assert "takes the address of function one: function pointers" in refused("mov.u32 %r1, _Z3onei;")
    table = refused("mov.u32 %r1, table;")
    assert "table holds the address of function one" in table and "virtual functions" in table
    assert "there is no heap" in refused("call.uni malloc, ();")
