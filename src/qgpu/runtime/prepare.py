"""Everything before the first token: source to PTX to machine program, arguments to memory, both to the setup stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..lower import LaunchShape, Program, lower
from ..machine.description import Machine
from ..machine.encoding import NOWHERE, Block
from ..ptx.model import Kernel, Module
from .arguments import Argument
from .layout import Layout, check_sizes, place
from .parameters import check_arguments
from .setup import setup_tokens
from .source import Source, to_module, to_ptx

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Prepared:
    """A launch, ready to run. setup: ids of the tokens that the host writes."""

    machine: Machine
    module: Module
    kernel: Kernel
    grid: Dim3
    block: Dim3
    layout: Layout
    program: Program
    setup: list[int]


def prepare(source: Source, kernel: str | None, grid: Dim3, block: Dim3, arguments: Sequence[Argument], machine: Machine,
            frontend: str | None = None) -> Prepared:
    """Compile, check the arguments against the kernel, lower, lay out memory and write the setup.

    Raises UsageError, FrontEndError, PtxError, UnsupportedError or LoweringError.
    """
    check_sizes(grid, block, machine)
    module = to_module(source, to_ptx(source, frontend))
    chosen = module.kernel(kernel)
    layout = place(arguments, machine, check_arguments(chosen, arguments))
    program = lower(module, chosen.name, machine, LaunchShape(grid, block, layout.values))
    setup = setup_tokens(machine, dict(enumerate(program.words())), program.launch.threads, layout)
    return Prepared(machine, module, chosen, grid, block, layout, program, setup)


def block_places(blocks: Sequence[Block]) -> dict[int, str]:
    """Block number -> where it comes from in the kernel's source, such as "dot.cu:7-9"; blocks without a place are left out."""
    out = {}
    for number, block in enumerate(blocks):
        origins = [i.origin for i in block.stages if i is not None and i.origin != NOWHERE]
        files = {o.file for o in origins if o.file}
        if len(files) == 1:
            lines = sorted({o.line for o in origins if o.file})
            out[number] = f"{files.pop()}:{lines[0]}" + (f"-{lines[-1]}" if len(lines) > 1 else "")
        elif origins:
            out[number] = str(origins[0])
    return out
