"""Everything before the first token: source to PTX to machine program, arguments to memory, both to the setup stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import LoweringError, QgpuError, UnsupportedError, UsageError
from ..lower import LaunchShape, Program, lower
from ..machine.description import PRESETS, Machine
from ..machine.encoding import NOWHERE, Block
from ..ptx.model import Kernel, Module
from .arguments import Argument
from .layout import Layout, check_sizes, place
from .parameters import check_arguments, passed_by_value
from .setup import setup_tokens
from .source import Source, to_module, to_ptx

Dim3 = tuple[int, int, int]

DOES_NOT_FIT = (UsageError, UnsupportedError, LoweringError)
"""What a machine answers that a launch does not fit."""


@dataclass(frozen=True)
class Prepared:
    """A launch, ready to run. setup: ids of the tokens that the host writes. shared_bytes: of dynamic shared memory."""

    machine: Machine
    module: Module
    kernel: Kernel
    grid: Dim3
    block: Dim3
    layout: Layout
    program: Program
    setup: list[int]
    shared_bytes: int = 0

    @property
    def threads(self) -> int:
        """Threads in a thread block."""
        return self.program.launch.threads


def prepare(source: Source, kernel: str | None, grid: Dim3, block: Dim3, arguments: Sequence[Argument], machine: Machine | None = None,
            frontend: str | None = None, shared_bytes: int = 0) -> Prepared:
    """Compile, check the arguments against the kernel, lower, lay out memory and write the setup.

    machine: None for the smallest preset that takes the launch.
    Raises UsageError, FrontEndError, PtxError, UnsupportedError or LoweringError.
    """
    if machine is not None:
        check_sizes(grid, block, machine)
    module = to_module(source, to_ptx(source, frontend))
    chosen = module.kernel(kernel)
    alignments, by_value = check_arguments(chosen, arguments), passed_by_value(chosen)

    def on(machine: Machine) -> Prepared:
        check_sizes(grid, block, machine)
        layout = place(arguments, machine, alignments, by_value)
        shape = LaunchShape(grid, block, layout.values, shared_bytes, len(layout.memory))
        program = lower(module, chosen.name, machine, shape)
        memory = {word: layout.memory[word] for word in layout.used_words()} | program.data
        setup = setup_tokens(machine, dict(enumerate(program.words())), grid, shape.threads, memory)
        return Prepared(machine, module, chosen, grid, block, layout, program, setup, shared_bytes)

    if machine is not None:
        return on(machine)
    refusals: list[tuple[Machine, QgpuError]] = []
    for preset in PRESETS.values():
        try:
            return on(preset)
        except DOES_NOT_FIT as error:
            refusals.append((preset, error))
    raise _fits_nowhere(chosen, refusals)


def _fits_nowhere(kernel: Kernel, refusals: list[tuple[Machine, QgpuError]]) -> QgpuError:
    """One error of what each machine answered: the last one's, where they all say the same."""
    last = refusals[-1][1]
    if len({str(error) for _, error in refusals}) == 1:
        return last
    lines = []
    for machine, error in refusals:
        reason = error.why if error is last else error.why.split("\n")[0]
        lines.append(f"{machine.name}: {error.what}" + (f" ({reason})" if reason else ""))
    kind = next(kind for kind in DOES_NOT_FIT if isinstance(last, kind))
    error = kind(f"kernel {kernel.short_name} fits none of the machines {', '.join(m.name for m, _ in refusals)}",
                 where=last.where if last.where != kernel.short_name else "", why="\n       ".join(lines), fix=last.fix)
    if isinstance(last, UnsupportedError):
        error.items = last.items
    return error


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
