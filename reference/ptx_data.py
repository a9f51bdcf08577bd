"""Data movement of PTX: mov, selp, loads, stores, atomics, address conversion (PTX ISA 9.7.9, 9.7.13).

Each entry takes an instruction and the scope of its function and returns what runs it for a list of threads.
"""

from __future__ import annotations

from collections.abc import Callable

from qgpu.ptx.model import Instruction, Pair, Reg, Vector

from .ptx_integer import entry
from .ptx_memory import WINDOW_BYTES, WINDOWS, BadAccess
from .ptx_operands import Scope, address_reader, defined, reader, writer
from .ptx_races import Race
from .ptx_thread import Thread, Trouble
from .ptx_values import PRED, TYPES, Modifiers, Type, Undefined, Unsupported

Execute = Callable[[list[Thread]], None]
DATA: dict[str, Callable[[Instruction, Scope], Execute]] = {}

SPACES = ("global", "shared", "local", "const", "param")
# How an access is ordered or cached: no effect where threads run one at a time.
ORDER = frozenset("volatile relaxed acquire release acq_rel weak mmio cta cluster gpu sys ca cg cs cv lu wb wt nc unified".split())
HINTS = ("L1::", "L2::")
BITS = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64 f16x2 bf16x2"


def _space(m: Modifiers) -> str | None:
    """Take the state space (`shared::cta` is `shared`); None means a generic address."""
    for modifier in list(m.rest):
        base, _, scope = modifier.partition("::")
        if base in SPACES and scope in ("", "cta", "entry", "func"):
            m.rest.remove(modifier)
            return base
    return None


def _access(i: Instruction) -> tuple[str | None, Type, int]:
    """(space, element type, elements) of a load or store."""
    m = Modifiers(i)
    space = _space(m)
    m.drop(ORDER, HINTS)
    count = int((m.maybe("v2", "v4", "v8") or "v1")[1:])
    t = m.type(BITS)
    m.done()
    return space, t, count


def _elements(operand, count: int) -> list:
    items = list(operand.items) if isinstance(operand, Vector) else [operand]
    if len(items) != count:
        raise Unsupported(f"it has {len(items)} registers for {count} elements")
    return items


def _operands(i: Instruction, *counts: int) -> tuple:
    if len(i.operands) not in counts:
        raise Unsupported(f"it has {len(i.operands)} operands")
    return i.operands


@entry(DATA, "ld", "ldu")
def _ld(i: Instruction, scope: Scope) -> Execute:
    space, t, count = _access(i)
    target, source = _operands(i, 2)
    writers = [writer(item, t, scope) for item in _elements(target, count)]
    address, named = address_reader(source, scope, "the address of a load")
    space = space or named
    size, where = t.bits // 8, i.where

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            place = address(thread)
            try:
                values = thread.memory.load(space, place, size, count, where)
                if (races := thread.warp.block.launch.races) is not None:
                    races.access(thread, i, space, place, size * count, write=False)
            except (BadAccess, Race) as e:
                raise Trouble(thread, e.what, e.why) from None
            for write, value in zip(writers, values):
                write(thread, value)
    return run


@entry(DATA, "st")
def _st(i: Instruction, scope: Scope) -> Execute:
    space, t, count = _access(i)
    target, source = _operands(i, 2)
    bits = TYPES[f"b{t.bits}"]
    readers = [reader(item, bits, scope) for item in _elements(source, count)]
    address, named = address_reader(target, scope, "the address of a store")
    space, size = space or named, t.bits // 8

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            place = address(thread)
            values = [read(thread) for read in readers]
            if not thread.memory.may_hold_undefined(space, place):
                for value in values:
                    defined(thread, value, f"the value stored at {place:#x}")
            try:
                thread.memory.store(space, place, size, values)
                if (races := thread.warp.block.launch.races) is not None:
                    data = b"".join(bytes(size) if isinstance(v, Undefined) else v.to_bytes(size, "little") for v in values)
                    races.access(thread, i, space, place, size * len(values), write=True, data=data)
            except (BadAccess, Race) as e:
                raise Trouble(thread, e.what, e.why) from None
    return run


ATOMIC_TYPES = {"add": "u32 s32 u64 s64 b32 b64", "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "exch": "b32 b64",
                "cas": "b16 b32 b64", "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64", "inc": "u32", "dec": "u32"}
ATOMIC: dict[str, Callable[..., int]] = {
    "add": lambda old, b: old + b,
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
    "exch": lambda old, b: b,
    "min": min,
    "max": max,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
    "cas": lambda old, b, c: c if old == b else old,
}
"""New content of memory from the old content and the operands (PTX ISA, atom)."""


@entry(DATA, "atom", "red")
def _atom(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    space = _space(m)
    m.drop(ORDER, HINTS)
    name = m.one_of(*ATOMIC)
    t = m.type(ATOMIC_TYPES[name])
    m.done()
    if i.opcode == "red" and name in ("exch", "cas") or space in ("local", "const", "param"):
        raise Unsupported(f"{i.name} does not exist")
    operands = list(i.operands)
    write = writer(operands.pop(0), t, scope) if i.opcode == "atom" else None
    if len(operands) != (3 if name == "cas" else 2):
        raise Unsupported(f"it has {len(i.operands)} operands")
    address, named = address_reader(operands[0], scope, "the address of an atomic operation")
    readers = [reader(operand, t, scope) for operand in operands[1:]]
    space, size, where, new, mask = space or named, t.bits // 8, i.where, ATOMIC[name], (1 << t.bits) - 1

    def run(threads: list[Thread]) -> None:
        for thread in threads:  # one lane after another, lowest first
            place = address(thread)
            values = [defined(thread, read(thread), "an operand of an atomic operation") for read in readers]
            try:
                old, = thread.memory.load(space, place, size, 1, where)
                old = t.number(defined(thread, old, "the memory under an atomic operation"))
                thread.memory.store(space, place, size, [new(old, *values) & mask])
                if (races := thread.warp.block.launch.races) is not None:
                    races.access(thread, i, space, place, size, write=True, atomic=True)
            except (BadAccess, Race) as e:
                raise Trouble(thread, e.what, e.why) from None
            if write:
                write(thread, old)
    return run


@entry(DATA, "mov")
def _mov(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    t = m.type(BITS + " pred")
    m.done()
    target, source = _operands(i, 2)
    if isinstance(source, Vector):
        return _pack(target, source, t, scope)
    if isinstance(target, Vector):
        return _unpack(target, source, t, scope)
    return _copy(reader(source, t, scope), writer(target, t, scope))


def _copy(read, write) -> Execute:
    def run(threads: list[Thread]) -> None:
        for thread in threads:
            write(thread, read(thread))
    return run


def _part(t: Type, count: int) -> Type:
    part = TYPES.get(f"b{t.bits // count}")
    if part is None or t.bits % count:
        raise Unsupported(f"{count} parts of .{t.name} are not supported")
    return part


def _pack(target, source: Vector, t: Type, scope: Scope) -> Execute:
    part = _part(t, len(source.items))
    readers, write = [reader(item, part, scope) for item in source.items], writer(target, t, scope)

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            values = [read(thread) for read in readers]
            unknown = next((v for v in values if isinstance(v, Undefined)), None)
            write(thread, unknown or sum(v << part.bits * k for k, v in enumerate(values)))
    return run


def _unpack(target: Vector, source, t: Type, scope: Scope) -> Execute:
    part = _part(t, len(target.items))
    read, writers = reader(source, TYPES[f"b{t.bits}"], scope), [writer(item, part, scope) for item in target.items]

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            value = read(thread)
            for k, write in enumerate(writers):
                write(thread, value if isinstance(value, Undefined) else value >> part.bits * k)
    return run


@entry(DATA, "selp")
def _selp(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    t = m.type(BITS)
    m.done()
    target, a, b, p = _operands(i, 4)
    read_a, read_b, read_p = reader(a, t, scope), reader(b, t, scope), reader(p, PRED, scope)
    write = writer(target, t, scope)

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            p = read_p(thread)
            write(thread, p if isinstance(p, Undefined) else read_a(thread) if p else read_b(thread))
    return run


@entry(DATA, "cvta")
def _cvta(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    to_space = m.flag("to")
    space = _space(m)
    t = m.type("u32 u64 b32 b64")
    m.done()
    if space is None:
        raise Unsupported("it names no state space")
    target, source = _operands(i, 2)
    shift = WINDOWS.get(space, 0) * (-1 if to_space else 1)
    read, write = reader(source, t, scope), writer(target, t, scope)

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            value = read(thread)
            write(thread, value if isinstance(value, Undefined) else value + shift)
    return run


@entry(DATA, "isspacep")
def _isspacep(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    space = _space(m)
    m.done()
    if space is None:
        raise Unsupported("it names no state space")
    target, source = _operands(i, 2)
    bits = scope.register_bits(source.name) if isinstance(source, Reg) else scope.module.address_size
    read, write = reader(source, TYPES[f"u{bits}"], scope), writer(target, PRED, scope)
    low = WINDOWS.get(space, 0)

    def inside(address: int) -> bool:
        if space == "global":
            return not any(w <= address < w + WINDOW_BYTES for w in WINDOWS.values())
        return low <= address < low + WINDOW_BYTES

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            value = read(thread)
            write(thread, value if isinstance(value, Undefined) else int(inside(value)))
    return run


@entry(DATA, "prefetch", "prefetchu", "membar", "fence", "nanosleep", "applypriority")
def _nothing(i: Instruction, scope: Scope) -> Execute:
    """Hints and fences: threads run one instruction at a time here, so memory is always in order. Operands must be good."""
    m = Modifiers(i)
    m.drop(ORDER | frozenset("gl sc L1 L2 global local u32 proxy alias async".split()), HINTS + ("level::",))
    m.done()
    for operand in i.operands:
        if isinstance(operand, Pair):
            raise Unsupported("an operand has a form that is not supported here")
    if i.opcode not in ("membar", "fence"):
        return lambda threads: None

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            if (races := thread.warp.block.launch.races) is not None:
                races.fence(thread)
    return run
