"""The one table of PTX instructions that qgpu knows by name, and the check that nothing else gets through.

A *family* is an opcode with the modifiers that change what it does: `mul.lo`, `mul.wide`, `ld.global`, `atom.cas`. Each row
holds its name, the roles of its operands, the types and further modifiers it may carry, and what it computes. The table
says what an instruction *is*; which families a machine runs, its lowering says, through `check_supported`.

Roles, in operand order (a `?` behind one: may be missing):

    d   register written (for loads and `mov` also a vector)      m   memory address [base+offset]
    dp  register written, or a pair `%r|%p`                       l   label        t  table of labels or a prototype
    s   register or immediate read                                f   function     (  argument list
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from qgpu.errors import UnsupportedError
from qgpu.ptx.model import TYPE_BYTES, Addr, ArgList, Function, Imm, Instruction, Operand, Pair, Reg, Sink, Special, Symbol, Vector

_SCOPES = "cta cluster gpu sys"
_LOAD = f"v2 v4 v8 volatile relaxed acquire weak {_SCOPES} ca cg cs lu cv"
_STORE = f"v2 v4 v8 volatile relaxed release weak {_SCOPES} wb cg cs wt"
_ATOMIC = f"global shared relaxed acquire release acq_rel {_SCOPES}"
_COMPARE = "eq ne lt le gt ge lo ls hi hs and or xor"
_INT = "16 32 64"


@dataclass(frozen=True, slots=True)
class Family:
    """One row of the table. `types` are widths or names; `modifiers` may stand beside those in the name."""

    name: str
    roles: tuple[str, ...]
    types: frozenset[str]
    modifiers: frozenset[str]
    meaning: str

    @property
    def opcode(self) -> str:
        return self.name.split(".")[0]

    @property
    def required(self) -> frozenset[str]:
        """The modifiers in the name."""
        return frozenset(self.name.split(".")[1:])


def _types(text: str) -> frozenset[str]:
    """`16 s32 pred`: a bare width stands for its signed, unsigned and untyped integer."""
    names: set[str] = set()
    for word in text.split():
        names |= {f"b{word}", f"s{word}", f"u{word}"} if word.isdigit() else {word}
    return frozenset(names)


def _rows(table: Iterable[tuple[str, str, str, str, str]]) -> dict[str, Family]:
    return {name: Family(name, tuple(roles.split()), _types(types), frozenset(modifiers.split()), meaning)
            for name, roles, types, modifiers, meaning in table}


FAMILIES: dict[str, Family] = _rows((
    # integer arithmetic (PTX ISA 9.7.1-9.7.2)
    ("add", "d s s", _INT, "sat", "d = a + b"),
    ("add.cc", "d s s", "32 64", "", "d = a + b, carry out"),
    ("addc", "d s s", "32 64", "cc", "d = a + b + carry"),
    ("sub", "d s s", _INT, "sat", "d = a - b"),
    ("sub.cc", "d s s", "32 64", "", "d = a - b, borrow out"),
    ("subc", "d s s", "32 64", "cc", "d = a - b - borrow"),
    ("mul.lo", "d s s", _INT, "", "d = low half of a * b"),
    ("mul.hi", "d s s", _INT, "", "d = high half of a * b"),
    ("mul.wide", "d s s", "16 32", "", "d = a * b, d twice as wide"),
    ("mul24.lo", "d s s", "s32 u32", "", "d = bits 31..0 of the product of 24-bit a, b"),
    ("mul24.hi", "d s s", "s32 u32", "", "d = bits 47..16 of the product of 24-bit a, b"),
    ("mad.lo", "d s s s", _INT, "", "d = low half of a * b, + c"),
    ("mad.hi", "d s s s", _INT, "sat", "d = high half of a * b, + c"),
    ("mad.wide", "d s s s", "16 32", "", "d = a * b + c, c and d twice as wide"),
    ("mad.lo.cc", "d s s s", "32 64", "", "mad.lo, carry out"),
    ("mad.hi.cc", "d s s s", "32 64", "", "mad.hi, carry out"),
    ("madc.lo", "d s s s", "32 64", "cc", "mad.lo + carry"),
    ("madc.hi", "d s s s", "32 64", "cc", "mad.hi + carry"),
    ("mad24.lo", "d s s s", "s32 u32", "", "mul24.lo + c"),
    ("mad24.hi", "d s s s", "s32 u32", "sat", "mul24.hi + c"),
    ("sad", "d s s s", _INT, "", "d = |a - b| + c"),
    ("div", "d s s", _INT, "", "d = a / b, toward zero"),
    ("rem", "d s s", _INT, "", "d = a - b * (a / b)"),
    ("abs", "d s", "s16 s32 s64", "", "d = |a|"),
    ("neg", "d s", _INT, "", "d = -a"),
    ("min", "d s s", _INT, "relu", "d = the smaller"),
    ("max", "d s s", _INT, "relu", "d = the larger"),
    ("dp4a", "d s s s", "s32 u32", "", "d = c + the sum of four products of bytes"),
    ("dp2a", "d s s s", "s32 u32", "lo hi", "d = c + the sum of two products of a 16-bit half and a byte"),
    # bits (9.7.1, 9.7.8)
    ("popc", "d s", "b32 b64", "", "d = number of ones"),
    ("clz", "d s", "b32 b64", "", "d = number of leading zeros"),
    ("bfind", "d s", "s32 u32 s64 u64", "shiftamt", "d = place of the leading digit, or 0xffffffff"),
    ("fns", "d s s s", "b32", "", "d = place of the n-th one from a base"),
    ("brev", "d s", "b32 b64", "", "d = bits in reverse order"),
    ("bfe", "d s s s", "s32 u32 s64 u64", "", "d = bit field of a at b, c long"),
    ("bfi", "d s s s s", "b32 b64", "", "d = b with a inserted at c, d long"),
    ("szext", "d s s", "s32 u32", "clamp wrap", "d = a extended from b bits"),
    ("bmsk", "d s s", "b32", "clamp wrap", "d = mask of b ones from a on"),
    ("and", "d s s", f"{_INT} pred", "", "d = a & b"),
    ("or", "d s s", f"{_INT} pred", "", "d = a | b"),
    ("xor", "d s s", f"{_INT} pred", "", "d = a ^ b"),
    ("not", "d s", f"{_INT} pred", "", "d = ~a"),
    ("cnot", "d s", "b16 b32 b64", "", "d = (a == 0)"),
    ("lop3", "d s s s s", "b32", "", "d = any logic function of three"),
    ("shl", "d s s", _INT, "", "d = a << b, 0 for b above the width"),
    ("shr", "d s s", _INT, "", "d = a >> b, sign or 0 shifted in"),
    ("shf.l", "d s s s", "b32", "wrap clamp", "d = high word of b:a << c"),
    ("shf.r", "d s s s", "b32", "wrap clamp", "d = low word of b:a >> c"),
    ("prmt", "d s s s", "b32", "f4e b4e rc8 ecl ecr rc16", "d = four bytes chosen from b:a"),
    # comparison and choice (9.7.6)
    ("setp", "dp s s s?", _INT, _COMPARE, "p = a compared with b, q = the opposite"),
    ("set", "d s s s?", "s32 u32 s16 u16 b16 b32 s64 u64 b64", _COMPARE, "d = all ones if a compares with b, else 0"),
    ("selp", "d s s s", _INT, "", "d = p ? a : b"),
    ("slct", "d s s s", _INT, "", "d = c >= 0 ? a : b"),
    # moving (9.7.9)
    ("mov", "d s", f"8 {_INT} pred", "", "d = a; packs and unpacks vectors"),
    ("cvt", "d s", f"8 {_INT}", "sat", "d = a in another integer type"),
    ("cvta.to", "d s", "u32 u64", "global shared local const param", "generic address to one of a state space"),
    ("cvta", "d s", "u32 u64", "global shared local const param", "address of a state space to a generic one"),
    ("isspacep", "d s", "", "global shared local const param", "p = whether a generic address is of a state space"),
    ("ld.param", "d m", f"8 {_INT}", _LOAD, "load a parameter"),
    ("ld.global", "d m", f"8 {_INT}", _LOAD, "load from global memory"),
    ("ld.global.nc", "d m", f"8 {_INT}", _LOAD, "load from global memory that the kernel does not write"),
    ("ldu", "d m", f"8 {_INT}", "global v2 v4", "load from global memory, the same address in all lanes"),
    ("ld.shared", "d m", f"8 {_INT}", _LOAD, "load from shared memory"),
    ("ld.local", "d m", f"8 {_INT}", _LOAD, "load from the thread's own memory"),
    ("ld.const", "d m", f"8 {_INT}", _LOAD, "load from constant memory"),
    ("ld", "d m", f"8 {_INT}", _LOAD, "load through a generic address"),
    ("st.param", "m s", f"8 {_INT}", _STORE, "store an argument of a call"),
    ("st.global", "m s", f"8 {_INT}", _STORE, "store to global memory"),
    ("st.shared", "m s", f"8 {_INT}", _STORE, "store to shared memory"),
    ("st.local", "m s", f"8 {_INT}", _STORE, "store to the thread's own memory"),
    ("st", "m s", f"8 {_INT}", _STORE, "store through a generic address"),
    ("prefetch", "m", "", "global local L1 L2", "no effect on values"),
    # warps (9.7.13)
    ("shfl.sync", "dp s s s s", "b32", "up down bfly idx", "d = a of another lane"),
    ("vote.sync", "d s s", "pred b32", "all any uni ballot", "d = what the lanes' predicates have in common"),
    ("match.sync", "dp s s", "b32 b64", "all any", "d = mask of lanes with the same value"),
    ("redux.sync", "d s s", "32", "add min max and or xor", "d = reduction over the lanes of a mask"),
    ("activemask", "d", "b32", "", "d = mask of lanes that run together"),
    # barriers and fences (9.7.13)
    ("bar.sync", "s s?", "", "cta", "wait for the block"),
    ("bar.arrive", "s s", "", "cta", "arrive at a barrier without waiting"),
    ("bar.red", "d s s? s", "u32 pred", "popc and or cta", "wait for the block and reduce a predicate"),
    ("bar.warp.sync", "s", "", "", "wait for lanes of the warp"),
    ("barrier.sync", "s s?", "", "aligned cta", "wait for the block"),
    ("barrier.arrive", "s s", "", "aligned cta", "arrive at a barrier without waiting"),
    ("barrier.red", "d s s? s", "u32 pred", "aligned popc and or cta", "wait for the block and reduce a predicate"),
    ("membar", "", "", "cta gl sys", "order memory accesses"),
    ("fence", "", "", f"sc acq_rel {_SCOPES}", "order memory accesses"),
    # atomics (9.7.13)
    *((f"atom.{op}", "d m s s" if op == "cas" else "d m s", types, _ATOMIC, f"d = [m], [m] = {what}, in one step") for op, types, what in (
        ("add", "32 64", "[m] + a"), ("and", "b32 b64", "[m] & a"), ("or", "b32 b64", "[m] | a"), ("xor", "b32 b64", "[m] ^ a"),
        ("min", "32 64", "the smaller"), ("max", "32 64", "the larger"), ("inc", "u32", "[m] >= a ? 0 : [m] + 1"),
        ("dec", "u32", "[m] == 0 or [m] > a ? a : [m] - 1"), ("exch", "b32 b64", "a"), ("cas", "b16 b32 b64", "[m] == a ? b : [m]"))),
    *((f"red.{op}", "m s", types, _ATOMIC, f"[m] = {what}, in one step") for op, types, what in (
        ("add", "32 64", "[m] + a"), ("and", "b32 b64", "[m] & a"), ("or", "b32 b64", "[m] | a"), ("xor", "b32 b64", "[m] ^ a"),
        ("min", "32 64", "the smaller"), ("max", "32 64", "the larger"), ("inc", "u32", "[m] >= a ? 0 : [m] + 1"),
        ("dec", "u32", "[m] == 0 or [m] > a ? a : [m] - 1"))),
    # control flow (9.7.12)
    ("bra", "l", "", "uni", "go to a label"),
    ("brx.idx", "s t", "", "uni", "go to the label at an index of a table"),
    ("call", "(? f (? t?", "", "uni", "call a function"),
    ("ret", "", "", "uni", "return; from a kernel: end the thread"),
    ("exit", "", "", "", "end the thread"),
    ("trap", "", "", "", "stop the launch with an error"),
    ("brkpt", "", "", "", "breakpoint"),
    ("nanosleep", "s", "u32", "", "wait for some time"),
))

_BY_OPCODE: dict[str, list[Family]] = {}
for _family in sorted(FAMILIES.values(), key=lambda f: -len(f.required)):
    _BY_OPCODE.setdefault(_family.opcode, []).append(_family)

_SPACES = frozenset({"global", "shared", "local", "const", "param"})
_HINT_PREFIXES = ("L1::", "L2::")  # cache hints never change a value
_SOURCES = (Reg, Imm, Special, Symbol, Vector)
_ROLE_OPERANDS: dict[str, tuple[type, ...]] = {
    "d": (Reg, Sink, Vector), "dp": (Reg, Sink, Pair), "s": _SOURCES, "m": (Addr,),
    "l": (Symbol,), "t": (Symbol,), "f": (Symbol, Reg), "(": (ArgList,),
}
_VECTORS_OK = frozenset({"mov", "ld", "ldu", "st"})


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One instruction that cannot be run, and why."""

    instruction: Instruction
    reason: str

    def __str__(self) -> str:
        return f"{self.instruction.where}: {self.instruction.text}  ({self.reason})"


def family_of(instruction: Instruction) -> Family | None:
    """The family an instruction belongs to by opcode and modifiers alone, or None if the table has none."""
    modifiers = {_plain(m) for m in instruction.modifiers}
    return next((f for f in _BY_OPCODE.get(instruction.opcode, ()) if f.required <= modifiers), None)


def _if_float(instruction: Instruction) -> str:
    floats = any(m in TYPE_BYTES and ("f" in m or m.startswith("e")) for m in instruction.modifiers)
    return ": floating point is not supported, only integers" if floats else ""


def judge(instruction: Instruction) -> str | None:
    """Why the table does not cover this instruction, or None if it does: opcode, modifiers, types, operands."""
    family = family_of(instruction)
    if family is None:
        what = f"instruction {instruction.name} is not known" if instruction.opcode not in _BY_OPCODE else \
            f"this form of {instruction.opcode} is not known"
        return what + _if_float(instruction)
    for modifier in instruction.modifiers:
        if modifier in TYPE_BYTES:
            if modifier not in family.types:
                return f"{family.name} with type .{modifier}: " + (
                    "only integers" if "f" in modifier or modifier.startswith("e") else "no such form")
        elif _plain(modifier) not in family.required | family.modifiers and not modifier.startswith(_HINT_PREFIXES):
            return f"{family.name} with .{modifier} is not known" + _if_float(instruction)
    if family.types and not instruction.types:
        return f"{family.name} needs a type"
    if assign_roles(family, instruction) is None:
        return f"operands do not fit {family.name}: " + (", ".join(family.roles) or "none") + " expected"
    return None


def assign_roles(family: Family, instruction: Instruction) -> list[tuple[str, Operand]] | None:
    """(role, operand) for every operand, roles without `?`; None where they do not fit."""
    found: list[tuple[str, Operand]] = []
    operands = list(instruction.operands)
    for at, role in enumerate(family.roles):
        optional = role.endswith("?")
        kinds = _ROLE_OPERANDS[role.rstrip("?")]
        needed = sum(not r.endswith("?") for r in family.roles[at:])
        if operands and isinstance(operands[0], kinds) and (not optional or len(operands) > needed):
            if isinstance(operands[0], Vector) and family.opcode not in _VECTORS_OK:
                return None
            found.append((role.rstrip("?"), operands.pop(0)))
        elif not optional:
            return None
    return None if operands else found


def registers(instruction: Instruction) -> tuple[tuple[Reg, ...], tuple[Reg, ...]]:
    """(registers read, registers written), guard and address bases among those read; each as written, order kept.

    Raises UnsupportedError for an instruction that `judge` refuses.
    """
    if (reason := judge(instruction)) is not None:
        raise unsupported_error([Unsupported(instruction, reason)])
    reads: list[Reg] = [instruction.guard.reg] if instruction.guard else []
    writes: list[Reg] = []
    for role, operand in assign_roles(family_of(instruction), instruction):
        returned = role == "(" and not any(isinstance(o, (Symbol, Reg)) for o in instruction.operands[:instruction.operands.index(operand)])
        home = writes if role in ("d", "dp") or returned else reads
        home += _registers_in(operand)
    return tuple(reads), tuple(writes)


def _registers_in(operand: Operand | None) -> list[Reg]:
    if isinstance(operand, Reg):
        return [operand]
    if isinstance(operand, Addr):
        return _registers_in(operand.base)
    if isinstance(operand, Pair):
        return _registers_in(operand.first) + _registers_in(operand.second)
    if isinstance(operand, (Vector, ArgList)):
        return [r for item in operand.items for r in _registers_in(item)]
    return []


def find_unsupported(kernel: Function, supported: Iterable[str] | Callable[[Instruction], str | bool | None]) -> list[Unsupported]:
    """Every instruction of the kernel that the table or the machine does not cover, in order.

    supported: family names; or a function that is asked about each instruction the table covers, and answers None or True
    for "runs", a reason or False for "does not".
    """
    names = None if callable(supported) else frozenset(supported)
    found = []
    for instruction in kernel.instructions:
        reason = judge(instruction)
        if reason is None and names is not None:
            name = family_of(instruction).name
            reason = None if name in names else f"this machine has no {name}"
        elif reason is None:
            answer = supported(instruction)
            reason = None if answer is None or answer is True else answer or f"this machine has no {family_of(instruction).name}"
        if reason is not None:
            found.append(Unsupported(instruction, reason))
    return found


def check_supported(kernel: Function, supported: Iterable[str] | Callable[[Instruction], str | bool | None]) -> None:
    """Raise UnsupportedError, listing every instruction that `find_unsupported` finds; its `items` hold them as data."""
    if found := find_unsupported(kernel, supported):
        raise unsupported_error(found, kernel.short_name)


def unsupported_error(found: list[Unsupported], kernel: str = "") -> UnsupportedError:
    """The error that lists these instructions, one a line."""
    count = "1 instruction" if len(found) == 1 else f"{len(found)} instructions"
    error = UnsupportedError(f"{count}{' of kernel ' + kernel if kernel else ''} cannot run on this machine",
                             why="\n       ".join(str(one) for one in found))
    error.items = tuple(found)
    return error


def _plain(modifier: str) -> str:
    """`shared::cta` as `shared`; any other modifier as it is."""
    space = modifier.split("::")[0]
    return space if space in _SPACES else modifier
