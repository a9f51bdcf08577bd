"""PTX as plain dataclasses: what `parse_ptx` returns and what the lowering reads.

Names follow the PTX ISA: a *module* holds kernels (`.entry`), functions (`.func`) and variables; a *body* is a flat list
of labels and instructions. Braces inside a body are scopes in PTX; the parser flattens them and renames a scoped name that
would clash (`param0`, then `param0$1`), so that every name in a function is unique.

Operand classes compare by value and can be dictionary keys; their `pos` does not take part in comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Union

from qgpu.errors import UsageError
from qgpu.ptx.mangling import demangle

# Bytes of every fundamental type (PTX ISA 5.2.1, 5.2.3); predicates have no size in memory.
TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "e4m3": 1, "e5m2": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "u16x2": 4, "s16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8,
    "b128": 16,
    "pred": 0,
}

STATE_SPACES = ("global", "shared", "local", "const", "param")

# Opcodes that give the same bits for .sN, .uN and .bN operands, so that `Instruction.type` can call all three .bN.
# Where a modifier brings the sign back (`mul.wide`, `mul.hi`, `add.sat`), SIGN_MODIFIERS says so.
SIGNLESS = frozenset({
    "mov", "add", "sub", "mul", "mad", "addc", "subc", "madc", "neg", "and", "or", "xor", "not", "cnot", "lop3", "shl",
    "selp", "shf", "prmt", "popc", "clz", "brev", "bfi", "st", "stu", "shfl", "ld", "ldu", "isspacep", "cvta",
})
SIGN_MODIFIERS = frozenset({"hi", "wide", "sat"})


class Pos(NamedTuple):
    """A place in the PTX text, both counted from 1."""

    line: int
    column: int


class SourceLine(NamedTuple):
    """A place in the CUDA source, from `.loc`: file name as in `.file`, line counted from 1."""

    file: str
    line: int


# ---------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class Reg:
    """A virtual register such as `%r3`. `negated` is `!%p1` as a source operand."""

    name: str
    negated: bool = False
    pos: Pos | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, by its full name: `%tid.x`, `%laneid`, `%clock64`, and the constant `WARP_SZ`."""

    name: str
    pos: Pos | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Imm:
    """An immediate. `value` is a Python int in [-2^63, 2^64), or for `kind` "f32" / "f64" the IEEE bit pattern."""

    value: int
    kind: str = "int"  # "int", "f32", "f64"
    pos: Pos | None = field(default=None, compare=False, repr=False)

    def bits(self, width: int) -> int:
        """The value as an unsigned integer of `width` bits (two's complement)."""
        return self.value & ((1 << width) - 1)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, parameter, function or label used as a value: `mov.u32 %r1, table+4`. `generic` is `generic(table)`."""

    name: str
    offset: int = 0
    generic: bool = False
    pos: Pos | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Addr:
    """`[base+offset]`, offset in bytes. A base of None is an absolute address, held in `offset`."""

    base: Union[Reg, Symbol, None]
    offset: int = 0
    pos: Pos | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a destination that is thrown away."""

    pos: Pos | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Vector:
    """`{%r1, %r2}`: two, four or eight registers, immediates or sinks."""

    items: tuple["Operand", ...]
    pos: Pos | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """`%r1|%p1`: a value and a predicate destination (`shfl`, `setp`, `match`)."""

    first: Union[Reg, Sink]
    second: Union[Reg, Sink]
    pos: Pos | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ArgList:
    """`(a, b)` of a `call`: returned parameters before the callee, arguments after it."""

    items: tuple["Operand", ...]
    pos: Pos | None = field(default=None, compare=False, repr=False)


Operand = Union[Reg, Special, Imm, Symbol, Addr, Sink, Vector, Pair, ArgList]


class Guard(NamedTuple):
    """`@%p1` or `@!%p1` in front of an instruction."""

    reg: Reg
    negated: bool


# ---------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Label:
    """`$L__BB0_2:`. The label names the next instruction of the body (or the end of the body)."""

    name: str
    pos: Pos


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `@%p1 ld.global.b32 %r3, [%r1+-4];`

    opcode:    "ld" (the part before the first dot).
    modifiers: ("global", "b32"), in order, without dots.
    operands:  destination first, as written. Roles are in `qgpu.ptx.opcodes`.
    pos:       of the opcode or its guard in the PTX text.
    cu_line:   the CUDA line that `.loc` names, or None.
    text:      the instruction as written, on one line, guard included, without the semicolon.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    pos: Pos
    guard: Guard | None = None
    cu_line: SourceLine | None = None
    text: str = ""

    def has(self, modifier: str) -> bool:
        """Whether `.modifier` is among the modifiers."""
        return modifier in self.modifiers

    @property
    def name(self) -> str:
        """Opcode and modifiers as written: `ld.global.b32`."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def types(self) -> tuple[str, ...]:
        """All type modifiers as written: `cvt.u64.u32` gives ("u64", "u32"): destination, then source."""
        return tuple(m for m in self.modifiers if m in TYPE_BYTES)

    @property
    def raw_type(self) -> str | None:
        """The last type modifier as written, or None (`bra`, `ret`)."""
        types = self.types
        return types[-1] if types else None

    @property
    def type(self) -> str | None:
        """The last type modifier, called `.bN` wherever signed, unsigned and untyped integers give the same bits.

        So `add.s32`, `add.u32` and a front-end's `add.b32` are all "b32"; `setp.lt.s32`, `shr.u32`, `mul.hi.u32`,
        `mul.wide.s32`, `min.s32`, `cvt` keep their sign. Loads: `ld.s8` keeps its sign (it extends), `ld.u8` is "b8".
        """
        raw = self.raw_type
        if raw is None or raw[0] not in "us" or raw not in TYPE_BYTES or "x" in raw:
            return raw
        signless = self.opcode in SIGNLESS and not any(m in SIGN_MODIFIERS for m in self.modifiers)
        if self.opcode in ("ld", "ldu") and raw in ("s8", "s16", "s32"):
            signless = raw == "s32"  # a narrower signed load extends the sign into a wider register
        if self.opcode in ("setp", "set") and ("eq" in self.modifiers or "ne" in self.modifiers):
            signless = True
        return "b" + raw[1:] if signless else raw

    @property
    def bits(self) -> int:
        """Width of `type` in bits; 0 for predicates and for instructions without a type."""
        raw = self.raw_type
        return 8 * TYPE_BYTES[raw] if raw else 0

    @property
    def space(self) -> str | None:
        """State space of a load, store, atomic or `cvta`: "global", "shared", "local", "const", "param", or None (generic)."""
        for m in self.modifiers:
            base = m.split("::")[0]
            if base in STATE_SPACES:
                return base
        return None

    @property
    def where(self) -> str:
        """For messages: `dot.cu:7 (PTX line 42)`, or `PTX line 42` without line information."""
        ptx = f"PTX line {self.pos.line}"
        return f"{self.cu_line.file}:{self.cu_line.line} ({ptx})" if self.cu_line else ptx


Statement = Union[Label, Instruction]


# ---------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class Param:
    """A formal parameter of a kernel or function.

    type:  element type, "b8" for a struct or array. size: bytes in all. offset: byte offset in the parameter space.
    is_pointer_hint: `.ptr` was written (clang does; NVVM does not, so False proves nothing).
    pointer_space, pointer_align: what `.ptr` says about the target, or None.
    """

    name: str
    type: str
    size: int
    align: int
    offset: int
    pos: Pos
    is_array: bool = False
    is_pointer_hint: bool = False
    pointer_space: str | None = None
    pointer_align: int | None = None


@dataclass(frozen=True, slots=True)
class InitAddress:
    """An address inside an initialiser: the bytes at `offset` hold the address of `symbol`.

    `width` bytes are stored, starting with byte `shift` of the address (`0xFF00(symbol)` takes byte 1 alone).
    """

    offset: int
    symbol: Symbol
    width: int
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space, at module level or in a function.

    dims: () for a scalar, (0,) for an unsized `.extern .shared x[]`. size: bytes.
    init: exactly `size` bytes (shorter initialisers are padded with zeros), or None if none was written.
    """

    name: str
    space: str
    type: str
    size: int
    align: int
    pos: Pos
    dims: tuple[int, ...] = ()
    init: bytes | None = None
    init_addresses: tuple[InitAddress, ...] = ()
    is_extern: bool = False


@dataclass
class Function:
    """A `.func`. `body` is empty for a declaration.

    regs:       register name -> type ("b32", "pred", ...), ranges `%r<4>` expanded.
    shared, locals, consts: variables declared inside, by name; `locals` holds `__local_depot0`.
    call_params: `.param` variables declared inside for calls, by name.
    branch_targets: label of a `.branchtargets` list -> label names, for `brx.idx`.
    directives: performance directives, such as {"maxntid": (128, 1, 1)}.
    line_map:   PTX line -> CUDA line, for every instruction that has one.
    """

    name: str
    pos: Pos
    params: list[Param] = field(default_factory=list)
    returns: list[Param] = field(default_factory=list)
    regs: dict[str, str] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)
    shared: dict[str, Variable] = field(default_factory=dict)
    locals: dict[str, Variable] = field(default_factory=dict)
    consts: dict[str, Variable] = field(default_factory=dict)
    call_params: dict[str, Variable] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    line_map: dict[int, SourceLine] = field(default_factory=dict)
    is_declaration: bool = False

    @property
    def instructions(self) -> list[Instruction]:
        """The body without labels."""
        return [s for s in self.body if isinstance(s, Instruction)]

    @property
    def short_name(self) -> str:
        """The name in the CUDA source: `_Z3dotPKiS0_Pi` gives "dot"; an unmangled name is itself."""
        return demangle(self.name)


@dataclass
class Kernel(Function):
    """An `.entry`: everything a Function has; `returns` is empty."""


@dataclass
class Module:
    """A PTX file. `version` such as (8, 8); `target` such as "sm_75"; `address_size` 32 or 64."""

    version: tuple[int, int]
    target: str
    address_size: int
    kernels: dict[str, Kernel] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    globals: dict[str, Variable] = field(default_factory=dict)  # .global, .const, .shared (also .extern) of the module
    files: dict[int, str] = field(default_factory=dict)  # .file index -> name
    filename: str = "<ptx>"

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel of that name, mangled or as in the CUDA source; without a name, the only one.

        Raises UsageError, naming the kernels there are.
        """
        there = ", ".join(sorted(k.short_name for k in self.kernels.values()))
        if not self.kernels:
            raise UsageError("no kernel in this file", where=self.filename, fix="mark one function __global__")
        if name is None:
            if len(self.kernels) == 1:
                return next(iter(self.kernels.values()))
            raise UsageError("several kernels in this file, and none is named", where=self.filename,
                             fix=f"choose one with --kernel: {there}")
        if name in self.kernels:
            return self.kernels[name]
        found = [k for k in self.kernels.values() if k.short_name == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"several kernels are called {name}", where=self.filename,
                             fix="give the mangled name: " + ", ".join(k.name for k in found))
        raise UsageError(f"no kernel named {name}", where=self.filename, fix=f"the kernels in this file are: {there}")
