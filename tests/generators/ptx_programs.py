"""Random PTX kernels over the instruction set, well-defined by construction.

Every register is written before it is read, every loop is bounded, every address lies in an array, threads write only words of
their own, and shuffles stand where all lanes of the warp come by together. So the final memory is the same on any correct machine
with warps of 4.

`random_program(choose)` builds one from a function choose(n) -> 0 .. n-1; `programs()` is the Hypothesis strategy for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

EDGES = (0, 1, -1, 2, 3, 31, 32, 33, -2**31, 2**31 - 1, 255, -256, 65535, 65536, 0x55555555, 4, 7)
SLOTS = 3
"""Words of the output array that each thread owns."""
INPUTS = 16
"""Words of the input array, a power of two."""
NAME = "random_kernel"


@dataclass
class RandomProgram:
    """A kernel (parameters: input array, output array, a number) and its launch.

    inputs: INPUTS words, not negative. threads: size of the thread block. outputs: words of the output array, zeros at first.
    blocks: of the grid. shape: of the thread block, if not along x alone. counters: words behind the threads' outputs.
    """

    ptx: str
    threads: int
    inputs: list[int]
    number: int
    blocks: int = 1
    shape: tuple[int, int, int] | None = None
    counters: int = 0

    @property
    def outputs(self) -> int:
        return SLOTS * self.threads * self.blocks + self.counters

    @property
    def block(self) -> tuple[int, int, int]:
        return self.shape or (self.threads, 1, 1)

    def addresses(self, base: int) -> list[int]:
        """Byte addresses of the two arrays, one after the other from a base."""
        return [base, base + 4 * INPUTS]

    def __repr__(self) -> str:
        return f"RandomProgram(threads={self.threads}, inputs={self.inputs}, number={self.number}, ptx=\n{self.ptx})"


Choose = Callable[[int], int]


@dataclass
class _Writer:
    choose: Choose
    wide: bool
    threads: int
    extras: bool
    lines: list[str] = field(default_factory=list)
    labels: int = 0
    counters: int = 0
    exited: bool = False

    registers = 6
    predicates = 3

    # ---- pieces ---------------------------------------------------------------------------------------------------
    def pick(self, options):
        return options[self.choose(len(options))]

    def emit(self, text: str) -> None:
        self.lines.append("\t" + text + ";")

    def label(self, name: str) -> None:
        self.lines.append(name + ":")

    def fresh(self, stem: str) -> str:
        self.labels += 1
        return f"$L_{stem}{self.labels}"

    def reg(self) -> str:
        return f"%r{self.choose(self.registers)}"

    def pred(self) -> str:
        return f"%p{self.choose(self.predicates)}"

    def constant(self) -> int:
        return self.pick(EDGES) if self.choose(4) else self.choose(2**32) - 2**31

    def source(self) -> str:
        """A register or an immediate."""
        return self.reg() if self.choose(3) else str(self.constant())

    def guard(self) -> str:
        return "" if self.choose(6) else f"@{'!' if self.choose(2) else ''}{self.pred()} "

    # ---- statements -----------------------------------------------------------------------------------------------
    def simple(self) -> None:
        """One instruction between registers."""
        g, d = self.guard(), self.reg()
        kind = self.choose(14 if self.extras else 11)
        if kind <= 2:
            op = self.pick(("add.s32", "sub.s32", "mul.lo.s32", "and.b32", "or.b32", "xor.b32", "min.s32", "max.s32",
                            "min.u32", "max.u32", "add.u32", "sub.u32"))
            a, b = (self.reg(), self.source()) if self.choose(4) else (self.source(), self.reg())
            self.emit(f"{g}{op} {d}, {a}, {b}")
        elif kind == 3:
            amount = self.reg() if not self.choose(3) else str(self.pick((0, 1, 2, 5, 31, 32, 33, 40)))
            self.emit(f"{g}{self.pick(('shl.b32', 'shr.u32', 'shr.s32'))} {d}, {self.reg()}, {amount}")
        elif kind == 4:
            self.emit(f"{g}mad.lo.s32 {d}, {self.reg()}, {self.source()}, {self.source()}")
        elif kind == 5:
            self.emit(f"{g}{self.pick(('not.b32', 'neg.s32', 'abs.s32', 'mov.b32'))} {d}, {self.reg()}")
        elif kind in (6, 7):
            compare = self.pick(("eq.s32", "ne.s32", "lt.s32", "le.s32", "gt.s32", "ge.s32", "lt.u32", "le.u32", "gt.u32", "ge.u32",
                                 "lo.u32", "ls.u32", "hi.u32", "hs.u32", "eq.b32", "ne.u32"))
            if self.choose(4):
                self.emit(f"{g}setp.{compare} {self.pred()}, {self.reg()}, {self.source()}")
            else:
                name, kind_ = compare.split(".")
                k = self.choose(self.predicates)
                both = f"%p{k}|%p{(k + 1) % self.predicates}"
                self.emit(f"setp.{name}.{self.pick(('and', 'or', 'xor'))}.{kind_} {both}, {self.reg()}, {self.source()}, "
                          f"{'!' if self.choose(2) else ''}{self.pred()}")
        elif kind == 8:
            a, b = self.source(), self.source()
            self.emit(f"{g}selp.b32 {d}, {a}, {b}, {self.pred()}")
        elif kind == 9:
            if self.choose(2):
                self.emit(f"{self.pick(('and.pred', 'or.pred', 'xor.pred'))} {self.pred()}, {self.pred()}, {self.pred()}")
            else:
                self.emit(f"not.pred {self.pred()}, {self.pred()}")
        elif kind == 10:
            what = self.pick(("%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x", "%tid.y"))
            self.emit(f"{g}mov.u32 {d}, {what}")
        elif kind == 11:
            self.emit(self.pick((f"cvt.s32.s8 {d}, {self.reg()}", f"cvt.u32.u16 {d}, {self.reg()}",
                                 f"bfe.u32 {d}, {self.reg()}, {self.pick((0, 3, 16, 31))}, {self.pick((0, 1, 8, 16, 32))}",
                                 f"bfe.s32 {d}, {self.reg()}, {self.pick((0, 3, 16, 31))}, {self.pick((0, 1, 8, 16, 32))}",
                                 f"sad.u32 {d}, {self.reg()}, {self.source()}, {self.reg()}",
                                 f"slct.s32.s32 {d}, {self.reg()}, {self.reg()}, {self.reg()}")))
        elif kind == 12:
            amount = self.source()
            self.emit(f"{self.pick(('shf.l.wrap.b32', 'shf.r.wrap.b32', 'shf.l.clamp.b32', 'shf.r.clamp.b32'))} {d}, {self.reg()}, "
                      f"{self.reg()}, {amount}")
        else:
            self.emit(self.pick((f"mul.hi.u32 {d}, {self.reg()}, {self.source()}", f"mul.hi.s32 {d}, {self.reg()}, {self.source()}")))

    def wide_sequence(self) -> None:
        """64-bit arithmetic whose low or high half comes back."""
        for k in range(2):
            self.emit(self.pick((f"cvt.u64.u32 %rd{k}, {self.reg()}", f"cvt.s64.s32 %rd{k}, {self.reg()}",
                                 f"mul.wide.u32 %rd{k}, {self.reg()}, {self.reg()}", f"mul.wide.s32 %rd{k}, {self.reg()}, 12",
                                 f"mov.b64 %rd{k}, {{{self.reg()}, {self.reg()}}}")))
        n = self.pick((0, 1, 31, 32, 33, 63, 64))
        self.emit(self.pick(("add.s64 %rd2, %rd0, %rd1", "sub.s64 %rd2, %rd0, %rd1", "xor.b64 %rd2, %rd0, %rd1",
                             f"shl.b64 %rd2, %rd0, {n}", f"shr.u64 %rd2, %rd0, {n}", f"shr.s64 %rd2, %rd0, {n}",
                             f"shr.s64 %rd2, %rd0, {self.reg()}", "max.s64 %rd2, %rd0, %rd1")))
        self.emit(self.pick((f"cvt.u32.u64 {self.reg()}, %rd2", f"mov.b64 {{{self.reg()}, %r0}}, %rd2",
                             f"setp.lt.s64 {self.pred()}, %rd2, %rd1", f"setp.eq.u64 {self.pred()}, %rd2, %rd0")))

    def load(self) -> None:
        """From the input array, at an index made of a register; or one of the thread's own outputs."""
        d = self.reg()
        if self.choose(3):
            self.emit(f"and.b32 %t0, {self.reg()}, {INPUTS - 1}")
            self.address("%t0", "%in")
            self.emit(f"ld.global.b32 {d}, [%addr]")
        else:
            self.emit(f"{self.guard()}ld.global.b32 {d}, [%own+{4 * self.choose(SLOTS)}]")

    def address(self, index: str, base: str) -> None:
        if self.wide:
            self.emit(f"mul.wide.s32 %off, {index}, 4")
            self.emit(f"add.s64 %addr, {base}, %off")
        else:
            self.emit(f"shl.b32 %off, {index}, 2")
            self.emit(f"add.s32 %addr, {base}, %off")

    def store(self) -> None:
        value = self.reg() if self.choose(4) else str(self.constant())
        self.emit(f"{self.guard()}st.global.b32 [%own+{4 * self.choose(SLOTS)}], {value}")

    def shuffle(self) -> None:
        width = self.pick((4, 4, 2))
        mode = self.pick(("up", "down", "bfly", "idx"))
        clamp = 0 if mode == "up" else 31
        control = ((32 - width) << 8) | clamp
        lane = str(self.choose(5)) if self.choose(3) else self.reg()
        d = self.reg() if self.choose(2) else f"{self.reg()}|{self.pred()}"
        self.emit(f"shfl.sync.{mode}.b32 {d}, {self.reg()}, {lane}, {control}, -1")

    def branch(self, depth: int, together: bool) -> None:
        p, negated = self.pred(), "!" if self.choose(2) else ""
        other, end = self.fresh("else"), self.fresh("end")
        has_else = self.choose(2)
        self.emit(f"@{negated}{p} bra {other if has_else else end}")
        self.body(depth + 1, False, 1 + self.choose(4))
        if has_else:
            self.emit(f"bra.uni {end}" if self.choose(2) else f"bra {end}")
            self.label(other)
            self.body(depth + 1, False, 1 + self.choose(3))
        self.label(end)

    def loop(self, depth: int, together: bool) -> None:
        """do ... while over a counter of its own, whose end is a constant or depends on the thread."""
        k = self.counters
        self.counters += 1
        counter, head, end = f"%c{k}", self.fresh("loop"), self.fresh("done")
        same_for_all = self.choose(2) == 0
        step = self.pick((1, -1, 2))
        rounds = 1 + self.choose(3)
        if same_for_all:
            self.emit(f"mov.b32 {counter}, {self.pick((0, 5))}")
            self.emit(f"add.s32 %e{k}, {counter}, {rounds * step}")
        else:
            self.emit(f"mov.b32 {counter}, {self.pick((0, 3))}")
            self.emit("and.b32 %t0, %tid.x, 3" if self.choose(2) else f"and.b32 %t0, {self.reg()}, 3")
            self.emit("add.s32 %t0, %t0, 1")
            self.emit(f"mad.lo.s32 %e{k}, %t0, {step}, {counter}")
        has_break = self.choose(3) == 0
        self.label(head)
        self.body(depth + 1, together and same_for_all and not has_break, 1 + self.choose(4))
        if self.choose(2):
            self.emit(f"add.s32 {self.reg()}, {self.reg()}, {counter}")
        if has_break:
            self.emit(f"@{self.pred()} bra {end}")
            self.body(depth + 1, False, 1 + self.choose(2))
        self.emit(f"add.s32 {counter}, {counter}, {step}")
        self.emit(f"setp.ne.s32 %q, {counter}, %e{k}")
        self.emit(f"@%q bra {head}")
        self.label(end)

    def leave(self) -> None:
        self.emit(f"@{self.pred()} {self.pick(('ret', 'exit'))}")
        self.exited = True

    def body(self, depth: int, together: bool, statements: int) -> None:
        """together: all lanes of the warp are here at once, if none has left."""
        for _ in range(statements):
            kind = self.choose(24)
            if kind < 12:
                self.simple()
            elif kind < 15:
                self.load()
            elif kind < 17:
                self.store()
            elif kind < 19 and together and not self.exited and self.threads % 4 == 0:
                self.shuffle()
            elif kind < 21 and depth < 2:
                self.branch(depth, together)
            elif kind < 23 and depth < 2 and self.counters < 3:
                self.loop(depth, together)
            elif kind == 23 and depth < 2 and not self.choose(2):
                self.leave()
            elif self.extras and not self.choose(3):
                self.wide_sequence()
            else:
                self.simple()


def random_program(choose: Choose, statements: int = 10, extras: bool = True) -> RandomProgram:
    """A kernel of about `statements` statements. extras: also instructions that become sequences on the machine (64 bits,
    high products, funnel shifts)."""
    threads = (4, 1, 8, 3, 6, 12)[choose(6)]
    w = _Writer(choose, wide=choose(2) == 1, threads=threads, extras=extras)
    word = "b64" if w.wide else "b32"
    for k in range(w.registers):
        kind = choose(4)
        if kind == 0:
            w.emit(f"mov.b32 %r{k}, {w.constant()}")
        elif kind == 1:
            w.emit(f"mov.u32 %r{k}, %tid.x")
        elif kind == 2:
            w.emit(f"ld.param.b32 %r{k}, [{NAME}_param_2]")
        else:
            w.emit(f"add.s32 %t0, %tid.x, {choose(4)}")
            w.emit(f"and.b32 %t0, %t0, {INPUTS - 1}")
            w.address("%t0", "%in")
            w.emit(f"ld.global.b32 %r{k}, [%addr]")
    for k in range(w.predicates):
        w.emit(f"setp.{w.pick(('lt', 'ge', 'eq'))}.s32 %p{k}, %r{choose(w.registers)}, {w.constant()}")
    w.body(0, True, 1 + choose(statements))
    for k in range(SLOTS):
        w.emit(f"st.global.b32 [%own+{4 * k}], %r{k if choose(2) else choose(w.registers)}")
    w.emit("ret")
    start = [f"ld.param.{word} %in, [{NAME}_param_0]", f"ld.param.{word} %out, [{NAME}_param_1]",
             f"cvta.to.global.u{word[1:]} %in, %in", f"cvta.to.global.u{word[1:]} %out, %out",
             "mov.u32 %t0, %tid.x"]
    start += [f"mul.wide.u32 %off, %t0, {4 * SLOTS}", "add.s64 %own, %out, %off"] if w.wide else \
        [f"mul.lo.s32 %off, %t0, {4 * SLOTS}", "add.s32 %own, %out, %off"]
    text = "\n".join([
        ".version 8.0", ".target sm_75", f".address_size {word[1:]}",
        f".visible .entry {NAME}(.param .{word} {NAME}_param_0, .param .{word} {NAME}_param_1, .param .b32 {NAME}_param_2)", "{",
        "\t.reg .pred %p<4>;", "\t.reg .pred %q;", "\t.reg .b32 %r<8>;", "\t.reg .b32 %c<3>;", "\t.reg .b32 %e<3>;",
        "\t.reg .b32 %t0;", "\t.reg .b64 %rd<3>;", f"\t.reg .{word} %in, %out, %off, %addr, %own;",
        *("\t" + line + ";" for line in start), *w.lines, "}", ""])
    inputs = [w.constant() & 0xFFFFFFFF if choose(2) else choose(64) for _ in range(INPUTS)]
    return RandomProgram(text, threads, inputs, w.constant())


def seeded_program(seed: int, statements: int = 10, extras: bool = True) -> RandomProgram:
    """The same program for the same seed."""
    return random_program(random.Random(seed).randrange, statements, extras)


@st.composite
def programs(draw, statements: int = 10, extras: bool = True) -> RandomProgram:
    """Hypothesis strategy: small choices are simple ones, so failures shrink to short programs."""
    return random_program(lambda n: draw(st.integers(0, n - 1)), statements, extras)
