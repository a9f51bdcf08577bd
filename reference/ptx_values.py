"""Values of the PTX interpreter: integers of a type, undefined values, and the modifiers of an instruction.

Registers hold unsigned Python integers of their width, or an `Undefined`. Operations see numbers: an `.s32` operand
arrives as a negative number where its top bit is set, and a result is reduced to its width when it is written.
"""

from __future__ import annotations

from typing import NamedTuple

from qgpu.ptx.model import Instruction


class Unsupported(Exception):
    """This interpreter has no meaning for an instruction; the text says why. Collected, never skipped."""


class Undefined:
    """A value that CUDA leaves undefined. It spreads through arithmetic and is a fault where it takes effect.

    origin: where it comes from, in words that follow "uses", such as "register %r3, which was never written".
    """

    __slots__ = ("origin",)

    def __init__(self, origin: str) -> None:
        self.origin = origin


class Type(NamedTuple):
    """A fundamental type: kind "s", "u", "b", "f" or "pred", and its width in bits (1 for a predicate)."""

    name: str
    kind: str
    bits: int

    def number(self, bits: int) -> int:
        """The number that the low `self.bits` of an integer stand for (PTX ISA 5.2.1)."""
        bits &= (1 << self.bits) - 1
        return bits - (1 << self.bits) if self.kind == "s" and bits >> (self.bits - 1) else bits


TYPES = {f"{kind}{bits}": Type(f"{kind}{bits}", kind, bits) for kind in "sub" for bits in (8, 16, 32, 64)}
TYPES["pred"] = Type("pred", "pred", 1)
TYPES.update({name: Type(name, "f", bits) for name, bits in (
    ("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64), ("f16x2", 32), ("bf16x2", 32), ("b128", 128))})

U32 = TYPES["u32"]
PRED = TYPES["pred"]


class Modifiers:
    """Takes an instruction's modifiers apart; whatever nobody asked for makes the instruction unsupported."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.rest = list(instruction.modifiers)

    def flag(self, name: str) -> bool:
        """Take `.name` if it is there."""
        if name in self.rest:
            self.rest.remove(name)
            return True
        return False

    def one_of(self, *names: str) -> str:
        """Take the one modifier of these that is there. Unsupported without."""
        for name in self.rest:
            if name in names:
                self.rest.remove(name)
                return name
        raise Unsupported(f"it has none of .{' .'.join(names)}")

    def maybe(self, *names: str) -> str | None:
        """Take one of these if it is there."""
        return next((self.one_of(name) for name in names if name in self.rest), None)

    def drop(self, names: frozenset[str], prefixes: tuple[str, ...] = ()) -> None:
        """Take away modifiers that change no result here (cache hints, scopes)."""
        self.rest = [m for m in self.rest if m not in names and not (prefixes and m.startswith(prefixes))]

    def type(self, allowed: str) -> Type:
        """Take the first type modifier that is left; allowed: type names, with spaces between."""
        for name in self.rest:
            if name in TYPES:
                if name not in allowed.split():
                    raise Unsupported(f"type .{name} is not supported here")
                self.rest.remove(name)
                return TYPES[name]
        raise Unsupported("it has no supported type")

    def done(self) -> None:
        """Raise Unsupported if a modifier is left over."""
        if self.rest:
            raise Unsupported(f"modifier .{self.rest[0]} is not supported")


class Pure(NamedTuple):
    """An operation on numbers alone.

    function: numbers in the order of `sources` to one number, to a tuple (one for each of `results`), or to an
    `Undefined` where the ISA leaves the result open.
    absorbs: a number that decides the result whatever the other operand is (0 for `and`), or None.
    """

    function: object
    results: tuple[Type, ...]
    sources: tuple[Type, ...]
    absorbs: int | None = None
