"""No text makes the parser do anything but return a module or raise PtxError, and its time grows with the text alone."""

import functools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qgpu.errors import PtxError
from qgpu.ptx import FAMILIES, find_unsupported, parse_ptx

SEED = """.version 8.8
.target sm_75
.address_size 32
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 0xFF(grid), generic(grid)+4};
.visible .global .align 4 .u32 grid[2][3] = {{1, 2}, {4, -1, 6}};
.extern .shared .align 16 .b8 dynamic[];
.func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; st.param.b32 [r], %r1; ret; }
.visible .entry _Z1kPKiPi(
	.param .u32 .ptr .align 1 p0,
	.param .align 4 .b8 p1[12]
)
.maxntid 32, 1, 1
{
	.reg .pred 	%p<6>;
	.reg .b32 	%r<22>;
	.reg .b64 	%rd<3>;
	.shared .align 4 .b8 s[32];
$L__func_begin1:
	.loc	1 5 0                           // a.cu:5:0
	ld.param.b32 	%r5, [p0];
	cvta.to.global.u32 	%r1, %r5;
	mov.u32 	%r4, %tid.x;
	setp.lt.u32 	%p1, %r4, 3;
	@%p1 bra 	$L__BB1_2;
	@!%p1 bra 	$L__BB1_1;
$L__BB1_2: /* here */
	{ // callseq 0, 0
	.param .b32 	param0;
	.param .b32 	retval0;
	st.param.b32 	[param0], %r1;
	call.uni (retval0), f, (param0);
	ld.param.b32 	%r11, [retval0+-4];
	}
	mov.b64 {_, %r3}, %rd1;
	shfl.sync.down.b32 %r1|%p2, %r2, 2, 0x1C1F, -1;
	ld.global.v2.b32 {%r1, %r2}, [%r3+(4*2)];
	brx.idx %r3, ts;
ts: .branchtargets $L__BB1_1, $L__BB1_2;
$L__BB1_1:
	.pragma "nounroll";
	mov.f32 %r3, 0f3F800000;
	st.shared.b32 	[s+4], 0b101U;
	selp.b32 %r1, 017, ~5, !%p1;
	ret;
}
	.section	.debug_macinfo	{	.b8 1, 2 }
	.file	1 "/tmp/a.cu"
"""
PIECES = SEED.replace("\t", " ").split() + list("{}()[]<>,;:=|+-*/%!@~^&?\"\n._$0`") + ["0x", "%r<", "/*", "*/", "//", "99999999999999999999", "é", "\0"]


def parses_or_says_why(text):
    try:
        module = parse_ptx(text, "fuzz.ptx")
    except PtxError as error:
        assert error.where.startswith("fuzz.ptx")
        assert len(str(error)) < 600
        return None
    for function in (*module.kernels.values(), *module.functions.values()):
        find_unsupported(function, FAMILIES)  # judges whatever parsed, without an exception
    return module


def test_the_seed_parses():
    module = parses_or_says_why(SEED)
    assert module is not None and len(module.kernel("k").instructions) == 17


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text(text):
    parses_or_says_why(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map(" ".join))
def test_pieces_of_ptx_in_a_body(text):
    head = SEED[:SEED.index("$L__func_begin1")]
    parses_or_says_why(head + text + "\n}")
    parses_or_says_why(".version 8.8 .target sm_75\n" + text)


@settings(max_examples=600, deadline=None)
@given(st.integers(0, len(SEED)), st.integers(0, 40), st.sampled_from(["", *PIECES]), st.integers(0, len(SEED)))
def test_damaged_ptx(at, length, piece, other):
    parses_or_says_why(SEED[:at] + piece + SEED[at + length:])
    parses_or_says_why(SEED[:at] + SEED[other:other + length] + SEED[at:])
    parses_or_says_why(SEED[:at])


@pytest.mark.parametrize("mark", list("{}()[]<-~!+/@\"%:$.,;") + ["[%r1,", "mov.b32 %r1, -", "{%r1,", "[1]", "a:", "@%p1 ", "((", "f(", "= {"])
def test_long_runs(mark):
    parses_or_says_why(SEED + mark * 3000)
    parses_or_says_why(SEED[:SEED.index("$L__func_begin1")] + mark * 3000)
    parses_or_says_why(SEED.replace("s[32]", "s" + "[1]" * 10 + " = " + mark * 3000))


@functools.cache
def seconds_for(lines):
    body = "".join(f"L{n}:\nadd.s32 %r1, %r2, {n};\n@%p1 bra L{n};\n" + "{ .reg .b32 t; mov.b32 t, %r1; }\n" for n in range(lines))
    text = f".version 8.8\n.target sm_75\n.entry k() {{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n{body}ret;\n}}"
    start = time.process_time()
    assert len(parse_ptx(text).kernel().instructions) == 3 * lines + 1
    return time.process_time() - start


def test_time_is_linear():
    assert seconds_for(8000) < 24 * seconds_for(1000) + 0.2  # 8 times the text; quadratic would be 64 times the time
