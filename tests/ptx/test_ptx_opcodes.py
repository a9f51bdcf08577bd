"""The opcode table: what it covers, what it refuses, and that refusals are complete and in order."""

import re

import pytest

from qgpu.errors import UnsupportedError
from qgpu.ptx import FAMILIES, check_supported, family_of, find_unsupported, parse_ptx, registers
from qgpu.ptx.model import Reg
from qgpu.ptx.opcodes import judge

HEAD = """.version 8.8
.target sm_75
.shared .b32 s[4];
.func (.param .b32 r) f(.param .b32 a);
.entry k(.param .u32 p) {
.reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<3>; .param .b32 a0; .param .b32 r0;
T: .branchtargets L;
L:
"""

# One instruction or more of every family, with its family's name.
KNOWN = {
    "add": "add.s32 %r1, %r2, 3; add.sat.s32 %r1, %r2, %r3; add.u64 %rd1, %rd2, 8; add.s16 %rs1, %rs2, 1",
    "add.cc": "add.cc.u32 %r1, %r2, %r3", "addc": "addc.u32 %r1, %r2, %r3; addc.cc.u32 %r1, %r2, 0",
    "sub": "sub.s32 %r1, %r2, %r3", "sub.cc": "sub.cc.u32 %r1, %r2, %r3", "subc": "subc.u32 %r1, %r2, %r3",
    "mul.lo": "mul.lo.s32 %r1, %r2, 3; mul.lo.s16 %rs1, %rs2, 7", "mul.hi": "mul.hi.u32 %r1, %r2, -1", "mul.wide": "mul.wide.s32 %rd1, %r1, 4",
    "mul24.lo": "mul24.lo.s32 %r1, %r2, %r3", "mul24.hi": "mul24.hi.u32 %r1, %r2, %r3",
    "mad.lo": "mad.lo.s32 %r1, %r2, %r3, %r4", "mad.hi": "mad.hi.u32 %r1, %r2, %r3, %r4", "mad.wide": "mad.wide.u32 %rd1, %r2, 4, %rd2",
    "mad.lo.cc": "mad.lo.cc.u32 %r1, %r2, %r3, %r4", "mad.hi.cc": "mad.hi.cc.u32 %r1, %r2, %r3, %r4",
    "madc.lo": "madc.lo.cc.u32 %r1, %r2, %r3, %r4", "madc.hi": "madc.hi.u32 %r1, %r2, %r3, 0",
    "mad24.lo": "mad24.lo.s32 %r1, %r2, %r3, %r4", "mad24.hi": "mad24.hi.sat.s32 %r1, %r2, %r3, %r4",
    "sad": "sad.s32 %r1, %r2, %r3, %r4", "div": "div.s32 %r1, %r2, %r3", "rem": "rem.u32 %r1, %r2, 10", "abs": "abs.s32 %r1, %r2",
    "neg": "neg.s32 %r1, %r2", "min": "min.s32 %r1, %r2, %r3", "max": "max.u32 %r1, %r2, 60", "dp4a": "dp4a.s32.s32 %r1, %r2, %r3, %r4",
    "dp2a": "dp2a.lo.s32.u32 %r1, %r2, %r3, %r4", "popc": "popc.b32 %r1, %r2; popc.b64 %r1, %rd1", "clz": "clz.b32 %r1, %r2",
    "bfind": "bfind.u32 %r1, %r2; bfind.shiftamt.s32 %r1, %r2", "fns": "fns.b32 %r1, %r2, 0, 1", "brev": "brev.b32 %r1, %r2",
    "bfe": "bfe.u32 %r1, %r2, 3, 4", "bfi": "bfi.b32 %r1, %r2, %r3, 4, 8", "szext": "szext.clamp.s32 %r1, %r2, 3", "bmsk": "bmsk.wrap.b32 %r1, 1, 2",
    "and": "and.b32 %r1, %r2, 7; and.pred %p1, %p2, !%p3", "or": "or.b32 %r1, %r2, 1; or.pred %p1, %p2, %p3", "xor": "xor.b16 %rs1, %rs2, 1",
    "not": "not.b32 %r1, %r2; not.pred %p1, %p2", "cnot": "cnot.b32 %r1, %r2", "lop3": "lop3.b32 %r1, %r2, %r3, %r4, 0x96",
    "shl": "shl.b32 %r1, %r2, 2; shl.b64 %rd1, %rd2, %r1", "shr": "shr.s32 %r1, %r2, 31; shr.u64 %rd1, %rd2, 1", "shf.l": "shf.l.wrap.b32 %r1, %r2, %r3, 4",
    "shf.r": "shf.r.clamp.b32 %r1, %r2, %r3, %r4", "prmt": "prmt.b32 %r1, %r2, %r3, 0x123; prmt.b32.f4e %r1, %r2, %r3, 1",
    "setp": "setp.lt.s32 %p1, %r1, 4; setp.ge.and.u32 %p1|%p2, %r1, %r2, !%p3; setp.ne.b32 %p1, %r1, 0; setp.lo.u64 %p1, %rd1, %rd2",
    "set": "set.eq.u32.s32 %r1, %r2, %r3; set.lt.or.s32.s32 %r1, %r2, %r3, %p1", "selp": "selp.b32 %r1, 1, 0, %p1; selp.b32 %r1, 1, 0, !%p1",
    "slct": "slct.u32.s32 %r1, %r2, %r3, %r4",
    "mov": "mov.b32 %r1, 3; mov.u32 %r1, %tid.x; mov.b64 %rd1, {%r1, %r2}; mov.b64 {_, %r1}, %rd1; mov.u32 %r1, s; mov.pred %p1, 0",
    "cvt": "cvt.u64.u32 %rd1, %r1; cvt.u32.u16 %r1, %rs1; cvt.s8.s32 %rs1, %r1; cvt.sat.u8.u32 %r1, %r2",
    "cvta.to": "cvta.to.global.u32 %r1, %r2", "cvta": "cvta.shared.u64 %rd1, %rd2", "isspacep": "isspacep.shared %p1, %r1",
    "ld.param": "ld.param.b32 %r1, [p]; ld.param.v2.u32 {%r1, %r2}, [p]", "ld.global": "ld.global.b32 %r1, [%r2+4]; ld.volatile.global.u32 %r1, [%r2]; "
    "ld.global.v4.b32 {%r1, %r2, %r3, _}, [%rd1]; ld.global.L1::evict_last.b32 %r1, [%r2]; ld.relaxed.gpu.global.u32 %r1, [%r2]; ld.global.s8 %rs1, [%r2]",
    "ld.global.nc": "ld.global.nc.u32 %r1, [%rd1]", "ldu": "ldu.global.u32 %r1, [%r2]",
    "ld.shared": "ld.shared.b32 %r1, [s+4]; ld.shared::cta.b32 %r1, [s]", "ld.local": "ld.local.u8 %rs1, [%r1]", "ld.const": "ld.const.b32 %r1, [%r2]", "ld": "ld.u32 %r1, [%rd1]",
    "st.param": "st.param.b32 [a0], %r1", "st.global": "st.global.b32 [%r2], %r1; st.global.v2.b32 [%r1], {%r2, 3}", "st.shared": "st.shared.b32 [s], 3",
    "st.local": "st.local.b64 [%r1], %rd1", "st": "st.u8 [%rd1], %rs1", "prefetch": "prefetch.global.L2 [%r1]",
    "shfl.sync": "shfl.sync.down.b32 %r1, %r2, 2, 7199, -1; shfl.sync.idx.b32 %r1|%p1, %r2, %r3, %r4, %r5", "vote.sync": "vote.sync.ballot.b32 %r1, %p1, -1; "
    "vote.sync.any.pred %p1, !%p2, -1", "match.sync": "match.any.sync.b32 %r1, %r2, -1; match.all.sync.b32 %r1|%p1, %r2, -1",
    "redux.sync": "redux.sync.add.s32 %r1, %r2, -1", "activemask": "activemask.b32 %r1",
    "bar.sync": "bar.sync 0; bar.sync 0, 64", "bar.arrive": "bar.arrive 0, 64", "bar.red": "bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p1, 0, 64, !%p2",
    "bar.warp.sync": "bar.warp.sync -1", "barrier.sync": "barrier.sync.aligned 0; barrier.sync 0", "barrier.arrive": "barrier.arrive 0, 32",
    "barrier.red": "barrier.red.or.pred %p1, 0, %p2", "membar": "membar.gl; membar.cta", "fence": "fence.acq_rel.gpu; fence.sc.cta",
    **{f"atom.{op}": f"atom.global.{op}.{t} %r1, [%r2], %r3; atom.shared.{op}.{t} _, [s+4], 1; atom.relaxed.sys.global.{op}.{t} %r1, [%r2], %r3"
       for op, t in (("add", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"), ("min", "s32"), ("max", "u32"), ("inc", "u32"), ("dec", "u32"), ("exch", "b32"))},
    "atom.cas": "atom.relaxed.sys.global.cas.b32 %r1, [%r2], 1, %r3",
    **{f"red.{op}": f"red.global.{op}.{t} [%r2], %r3; red.shared.{op}.{t} [s+4], 1"
       for op, t in (("add", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"), ("min", "s32"), ("max", "u32"), ("inc", "u32"), ("dec", "u32"))},
    "bra": "bra L; @%p1 bra.uni L", "brx.idx": "brx.idx %r1, T", "call": "call.uni (r0), f, (a0); call f, (a0); call f", "ret": "ret; ret.uni", "exit": "exit",
    "trap": "trap", "brkpt": "brkpt", "nanosleep": "nanosleep.u32 100",
}


def kernel(*lines):
    return parse_ptx(HEAD + "".join(f"{line};\n" for line in lines) + "}", "t.ptx").kernel()


def test_every_row_has_an_example():
    assert set(KNOWN) == set(FAMILIES)
    assert len(FAMILIES) >= 68
    assert all(f.meaning and f.name == name for name, f in FAMILIES.items())


@pytest.mark.parametrize("name", KNOWN)
def test_known(name):
    for instruction in kernel(*KNOWN[name].split("; ")).instructions:
        assert family_of(instruction).name == name, instruction.text
        assert judge(instruction) is None, instruction.text
        registers(instruction)


@pytest.mark.parametrize(("line", "reason"), [
    ("add.f32 %f1, %f2, %f2", "only integers"), ("fma.rn.f32 %f1, %f2, %f2, %f2", "fma.rn.f32 is not known"), ("mov.f32 %f1, %f2", "only integers"),
    ("wmma.load.a %r1", "not known"), ("frobnicate.b32 %r1, %r2", "frobnicate.b32 is not known"), ("mul.s32 %r1, %r2, %r3", "this form of mul is not known$"),
    ("mul.f32 %f1, %f2, %f2", "this form of mul is not known: floating point"), ("div.rn.f32 %f1, %f2, %f2", "only integers"),
    ("add.cool.s32 %r1, %r2, %r3", "add with .cool"), ("add %r1, %r2, %r3", "needs a type"), ("add.s32 %r1, %r2", "operands do not fit"),
    ("add.s32 %r1, %r2, %r3, %r4", "operands do not fit"), ("add.s32 3, %r2, %r3", "operands do not fit"), ("add.s32 %r1, [%r2], 1", "operands do not fit"),
    ("ld.global.b32 %r1, %r2", "operands do not fit"), ("bra", "operands do not fit"), ("ret %r1", "operands do not fit"), ("add.s8 %r1, %r2, %r3", "no such form"),
    ("popc.s32 %r1, %r2", "no such form"), ("add.s32 {%r1, %r2}, %r3, 1", "operands do not fit"), ("setp.lt.f32 %p1, %f1, %f2", "only integers"),
    ("cvt.rn.f32.s32 %f1, %r1", "not known|only integers"), ("atom.global.add.f32 %f1, [%r1], %f2", "only integers"), ("vote.any.pred %p1, %p2", "this form of vote"),
])
def test_refused_with_a_reason(line, reason):
    (found,) = find_unsupported(kernel(line), FAMILIES)
    assert found.instruction.text == line
    assert re.search(reason, found.reason), found.reason


def test_all_are_listed_at_once_in_order():
    k = kernel("mov.b32 %r1, 1", "add.f32 %f1, %f1, %f1", "popc.b32 %r1, %r2", "sqrt.rn.f32 %f1, %f1", "add.s32 %r1, %r1, 1", "popc.b32 %r3, %r2", "ret")
    with pytest.raises(UnsupportedError) as caught:
        check_supported(k, {"mov", "add", "ret"})
    items = caught.value.items
    assert [i.instruction.opcode for i in items] == ["add", "popc", "sqrt", "popc"]
    first = HEAD.count("\n") + 1
    text = str(caught.value)
    for line, word in ((1, "add.f32"), (2, "popc.b32"), (3, "sqrt.rn.f32"), (5, "popc.b32")):
        assert f"PTX line {first + line}: {word}" in text
    assert "4 instructions of kernel k" in text


def test_a_function_may_decide():
    k = kernel("shl.b32 %r1, %r1, 2", "shl.b64 %rd1, %rd1, 2", "trap", "fma.rn.f32 %f1, %f1, %f1, %f1")
    asked = []

    def supported(instruction):
        asked.append(instruction.opcode)
        return "64 bits" if instruction.bits == 64 else instruction.opcode != "trap"

    found = find_unsupported(k, supported)
    assert [(f.instruction.opcode, f.reason) for f in found] == [
        ("shl", "64 bits"), ("trap", "this machine has no trap"), ("fma", "instruction fma.rn.f32 is not known: floating point is not supported, only integers")]
    assert asked == ["shl", "shl", "trap"]
    check_supported(kernel("shl.b32 %r1, %r1, 2"), lambda i: None)


def test_registers_read_and_written():
    lines = {
        "@!%p1 add.s32 %r1, %r2, %r3": (["%p1", "%r2", "%r3"], ["%r1"]),
        "st.global.v2.b32 [%r1+4], {%r2, %r3}": (["%r1", "%r2", "%r3"], []),
        "ld.global.v2.b32 {%r1, _}, [%r3]": (["%r3"], ["%r1"]),
        "shfl.sync.down.b32 %r1|%p1, %r2, %r3, 7199, -1": (["%r2", "%r3"], ["%r1", "%p1"]),
        "setp.lt.and.s32 %p1|%p2, %r1, 4, !%p3": (["%r1", "%p3"], ["%p1", "%p2"]),
        "atom.shared.cas.b32 %r1, [s], %r2, %r3": (["%r2", "%r3"], ["%r1"]),
        "mov.u32 %r1, %tid.x": ([], ["%r1"]),
        "@%p2 bra L": (["%p2"], []),
    }
    for (line, (reads, writes)), instruction in zip(lines.items(), kernel(*lines).instructions, strict=True):
        got_reads, got_writes = registers(instruction)
        assert ([r.name for r in got_reads], [r.name for r in got_writes]) == (reads, writes), line
        assert all(isinstance(r, Reg) for r in got_reads + got_writes)
    with pytest.raises(UnsupportedError, match="fma"):
        registers(kernel("fma.rn.f32 %f1, %f1, %f1, %f1").instructions[0])
