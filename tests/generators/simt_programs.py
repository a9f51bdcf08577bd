"""Random PTX kernels for warps of 32: the whole integer instruction set, shared memory and barriers, atomics, warp operations, local
arrays, tables, calls, several thread blocks. Well-defined by construction, like those of `ptx_programs`, whose writer this extends.

Threads write only words and bytes of their own, except by atomics whose result does not depend on their order. Barriers and warp
operations stand where all threads come by together, or behind a ballot that says who does.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st
from ptx_programs import INPUTS, NAME, SLOTS, Choose, RandomProgram, _Writer

COUNTERS = 4
"""Words of the output array, behind those of the threads, that atomics of all threads meet in."""
TABLE = (3, 0xFFFFFFFF, 0x80000000, 17, 255, 65536, 0x12345678, 1)

WORD_OPS = (
    "mul.hi.s32 {d}, {a}, {b}", "mul.hi.u32 {d}, {a}, {s}", "mad.hi.s32 {d}, {a}, {b}, {c}", "mul24.hi.u32 {d}, {a}, {b}",
    "popc.b32 {d}, {a}", "clz.b32 {d}, {a}", "brev.b32 {d}, {a}", "bfind.s32 {d}, {a}", "bfind.shiftamt.u32 {d}, {a}",
    "bfe.u32 {d}, {a}, {b}, {c}", "bfe.s32 {d}, {a}, {b}, {c}", "bfi.b32 {d}, {a}, {b}, {c}, {e}", "bfi.b32 {d}, {a}, {b}, 5, 9",
    "prmt.b32 {d}, {a}, {b}, {c}", "prmt.b32 {d}, {a}, {b}, 0x5140", "prmt.b32 {d}, {a}, {b}, 0xb3e2", "lop3.b32 {d}, {a}, {b}, {c}, 0xd8",
    "lop3.b32 {d}, {a}, {b}, {c}, 0x69", "shf.l.wrap.b32 {d}, {a}, {b}, {c}", "shf.r.clamp.b32 {d}, {a}, {b}, {s}",
    "add.sat.s32 {d}, {a}, {b}", "sub.sat.s32 {d}, {a}, {s}", "dp4a.s32.u32 {d}, {a}, {b}, {c}", "sad.s32 {d}, {a}, {b}, {c}",
    "add.cc.u32 {d}, {a}, {b};\n\taddc.u32 {e}, {c}, {s}", "sub.cc.u32 {d}, {a}, {b};\n\tsubc.u32 {e}, {c}, {a}",
    "or.b32 %t0, {b}, 1;\n\tdiv.s32 {d}, {a}, %t0", "or.b32 %t0, {b}, 1;\n\trem.u32 {d}, {a}, %t0", "rem.s32 {d}, {a}, 10",
    "or.b32 %t0, {b}, 1;\n\tdiv.u32 {d}, {a}, %t0;\n\trem.u32 {e}, {a}, %t0", "div.u32 {d}, {a}, 7", "div.s32 {d}, {a}, -3",
    "cvt.s32.s8 {d}, {a}", "cvt.sat.u8.s32 {d}, {a}", "cvt.sat.s16.s32 {d}, {a}", "set.lt.u32.s32 {d}, {a}, {b}", "cnot.b32 {d}, {a}",
    "mov.u32 {d}, %ctaid.x", "mov.u32 {d}, %laneid", "mov.u32 {d}, %warpid", "mov.u32 {d}, %lanemask_lt", "mov.u32 {d}, %tid.y",
)

WIDE_OPS = (
    "add.s64 %rd2, %rd0, %rd1", "sub.s64 %rd2, %rd0, %rd1", "mul.lo.s64 %rd2, %rd0, %rd1", "mul.hi.s64 %rd2, %rd0, %rd1",
    "mul.hi.u64 %rd2, %rd0, %rd1", "min.s64 %rd2, %rd0, %rd1", "max.u64 %rd2, %rd0, %rd1", "shl.b64 %rd2, %rd0, {a}", "shr.s64 %rd2, %rd0, {a}",
    "shr.u64 %rd2, %rd0, 37", "or.b64 %rd1, %rd1, 1;\n\tdiv.s64 %rd2, %rd0, %rd1", "or.b64 %rd1, %rd1, 1;\n\trem.u64 %rd2, %rd0, %rd1",
    "neg.s64 %rd2, %rd0", "abs.s64 %rd2, %rd1", "brev.b64 %rd2, %rd0", "bfe.s64 %rd2, %rd0, {a}, {b}", "sad.u64 %rd2, %rd0, %rd1, %rd0",
    "mad.wide.s32 %rd2, {a}, {b}, %rd1", "cvt.sat.s64.u64 %rd2, %rd0", "slct.s64.s32 %rd2, %rd0, %rd1, {a}",
)


class _SimtWriter(_Writer):
    used: set[str]

    def word_op(self) -> None:
        text = self.pick(WORD_OPS)
        self.emit(text.format(a=self.reg(), b=self.reg(), c=self.reg(), d=self.reg(), e=self.reg(), s=self.source()))

    def wide_op(self) -> None:
        for k in range(2):
            self.emit(self.pick((f"cvt.u64.u32 %rd{k}, {self.reg()}", f"cvt.s64.s32 %rd{k}, {self.reg()}",
                                 f"mov.b64 %rd{k}, {{{self.reg()}, {self.reg()}}}", f"mul.wide.s32 %rd{k}, {self.reg()}, {self.source()}")))
        self.emit(self.pick(WIDE_OPS).format(a=self.reg(), b=self.reg()))
        self.emit(self.pick((f"cvt.u32.u64 {self.reg()}, %rd2", f"mov.b64 {{%r0, {self.reg()}}}, %rd2", f"popc.b64 {self.reg()}, %rd2",
                             f"setp.lt.s64 {self.pred()}, %rd2, %rd1", f"clz.b64 {self.reg()}, %rd2")))

    def narrow(self) -> None:
        """Bytes and half words of the thread's own output words, and 16-bit arithmetic between."""
        bits = self.pick((8, 16))
        offset = self.choose(4 * SLOTS) // (bits // 8) * (bits // 8)
        d = self.reg()
        if self.choose(2):
            self.emit(f"cvt.u16.u32 %rs0, {self.reg()}")
            self.emit(self.pick(("add.s16 %rs0, %rs0, 77", "mul.lo.s16 %rs0, %rs0, %rs0", "shr.s16 %rs0, %rs0, 3", "mov.b16 %rs0, %rs0")))
            self.emit(f"{self.guard()}st.global.u{bits} [%own+{offset}], %rs0")
        else:
            self.emit(f"ld.global.{self.pick('us')}{bits} {d}, [%own+{offset}]")

    def local(self) -> None:
        """The thread's own array: one element written, one read, at indices from registers."""
        self.used.add("local")
        self.emit("mov.b32 %t1, frame")
        for access in ("st.local.b32 [%t1], {r}", "ld.local.b32 {r}, [%t1]"):
            self.emit(f"and.b32 %t0, {self.reg()}, 3")
            self.emit("shl.b32 %t0, %t0, 2")
            self.emit("mov.b32 %t1, frame")
            self.emit("add.s32 %t1, %t1, %t0")
            self.emit(access.format(r=self.reg()))

    def table(self) -> None:
        self.used.add("table")
        self.emit(f"and.b32 %t0, {self.reg()}, {len(TABLE) - 1}")
        self.emit("shl.b32 %t0, %t0, 2")
        self.emit("mov.b32 %t1, table")
        self.emit("add.s32 %t1, %t1, %t0")
        self.emit(f"ld.global.nc.b32 {self.reg()}, [%t1]")

    def atomic(self) -> None:
        """All threads on a few counters, by one operation each, or on a word of their own with the old value."""
        if self.choose(2):
            k = self.choose(COUNTERS)
            op = ("add.u32", "xor.b32", "max.s32", "min.u32")[k]
            self.emit(f"{self.guard()}red.global.{op} [%counters+{4 * k}], {self.reg()}")
        else:
            op = self.pick(("add.u32", "min.s32", "and.b32", "exch.b32", "inc.u32", "dec.u32"))
            where = f"[%own+{4 * self.choose(SLOTS)}]"
            if self.choose(4):
                self.emit(f"{self.guard()}atom.global.{op} {self.reg()}, {where}, {self.reg()}")
            else:
                self.emit(f"{self.guard()}atom.global.cas.b32 {self.reg()}, {where}, {self.source()}, {self.reg()}")

    def call(self) -> None:
        self.used.add("call")
        self.lines.append("\t{ .param .b32 a0; .param .b32 a1; .param .b32 r0;")
        self.emit(f"st.param.b32 [a0], {self.reg()}")
        self.emit(f"st.param.b32 [a1], {self.reg()}")
        self.emit("call.uni (r0), mix, (a0, a1)")
        self.emit(f"ld.param.b32 {self.reg()}, [r0]")
        self.lines.append("\t}")

    # ---- together -------------------------------------------------------------------------------------------------
    def exchange(self) -> None:
        """Through shared memory, between barriers."""
        self.used.add("shared")
        self.emit("shl.b32 %t0, %linear, 2")
        self.emit("mov.b32 %t1, words")
        self.emit("add.s32 %t0, %t0, %t1")
        self.emit(f"st.shared.b32 [%t0], {self.reg()}")
        self.emit("bar.sync 0")
        self.emit(f"add.s32 %t0, %linear, {self.choose(self.threads)}")
        self.emit(f"rem.u32 %t0, %t0, {self.threads}")
        self.emit("shl.b32 %t0, %t0, 2")
        self.emit("add.s32 %t0, %t0, %t1")
        self.emit(f"ld.shared.b32 {self.reg()}, [%t0]")
        self.emit("bar.sync 0")

    def warp_exchange(self) -> None:
        """Through shared memory within the warp, twice in a row: a store may not overtake the loads before it."""
        self.used.add("shared")
        self.emit("shl.b32 %t0, %linear, 2")
        self.emit("mov.b32 %t1, words")
        self.emit("add.s32 %t0, %t0, %t1")
        for _ in range(2):
            self.emit(f"st.shared.b32 [%t0], {self.reg()}")
            self.emit("bar.warp.sync -1")
            self.emit(f"xor.b32 %t1, %t0, {4 * (1 + self.choose(31))}")
            self.emit(f"ld.shared.b32 {self.reg()}, [%t1]")
            self.emit("bar.warp.sync -1")

    def shuffle(self) -> None:
        width = self.pick((32, 32, 16, 8, 4))
        mode = self.pick(("up", "down", "bfly", "idx"))
        control = ((32 - width) << 8) | (0 if mode == "up" else 31)
        lane = str(self.pick((0, 1, 2, 3, 4, 7, 16, 31))) if self.choose(3) else self.reg()
        d = self.reg() if self.choose(2) else f"{self.reg()}|{self.pred()}"
        self.emit(f"shfl.sync.{mode}.b32 {d}, {self.reg()}, {lane}, {control}, -1")

    def warp_op(self) -> None:
        kind = self.choose(8)
        if kind < 3:
            self.emit(f"vote.sync.{self.pick(('all', 'any', 'uni'))}.pred {self.pred()}, {self.pred()}, -1")
        elif kind < 5:
            self.emit(f"vote.sync.ballot.b32 {self.reg()}, {self.pred()}, -1")
        elif kind == 5:
            self.emit(f"redux.sync.{self.pick(('add.u32', 'min.s32', 'max.u32', 'xor.b32', 'and.b32'))} {self.reg()}, {self.reg()}, -1")
        elif kind == 6:
            self.emit(f"match.all.sync.b32 {self.reg()}|{self.pred()}, {self.reg()}, -1")
        else:
            self.emit(f"barrier.red.popc.u32 {self.reg()}, 0, {self.pred()}" if self.choose(2) else
                      f"bar.red.{self.pick(('and', 'or'))}.pred {self.pred()}, 0, {self.pred()}")

    def some_lanes(self) -> None:
        """A ballot, and a vote among those who said yes."""
        p, end = self.pred(), self.fresh("some")
        self.emit(f"vote.sync.ballot.b32 %mask, {p}, -1")
        self.emit(f"@!{p} bra {end}")
        self.emit(f"setp.gt.s32 %q, {self.reg()}, {self.source()}")
        self.emit(f"vote.sync.ballot.b32 {self.reg()}, %q, %mask")
        self.label(end)

    def body(self, depth: int, together: bool, statements: int) -> None:
        for _ in range(statements):
            kind = self.choose(36)
            if kind < 6:
                self.simple()
            elif kind < 12:
                self.word_op()
            elif kind < 14:
                self.wide_op()
            elif kind < 16:
                self.load()
            elif kind < 18:
                self.store()
            elif kind < 20:
                self.narrow()
            elif kind == 20:
                self.local()
            elif kind == 21:
                self.table()
            elif kind < 24:
                self.atomic()
            elif kind == 24:
                self.call()
            elif kind < 30 and together:
                if kind < 26 and not self.exited:
                    self.warp_exchange() if self.threads % 32 == 0 and self.choose(2) else self.exchange()
                elif kind < 28 and self.threads % 32 == 0 and not self.exited:
                    self.shuffle()
                elif kind == 29:
                    self.some_lanes()
                elif not self.exited:
                    self.warp_op()
            elif kind < 33 and depth < 2:
                self.branch(depth, together)
            elif kind < 35 and depth < 2 and self.counters < 3:
                self.loop(depth, together)
            elif kind == 35 and depth < 1 and not self.choose(3):
                self.leave()


def random_simt_program(choose: Choose, statements: int = 10) -> RandomProgram:
    """A kernel (parameters as in `ptx_programs`) of about `statements` statements; its output array has COUNTERS more words."""
    threads = (32, 4, 64, 33, 1, 40, 96)[choose(7)]
    shape = (threads, 1, 1) if threads % 8 or choose(2) else (threads // 4, 2, 2) if choose(2) else (threads // 2, 2, 1)
    blocks = (1, 1, 2, 3)[choose(4)]
    w = _SimtWriter(choose, wide=False, threads=threads, extras=True)
    w.used = set()
    for k in range(w.registers):
        kind = choose(4)
        if kind == 0:
            w.emit(f"mov.b32 %r{k}, {w.constant()}")
        elif kind == 1:
            w.emit(f"mov.b32 %r{k}, %linear")
        elif kind == 2:
            w.emit(f"ld.param.b32 %r{k}, [{NAME}_param_2]")
        else:
            w.emit(f"add.s32 %t0, %linear, {choose(4)}")
            w.emit(f"and.b32 %t0, %t0, {INPUTS - 1}")
            w.address("%t0", "%in")
            w.emit(f"ld.global.b32 %r{k}, [%addr]")
    for k in range(w.predicates):
        w.emit(f"setp.{w.pick(('lt', 'ge', 'eq'))}.s32 %p{k}, %r{choose(w.registers)}, {w.constant()}")
    w.body(0, True, 1 + choose(statements))
    for k in range(SLOTS):
        w.emit(f"st.global.b32 [%own+{4 * k}], %r{k if choose(2) else choose(w.registers)}")
    w.emit("ret")
    total = threads * blocks
    start = [f"ld.param.b32 %in, [{NAME}_param_0]", f"ld.param.b32 %out, [{NAME}_param_1]", "cvta.to.global.u32 %in, %in",
             "cvta.to.global.u32 %out, %out", "mov.u32 %t0, %tid.z", "mov.u32 %t1, %ntid.y", "mov.u32 %linear, %tid.y",
             "mad.lo.s32 %linear, %t0, %t1, %linear", "mov.u32 %t0, %ntid.x", "mov.u32 %t1, %tid.x",
             "mad.lo.s32 %linear, %linear, %t0, %t1", "mov.u32 %t0, %ctaid.x", f"mad.lo.s32 %t0, %t0, {threads}, %linear",
             f"mul.lo.s32 %off, %t0, {4 * SLOTS}", "add.s32 %own, %out, %off", f"add.s32 %counters, %out, {4 * SLOTS * total}"]
    if "local" in w.used:
        start += ["mov.b32 %t0, frame"] + [f"st.local.b32 [%t0+{4 * k}], {k}" for k in range(4)]
    text = "\n".join([
        ".version 8.0", ".target sm_80", ".address_size 32",
        *([".global .align 4 .u32 table[8] = {" + ", ".join(map(str, TABLE)) + "};"] if "table" in w.used else []),
        *([".func (.param .b32 out0) mix(.param .b32 in0, .param .b32 in1)", "{", "\t.reg .b32 %r<4>;", "\t.reg .pred %p0;",
           "\tld.param.b32 %r0, [in0];", "\tld.param.b32 %r1, [in1];", "\tsetp.lt.s32 %p0, %r0, 0;", "\t@%p0 bra $neg;",
           "\tmad.lo.s32 %r0, %r0, 31, %r1;", "\tst.param.b32 [out0], %r0;", "\tret;", "$neg:", "\txor.b32 %r0, %r0, %r1;",
           "\tst.param.b32 [out0], %r0;", "\tret;", "}"] if "call" in w.used else []),
        f".visible .entry {NAME}(.param .b32 {NAME}_param_0, .param .b32 {NAME}_param_1, .param .b32 {NAME}_param_2)", "{",
        *([f"\t.shared .align 128 .b32 words[{threads}];"] if "shared" in w.used else []),
        *(["\t.local .align 4 .b32 frame[4];"] if "local" in w.used else []),
        "\t.reg .pred %p<4>;", "\t.reg .pred %q;", "\t.reg .b16 %rs<2>;", "\t.reg .b32 %r<8>;", "\t.reg .b32 %c<3>;", "\t.reg .b32 %e<3>;",
        "\t.reg .b32 %t<2>;", "\t.reg .b64 %rd<3>;", "\t.reg .b32 %in, %out, %off, %addr, %own, %linear, %counters, %mask;",
        *("\t" + line + ";" for line in start), *w.lines, "}", ""])
    inputs = [w.constant() & 0xFFFFFFFF if choose(2) else choose(64) for _ in range(INPUTS)]
    return RandomProgram(text, threads, inputs, w.constant(), blocks, shape, COUNTERS)


def seeded_simt_program(seed: int, statements: int = 10) -> RandomProgram:
    """The same program for the same seed."""
    return random_simt_program(random.Random(seed).randrange, statements)


@st.composite
def simt_programs(draw, statements: int = 10) -> RandomProgram:
    """Hypothesis strategy: small choices are simple ones, so failures shrink to short programs."""
    return random_simt_program(lambda n: draw(st.integers(0, n - 1)), statements)
