"""Every integer instruction with edge values: one small kernel each, machine interpreter against PTX interpreter.

The first thread's values of each kernel come from its place in the list, so that the same kernel always sees the same numbers.
"""

from __future__ import annotations

import random
import struct

import pytest
from lower_harness import run_ptx
from qgpu.machine.description import ARTICLE, DEFAULT
from qgpu.ptx import parse_ptx
from qgpu_reference.ptx import launch

EDGES = (0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000,
         0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x12345678, 0xDEADBEEF, 0x55555555, 0xAAAAAAAA, 0xF0F0F0F0, 0x01020380)

HEAD = """.version 8.0
.target sm_75
.address_size 32
.visible .entry k(.param .b32 p0, .param .b32 p1)
{
	.reg .pred %p<4>;
	.reg .b16 %rs<8>;
	.reg .b32 %r<40>;
	.reg .b64 %rd<12>;
	ld.param.b32 %r30, [p0];
	ld.param.b32 %r31, [p1];
	mov.u32 %r32, %tid.x;
	mad.lo.s32 %r30, %r32, 24, %r30;
	mad.lo.s32 %r31, %r32, 16, %r31;
	ld.global.b32 %r1, [%r30];
	ld.global.b32 %r2, [%r30+4];
	ld.global.b32 %r3, [%r30+8];
	ld.global.b32 %r4, [%r30+12];
	ld.global.b32 %r5, [%r30+16];
	ld.global.b32 %r6, [%r30+20];
	mov.b64 %rd1, {%r1, %r2};
	mov.b64 %rd2, {%r3, %r4};
	mov.b64 %rd3, {%r5, %r6};
	cvt.u16.u32 %rs1, %r1;
	cvt.u16.u32 %rs2, %r3;
	cvt.u16.u32 %rs3, %r5;
	setp.lt.s32 %p1, %r5, %r6;
	mov.b64 %rd0, 0;
	mov.b32 %r0, 0;
	mov.b16 %rs0, 0;
"""

TAIL = """
	st.global.b64 [%r31], %rd0;
	st.global.b32 [%r31+8], %r0;
	cvt.u32.u16 %r7, %rs0;
	st.global.b32 [%r31+12], %r7;
	ret;
}
"""

# One kernel a line; of several instructions, each ends at a semicolon.
PROGRAMS = """
add.s16 %rs0, %rs1, %rs2
sub.s16 %rs0, %rs1, %rs2
mul.lo.s16 %rs0, %rs1, %rs2
mul.hi.s16 %rs0, %rs1, %rs2
min.s16 %rs0, %rs1, %rs2
max.s16 %rs0, %rs1, %rs2
div.s16 %rs0, %rs1, %rs2
rem.s16 %rs0, %rs1, %rs2
mad.lo.s16 %rs0, %rs1, %rs2, %rs3
mad.hi.s16 %rs0, %rs1, %rs2, %rs3
mul.wide.s16 %r0, %rs1, %rs2
mad.wide.s16 %r0, %rs1, %rs2, %r5
sad.s16 %rs0, %rs1, %rs2, %rs3
shr.s16 %rs0, %rs1, %r3
add.u16 %rs0, %rs1, %rs2
sub.u16 %rs0, %rs1, %rs2
mul.lo.u16 %rs0, %rs1, %rs2
mul.hi.u16 %rs0, %rs1, %rs2
min.u16 %rs0, %rs1, %rs2
max.u16 %rs0, %rs1, %rs2
div.u16 %rs0, %rs1, %rs2
rem.u16 %rs0, %rs1, %rs2
mad.lo.u16 %rs0, %rs1, %rs2, %rs3
mad.hi.u16 %rs0, %rs1, %rs2, %rs3
mul.wide.u16 %r0, %rs1, %rs2
mad.wide.u16 %r0, %rs1, %rs2, %r5
sad.u16 %rs0, %rs1, %rs2, %rs3
shr.u16 %rs0, %rs1, %r3
shl.b16 %rs0, %rs1, %r3
neg.s16 %rs0, %rs1
abs.s16 %rs0, %rs1
not.b16 %rs0, %rs1
cnot.b16 %rs0, %rs1
and.b16 %rs0, %rs1, %rs2
xor.b16 %rs0, %rs1, %rs2
add.s32 %r0, %r1, %r3
sub.s32 %r0, %r1, %r3
mul.lo.s32 %r0, %r1, %r3
mul.hi.s32 %r0, %r1, %r3
min.s32 %r0, %r1, %r3
max.s32 %r0, %r1, %r3
div.s32 %r0, %r1, %r3
rem.s32 %r0, %r1, %r3
mul24.lo.s32 %r0, %r1, %r3
mul24.hi.s32 %r0, %r1, %r3
mad.lo.s32 %r0, %r1, %r3, %r5
mad.hi.s32 %r0, %r1, %r3, %r5
mul.wide.s32 %rd0, %r1, %r3
mad.wide.s32 %rd0, %r1, %r3, %rd3
sad.s32 %r0, %r1, %r3, %r5
shr.s32 %r0, %r1, %r3
mad24.lo.s32 %r0, %r1, %r3, %r5
mad24.hi.s32 %r0, %r1, %r3, %r5
bfe.s32 %r0, %r1, %r3, %r5
bfind.s32 %r0, %r1
bfind.shiftamt.s32 %r0, %r1
szext.clamp.s32 %r0, %r1, %r3
szext.wrap.s32 %r0, %r1, %r3
div.s32 %r0, %r1, 7
rem.s32 %r0, %r1, 7
div.s32 %r0, %r1, 10
rem.s32 %r0, %r1, 1000
div.s32 %r0, %r1, 641
div.s32 %r0, %r32, 3
rem.s32 %r0, %r32, 5
div.s32 %r0, %r1, 1
rem.s32 %r0, %r1, 3
div.s32 %r0, %r1, 3
div.s32 %r0, %r1, 5
div.s32 %r0, %r1, 7
div.s32 %r0, %r1, 9
div.s32 %r0, %r1, 11
div.s32 %r0, %r1, 13
div.s32 %r0, %r1, 25
div.s32 %r0, %r1, 125
div.s32 %r0, %r1, 625
div.s32 %r0, %r1, 1000000007
div.s32 %r0, %r1, 2147483647
add.u32 %r0, %r1, %r3
sub.u32 %r0, %r1, %r3
mul.lo.u32 %r0, %r1, %r3
mul.hi.u32 %r0, %r1, %r3
min.u32 %r0, %r1, %r3
max.u32 %r0, %r1, %r3
div.u32 %r0, %r1, %r3
rem.u32 %r0, %r1, %r3
mul24.lo.u32 %r0, %r1, %r3
mul24.hi.u32 %r0, %r1, %r3
mad.lo.u32 %r0, %r1, %r3, %r5
mad.hi.u32 %r0, %r1, %r3, %r5
mul.wide.u32 %rd0, %r1, %r3
mad.wide.u32 %rd0, %r1, %r3, %rd3
sad.u32 %r0, %r1, %r3, %r5
shr.u32 %r0, %r1, %r3
mad24.lo.u32 %r0, %r1, %r3, %r5
mad24.hi.u32 %r0, %r1, %r3, %r5
bfe.u32 %r0, %r1, %r3, %r5
bfind.u32 %r0, %r1
bfind.shiftamt.u32 %r0, %r1
szext.clamp.u32 %r0, %r1, %r3
szext.wrap.u32 %r0, %r1, %r3
div.u32 %r0, %r1, 7
rem.u32 %r0, %r1, 7
div.u32 %r0, %r1, 10
rem.u32 %r0, %r1, 1000
div.u32 %r0, %r1, 641
div.u32 %r0, %r32, 3
rem.u32 %r0, %r32, 5
div.u32 %r0, %r1, 1
rem.u32 %r0, %r1, 3
div.u32 %r0, %r1, 3
div.u32 %r0, %r1, 5
div.u32 %r0, %r1, 7
div.u32 %r0, %r1, 9
div.u32 %r0, %r1, 11
div.u32 %r0, %r1, 13
div.u32 %r0, %r1, 25
div.u32 %r0, %r1, 125
div.u32 %r0, %r1, 625
div.u32 %r0, %r1, 1000000007
div.u32 %r0, %r1, 2147483647
div.s32 %r0, %r1, -7
rem.s32 %r0, %r1, -7
div.s32 %r0, %r1, -1
div.s32 %r0, %r1, -2147483648
rem.s32 %r0, %r1, -2147483648
div.u32 %r0, %r1, 4294967295
div.u32 %r0, %r1, 2147483649
rem.u32 %r0, %r1, 4294967291
div.s32 %r0, %r1, 8
rem.s32 %r0, %r1, 8
div.s32 %r0, %r1, -8
mad.hi.sat.s32 %r0, %r1, %r3, %r5
mad24.hi.sat.s32 %r0, %r1, %r3, %r5
add.sat.s32 %r0, %r1, %r3
sub.sat.s32 %r0, %r1, %r3
min.relu.s32 %r0, %r1, %r3
max.relu.s32 %r0, %r1, %r3
neg.s32 %r0, %r1
abs.s32 %r0, %r1
cnot.b32 %r0, %r1
shl.b32 %r0, %r1, %r3
popc.b32 %r0, %r1
clz.b32 %r0, %r1
brev.b32 %r0, %r1
bfi.b32 %r0, %r1, %r3, %r5, %r6
bfi.b32 %r0, %r1, %r3, 4, 8
bmsk.clamp.b32 %r0, %r1, %r3
bmsk.wrap.b32 %r0, %r1, %r3
lop3.b32 %r0, %r1, %r3, %r5, 0x96
lop3.b32 %r0, %r1, %r3, %r5, 0xe8
lop3.b32 %r0, %r1, %r3, %r5, 0xca
lop3.b32 %r0, %r1, %r3, %r5, 0x1d
lop3.b32 %r0, %r1, %r3, %r5, 0x6b
lop3.b32 %r0, %r1, %r3, %r5, 0x01
prmt.b32 %r0, %r1, %r3, %r5
prmt.b32 %r0, %r1, %r3, 0x3210
prmt.b32 %r0, %r1, %r3, 0x5410
prmt.b32 %r0, %r1, %r3, 0x0123
prmt.b32 %r0, %r1, %r3, 0xba98
prmt.b32 %r0, %r1, %r3, 0x7632
prmt.b32 %r0, %r1, %r3, 0x9f41
prmt.b32.f4e %r0, %r1, %r3, %r5
prmt.b32.f4e %r0, %r1, %r3, 2
prmt.b32.b4e %r0, %r1, %r3, %r5
prmt.b32.b4e %r0, %r1, %r3, 2
prmt.b32.rc8 %r0, %r1, %r3, %r5
prmt.b32.rc8 %r0, %r1, %r3, 2
prmt.b32.ecl %r0, %r1, %r3, %r5
prmt.b32.ecl %r0, %r1, %r3, 2
prmt.b32.ecr %r0, %r1, %r3, %r5
prmt.b32.ecr %r0, %r1, %r3, 2
prmt.b32.rc16 %r0, %r1, %r3, %r5
prmt.b32.rc16 %r0, %r1, %r3, 2
shf.l.wrap.b32 %r0, %r1, %r3, %r5
shf.l.wrap.b32 %r0, %r1, %r3, 13
shf.r.wrap.b32 %r0, %r1, %r3, %r5
shf.r.wrap.b32 %r0, %r1, %r3, 13
shf.l.clamp.b32 %r0, %r1, %r3, %r5
shf.l.clamp.b32 %r0, %r1, %r3, 13
shf.r.clamp.b32 %r0, %r1, %r3, %r5
shf.r.clamp.b32 %r0, %r1, %r3, 13
dp4a.s32.s32 %r0, %r1, %r3, %r5
dp2a.lo.s32.s32 %r0, %r1, %r3, %r5
dp2a.hi.s32.s32 %r0, %r1, %r3, %r5
dp4a.s32.u32 %r0, %r1, %r3, %r5
dp2a.lo.s32.u32 %r0, %r1, %r3, %r5
dp2a.hi.s32.u32 %r0, %r1, %r3, %r5
dp4a.u32.s32 %r0, %r1, %r3, %r5
dp2a.lo.u32.s32 %r0, %r1, %r3, %r5
dp2a.hi.u32.s32 %r0, %r1, %r3, %r5
dp4a.u32.u32 %r0, %r1, %r3, %r5
dp2a.lo.u32.u32 %r0, %r1, %r3, %r5
dp2a.hi.u32.u32 %r0, %r1, %r3, %r5
add.s64 %rd0, %rd1, %rd2
sub.s64 %rd0, %rd1, %rd2
mul.lo.s64 %rd0, %rd1, %rd2
mul.hi.s64 %rd0, %rd1, %rd2
min.s64 %rd0, %rd1, %rd2
max.s64 %rd0, %rd1, %rd2
div.s64 %rd0, %rd1, %rd2
rem.s64 %rd0, %rd1, %rd2
mad.lo.s64 %rd0, %rd1, %rd2, %rd3
mad.hi.s64 %rd0, %rd1, %rd2, %rd3
sad.s64 %rd0, %rd1, %rd2, %rd3
shr.s64 %rd0, %rd1, %r5
bfe.s64 %rd0, %rd1, %r5, %r6
bfind.s64 %r0, %rd1
bfind.shiftamt.s64 %r0, %rd1
div.s64 %rd0, %rd1, 10
rem.s64 %rd0, %rd1, 1000000007
set.lt.u32.s64 %r0, %rd1, %rd2
set.le.u32.s64 %r0, %rd1, %rd2
set.gt.u32.s64 %r0, %rd1, %rd2
set.ge.u32.s64 %r0, %rd1, %rd2
set.eq.u32.s64 %r0, %rd1, %rd2
set.ne.u32.s64 %r0, %rd1, %rd2
add.u64 %rd0, %rd1, %rd2
sub.u64 %rd0, %rd1, %rd2
mul.lo.u64 %rd0, %rd1, %rd2
mul.hi.u64 %rd0, %rd1, %rd2
min.u64 %rd0, %rd1, %rd2
max.u64 %rd0, %rd1, %rd2
div.u64 %rd0, %rd1, %rd2
rem.u64 %rd0, %rd1, %rd2
mad.lo.u64 %rd0, %rd1, %rd2, %rd3
mad.hi.u64 %rd0, %rd1, %rd2, %rd3
sad.u64 %rd0, %rd1, %rd2, %rd3
shr.u64 %rd0, %rd1, %r5
bfe.u64 %rd0, %rd1, %r5, %r6
bfind.u64 %r0, %rd1
bfind.shiftamt.u64 %r0, %rd1
div.u64 %rd0, %rd1, 10
rem.u64 %rd0, %rd1, 1000000007
set.lt.u32.u64 %r0, %rd1, %rd2
set.le.u32.u64 %r0, %rd1, %rd2
set.gt.u32.u64 %r0, %rd1, %rd2
set.ge.u32.u64 %r0, %rd1, %rd2
set.eq.u32.u64 %r0, %rd1, %rd2
set.ne.u32.u64 %r0, %rd1, %rd2
shl.b64 %rd0, %rd1, %r5
neg.s64 %rd0, %rd1
abs.s64 %rd0, %rd1
not.b64 %rd0, %rd1
cnot.b64 %rd0, %rd1
and.b64 %rd0, %rd1, %rd2
popc.b64 %r0, %rd1
clz.b64 %r0, %rd1
brev.b64 %rd0, %rd1
bfi.b64 %rd0, %rd1, %rd2, %r5, %r6
slct.s32.s32 %r0, %r1, %r3, %r5
slct.b64.s32 %rd0, %rd1, %rd2, %r5
selp.b64 %rd0, %rd1, %rd2, %p1
selp.b16 %rs0, %rs1, %rs2, %p1
add.cc.u32 %r0, %r1, %r3; addc.u32 %r0, %r5, %r5
sub.cc.u32 %r0, %r1, %r3; subc.u32 %r0, %r5, %r5
add.cc.u32 %r0, %r1, %r3; addc.cc.u32 %r0, %r5, %r1; addc.u32 %r0, %r3, 0
sub.cc.u32 %r0, %r1, %r3; subc.cc.u32 %r0, %r5, %r1; subc.u32 %r0, %r3, 0
mad.lo.cc.u32 %r0, %r1, %r3, %r5; madc.hi.u32 %r0, %r1, %r3, %r5
mad.hi.cc.u32 %r0, %r1, %r3, %r5; madc.lo.cc.u32 %r0, %r1, %r3, %r5; addc.u32 %r0, %r0, 0
add.cc.u64 %rd0, %rd1, %rd2; addc.u64 %rd0, %rd3, %rd3
sub.cc.u64 %rd0, %rd1, %rd2; subc.u64 %rd0, %rd3, %rd3
add.cc.u64 %rd0, %rd1, %rd2; addc.cc.u64 %rd0, %rd3, %rd1; addc.u64 %rd0, %rd2, 0
sub.cc.u64 %rd0, %rd1, %rd2; subc.cc.u64 %rd0, %rd3, %rd1; subc.u64 %rd0, %rd2, 0
mad.lo.cc.u64 %rd0, %rd1, %rd2, %rd3; madc.hi.u64 %rd0, %rd1, %rd2, %rd3
mad.hi.cc.u64 %rd0, %rd1, %rd2, %rd3; madc.lo.cc.u64 %rd0, %rd1, %rd2, %rd3; addc.u64 %rd0, %rd0, 0
cvt.u8.u8 %rs0, %rs1
cvt.u8.u8 %r0, %rs1
cvt.u8.s8 %rs0, %rs1
cvt.u8.s8 %r0, %rs1
cvt.sat.u8.s8 %rs0, %rs1
cvt.sat.u8.s8 %r0, %rs1
cvt.u8.u16 %rs0, %rs1
cvt.u8.u16 %r0, %rs1
cvt.sat.u8.u16 %rs0, %rs1
cvt.sat.u8.u16 %r0, %rs1
cvt.u8.s16 %rs0, %rs1
cvt.u8.s16 %r0, %rs1
cvt.sat.u8.s16 %rs0, %rs1
cvt.sat.u8.s16 %r0, %rs1
cvt.u8.u32 %rs0, %r1
cvt.u8.u32 %r0, %r1
cvt.sat.u8.u32 %rs0, %r1
cvt.sat.u8.u32 %r0, %r1
cvt.u8.s32 %rs0, %r1
cvt.u8.s32 %r0, %r1
cvt.sat.u8.s32 %rs0, %r1
cvt.sat.u8.s32 %r0, %r1
cvt.u8.u64 %rs0, %rd1
cvt.u8.u64 %r0, %rd1
cvt.sat.u8.u64 %rs0, %rd1
cvt.sat.u8.u64 %r0, %rd1
cvt.u8.s64 %rs0, %rd1
cvt.u8.s64 %r0, %rd1
cvt.sat.u8.s64 %rs0, %rd1
cvt.sat.u8.s64 %r0, %rd1
cvt.s8.u8 %rs0, %rs1
cvt.s8.u8 %r0, %rs1
cvt.sat.s8.u8 %rs0, %rs1
cvt.sat.s8.u8 %r0, %rs1
cvt.s8.s8 %rs0, %rs1
cvt.s8.s8 %r0, %rs1
cvt.s8.u16 %rs0, %rs1
cvt.s8.u16 %r0, %rs1
cvt.sat.s8.u16 %rs0, %rs1
cvt.sat.s8.u16 %r0, %rs1
cvt.s8.s16 %rs0, %rs1
cvt.s8.s16 %r0, %rs1
cvt.sat.s8.s16 %rs0, %rs1
cvt.sat.s8.s16 %r0, %rs1
cvt.s8.u32 %rs0, %r1
cvt.s8.u32 %r0, %r1
cvt.sat.s8.u32 %rs0, %r1
cvt.sat.s8.u32 %r0, %r1
cvt.s8.s32 %rs0, %r1
cvt.s8.s32 %r0, %r1
cvt.sat.s8.s32 %rs0, %r1
cvt.sat.s8.s32 %r0, %r1
cvt.s8.u64 %rs0, %rd1
cvt.s8.u64 %r0, %rd1
cvt.sat.s8.u64 %rs0, %rd1
cvt.sat.s8.u64 %r0, %rd1
cvt.s8.s64 %rs0, %rd1
cvt.s8.s64 %r0, %rd1
cvt.sat.s8.s64 %rs0, %rd1
cvt.sat.s8.s64 %r0, %rd1
cvt.u16.u8 %rs0, %rs1
cvt.u16.u8 %r0, %rs1
cvt.sat.u16.u8 %rs0, %rs1
cvt.sat.u16.u8 %r0, %rs1
cvt.u16.s8 %rs0, %rs1
cvt.u16.s8 %r0, %rs1
cvt.sat.u16.s8 %rs0, %rs1
cvt.sat.u16.s8 %r0, %rs1
cvt.u16.u16 %rs0, %rs1
cvt.u16.u16 %r0, %rs1
cvt.u16.s16 %rs0, %rs1
cvt.u16.s16 %r0, %rs1
cvt.sat.u16.s16 %rs0, %rs1
cvt.sat.u16.s16 %r0, %rs1
cvt.u16.u32 %rs0, %r1
cvt.u16.u32 %r0, %r1
cvt.sat.u16.u32 %rs0, %r1
cvt.sat.u16.u32 %r0, %r1
cvt.u16.s32 %rs0, %r1
cvt.u16.s32 %r0, %r1
cvt.sat.u16.s32 %rs0, %r1
cvt.sat.u16.s32 %r0, %r1
cvt.u16.u64 %rs0, %rd1
cvt.u16.u64 %r0, %rd1
cvt.sat.u16.u64 %rs0, %rd1
cvt.sat.u16.u64 %r0, %rd1
cvt.u16.s64 %rs0, %rd1
cvt.u16.s64 %r0, %rd1
cvt.sat.u16.s64 %rs0, %rd1
cvt.sat.u16.s64 %r0, %rd1
cvt.s16.u8 %rs0, %rs1
cvt.s16.u8 %r0, %rs1
cvt.sat.s16.u8 %rs0, %rs1
cvt.sat.s16.u8 %r0, %rs1
cvt.s16.s8 %rs0, %rs1
cvt.s16.s8 %r0, %rs1
cvt.sat.s16.s8 %rs0, %rs1
cvt.sat.s16.s8 %r0, %rs1
cvt.s16.u16 %rs0, %rs1
cvt.s16.u16 %r0, %rs1
cvt.sat.s16.u16 %rs0, %rs1
cvt.sat.s16.u16 %r0, %rs1
cvt.s16.s16 %rs0, %rs1
cvt.s16.s16 %r0, %rs1
cvt.s16.u32 %rs0, %r1
cvt.s16.u32 %r0, %r1
cvt.sat.s16.u32 %rs0, %r1
cvt.sat.s16.u32 %r0, %r1
cvt.s16.s32 %rs0, %r1
cvt.s16.s32 %r0, %r1
cvt.sat.s16.s32 %rs0, %r1
cvt.sat.s16.s32 %r0, %r1
cvt.s16.u64 %rs0, %rd1
cvt.s16.u64 %r0, %rd1
cvt.sat.s16.u64 %rs0, %rd1
cvt.sat.s16.u64 %r0, %rd1
cvt.s16.s64 %rs0, %rd1
cvt.s16.s64 %r0, %rd1
cvt.sat.s16.s64 %rs0, %rd1
cvt.sat.s16.s64 %r0, %rd1
cvt.u32.u8 %r0, %rs1
cvt.sat.u32.u8 %r0, %rs1
cvt.u32.s8 %r0, %rs1
cvt.sat.u32.s8 %r0, %rs1
cvt.u32.u16 %r0, %rs1
cvt.sat.u32.u16 %r0, %rs1
cvt.u32.s16 %r0, %rs1
cvt.sat.u32.s16 %r0, %rs1
cvt.u32.u32 %r0, %r1
cvt.u32.s32 %r0, %r1
cvt.sat.u32.s32 %r0, %r1
cvt.u32.u64 %r0, %rd1
cvt.sat.u32.u64 %r0, %rd1
cvt.u32.s64 %r0, %rd1
cvt.sat.u32.s64 %r0, %rd1
cvt.s32.u8 %r0, %rs1
cvt.sat.s32.u8 %r0, %rs1
cvt.s32.s8 %r0, %rs1
cvt.sat.s32.s8 %r0, %rs1
cvt.s32.u16 %r0, %rs1
cvt.sat.s32.u16 %r0, %rs1
cvt.s32.s16 %r0, %rs1
cvt.sat.s32.s16 %r0, %rs1
cvt.s32.u32 %r0, %r1
cvt.sat.s32.u32 %r0, %r1
cvt.s32.s32 %r0, %r1
cvt.s32.u64 %r0, %rd1
cvt.sat.s32.u64 %r0, %rd1
cvt.s32.s64 %r0, %rd1
cvt.sat.s32.s64 %r0, %rd1
cvt.u64.u8 %rd0, %rs1
cvt.sat.u64.u8 %rd0, %rs1
cvt.u64.s8 %rd0, %rs1
cvt.sat.u64.s8 %rd0, %rs1
cvt.u64.u16 %rd0, %rs1
cvt.sat.u64.u16 %rd0, %rs1
cvt.u64.s16 %rd0, %rs1
cvt.sat.u64.s16 %rd0, %rs1
cvt.u64.u32 %rd0, %r1
cvt.sat.u64.u32 %rd0, %r1
cvt.u64.s32 %rd0, %r1
cvt.sat.u64.s32 %rd0, %r1
cvt.u64.u64 %rd0, %rd1
cvt.u64.s64 %rd0, %rd1
cvt.sat.u64.s64 %rd0, %rd1
cvt.s64.u8 %rd0, %rs1
cvt.sat.s64.u8 %rd0, %rs1
cvt.s64.s8 %rd0, %rs1
cvt.sat.s64.s8 %rd0, %rs1
cvt.s64.u16 %rd0, %rs1
cvt.sat.s64.u16 %rd0, %rs1
cvt.s64.s16 %rd0, %rs1
cvt.sat.s64.s16 %rd0, %rs1
cvt.s64.u32 %rd0, %r1
cvt.sat.s64.u32 %rd0, %r1
cvt.s64.s32 %rd0, %r1
cvt.sat.s64.s32 %rd0, %r1
cvt.s64.u64 %rd0, %rd1
cvt.sat.s64.u64 %rd0, %rd1
cvt.s64.s64 %rd0, %rd1
mov.b32 {%rs0, %rs4}, %r1; add.s16 %rs0, %rs0, %rs4
mov.b64 %rd0, {%rs1,%rs2,%rs3,%rs1}
mov.b64 {%rs4,%rs5,%rs6,%rs7}, %rd1; xor.b16 %rs0, %rs5, %rs7
mov.b32 %r0, {%rs1,%rs2}
""".strip().splitlines()


def numbers(body: str, threads: int) -> list[int]:
    """Six words for each thread: edge values, random ones, and in places small ones for amounts and lengths. No divisor is 0."""
    rng = random.Random(body)
    words: list[int] = []
    for _ in range(threads):
        row = [rng.choice(EDGES) if rng.random() < 0.75 else rng.getrandbits(32) for _ in range(6)]
        for place, limit in ((4, 70), (5, 40)):
            if rng.random() < 0.4:
                row[place] = rng.randrange(limit)
        if body.startswith(("div", "rem")):
            row[2] = rng.randrange(1, 40) if rng.random() < 0.3 else row[2] | 1
        words += row
    return words


def check(body: str, machine, threads: int) -> None:
    text = HEAD + "\t" + body.replace("; ", ";\n\t") + ";" + TAIL
    words = numbers(body, threads)
    base = machine.global_base
    ran = run_ptx(text, [base, base + 24 * threads], threads, words + [0] * 4 * threads, machine)
    assert ran.machine.ended == "END"
    arrays = [struct.pack(f"<{6 * threads}I", *words), bytes(16 * threads)]
    outcome = launch(parse_ptx(text), "k", 1, threads, arrays, warp_size=machine.warp_size)
    assert ran.words(6 * threads, 4 * threads) == list(struct.unpack(f"<{4 * threads}I", outcome.arrays[1]))


@pytest.mark.parametrize("body", PROGRAMS[::6])
def test_instruction_on_default(body: str) -> None:
    check(body, DEFAULT, 6)


@pytest.mark.slow
@pytest.mark.parametrize("body", PROGRAMS)
def test_every_instruction_on_default(body: str) -> None:
    check(body, DEFAULT, 33)


# What needs more blocks or registers than `article` has.
TOO_LARGE = ("div.s64 %rd0, %rd1, %rd2", "rem.s64 %rd0, %rd1, %rd2", "div.u64 %rd0, %rd1, %rd2", "rem.u64 %rd0, %rd1, %rd2",
             "mad.lo.cc.u64 %rd0, %rd1, %rd2, %rd3; madc.hi.u64 %rd0, %rd1, %rd2, %rd3")


@pytest.mark.slow
@pytest.mark.parametrize("body", [p for p in PROGRAMS if p not in TOO_LARGE])
def test_every_instruction_on_article(body: str) -> None:
    check(body, ARTICLE, 12)
