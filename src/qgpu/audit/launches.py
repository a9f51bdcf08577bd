"""Launches to audit: those that a kernel file's comments describe, and the token streams that an engine writes for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import FaultError, UsageError
from ..machine.description import Machine
from ..machine.encoding import NOWHERE
from ..runtime.engine_api import Engine
from ..runtime.generate import generate
from ..runtime.launchfile import find_launch_comments
from ..runtime.prepare import Prepared, block_places, prepare
from ..runtime.source import open_source

Place = Callable[[int, int | None], str]
"""(block of the program, stage from 1 or None) -> where that comes from in the source."""


def launches_of(path: str | Path, machine: Machine | None = None, kernel: str | None = None) -> Iterator[Prepared]:
    """Every launch that a .cu or .ptx file's comments describe, ready to run. kernel: only that one's.

    Raises UsageError where there is none, and what `prepare` raises.
    """
    source = open_source(path)
    specs = [s for s in find_launch_comments(source.text, source.name) if kernel is None or s.kernel in (None, kernel)]
    if not specs:
        raise UsageError("no launch comment" + (f" for kernel {kernel}" if kernel else ""), where=source.name,
                         fix='add a comment such as // qgpu: {"block": [4], "args": []}')
    for spec in specs:
        if spec.block is None:
            raise UsageError("the launch comment gives no block size", where=spec.where or source.name)
        yield prepare(source, spec.kernel, spec.grid or (1, 1, 1), spec.block, spec.args or [], machine, shared_bytes=spec.shared_bytes)


def stream_of(engine: Engine, ready: Prepared, max_tokens: int) -> list[int]:
    """The setup and what the engine writes after it, up to END, TRAP, a token that has no place there, or max_tokens. The engine is reset."""
    engine.reset()
    ids = list(ready.setup)
    try:
        generate(engine, ready.machine, ids, engine.feed(ids), max_tokens)
    except FaultError:                                   # no token at all: the stream ends there
        pass
    engine.reset()
    return ids


def place_of(ready: Prepared) -> Place:
    """Where blocks and stages of a launch's program come from: PTX line, and the CUDA line that it names."""
    blocks, places = ready.program.blocks, block_places(ready.program.blocks)

    def place(block: int, stage: int | None) -> str:
        if block >= len(blocks):
            return ""
        instruction = blocks[block].stages[stage - 1] if stage and stage <= len(blocks[block].stages) else None
        if instruction is None or instruction.origin == NOWHERE:
            return f"block {block}" + (f", {places[block]}" if block in places else "")
        origin, of = instruction.origin, f"block {block} stage {stage}"
        return f"{of}, {origin} (PTX line {origin.ptx_line})" if origin.file else f"{of}, {origin}"

    return place
