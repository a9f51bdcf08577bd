"""`launch`: a kernel, a grid, a block and arguments, run on the model from the first token to the last."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np

from .. import engine as engines
from ..errors import FaultError, QgpuError, UsageError
from ..lower import Program
from ..machine.description import PRESETS, Machine
from ..machine.tokens import Vocabulary
from .arguments import Argument
from .check import Check, check_memory, check_races, check_tokens, explain_trap, why_endless
from .engine_api import Engine
from .generate import MAX_TOKENS, generate
from .launchfile import dimensions
from .layout import own_array, read_back, refuse_shared_memory
from .prepare import Dim3, Prepared, block_places, prepare
from .progress import Progress
from .source import Source, open_source
from .whereabouts import whereabouts


@dataclass
class LaunchResult:
    """What a launch did.

    args: the arguments after the launch, the caller's own arrays. tokens: the whole stream as ids, the first `setup` of them
    written by the host. seconds: from the first token to the last, of which setup_seconds until the model had read the setup.
    check: None without `check=True`.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    args: list[Argument]
    tokens: list[int]
    setup: int
    seconds: float
    machine: Machine
    program: Program = field(repr=False)
    check: Check | None = None
    setup_seconds: float = 0.0

    @property
    def speed(self) -> float:
        """Generated tokens a second, after the setup."""
        return (len(self.tokens) - self.setup) / max(self.seconds - self.setup_seconds, 1e-9)


def launch(source: str | Path | Source, kernel: str | None = None, grid: int | Sequence[int] = (1, 1, 1),
           block: int | Sequence[int] = (1, 1, 1), args: Sequence[Argument] = (), *, check: bool = False,
           model: str | Path | None = None, engine: str | Engine = "sparse", machine: Machine | str | None = None,
           frontend: str | None = None, max_tokens: int = MAX_TOKENS, max_steps: int | None = None,
           progress: Progress | None = None, full: bool = False, shared_bytes: int = 0, race_check: bool = False,
           tap: Callable[[Prepared, Engine], Engine] | None = None) -> LaunchResult:
    """Run a kernel on the model.

    source:     CUDA or PTX text (it has a line break or brace), or the path of a .cu or .ptx file.
    kernel:     name as in the source; None where the source has one kernel.
    grid, block: an int or up to three.
    args:       in parameter order: NumPy arrays of i8 u8 i16 u16 i32 u32 i64 u64, updated in place, and ints. A parameter that is
                a structure by value takes an array of its bytes.
    check:      compare every generated token with the machine interpreter's, and the memory with the PTX interpreter's.
    model:      folder of an exported checkpoint, which Qwen's forward pass runs, or of a merged one; by default the machine is
                compiled (and cached).
    engine:     "sparse", "dense" (the same bits), or an engine to use as it is. Not read where model is given.
    machine:    its description, or a preset's name; by default the model's, the engine's, or the smallest preset that takes the launch.
    frontend:   CUDA compiler to use; the first that is installed by default.
    max_tokens: generated tokens after which the launch is given up.
    max_steps:  instructions that the PTX interpreter may run for the check.
    full:       with a merged model, run its own layers too and choose each token over the whole vocabulary; the same tokens.
    shared_bytes: dynamic shared memory.
    race_check: run the launch on the PTX interpreter first, and stop where two accesses race.
    tap:        called with the prepared launch and its engine before the first token; returns the engine to use, such as one that
                shows the tokens to somebody (qgpu.monitor.live.StreamWriter.tap).

    Raises QgpuError: UsageError, FrontEndError, PtxError, UnsupportedError, LoweringError before the launch; FaultError for a
    launch that goes wrong, CheckError for one that differs from the reference. Both of these carry the LaunchResult so far
    as `.result`, and leave the arrays as they were.
    """
    machine = _machine_of(engine, model) if machine is None else _described(machine)
    if machine is not None:
        machine.validate()
    opened = source if isinstance(source, Source) else open_source(source)
    if max_tokens < 1:
        raise UsageError(f"{max_tokens} tokens are no limit", where="max_tokens", fix="give at least 1")
    if shared_bytes < 0:
        raise UsageError(f"{shared_bytes} is no count of bytes", where="shared_bytes", fix="give 0 or more")
    for number, argument in enumerate(args, 1):
        own_array(argument, number)
    refuse_shared_memory(args)
    arguments = [a if isinstance(a, np.ndarray) else int(a) for a in args]
    ready = prepare(opened, kernel, dimensions(grid, "grid"), dimensions(block, "block"), arguments, machine, frontend, shared_bytes)
    if race_check:
        check_races(ready, arguments, max_steps)
    with progress.waiting(f"preparing the layers of machine {ready.machine.name}") if progress else nullcontext():
        runner = make_engine(ready.machine, engine, model, full)
    if tap is not None:
        runner = tap(ready, runner)
    ids = list(ready.setup)
    result = LaunchResult(ready.kernel.short_name, ready.grid, ready.block, arguments, ids, len(ids), 0.0, ready.machine, ready.program,
                          Check() if check else None)
    try:
        memory = _run(runner, ready, result, max_tokens, max_steps, progress)
    except QgpuError as error:
        error.result = result
        raise
    read_back(ready.layout, memory, arguments)
    return result


def _run(runner: Engine, ready: Prepared, result: LaunchResult, max_tokens: int, max_steps: int | None,
         progress: Progress | None) -> list[int]:
    """Generate and check; returns the words of global memory. The tokens and counts go into `result` as they come."""
    ids, start = result.tokens, time.perf_counter()
    stopped, fault = "LIMIT", None
    try:
        with progress.waiting(f"reading the setup, {len(ids):,} tokens") if progress else nullcontext():
            token = runner.feed(ids)
        result.setup_seconds = time.perf_counter() - start
        stopped = generate(runner, ready.machine, ids, token, max_tokens, progress)
    except FaultError as error:  # the model wrote no token at all; the first wrong one may lie before that
        fault = error
    result.seconds = time.perf_counter() - start
    if result.check is not None:
        check_tokens(result.check, ready.machine, ids, result.setup, complete=stopped != "LIMIT")
    if fault is not None:
        raise fault
    if stopped == "TRAP":
        explain_trap(ready, result.args, max_steps)
    if stopped != "END":
        why = why_endless(ready, result.args, max_steps) if stopped == "LIMIT" and result.check is not None else ""
        raise _stopped(stopped, ready, ids, max_tokens, why)
    memory = runner.read_global(len(ready.layout.memory))
    if result.check is not None:
        check_memory(result.check, ready, result.args, memory, max_steps)
    return memory


def _described(machine: Machine | str) -> Machine:
    """A description as the caller gave it, or a preset by its name. Raises UsageError."""
    if isinstance(machine, str) and machine in PRESETS:
        return PRESETS[machine]
    if not isinstance(machine, Machine):
        raise UsageError(f"{machine!r} is no machine", where="machine",
                         fix=f"give {' or '.join(map(repr, PRESETS))}, or a qgpu.machine.description.Machine")
    return machine


def _machine_of(engine: str | Engine, model: str | Path | None) -> Machine | None:
    """The machine that a model or an engine was made for; None where any may be chosen. Raises UsageError or CheckpointError."""
    if model is not None:
        return _checkpoints().checkpoint_machine(model)
    if isinstance(engine, str):
        return None
    machine = getattr(engine, "machine", None)
    if not isinstance(machine, Machine):
        raise UsageError("an engine is given without its machine", where="engine", fix="pass machine=, the one that it was made for")
    return machine


def make_engine(machine: Machine, engine: str | Engine, model: str | Path | None, full: bool = False) -> Engine:
    """The engine that the caller chose. Raises UsageError for an unknown name, CheckpointError for a bad model."""
    if not isinstance(engine, str):
        if model is not None:
            raise UsageError("an engine and a model are given", fix="make the engine from the model, or give its name only")
        return engine
    if engine not in ("sparse", "dense"):
        raise UsageError(f"no engine is called {engine!r}", fix="use sparse or dense")
    if model is not None:
        return _checkpoints().open_engine(model, machine, full=full)
    return engines.make_engine(machine, kind=engine)


def _checkpoints() -> ModuleType:
    """The module for checkpoints, imported when one is used: it brings the just-in-time compiler, which is slow to load."""
    from . import model_engine
    return model_engine


def _stopped(how: str, ready: Prepared, ids: list[int], max_tokens: int, why: str = "") -> FaultError:
    """The error for a launch that did not reach END. why: what the PTX interpreter makes of it, if it was asked."""
    vocabulary = Vocabulary(ready.machine)
    if how == "FOREIGN":
        return FaultError(f"the model wrote {vocabulary.token(ids[-1])} in the middle of a launch", where=f"token {len(ids) - 1}",
                          why="only the host writes such tokens: these layers are not this machine's",
                          fix="check the model; --check names the first wrong token")
    at, machine = whereabouts(ready.machine, ids), ready.machine
    place = block_places(ready.program.blocks).get(at.block, ready.kernel.short_name) if at.block is not None else ready.kernel.short_name
    first, last = at.threads(machine)
    who = f"kernel {ready.kernel.short_name}, block {at.index}, threads {first} to {min(last, ready.threads - 1)}"
    if how == "TRAP":
        return FaultError(f"the model stopped at a bad address ({who})", where=place,
                          why="the PTX interpreter finds no such access", fix="run with --check, which names the first wrong token")
    return FaultError(f"the launch did not end within {max_tokens:,} generated tokens ({who})", where=place,
                      why=why or
                      f"an endless loop, or more work than the limit allows; block {at.block or 0} of the program ran last",
                      fix="check the loop's condition, or raise the limit (--max-tokens, max_tokens=)")
