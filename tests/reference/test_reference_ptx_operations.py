"""Every integer operation of the PTX interpreter at edge values, against formulas written here from the PTX ISA."""

from __future__ import annotations

import itertools
import random

import pytest
from ptx_snippets import evaluate


def s(x, bits=32):
    """Signed number of raw bits."""
    x %= 2 ** bits
    return x - 2 ** bits if x >= 2 ** (bits - 1) else x


def trunc(a, b):
    """a / b towards zero, for whole numbers of any size."""
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def bit(x, i):
    return x >> i & 1


def bfe_u(a, pos, length, bits):
    pos, length = pos % 256, length % 256
    return sum(bit(a, pos + i) << i for i in range(bits) if i < length and pos + i < bits)


def bfe_s(a, pos, length, bits):
    pos, length = pos % 256, length % 256
    sign = 0 if length == 0 else bit(a, min(pos + length - 1, bits - 1))
    return sum((bit(a, pos + i) if i < length and pos + i < bits else sign) << i for i in range(bits))


def bfi(a, b, pos, length, bits):
    pos, length = pos % 256, length % 256
    out = [bit(b, i) for i in range(bits)]
    for i in range(length):
        if pos + i < bits:
            out[pos + i] = bit(a, i)
    return sum(v << i for i, v in enumerate(out))


def bfind(a, bits, signed, shiftamt):
    if signed and bit(a, bits - 1):
        a = ~a % 2 ** bits
    for i in reversed(range(bits)):
        if bit(a, i):
            return bits - 1 - i if shiftamt else i
    return 2 ** 32 - 1


def clz(a, bits):
    n = 0
    while n < bits and not bit(a, bits - 1 - n):
        n += 1
    return n


def prmt(a, b, c):
    source = [(a >> 8 * i) % 256 for i in range(4)] + [(b >> 8 * i) % 256 for i in range(4)]
    out = 0
    for i in range(4):
        selector = c // 16 ** i % 16
        byte = source[selector % 8]
        if selector >= 8:
            byte = 255 if byte >= 128 else 0
        out += byte * 256 ** i
    return out


PRMT_MODES = {  # source byte of result bytes 0..3, for selectors 0..3, copied from the ISA's table by hand
    "f4e": ["0123", "1234", "2345", "3456"], "b4e": ["0765", "1076", "2107", "3210"],
    "rc8": ["0000", "1111", "2222", "3333"], "ecl": ["0123", "1123", "2223", "3333"],
    "ecr": ["0000", "0111", "0122", "0123"], "rc16": ["0101", "2323", "0101", "2323"],
}


def prmt_mode(mode):
    def formula(a, b, c):
        source = [(a >> 8 * i) % 256 for i in range(4)] + [(b >> 8 * i) % 256 for i in range(4)]
        return sum(source[int(k)] << 8 * i for i, k in enumerate(PRMT_MODES[mode][c % 4]))
    return formula


def shf(left, wrap):
    def formula(a, b, c):
        n = c % 32 if wrap else min(c, 32)
        return ((b << n) | (a >> (32 - n))) if left else ((b << (32 - n)) | (a >> n))
    return formula


def lop3(table):
    return lambda a, b, c: sum(bit(table, 4 * bit(a, i) + 2 * bit(b, i) + bit(c, i)) << i for i in range(32))


def bmsk(a, b, wrap):
    a, b = (a % 32, b % 32) if wrap else (min(a, 32), min(b, 32))
    return sum(1 << i for i in range(32) if a <= i < a + b)


def szext(a, b, signed, wrap):
    n = b % 32 if wrap else min(b, 32)
    if n == 0:
        return 0
    low = a % 2 ** n
    return low - 2 ** n if signed and low >= 2 ** (n - 1) else low


def dot(pieces, width, first, second, upper=0):
    def formula(a, b, c):
        b >>= 16 * upper
        total = c
        for i in range(pieces):
            x, y = (a >> width * i) % 2 ** width, (b >> 8 * i) % 256
            total += (s(x, width) if first else x) * (s(y, 8) if second else y)
        return total
    return formula


def clamp(x, low, high):
    return low if x < low else high if x > high else x


def narrow24(x, signed):
    return s(x, 24) if signed else x % 2 ** 24


def table(*rows):
    """(instruction, result kind, source kinds, formula on raw unsigned operands)."""
    return rows


B1, B2, B3 = ("b32",), ("b32",) * 2, ("b32",) * 3
L1, L2, L3 = ("b64",), ("b64",) * 2, ("b64",) * 3
H1, H2, H3 = ("b16",), ("b16",) * 2, ("b16",) * 3

ROWS = [
    *(row for bits, kinds, r in ((16, H2, "b16"), (32, B2, "b32"), (64, L2, "b64")) for row in (
        (f"add.u{bits} %d, %a, %b;", r, kinds, lambda a, b: a + b),
        (f"add.s{bits} %d, %a, %b;", r, kinds, lambda a, b: a + b),
        (f"sub.s{bits} %d, %a, %b;", r, kinds, lambda a, b: a - b),
        (f"mul.lo.s{bits} %d, %a, %b;", r, kinds, lambda a, b: a * b),
        (f"mul.hi.u{bits} %d, %a, %b;", r, kinds, lambda a, b, n=bits: a * b // 2 ** n),
        (f"mul.hi.s{bits} %d, %a, %b;", r, kinds, lambda a, b, n=bits: s(a, n) * s(b, n) // 2 ** n),
        (f"min.u{bits} %d, %a, %b;", r, kinds, lambda a, b: a if a < b else b),
        (f"max.u{bits} %d, %a, %b;", r, kinds, lambda a, b: a if a > b else b),
        (f"min.s{bits} %d, %a, %b;", r, kinds, lambda a, b, n=bits: a if s(a, n) < s(b, n) else b),
        (f"max.s{bits} %d, %a, %b;", r, kinds, lambda a, b, n=bits: a if s(a, n) > s(b, n) else b),
        (f"and.b{bits} %d, %a, %b;", r, kinds, lambda a, b: a & b),
        (f"or.b{bits} %d, %a, %b;", r, kinds, lambda a, b: a | b),
        (f"xor.b{bits} %d, %a, %b;", r, kinds, lambda a, b: a ^ b),
        (f"shl.b{bits} %d, %a, %b;", r, (r, "b32"), lambda a, b, n=bits: a << b if b < n else 0),
        (f"shr.u{bits} %d, %a, %b;", r, (r, "b32"), lambda a, b, n=bits: a >> b if b < n else 0),
        (f"shr.b{bits} %d, %a, %b;", r, (r, "b32"), lambda a, b, n=bits: a >> b if b < n else 0),
        (f"shr.s{bits} %d, %a, %b;", r, (r, "b32"), lambda a, b, n=bits: s(a, n) >> (b if b < n else n)),
        (f"not.b{bits} %d, %a;", r, (r,), lambda a, n=bits: 2 ** n - 1 - a),
        (f"cnot.b{bits} %d, %a;", r, (r,), lambda a: 1 if a == 0 else 0),
        (f"neg.s{bits} %d, %a;", r, (r,), lambda a, n=bits: 2 ** n - a),
        (f"abs.s{bits} %d, %a;", r, (r,), lambda a, n=bits: a if a < 2 ** (n - 1) else 2 ** n - a),
        (f"sad.u{bits} %d, %a, %b, %c;", r, kinds + (r,), lambda a, b, c: c + max(a, b) - min(a, b)),
        (f"sad.s{bits} %d, %a, %b, %c;", r, kinds + (r,), lambda a, b, c, n=bits: c + abs(s(a, n) - s(b, n))),
        (f"mad.lo.s{bits} %d, %a, %b, %c;", r, kinds + (r,), lambda a, b, c: a * b + c),
        (f"mad.hi.u{bits} %d, %a, %b, %c;", r, kinds + (r,), lambda a, b, c, n=bits: a * b // 2 ** n + c),
        (f"mad.hi.s{bits} %d, %a, %b, %c;", r, kinds + (r,), lambda a, b, c, n=bits: s(a, n) * s(b, n) // 2 ** n + c),
        (f"selp.b{bits} %d, %a, %b, %c;", r, kinds + ("pred",), lambda a, b, c: a if c else b),
        (f"selp.b{bits} %d, %a, %b, !%c;", r, kinds + ("pred",), lambda a, b, c: b if c else a),
        (f"slct.s{bits}.s32 %d, %a, %b, %c;", r, kinds + ("b32",), lambda a, b, c: a if c < 2 ** 31 else b),
        (f"mov.b{bits} %d, %a;", r, (r,), lambda a: a),
        *((f"setp.{name}.{t}{bits} %d, %a, %b;", "pred", kinds, lambda a, b, f=f, t=t, n=bits:
           f(s(a, n), s(b, n)) if t == "s" else f(a, b))
          for t in "us" for name, f in (("eq", lambda a, b: a == b), ("ne", lambda a, b: a != b), ("lt", lambda a, b: a < b),
                                        ("le", lambda a, b: a <= b), ("gt", lambda a, b: a > b), ("ge", lambda a, b: a >= b))),
        *((f"setp.{name}.u{bits} %d, %a, %b;", "pred", kinds, f)
          for name, f in (("lo", lambda a, b: a < b), ("ls", lambda a, b: a <= b), ("hi", lambda a, b: a > b),
                          ("hs", lambda a, b: a >= b))),
    )),
    *(row for bits, kinds, r in ((32, B2, "b32"), (64, L2, "b64")) for row in (
        (f"popc.b{bits} %d, %a;", "b32", (r,), lambda a: bin(a).count("1")),
        (f"clz.b{bits} %d, %a;", "b32", (r,), lambda a, n=bits: clz(a, n)),
        (f"brev.b{bits} %d, %a;", r, (r,), lambda a, n=bits: sum(bit(a, i) << (n - 1 - i) for i in range(n))),
        (f"bfe.u{bits} %d, %a, %b, %c;", r, (r, "b32", "b32"), lambda a, b, c, n=bits: bfe_u(a, b, c, n)),
        (f"bfe.s{bits} %d, %a, %b, %c;", r, (r, "b32", "b32"), lambda a, b, c, n=bits: bfe_s(a, b, c, n)),
        (f"bfi.b{bits} %d, %a, %b, %c, %e;", r, (r, r, "b32", "b32"), lambda a, b, c, e, n=bits: bfi(a, b, c, e, n)),
        *((f"bfind{'.shiftamt' if amount else ''}.{t}{bits} %d, %a;", "b32", (r,),
           lambda a, t=t, n=bits, amount=amount: bfind(a, n, t == "s", amount)) for t in "us" for amount in (0, 1)),
    )),
    ("add.sat.s32 %d, %a, %b;", "b32", B2, lambda a, b: clamp(s(a) + s(b), -2 ** 31, 2 ** 31 - 1)),
    ("sub.sat.s32 %d, %a, %b;", "b32", B2, lambda a, b: clamp(s(a) - s(b), -2 ** 31, 2 ** 31 - 1)),
    ("mad.hi.sat.s32 %d, %a, %b, %c;", "b32", B3, lambda a, b, c: clamp(s(a) * s(b) // 2 ** 32 + s(c), -2 ** 31, 2 ** 31 - 1)),
    ("min.relu.s32 %d, %a, %b;", "b32", B2, lambda a, b: max(0, min(s(a), s(b)))),
    ("max.relu.s32 %d, %a, %b;", "b32", B2, lambda a, b: max(0, max(s(a), s(b)))),
    ("mul.wide.u32 %d, %a, %b;", "b64", B2, lambda a, b: a * b),
    ("mul.wide.s32 %d, %a, %b;", "b64", B2, lambda a, b: s(a) * s(b)),
    ("mul.wide.u16 %d, %a, %b;", "b32", H2, lambda a, b: a * b),
    ("mul.wide.s16 %d, %a, %b;", "b32", H2, lambda a, b: s(a, 16) * s(b, 16)),
    ("mad.wide.s32 %d, %a, %b, %c;", "b64", ("b32", "b32", "b64"), lambda a, b, c: s(a) * s(b) + c),
    ("mad.wide.u32 %d, %a, %b, %c;", "b64", ("b32", "b32", "b64"), lambda a, b, c: a * b + c),
    ("mad.wide.s16 %d, %a, %b, %c;", "b32", ("b16", "b16", "b32"), lambda a, b, c: s(a, 16) * s(b, 16) + c),
    ("mul24.lo.u32 %d, %a, %b;", "b32", B2, lambda a, b: narrow24(a, 0) * narrow24(b, 0)),
    ("mul24.lo.s32 %d, %a, %b;", "b32", B2, lambda a, b: narrow24(a, 1) * narrow24(b, 1)),
    ("mul24.hi.u32 %d, %a, %b;", "b32", B2, lambda a, b: narrow24(a, 0) * narrow24(b, 0) >> 16),
    ("mul24.hi.s32 %d, %a, %b;", "b32", B2, lambda a, b: narrow24(a, 1) * narrow24(b, 1) >> 16),
    ("mad24.lo.u32 %d, %a, %b, %c;", "b32", B3, lambda a, b, c: narrow24(a, 0) * narrow24(b, 0) + c),
    ("mad24.hi.s32 %d, %a, %b, %c;", "b32", B3, lambda a, b, c: (narrow24(a, 1) * narrow24(b, 1) >> 16) + c),
    ("mad24.hi.sat.s32 %d, %a, %b, %c;", "b32", B3, lambda a, b, c:
     clamp(s(narrow24(a, 1) * narrow24(b, 1) >> 16) + s(c), -2 ** 31, 2 ** 31 - 1)),
    ("shf.l.clamp.b32 %d, %a, %b, %c;", "b32", B3, shf(True, False)),
    ("shf.l.wrap.b32 %d, %a, %b, %c;", "b32", B3, shf(True, True)),
    ("shf.r.clamp.b32 %d, %a, %b, %c;", "b32", B3, shf(False, False)),
    ("shf.r.wrap.b32 %d, %a, %b, %c;", "b32", B3, shf(False, True)),
    ("prmt.b32 %d, %a, %b, %c;", "b32", B3, prmt),
    *((f"prmt.b32.{mode} %d, %a, %b, %c;", "b32", B3, prmt_mode(mode)) for mode in PRMT_MODES),
    ("lop3.b32 %d, %a, %b, %c, 0xe8;", "b32", B3, lop3(0xE8)),
    ("lop3.b32 %d, %a, %b, %c, 0x1b;", "b32", B3, lop3(0x1B)),
    ("bmsk.clamp.b32 %d, %a, %b;", "b32", B2, lambda a, b: bmsk(a, b, False)),
    ("bmsk.wrap.b32 %d, %a, %b;", "b32", B2, lambda a, b: bmsk(a, b, True)),
    *((f"szext.{mode}.{t}32 %d, %a, %b;", "b32", B2, lambda a, b, t=t, mode=mode: szext(a, b, t == "s", mode == "wrap"))
      for t in "us" for mode in ("clamp", "wrap")),
    *((f"dp4a.{t}32.{u}32 %d, %a, %b, %c;", "b32", B3, dot(4, 8, t == "s", u == "s")) for t in "us" for u in "us"),
    *((f"dp2a.{half}.{t}32.{u}32 %d, %a, %b, %c;", "b32", B3, dot(2, 16, t == "s", u == "s", half == "hi"))
      for t in "us" for u in "us" for half in ("lo", "hi")),
    ("set.lt.u32.s32 %d, %a, %b;", "b32", B2, lambda a, b: -1 if s(a) < s(b) else 0),
    ("set.ge.and.u32.u32 %d, %a, %b, %c;", "b32", ("b32", "b32", "pred"), lambda a, b, c: -1 if a >= b and c else 0),
    ("setp.lt.and.s32 %d, %a, %b, %c;", "pred", ("b32", "b32", "pred"), lambda a, b, c: s(a) < s(b) and c),
    ("setp.lt.or.s32 %d, %a, %b, !%c;", "pred", ("b32", "b32", "pred"), lambda a, b, c: s(a) < s(b) or not c),
    ("setp.gt.xor.u32 %d, %a, %b, %c;", "pred", ("b32", "b32", "pred"), lambda a, b, c: (a > b) != c),
    ("setp.lt.and.s32 %p39|%d, %a, %b, %c;", "pred", ("b32", "b32", "pred"), lambda a, b, c: not s(a) < s(b) and c),
    ("setp.eq.s32 %p39|%d, %a, %b;", "pred", B2, lambda a, b: a != b),
    ("setp.eq.b32 %d, %a, %b;", "pred", B2, lambda a, b: a == b),
    ("and.pred %d, %a, %b;", "pred", ("pred", "pred"), lambda a, b: a and b),
    ("or.pred %d, %a, %b;", "pred", ("pred", "pred"), lambda a, b: a or b),
    ("xor.pred %d, %a, %b;", "pred", ("pred", "pred"), lambda a, b: a != b),
    ("not.pred %d, %a;", "pred", ("pred",), lambda a: not a),
    ("mov.pred %d, %a;", "pred", ("pred",), lambda a: a),
    ("mov.b64 %d, {%a, %b};", "b64", B2, lambda a, b: a + b * 2 ** 32),
    ("mov.b32 %d, {%a, %b};", "b32", H2, lambda a, b: a + b * 2 ** 16),
    ("mov.b64 {%d, %r30}, %a;", "b32", L1, lambda a: a),
    ("mov.b64 {_, %d}, %a;", "b32", L1, lambda a: a >> 32),
    ("mov.b32 {_, %d}, %a;", "b16", B1, lambda a: a >> 16),
    ("{ add.cc.u32 %r30, %a, %b; addc.u32 %d, %c, 0; }", "b32", B3, lambda a, b, c: c + (a + b >= 2 ** 32)),
    ("{ sub.cc.u32 %r30, %a, %b; subc.u32 %d, %c, 0; }", "b32", B3, lambda a, b, c: c - (a < b)),
    ("{ mad.lo.cc.u32 %r30, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0; }", "b32", B3, lambda a, b, c: (a * b + c) // 2 ** 32),
    ("{ add.cc.u64 %rd30, %a, %b; addc.cc.u64 %rd31, %c, %b; addc.u64 %d, 0, 0; }", "b64", L3, lambda a, b, c:
     c + b + (a + b >= 2 ** 64) >= 2 ** 64),
]
CONVERSIONS = []
for dest, source in itertools.product(itertools.product("us", (8, 16, 32, 64)), repeat=2):
    (dk, dn), (sk, sn) = dest, source
    register = {8: "b16", 16: "b16", 32: "b32", 64: "b64"}
    for sat in ("", ".sat"):
        def convert(a, dk=dk, dn=dn, sk=sk, sn=sn, sat=sat):
            value = s(a, sn) if sk == "s" else a % 2 ** sn
            low, high = (-2 ** (dn - 1), 2 ** (dn - 1) - 1) if dk == "s" else (0, 2 ** dn - 1)
            if sat:
                value = clamp(value, low, high)
            value %= 2 ** dn
            return s(value, dn) if dk == "s" else value  # extended to the register by its sign
        CONVERSIONS.append((f"cvt{sat}.{dk}{dn}.{sk}{sn} %d, %a;", register[dn], (register[sn],), convert))

BITS = {"b16": 16, "b32": 32, "b64": 64, "pred": 1}
EDGES = {bits: sorted({v % 2 ** bits for v in (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 255, 256, -1, -2, -31, -128,
                                               2 ** (bits - 1) - 1, 2 ** (bits - 1), 2 ** (bits - 1) + 1, 0x89ABCDEF01234567,
                                               0xDEADBEEFCAFEBABE, 1 << 24, 0x800000)})
         for bits in (16, 32, 64)} | {1: [0, 1]}


def cases(kinds):
    """All pairs of edge values, or a seeded sample for more operands."""
    everything = list(itertools.islice(itertools.product(*(EDGES[BITS[k]] for k in kinds)), 700))
    rng = random.Random(len(kinds))
    sample = [tuple(rng.choice(EDGES[BITS[k]]) if rng.random() < 0.7 else rng.getrandbits(BITS[k]) for k in kinds)
              for _ in range(160)]
    return (everything if len(kinds) <= 2 and len(everything) < 700 else []) + sample


@pytest.mark.parametrize("instruction, result, sources, formula", ROWS + CONVERSIONS, ids=[r[0] for r in ROWS + CONVERSIONS])
def test_operation(instruction, result, sources, formula):
    tried = cases(sources)
    found = evaluate(instruction, result, sources, tried)
    for case, value in zip(tried, found):
        expected = int(formula(*case)) % 2 ** (1 if result == "pred" else BITS[result])
        assert value == expected, (instruction, [hex(x) for x in case], hex(value), hex(expected))


@pytest.mark.parametrize("bits, r", [(16, "b16"), (32, "b32"), (64, "b64")])
@pytest.mark.parametrize("signed", [False, True])
def test_division(bits, r, signed):
    tried = [case for case in cases((r, r)) if case[1]]
    kind = "s" if signed else "u"
    number = (lambda x: s(x, bits)) if signed else (lambda x: x)
    quotients = evaluate(f"div.{kind}{bits} %d, %a, %b;", r, (r, r), tried)
    remainders = evaluate(f"rem.{kind}{bits} %d, %a, %b;", r, (r, r), tried)
    for (a, b), q, remainder in zip(tried, quotients, remainders):
        a, b = number(a), number(b)
        assert q == trunc(a, b) % 2 ** bits
        assert remainder == (a - b * trunc(a, b)) % 2 ** bits


@pytest.mark.parametrize("a, b, c, expected", [
    (0b1011, 0, 1, 0), (0b1011, 0, 2, 1), (0b1011, 0, 3, 3), (0b1011, 0, 4, 2 ** 32 - 1), (0b1011, 3, -2, 1),
    (0b1011, 2, 0, 2 ** 32 - 1), (0b1011, 3, 0, 3), (0b1011, 2, 1, 3), (0, 5, 1, 2 ** 32 - 1), (0b1011, 40, 0, 2 ** 32 - 1),
])
def test_fns(a, b, c, expected):
    assert evaluate("fns.b32 %d, %a, %b, %c;", "b32", B3, [(a, b, c % 2 ** 32)]) == [expected]


def test_immediates_and_widths():
    assert evaluate("add.s32 %d, %a, -1;", "b32", B1, [(0,)]) == [2 ** 32 - 1]
    assert evaluate("setp.lt.s32 %d, %a, -1;", "pred", B1, [(0,), (2 ** 31,)]) == [0, 1]
    assert evaluate("and.b32 %d, %a, 0xfffffff0;", "b32", B1, [(0x123,)]) == [0x120]
    assert evaluate("mov.u32 %d, 0x80000000; add.u32 %d, %d, %a;", "b32", B1, [(2 ** 31,)]) == [0]
    assert evaluate("mov.f32 %d, 0f3F800000; or.b32 %d, %d, %a;", "b32", B1, [(0,)]) == [0x3F800000]
