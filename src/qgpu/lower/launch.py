"""What a kernel is launched with: the shape of the grid and the bytes of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from ..errors import UsageError
from ..machine.description import Machine
from ..ptx.model import TYPE_BYTES, Kernel

Dim3 = tuple[int, int, int]
Argument = Union[int, bytes]


@dataclass(frozen=True)
class LaunchShape:
    """grid and block in x, y, z; one argument a parameter: an int (a scalar, or an array's byte address in the machine's
    global window), or the bytes of a structure. shared_bytes: dynamic shared memory. arrays_words: words of global memory, from the
    first, that the arguments' arrays take; what the lowering needs beyond comes after them (None: not known, so it may need none)."""

    grid: Dim3 = (1, 1, 1)
    block: Dim3 = (1, 1, 1)
    arguments: Sequence[Argument] = ()
    shared_bytes: int = 0
    arrays_words: int | None = None

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


def check_launch(kernel: Kernel, machine: Machine, launch: LaunchShape) -> None:
    """Raise UsageError for sizes or arguments that cannot be."""
    for name, dims in (("grid", launch.grid), ("block", launch.block)):
        if len(dims) != 3 or min(dims) < 1:
            raise UsageError(f"a {name} of {list(dims)}", fix="give three numbers of at least 1: x, y, z")
    if launch.threads > machine.threads:
        raise UsageError(f"a thread block of {launch.threads} threads", where=kernel.short_name,
                         why=f"machine {machine.name!r} runs {machine.warps} warps of {machine.warp_size}, {machine.threads} threads",
                         fix="make the block smaller")
    if max(launch.grid) > machine.largest_grid:
        raise UsageError(f"a grid of {list(launch.grid)}", where=kernel.short_name,
                         why=f"machine {machine.name!r} counts to {machine.largest_grid} along each axis", fix="make the grid smaller")
    required = kernel.directives.get("reqntid")
    if required and tuple(launch.block) != (*required, 1, 1)[:3]:
        raise UsageError(f"a thread block of {list(launch.block)}", where=kernel.short_name, why=f"the kernel requires {list(required)}")
    if len(launch.arguments) != len(kernel.params):
        raise UsageError(f"{len(launch.arguments)} arguments for {len(kernel.params)} parameters", where=kernel.short_name,
                         fix="give one argument for each parameter")
    parameter_bytes(kernel, launch)


def parameter_bytes(kernel: Kernel, launch: LaunchShape) -> bytes:
    """The parameter space as the kernel sees it, little end first. Raises UsageError where an argument does not fit."""
    space = bytearray(max((p.offset + p.size for p in kernel.params), default=0))
    for k, (param, argument) in enumerate(zip(kernel.params, launch.arguments), 1):
        where = f"argument {k} of {kernel.short_name}"
        if isinstance(argument, (bytes, bytearray)):
            if len(argument) != param.size:
                raise UsageError(f"{len(argument)} bytes for a parameter of {param.size}", where=where)
            space[param.offset:param.offset + param.size] = argument
            continue
        if param.is_array:
            raise UsageError("a number for a structure parameter", where=where, fix=f"give its {param.size} bytes")
        bits = 8 * TYPE_BYTES[param.type]
        if not -(1 << (bits - 1)) <= argument < 1 << bits:
            raise UsageError(f"{argument} does not fit a {bits}-bit parameter", where=where)
        space[param.offset:param.offset + param.size] = (argument & ((1 << bits) - 1)).to_bytes(param.size, "little")
    return bytes(space)
