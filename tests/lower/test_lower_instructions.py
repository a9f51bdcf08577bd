"""One small program per PTX instruction, at edge values, against what the PTX ISA says in plain Python."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lower_harness import BASE, run_ptx, three_operands
from qgpu.machine.description import ARTICLE, DEFAULT, Machine

MASK = 0xFFFFFFFF
INT_MIN, INT_MAX = -2**31, 2**31 - 1

# (a, b, c) of 28 threads: edge values against edge values, shift amounts, and some of no shape at all.
OPERANDS = [
    (0, 0, 0), (0, 1, -1), (1, 0, 1), (-1, -1, 5), (-1, 1, 0), (1, -1, 31), (INT_MIN, -1, 1), (INT_MIN, INT_MIN, -1),
    (INT_MAX, 1, INT_MIN), (INT_MAX, INT_MAX, INT_MAX), (INT_MIN, INT_MAX, 3), (INT_MAX, INT_MIN, 2), (-1, 31, 1), (-1, 32, 0),
    (INT_MIN, 31, -7), (INT_MIN, 32, 9), (INT_MIN, 33, 4), (0x12345678, 4, 1), (0x12345678, 0, 0), (-0x12345678, 5, 1), (7, 3, 2),
    (-7, 3, 2), (7, -3, 0), (-7, -3, 1), (65535, 65537, 11), (0x8000, 0x7FFF, 6), (100, 200, 300), (255, 256, 128),
]


def u(v: int) -> int:
    return v & MASK


def s(v: int, bits: int = 32) -> int:
    v &= (1 << bits) - 1
    return v - (1 << bits) if v >> (bits - 1) else v


def shl(a: int, n: int) -> int:
    return u(a << u(n)) if u(n) < 32 else 0


def shr(a: int, n: int) -> int:
    return u(a) >> u(n) if u(n) < 32 else 0


def sar(a: int, n: int) -> int:
    return s(a) >> min(u(n), 31)


def field(a: int, position: int, length: int, signed: bool) -> int:
    """bfe: bits beyond the top are the sign (signed) or 0."""
    if length == 0:
        return 0
    if not signed:
        return (u(a) >> position) & ((1 << length) - 1)
    return s((s(a) >> position) & ((1 << min(length, 32)) - 1), min(length, 32))


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


Expected = Callable[[int, int, int, int], int]

TABLE: list[tuple[str, Expected]] = [
    ("add.s32 %r0, %r1, %r2;", lambda a, b, c, t: a + b),
    ("add.u32 %r0, %r1, -2147483648;", lambda a, b, c, t: a + INT_MIN),
    ("sub.s32 %r0, %r1, %r2;", lambda a, b, c, t: a - b),
    ("sub.s32 %r0, %r1, -2147483648;", lambda a, b, c, t: a - INT_MIN),
    ("sub.s32 %r0, 5, %r1;", lambda a, b, c, t: 5 - a),
    ("mul.lo.s32 %r0, %r1, %r2;", lambda a, b, c, t: a * b),
    ("mul.lo.u32 %r0, %r1, -3;", lambda a, b, c, t: a * -3),
    ("mul.lo.s32 %r0, %r1, 65536;", lambda a, b, c, t: a << 16),
    ("mad.lo.s32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: a * b + c),
    ("mad.lo.s32 %r0, %r1, 10, 2147483647;", lambda a, b, c, t: a * 10 + INT_MAX),
    ("mad.lo.s32 %r0, %r4, %r4, %r4;", lambda a, b, c, t: t * t + t),
    ("mul.hi.u32 %r0, %r1, %r2;", lambda a, b, c, t: u(a) * u(b) >> 32),
    ("mul.hi.s32 %r0, %r1, %r2;", lambda a, b, c, t: s(a) * s(b) >> 32),
    ("mul.hi.s32 %r0, %r1, 1431655766;", lambda a, b, c, t: s(a) * 1431655766 >> 32),
    ("mad.hi.u32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: (u(a) * u(b) >> 32) + c),
    ("mul24.lo.s32 %r0, %r1, %r2;", lambda a, b, c, t: s(a, 24) * s(b, 24)),
    ("mad24.lo.u32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    ("and.b32 %r0, %r1, %r2;", lambda a, b, c, t: a & b),
    ("or.b32 %r0, %r1, %r2;", lambda a, b, c, t: a | b),
    ("xor.b32 %r0, %r1, %r2;", lambda a, b, c, t: a ^ b),
    ("and.b32 %r0, %r1, -256;", lambda a, b, c, t: a & -256),
    ("or.b32 %r0, %r1, -2147483648;", lambda a, b, c, t: a | INT_MIN),
    ("not.b32 %r0, %r1;", lambda a, b, c, t: ~a),
    ("cnot.b32 %r0, %r1;", lambda a, b, c, t: int(a == 0)),
    ("neg.s32 %r0, %r1;", lambda a, b, c, t: -a),
    ("abs.s32 %r0, %r1;", lambda a, b, c, t: abs(s(a))),
    ("min.s32 %r0, %r1, %r2;", lambda a, b, c, t: min(s(a), s(b))),
    ("max.s32 %r0, %r1, %r2;", lambda a, b, c, t: max(s(a), s(b))),
    ("min.u32 %r0, %r1, %r2;", lambda a, b, c, t: min(u(a), u(b))),
    ("max.u32 %r0, %r1, %r2;", lambda a, b, c, t: max(u(a), u(b))),
    ("min.s32 %r0, 100, %r1;", lambda a, b, c, t: min(100, s(a))),
    ("max.u32 %r0, %r1, 2147483648;", lambda a, b, c, t: max(u(a), 1 << 31)),
    ("sad.s32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: abs(s(a) - s(b)) + c),
    ("sad.u32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: abs(u(a) - u(b)) + c),
    ("shl.b32 %r0, %r1, %r2;", lambda a, b, c, t: shl(a, b)),
    ("shr.u32 %r0, %r1, %r2;", lambda a, b, c, t: shr(a, b)),
    ("shr.s32 %r0, %r1, %r2;", lambda a, b, c, t: sar(a, b)),
    ("shl.b32 %r0, %r1, 31;", lambda a, b, c, t: shl(a, 31)),
    ("shl.b32 %r0, %r1, 32;", lambda a, b, c, t: 0),
    ("shr.s32 %r0, %r1, 33;", lambda a, b, c, t: sar(a, 33)),
    ("shr.u32 %r0, -1, %r3;", lambda a, b, c, t: shr(-1, c)),
    ("shl.b32 %r0, 1, %r4;", lambda a, b, c, t: shl(1, t)),
    ("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: (u(b) << 32 | u(a)) << (u(c) & 31) >> 32),
    ("shf.r.wrap.b32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: (u(b) << 32 | u(a)) >> (u(c) & 31)),
    ("shf.l.clamp.b32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: (u(b) << 32 | u(a)) << min(u(c), 32) >> 32),
    ("shf.r.clamp.b32 %r0, %r1, %r2, 32;", lambda a, b, c, t: b),
    ("shf.l.wrap.b32 %r0, %r1, %r1, 7;", lambda a, b, c, t: u(a) << 7 | u(a) >> 25),
    *[(f"bfe.{k}32 %r0, %r1, {p}, {n};", lambda a, b, c, t, p=p, n=n, k=k: field(a, p, n, k == "s"))
      for k in "us" for p, n in ((0, 8), (3, 0), (31, 1), (16, 32), (4, 12), (31, 8))],
    *[(f"setp.{name}.{kind} %p1, %r1, %r2;\nselp.b32 %r0, 1, 0, %p1;", lambda a, b, c, t, f=f, kind=kind:
       int(f(s(a), s(b)) if kind == "s32" else f(u(a), u(b))))
      for kind in ("s32", "u32") for name, f in (("eq", int.__eq__), ("ne", int.__ne__), ("lt", int.__lt__), ("le", int.__le__),
                                                 ("gt", int.__gt__), ("ge", int.__ge__))],
    *[(f"setp.{name}.u32 %p1, %r1, %r2;\nselp.b32 %r0, 1, 0, %p1;", lambda a, b, c, t, f=f: int(f(u(a), u(b))))
      for name, f in (("lo", int.__lt__), ("ls", int.__le__), ("hi", int.__gt__), ("hs", int.__ge__))],
    ("setp.lt.s32 %p1, %r1, -2147483648;\nselp.b32 %r0, 1, 0, %p1;", lambda a, b, c, t: 0),
    ("setp.lt.u32 %p1, %r4, 5;\nselp.b32 %r0, %r1, %r2, %p1;", lambda a, b, c, t: a if t < 5 else b),
    ("setp.ge.s32 %p1, %r4, 28;\nselp.b32 %r0, %r1, %r2, %p1;", lambda a, b, c, t: b),
    ("setp.lt.and.s32 %p1|%p2, %r1, %r2, %p0;\nselp.b32 %r0, 1, 0, %p1;\n@%p2 add.s32 %r0, %r0, 2;", lambda a, b, c, t: 0),
    ("setp.eq.s32 %p3, %r3, 1;\nsetp.lt.xor.s32 %p1|%p2, %r1, %r2, !%p3;\nselp.b32 %r0, 1, 0, %p1;\n@%p2 add.s32 %r0, %r0, 2;",
     lambda a, b, c, t: int((s(a) < s(b)) ^ (c != 1)) + 2 * int((s(a) >= s(b)) ^ (c != 1))),
    ("setp.lt.s32 %p1, %r1, %r2;\nsetp.lt.s32 %p2, %r2, %r3;\nand.pred %p3, %p1, %p2;\nnot.pred %p4, %p3;\nor.pred %p5, %p4, %p1;\n"
     "xor.pred %p6, %p5, %p2;\nselp.b32 %r0, 1, 0, %p6;",
     lambda a, b, c, t: int((not (s(a) < s(b) and s(b) < s(c)) or s(a) < s(b)) ^ (s(b) < s(c)))),
    ("set.lt.s32.s32 %r0, %r1, %r2;", lambda a, b, c, t: -1 if s(a) < s(b) else 0),
    ("setp.ne.s32 %p1, %r1, 0;\nselp.b32 %r0, 7, -9, %p1;", lambda a, b, c, t: 7 if a else -9),
    ("setp.ne.s32 %p1, %r1, 0;\nselp.b32 %r0, %r2, %r3, !%p1;", lambda a, b, c, t: c if a else b),
    ("slct.s32.s32 %r0, %r1, %r2, %r3;", lambda a, b, c, t: a if s(c) >= 0 else b),
    ("setp.gt.s32 %p1, %r1, %r2;\n@%p1 add.s32 %r0, %r1, 1;\n@!%p1 sub.s32 %r0, %r2, 1;", lambda a, b, c, t: a + 1 if s(a) > s(b) else b - 1),
    ("setp.gt.s32 %p1, %r1, 0;\nmov.b32 %r0, 3;\n@%p1 ld.global.b32 %r0, [%r6];", lambda a, b, c, t: c if s(a) > 0 else 3),
    ("mov.b32 %r0, -2147483648;", lambda a, b, c, t: INT_MIN),
    ("mov.u32 %r0, %tid.x;", lambda a, b, c, t: t),
    ("mov.u32 %r0, %ntid.x;", lambda a, b, c, t: 28),
    ("mov.u32 %r7, %ctaid.x;\nmov.u32 %r8, %nctaid.x;\nmad.lo.s32 %r0, %r7, 5, %r8;", lambda a, b, c, t: 1),
    ("cvt.s32.s8 %r0, %r1;", lambda a, b, c, t: s(a, 8)),
    ("cvt.u32.u8 %r0, %r1;", lambda a, b, c, t: a & 255),
    ("cvt.s32.s16 %r0, %r1;", lambda a, b, c, t: s(a, 16)),
    ("cvt.u16.u32 %rs1, %r1;\nadd.s16 %rs2, %rs1, %rs1;\ncvt.u32.u16 %r0, %rs2;", lambda a, b, c, t: 2 * a & 0xFFFF),
    ("cvt.u16.u32 %rs1, %r1;\nshr.s16 %rs2, %rs1, 3;\ncvt.s32.s16 %r0, %rs2;", lambda a, b, c, t: s(a, 16) >> 3),
    ("cvt.u16.u32 %rs1, %r1;\nsetp.lt.s16 %p1, %rs1, 0;\nselp.b32 %r0, 1, 0, %p1;", lambda a, b, c, t: int(s(a, 16) < 0)),
    ("cvt.u16.u32 %rs1, %r1;\ncvt.u16.u32 %rs2, %r2;\nmul.wide.s16 %r0, %rs1, %rs2;", lambda a, b, c, t: s(a, 16) * s(b, 16)),
    ("mov.b32 {%rs1, %rs2}, %r1;\nmov.b32 %r0, {%rs2, %rs1};", lambda a, b, c, t: u(a) >> 16 | u(a) << 16),
    # 64 bits, low and high halves
    ("mul.wide.s32 %rd1, %r1, %r2;\ncvt.u32.u64 %r0, %rd1;", lambda a, b, c, t: a * b),
    ("mul.wide.s32 %rd1, %r1, %r2;\nshr.u64 %rd1, %rd1, 32;\ncvt.u32.u64 %r0, %rd1;", lambda a, b, c, t: s(a) * s(b) >> 32),
    ("mul.wide.u32 %rd1, %r1, %r2;\nshr.u64 %rd1, %rd1, 1;\ncvt.u32.u64 %r0, %rd1;", lambda a, b, c, t: u(a) * u(b) >> 1),
    ("cvt.s64.s32 %rd1, %r1;\ncvt.s64.s32 %rd2, %r2;\nadd.s64 %rd1, %rd1, %rd2;\nshr.s64 %rd1, %rd1, 1;\ncvt.u32.u64 %r0, %rd1;",
     lambda a, b, c, t: (s(a) + s(b)) >> 1),
    ("cvt.u64.u32 %rd1, %r1;\ncvt.u64.u32 %rd2, %r2;\nsub.s64 %rd1, %rd1, %rd2;\nmov.b64 {%r7, %r0}, %rd1;",
     lambda a, b, c, t: u(a) - u(b) >> 32),
    ("mov.b64 %rd1, {%r1, %r2};\nshl.b64 %rd2, %rd1, 4;\nmov.b64 {%r7, %r0}, %rd2;", lambda a, b, c, t: (u(b) << 32 | u(a)) << 4 >> 32),
    ("mov.b64 %rd1, {%r1, %r2};\nshr.s64 %rd2, %rd1, %r3;\ncvt.u32.u64 %r0, %rd2;",
     lambda a, b, c, t: (s(b) << 32 | u(a)) >> min(u(c), 63)),
    ("mov.b64 %rd1, {%r1, %r2};\nshl.b64 %rd2, %rd1, %r3;\nmov.b64 {%r7, %r0}, %rd2;",
     lambda a, b, c, t: u((u(b) << 32 | u(a)) << u(c) >> 32) if u(c) < 64 else 0),
    ("mov.b64 %rd1, {%r1, %r2};\nmov.b64 %rd2, {%r2, %r3};\nsetp.lt.s64 %p1, %rd1, %rd2;\nselp.b32 %r0, 1, 0, %p1;",
     lambda a, b, c, t: int((s(b) << 32 | u(a)) < (s(c) << 32 | u(b)))),
    ("mov.b64 %rd1, {%r1, %r2};\nmov.b64 %rd2, {%r2, %r1};\nsetp.ne.s64 %p1, %rd1, %rd2;\nselp.b32 %r0, 1, 0, %p1;",
     lambda a, b, c, t: int(a != b)),
    ("mov.b64 %rd1, {%r1, %r2};\nmov.b64 %rd2, {%r3, %r1};\nmin.u64 %rd3, %rd1, %rd2;\nmov.b64 {%r7, %r0}, %rd3;",
     lambda a, b, c, t: min(u(b) << 32 | u(a), u(a) << 32 | u(c)) >> 32),
    ("mov.b64 %rd1, {%r1, %r2};\nmul.lo.s64 %rd2, %rd1, %rd1;\nmov.b64 {%r7, %r0}, %rd2;",
     lambda a, b, c, t: (u(b) << 32 | u(a)) ** 2 >> 32),
    ("cvt.s64.s32 %rd1, %r1;\nshl.b64 %rd2, %rd1, 32;\nshr.s64 %rd3, %rd2, 30;\ncvt.u32.u64 %r0, %rd3;", lambda a, b, c, t: a << 2),
    # division by what the launch makes a power of two
    ("and.b32 %r7, %r1, 2147483647;\nmov.u32 %r8, %nctaid.x;\nadd.s32 %r8, %r8, 7;\ndiv.u32 %r0, %r7, %r8;",
     lambda a, b, c, t: (a & INT_MAX) // 8),
    ("rem.u32 %r0, %r1, 16;", lambda a, b, c, t: u(a) % 16),
    ("div.s32 %r0, %r4, 4;", lambda a, b, c, t: t // 4),
]


@pytest.mark.parametrize("machine", [ARTICLE, DEFAULT], ids=lambda m: m.name)
@pytest.mark.parametrize("body, expected", TABLE, ids=[row[0].split(";")[0] for row in TABLE])
def test_instruction(body: str, expected: Expected, machine: Machine) -> None:
    run_instruction(body, expected, machine)


WARP_TABLE: list[tuple[str, Expected]] = [
    ("mov.u32 %r0, %laneid;", lambda a, b, c, t: t),
    ("mov.u32 %r0, %warpid;", lambda a, b, c, t: 0),
    ("mov.u32 %r0, %lanemask_lt;", lambda a, b, c, t: (1 << t) - 1),
    ("mov.u32 %r0, %lanemask_ge;", lambda a, b, c, t: -(1 << t)),
    ("mov.u32 %r0, %lanemask_gt;", lambda a, b, c, t: -(2 << t)),
    ("mov.u32 %r0, %lanemask_le;", lambda a, b, c, t: (2 << t) - 1),
    ("mov.u32 %r0, %lanemask_eq;", lambda a, b, c, t: 1 << t),
    ("mov.u32 %r0, WARP_SZ;", lambda a, b, c, t: 32),
]


@pytest.mark.parametrize("body, expected", WARP_TABLE, ids=[row[0].split(";")[0] for row in WARP_TABLE])
def test_warp_registers(body: str, expected: Expected) -> None:
    run_instruction(body, expected, DEFAULT)


def run_instruction(body: str, expected: Expected, machine: Machine) -> None:
    n = len(OPERANDS)
    memory = [v for column in zip(*OPERANDS) for v in column] + [0] * n
    ran = run_ptx(three_operands(body), [machine.global_base + 4 * n * k for k in range(4)], n, memory, machine)
    assert ran.machine.ended == "END"
    want = [u(expected(a, b, c, t)) for t, (a, b, c) in enumerate(OPERANDS)]
    assert ran.words(3 * n, n) == want


SHUFFLES = [(mode, lane, width) for mode in ("up", "down", "bfly", "idx") for lane in (0, 1, 2, 3, 5, 31) for width in (1, 2, 4)]


def shuffled(mode: str, lane: int, b: int, width: int) -> tuple[int, bool]:
    """CUDA's __shfl_*_sync of one lane: (source, in the segment)."""
    first = lane - lane % width
    source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first + b % width}[mode]
    if mode == "bfly":  # lower segments may be read, later ones not
        inside = source < first + width
    else:
        inside = first <= source < first + width
    return (source, True) if inside else (lane, False)


@pytest.mark.parametrize("in_register", [False, True], ids=["constant", "register"])
@pytest.mark.parametrize("mode, b, width", SHUFFLES)
def test_shuffle(mode: str, b: int, width: int, in_register: bool) -> None:
    control = ((32 - width) << 8) | (0 if mode == "up" else 31)
    lane = "%r2" if in_register else str(b)
    text = three_operands(f"shfl.sync.{mode}.b32 %r7|%p1, %r1, {lane}, {control}, -1;\n@%p1 add.s32 %r7, %r7, 1000;\nmov.b32 %r0, %r7;")
    n = 8
    memory = [10 + t for t in range(n)] + [b] * n + [0] * n
    ran = run_ptx(text, [BASE + 4 * n * k for k in range(4)], n, memory)
    want = []
    for t in range(n):
        source, ok = shuffled(mode, t % 4, b % 32, width)
        want.append(10 + t - t % 4 + source + 1000 * ok)
    assert ran.words(3 * n, n) == want
