"""From a parsed kernel and a launch to machine blocks: the table of contents of the lowering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import LoweringError
from ..machine.description import Machine
from ..machine.encoding import Block as MachineBlock
from ..machine.encoding import encode, print_block
from ..ptx.model import Kernel, Module
from . import (allocate, control, emit, expand, fuse, hoist, induction, layout, leave_ssa, legalise, rematerialise, report,
               simplify, spill, translate)
from .ir import EFFECTS, Function, Op, clone, print_function
from .flatten import flatten
from .launch import LaunchShape, check_launch, parameter_bytes
from .liveness import liveness
from .packing import CannotPack, pack
from .unit import Unit
from .variables import Variables

Hook = Callable[[str, str], None]

PASSES = (
    ("translate", translate.run),
    ("report", report.run),
    ("simplify", simplify.run),
    ("control", control.run),
    ("simplify control", simplify.run),
    ("expand", expand.run),
    ("simplify again", simplify.run),
    ("induction", induction.run),
    ("simplify counters", simplify.run),
    ("hoist", hoist.run),
    ("fuse", fuse.run),
    ("legalise", legalise.run),
)


ROUNDS = 12
"""How often copies are inserted where registers of one class meet."""


@dataclass(frozen=True)
class Mode:
    """How the second half works; see `leave_ssa.run`, `pack` and `rematerialise.run`."""

    inline: bool = True
    weak: bool = True
    isolate: bool = False
    dense: bool = False
    again: bool = False
    near: bool = False


# Tried in order until one fits: the first costs the fewest tokens, the later ones need fewer blocks or registers.
MODES = (Mode(), Mode(weak=False), Mode(again=True), Mode(inline=False), Mode(inline=False, dense=True), Mode(weak=False, dense=True),
         Mode(inline=False, weak=False, dense=True), Mode(weak=False, isolate=True), Mode(inline=False, weak=False, isolate=True))


SPILLED_MODES = (Mode(), Mode(weak=False), Mode(weak=False, near=True), Mode(weak=False, dense=True),
                 Mode(weak=False, dense=True, near=True))
"""Those that are tried again when values have gone to memory."""

SPILLS = 24
"""How often values are sent to memory before giving up."""


@dataclass(frozen=True)
class Program:
    """Machine blocks of one kernel for one launch. Block 0 is the entry.

    data: word of global memory -> its value at the start, beyond the arguments. global_words, shared_words: words in use, the arguments'
    and the lowering's own included. frame_words: of them, words of a thread's own variables and spilled values.
    """

    blocks: list[MachineBlock]
    machine: Machine
    kernel: Kernel
    launch: LaunchShape
    data: dict[int, int] = field(default_factory=dict)
    global_words: int = 0
    shared_words: int = 0
    frame_words: int = 0

    def words(self) -> list[list[int]]:
        """Program words of every block: (blocks, words_per_block)."""
        return [encode(self.machine, b) for b in self.blocks]

    def text(self) -> str:
        """The blocks, readably."""
        return "\n".join(print_block(self.machine, k, b) for k, b in enumerate(self.blocks)) + "\n"


def lower(module: Module, kernel: str | None, machine: Machine, launch: LaunchShape, hook: Hook | None = None) -> Program:
    """Lower one kernel for one launch. hook(pass name, program text) is called after every pass.

    Raises UsageError for a launch that does not fit, UnsupportedError listing everything that the machine cannot run,
    LoweringError where registers or blocks do not suffice.
    """
    k = module.kernel(kernel)
    check_launch(k, machine, launch)
    flat, refusals = flatten(module, k)
    variables = Variables(machine, k.short_name, launch.threads)
    variables.place(module, flat, launch)
    unit = Unit(module, flat, machine, launch, parameter_bytes(k, launch), variables, refusals=refusals)
    for name, run in PASSES:
        run(unit)
        if hook is not None:
            hook(name, print_function(unit.function))
    blocks = _place(unit, hook)
    variables.check()
    return Program(blocks, machine, k, launch, variables.data, variables.global_words, variables.shared_words,
                   variables.frame_bytes // 4 + variables.spill_slots)


def _place(unit: Unit, hook: Hook | None) -> list[MachineBlock]:
    """The second half, in the first mode that fits the machine; where registers do not suffice in any, some values go to memory."""
    needed = _fewest_blocks(unit)
    if needed > unit.machine.blocks:
        raise emit.TooManyBlocks(unit.machine, unit.kernel.short_name, needed)
    # With little room for empty stages only the densest packings have a chance.
    modes = MODES if 10 * needed <= 9 * unit.machine.blocks else tuple(m for m in MODES if m.dense)
    first: list[LoweringError] = []
    for _ in range(SPILLS):
        failures: list[LoweringError] = []
        for mode in modes:
            function, _ = clone(unit.function)
            try:
                return _place_in_mode(unit, function, mode, hook)
            except CannotPack:
                continue
            except LoweringError as e:
                failures.append(e)
        first = first or failures
        tight = [e for e in failures if isinstance(e, allocate.TooFewRegisters)]
        if not tight:
            break
        least = min(tight, key=lambda e: e.excess)
        roots = [[m.root for m in members if m.root is not None] for members in least.classes]
        values = spill.choose(unit.function, roots, least.excess)
        if not values:
            break
        spill.run(unit.function, values, unit.variables)
        modes = SPILLED_MODES
    if not first:
        raise LoweringError(f"kernel {unit.kernel.short_name} does not fit blocks of {unit.machine.stages} instructions")
    raise min(first, key=lambda e: getattr(e, "needed", 0))


def _fewest_blocks(unit: Unit) -> int:
    """Machine blocks that no packing can do without: one a store, and room for everything that is not computed again anyway."""
    total = 0
    for block in unit.function.blocks:
        stores = sum(op.kind == "st" for op in block.ops)
        fixed = sum(op.kind in EFFECTS or rematerialise.steps(op) > rematerialise.MOST_STEPS for op in block.ops if op.kind != "fence")
        total += max(stores, -(-fixed // unit.machine.stages))
    return total


def _place_in_mode(unit: Unit, function: Function, mode: Mode, hook: Hook | None) -> list[MachineBlock]:
    if mode.again:
        rematerialise.run(function, most_steps=4, into_loops=True)
    elif mode.inline:
        rematerialise.run(function)
    for _ in range(ROUNDS):
        attempt, twins = clone(function)
        try:
            return _finish(unit, attempt, mode, hook)
        except emit.PortClash as clash:
            _copy_first(function, twins, clash.reads)
    raise LoweringError(f"kernel {unit.kernel.short_name}: registers of one class meet in one instruction again and again")


def _copy_first(function: Function, twins: dict[Op, Op], reads: list[tuple[Op, int]]) -> None:
    """Put a copy before each operation, for the operand of that number. twins: operation of the function -> of the clone."""
    original = {twin: op for op, twin in twins.items()}
    wanted = [(original[op], k) for op, k in reads if op in original]
    for block in function.blocks:
        for op, k in wanted:
            if op in block.ops:
                copy = legalise.copy_of(op.args[k], op)
                block.ops.insert(block.ops.index(op), copy)
                op.args[k] = copy


def _finish(unit: Unit, function: Function, mode: Mode, hook: Hook | None) -> list[MachineBlock]:
    machine, threads = unit.machine, unit.launch.threads
    classes = leave_ssa.run(function, mode.weak, mode.isolate)
    order = layout.ordered(function.blocks)
    if hook is not None:
        hook("leave_ssa", print_function(function))
    live = liveness(function)
    allocate.check_pressure(machine, function, live, classes, unit.kernel.short_name)
    packed = {}
    for block in order:
        must_live = {op for op in block.ops if op in live.out[block]}
        packed[block] = pack(machine, threads, block, must_live, classes, mode.inline, mode.dense, mode.near)
    return emit.run(machine, unit.kernel.short_name, order, packed, classes)
