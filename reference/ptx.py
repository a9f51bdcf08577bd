"""A PTX interpreter with CUDA's own semantics: the judge of what a kernel does, whatever machine runs it.

`launch` runs a kernel thread block after thread block on Python integers. It knows nothing of qgpu's machine: warps are 32
threads wide unless asked otherwise, memory is bytes, and what CUDA leaves undefined is a fault where it takes effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from qgpu.errors import FaultError, UsageError
from qgpu.ptx.model import Kernel, Module, Param, Variable

from .ptx_memory import GAP, GLOBAL_START, WINDOWS, Region, Space, Version
from .ptx_program import compile_program, reachable
from .ptx_races import RaceWatch
from .ptx_schedule import Block, Launch

MAX_STEPS = 10_000_000
Argument = int | bytes | bytearray | memoryview


@dataclass
class LaunchOutcome:
    """What a launch left behind.

    arrays: for each argument its bytes afterwards, None for a scalar. steps: instructions run, counted for each thread.
    globals: bytes of the module's .global variables by name. addresses: where each array lay, None for a scalar.
    """

    arrays: list[bytearray | None]
    steps: int
    globals: dict[str, bytearray] = field(default_factory=dict)
    addresses: list[int | None] = field(default_factory=list)


def launch(module: Module, kernel_name: str | None, grid: int | Sequence[int], block: int | Sequence[int],
           args: Sequence[Argument], *, warp_size: int = 32, max_steps: int = MAX_STEPS, shared_bytes: int = 0,
           bases: Sequence[int | None] | None = None, races: bool = False,
           turn: Callable[[int], object] | None = None) -> LaunchOutcome:
    """Run a kernel of a parsed PTX module.

    grid, block: one to three numbers. args: in parameter order, an int for a scalar (or an address), anything with the
    buffer protocol for an array, whose parameter receives the array's address; a parameter that is itself an array of bytes (a
    struct by value) takes its bytes. The arguments are not changed. warp_size: lanes of a warp, a power of two to 32.
    bases: address of each array, or None for the interpreter's choice. races: a race is a fault too (ptx_races). turn: sort key of lanes, which take turns in that
    order wherever one follows another, at atomics above all; by their numbers unless given.

    Raises UsageError for a launch that does not fit the kernel, UnsupportedError (all places at once) for instructions
    without a meaning here, FaultError, naming place, block and thread, for what goes wrong while running.
    """
    kernel = module.kernel(kernel_name)
    grid, block = _shape(grid, "grid"), _shape(block, "block")
    _check_shape(kernel, grid, block, warp_size, shared_bytes)
    spaces = {"global": Space("global", GLOBAL_START), "const": Space("const", 16)}
    arrays, values = _arguments(module, kernel, args, bases, spaces["global"])
    variables = _Variables(module, kernel, spaces, shared_bytes)
    program = compile_program(module, kernel, variables.fixed)
    variables.resolve_addresses()
    parameters = {p.name: Region(f"parameter {k}", 16 + p.offset, bytearray(value), writable=False)
                  for k, (p, value) in enumerate(zip(kernel.params, values))}
    run = Launch(program, grid, block, warp_size=warp_size, max_steps=max_steps, shared_bytes=shared_bytes,
                 total_shared=variables.shared_size, spaces=spaces, parameters=parameters, clock=Version(), races=RaceWatch() if races else None, turn=turn)
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                Block(run, (x, y, z), variables.fresh_shared()).run()
    contents = {name: region.data for name, (space, region) in variables.of_module.items() if space == "global"}
    return LaunchOutcome([None if region is None else region.data for region in arrays], run.steps, contents,
                         [None if region is None else region.start for region in arrays])


def _shape(value: int | Sequence[int], name: str) -> tuple[int, int, int]:
    numbers = [value] if isinstance(value, int) else list(value)
    if not 1 <= len(numbers) <= 3 or not all(isinstance(n, int) and n >= 1 for n in numbers):
        raise UsageError(f"{name} must be one to three positive numbers, not {value!r}")
    return tuple(numbers + [1] * (3 - len(numbers)))


def _check_shape(kernel: Kernel, grid: tuple[int, ...], block: tuple[int, ...], warp_size: int, shared_bytes: int) -> None:
    threads = block[0] * block[1] * block[2]
    limit = 1024
    if "maxntid" in kernel.directives:
        most = kernel.directives["maxntid"]
        limit = min(limit, most[0] * (most[1] if len(most) > 1 else 1) * (most[2] if len(most) > 2 else 1))
    if threads > limit or block[2] > 64:
        raise UsageError(f"a block of {threads} threads is too large for kernel {kernel.short_name}",
                         why=f"it may have {limit}, and at most 64 in z", fix="use more blocks of fewer threads")
    required = kernel.directives.get("reqntid")
    if required and block != tuple([*required, 1, 1][:3]):
        raise UsageError(f"kernel {kernel.short_name} requires a block of {required}, not {block}")
    if grid[0] >= 1 << 31 or grid[1] > 65535 or grid[2] > 65535:
        raise UsageError(f"grid {grid} is too large", why="it may have 2147483647, 65535, 65535 blocks")
    if warp_size not in (1, 2, 4, 8, 16, 32):
        raise UsageError(f"a warp of {warp_size} lanes", fix="choose a power of two up to 32")
    if not 0 <= shared_bytes <= 227 * 1024:
        raise UsageError(f"{shared_bytes} bytes of shared memory", why="a block has at most 232448")


def _arguments(module: Module, kernel: Kernel, args: Sequence[Argument], bases: Sequence[int | None] | None,
               memory: Space) -> tuple[list[Region | None], list[bytes]]:
    """Arrays in global memory, and the bytes of every parameter."""
    if len(args) != len(kernel.params):
        raise UsageError(f"kernel {kernel.short_name} takes {len(kernel.params)} arguments, {len(args)} were given")
    arrays: list[Region | None] = []
    values: list[bytes] = []
    for k, (p, argument) in enumerate(zip(kernel.params, args)):
        if isinstance(argument, int):
            arrays.append(None)
            values.append(_scalar(p, argument, k))
        elif p.is_array:
            data = bytes(memoryview(argument).cast("B"))
            if len(data) != p.size:
                raise UsageError(f"parameter {p.name} takes {p.size} bytes, {len(data)} were given", where=f"argument {k}")
            arrays.append(None)
            values.append(data)
        else:
            if p.size != module.address_size // 8:
                raise UsageError(f"parameter {p.name} is {p.size} bytes and cannot hold an address", where=f"argument {k}",
                                 fix="give an integer")
            data, base = bytearray(memoryview(argument).cast("B") if len(argument) else b""), bases[k] if bases else None
            label = f"the array of argument {k + 1}"
            region = (memory.allocate(label, data, GAP) if base is None else memory.add(Region(label, base, data)))
            arrays.append(region)
            values.append(region.start.to_bytes(p.size, "little"))
    if memory.next > min(WINDOWS.values()):
        raise UsageError("the arrays are too large", why="together they may take less than 3.75 GiB")
    return arrays, values


def _scalar(p: Param, value: int, k: int) -> bytes:
    bits = 8 * p.size
    if p.is_array or not -(1 << bits - 1) <= value < 1 << bits:
        raise UsageError(f"{value} does not fit parameter {p.name} of {p.size} bytes", where=f"argument {k}")
    return (value & (1 << bits) - 1).to_bytes(p.size, "little")


class _Variables:
    """Variables of the module and those that its functions declare for all threads: where each lies."""

    def __init__(self, module: Module, kernel: Kernel, spaces: dict[str, Space], shared_bytes: int) -> None:
        self.of_module: dict[str, tuple[str, Region]] = {}
        self.of_function: dict[str, dict[str, tuple[str, Region]]] = {}
        self.with_addresses: list[tuple[Variable, Region]] = []
        self.shared = Space("shared", 0)
        self.spaces, self.shared_size = spaces, shared_bytes
        dynamic = self._place(module.globals.values(), self.of_module)
        for function in reachable(module, kernel):
            own = self.of_function[function.name] = {}
            dynamic += self._place([*function.shared.values(), *function.consts.values()], own)
        if dynamic:
            align = max([16, *(v.align for v, _ in dynamic)])
            region = self.shared.allocate("dynamic shared memory", bytearray(shared_bytes), align, gap=64, known=False)
            for v, home in dynamic:
                home[v.name] = ("shared", region)

    @property
    def fixed(self) -> dict[str, dict[str, tuple[str, Region]]]:
        """For each function: name -> (space, region) of what it sees."""
        return {name: self.of_module | own for name, own in self.of_function.items()}

    def _place(self, variables, home: dict[str, tuple[str, Region]]) -> list[tuple[Variable, dict]]:
        """Give variables their places; returns those of dynamic shared memory, which come last."""
        dynamic = []
        for v in variables:
            if v.space == "shared" and v.is_extern:
                dynamic.append((v, home))
            elif v.space == "shared":
                self.shared_size += v.size
                region = self.shared.allocate(f"shared variable {v.name}", bytearray(v.size), v.align, gap=64, known=False)
                home[v.name] = (v.space, region)
            elif v.space in ("global", "const"):
                home[v.name] = (v.space, self._initialised(v, self.spaces[v.space]))
        return dynamic

    def _initialised(self, v: Variable, space: Space) -> Region:
        data = bytearray(v.init if v.init is not None else bytes(v.size))
        kind = "constant" if v.space == "const" else "global"
        region = space.allocate(f"{kind} variable {v.name}", data, v.align, writable=v.space != "const")
        if v.init_addresses:
            self.with_addresses.append((v, region))
        return region

    def resolve_addresses(self) -> None:
        """Fill in addresses inside initialisers. Raises FaultError for one of something that has no fixed address."""
        for v, region in self.with_addresses:
            for a in v.init_addresses:
                if a.symbol.name not in self.of_module:
                    raise FaultError(f"the initialiser of {v.name} holds the address of {a.symbol.name}, which has none here")
                space, target = self.of_module[a.symbol.name]
                address = target.start + a.symbol.offset + (WINDOWS.get(space, 0) if a.symbol.generic else 0)
                data = (address >> 8 * a.shift & (1 << 8 * a.width) - 1).to_bytes(a.width, "little")
                region.data[a.offset:a.offset + a.width] = data

    def fresh_shared(self) -> Space:
        """Shared memory for one block: nothing in it is known."""
        space = Space("shared", 0)
        for region in self.shared.regions:
            space.add(Region(region.label, region.start, bytearray(len(region.data)), known=False))
        return space


__all__ = ["LaunchOutcome", "MAX_STEPS", "launch"]
