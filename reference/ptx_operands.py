"""Operands of the PTX interpreter: readers, writers and addresses of one instruction, made once and called for each thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from qgpu.ptx.model import TYPE_BYTES, Addr, Function, Imm, Module, Operand, Pair, Reg, Sink, Special, Symbol

from .ptx_memory import WINDOWS, Region
from .ptx_thread import Thread, Trouble, Value, special_register
from .ptx_values import TYPES, Type, Undefined, Unsupported

Reader = Callable[[Thread], Value]
Writer = Callable[[Thread, Value], None]


@dataclass
class Scope:
    """What names mean inside one function. fixed: variables with one address for all threads: name -> (space, region)."""

    module: Module
    function: Function
    fixed: dict[str, tuple[str, Region]]
    labels: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        f = self.function
        self.spaces = {name: space for name, (space, _) in self.fixed.items()}
        self.spaces |= dict.fromkeys(f.locals, "local")
        self.spaces |= dict.fromkeys(f.call_params, "param") | {p.name: "param" for p in [*f.params, *f.returns]}
        self._never_written: dict[str, Undefined] = {}

    def register_bits(self, name: str) -> int:
        """Width of a register; 1 for a predicate. Unsupported for vector registers."""
        kind = self.function.regs.get(name)
        if kind == "pred":
            return 1
        if kind not in TYPE_BYTES:
            raise Unsupported(f"{name} is not a scalar register")
        return 8 * TYPE_BYTES[kind]

    def never_written(self, name: str) -> Undefined:
        """The value of a register before anything is written to it."""
        return self._never_written.setdefault(name, Undefined(f"register {name}, which is uninitialised"))

    def address(self, symbol: Symbol) -> Reader:
        """The address of a variable plus the symbol's offset, in the variable's own space (or its generic address)."""
        name, offset = symbol.name, symbol.offset
        space = self.spaces.get(name)
        if space is None:
            raise Unsupported(f"the address of {name} is not supported")
        if symbol.generic:
            offset += WINDOWS.get(space, 0)
        if name in self.fixed:
            fixed = self.fixed[name][1].start + offset
            return lambda t: fixed
        return lambda t: t.symbols[name].start + offset


def reader(operand: Operand, t: Type, scope: Scope) -> Reader:
    """Reads an operand as a number of a type, or Undefined. Unsupported for an operand that cannot have it."""
    if isinstance(operand, Reg):
        return _register(operand, t, scope)
    if isinstance(operand, Imm):
        fixed = int(operand.value != 0) if t.kind == "pred" else t.number(operand.bits(t.bits))
        if operand.kind == "f64" and t.bits == 32:
            raise Unsupported("a double-precision literal for a 32-bit operand is not supported")
        return lambda thread: fixed
    if isinstance(operand, Special):
        read = special_register(operand.name)
        if read is None:
            raise Unsupported(f"special register {operand.name} is not supported")
        return lambda thread: t.number(read(thread))
    if isinstance(operand, Symbol):
        place = scope.address(operand)
        return lambda thread: t.number(place(thread))
    raise Unsupported("an operand has a form that is not supported here")


def _register(operand: Reg, t: Type, scope: Scope) -> Reader:
    name, unset = operand.name, scope.never_written(operand.name)
    bits = scope.register_bits(name)
    if (bits == 1) != (t.kind == "pred"):
        raise Unsupported(f"{name} is {'a' if bits == 1 else 'no'} predicate, and .{t.name} is wanted")
    if bits < t.bits:
        raise Unsupported(f"register {name} is narrower than .{t.name}")
    if operand.negated:
        def read_negated(thread: Thread) -> Value:
            value = thread.regs.get(name, unset)
            return value if isinstance(value, Undefined) else 1 - value
        return read_negated
    if bits == t.bits and t.kind != "s":
        return lambda thread: thread.regs.get(name, unset)

    def read(thread: Thread) -> Value:
        value = thread.regs.get(name, unset)
        return value if isinstance(value, Undefined) else t.number(value)
    return read


def writer(operand: Operand, t: Type, scope: Scope) -> Writer:
    """Writes a number (reduced to the type, then extended to a wider register by the type's sign) or an Undefined."""
    if isinstance(operand, Sink):
        return lambda thread, value: None
    if not isinstance(operand, Reg):
        raise Unsupported("a destination has a form that is not supported here")
    name, bits = operand.name, scope.register_bits(operand.name)
    if (bits == 1) != (t.kind == "pred"):
        raise Unsupported(f"{name} is {'a' if bits == 1 else 'no'} predicate, and .{t.name} is wanted")
    if bits < t.bits:
        raise Unsupported(f"register {name} is narrower than .{t.name}")
    mask = (1 << bits) - 1

    def write(thread: Thread, value: Value) -> None:
        thread.regs[name] = value if isinstance(value, Undefined) else t.number(value) & mask
    return write


def destinations(operand: Operand, types: tuple[Type, ...], scope: Scope) -> list[Writer]:
    """Writers of a destination or of a pair `%r|%p`; a single destination takes the first result."""
    if isinstance(operand, Pair):
        if len(types) < 2:
            raise Unsupported("it has one result but a pair of destinations")
        return [writer(operand.first, types[0], scope), writer(operand.second, types[1], scope)]
    return [writer(operand, types[0], scope)]


def defined(thread: Thread, value: Value, use: str) -> int:
    """The value, which must not be Undefined. use: what depends on it, such as "the address of a load"."""
    if isinstance(value, Undefined):
        raise Trouble(thread, f"{use} is undefined", f"it uses {value.origin}", "give every value before it is used")
    return value


def address_reader(operand: Operand, scope: Scope, use: str) -> tuple[Callable[[Thread], int], str | None]:
    """Reader of the address in `[base+offset]`, and the state space of a named base (None for a register)."""
    if not isinstance(operand, Addr):
        raise Unsupported("an address has a form that is not supported here")
    base, offset = operand.base, operand.offset
    mask = (1 << scope.module.address_size) - 1
    if base is None:
        return (lambda thread: offset & mask), None
    if isinstance(base, Symbol):
        place = scope.address(base)
        return (lambda thread: place(thread) + offset & mask), None if base.generic else scope.spaces[base.name]
    bits = scope.register_bits(base.name)
    if bits not in (32, 64):
        raise Unsupported(f"{base.name} cannot hold an address")
    read = reader(base, TYPES[f"u{bits}"], scope)
    mask &= (1 << bits) - 1
    return (lambda thread: defined(thread, read(thread), use) + offset & mask), None
