"""The GPU as calculations see it: ready-made kernels by name, one launch after another on one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..errors import FaultError, UsageError
from ..machine.description import Machine
from ..runtime.arguments import Argument
from ..runtime.engine_api import Engine
from ..runtime.launch import LaunchResult, launch
from ..runtime.prepare import Prepared
from ..runtime.progress import Progress
from ..runtime.source import Source

KERNELS = Path(__file__).parent / "kernels"
MOST_LAUNCHES = 1000
MOST_TOKENS = 4_000_000
"""Generated tokens of one calculation, all launches together."""


@dataclass(frozen=True)
class Launched:
    """One launch. items: how many numbers it was about. setup, generated: tokens by the host and by the model.

    checked: generated tokens that were compared with the reference interpreter's; None without a check.
    """

    kernel: str
    items: int
    setup: int
    generated: int
    seconds: float
    checked: int | None

    def as_dict(self) -> dict:
        """For JSON, like `run --json`."""
        return {"kernel": self.kernel, "items": self.items, "tokens": {"setup": self.setup, "generated": self.generated},
                "seconds": round(self.seconds, 6), "check": None if self.checked is None else {"positions": self.checked, "mismatches": 0}}


@lru_cache(maxsize=None)
def kernel_source(name: str) -> Source:
    """The CUDA text of a kernel of this package."""
    return Source((KERNELS / f"{name}.cu").read_text(encoding="utf-8"), f"{name}.cu", False)


def kernel_names() -> list[str]:
    """Every kernel that calculations use."""
    return sorted(path.stem for path in KERNELS.glob("*.cu"))


@dataclass
class Device:
    """Runs launches on an engine, which is made when the first one comes.

    make: gives the engine. check: compare every launch with the reference interpreters. progress: shows a launch that takes long.
    tap: lets somebody see the tokens, as in qgpu.launch; ended: called after every launch with an error's text or "".
    launched: the launches since `begin`. last: the last launch's result, for a trace.
    """

    make: Callable[[], Engine]
    check: bool = True
    progress: Progress | None = None
    tap: Callable[[Prepared, Engine], Engine] | None = None
    ended: Callable[[str], None] | None = None
    launched: list[Launched] = field(default_factory=list)
    last: LaunchResult | None = None
    _engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            with self.progress.waiting("preparing the machine's layers") if self.progress else nullcontext():
                self._engine = self.make()
        return self._engine

    @property
    def machine(self) -> Machine:
        return self.engine.machine

    def begin(self) -> None:
        """A new calculation: its launches are counted from here."""
        self.launched = []

    def run(self, source: Source, kernel: str | None, grid: Sequence[int], block: Sequence[int], arguments: list[Argument],
            items: int = 0, shared_bytes: int = 0) -> LaunchResult:
        """One launch on an empty machine; arrays are updated in place. Raises QgpuError. An interrupt leaves the device usable."""
        spent = sum(one.generated for one in self.launched)
        if len(self.launched) >= MOST_LAUNCHES or spent >= MOST_TOKENS:
            raise FaultError("this takes too many launches", why=f"{len(self.launched)} launches with {spent:,} tokens so far",
                             fix="use fewer or smaller numbers, or split the work")
        engine = self.engine
        engine.reset()
        start = time.perf_counter()
        try:
            result = launch(source, kernel, grid, block, arguments, check=self.check, engine=engine, machine=engine.machine,
                            max_tokens=MOST_TOKENS - spent, progress=self.progress, shared_bytes=shared_bytes, tap=self.tap)
        except BaseException as error:
            self.last = getattr(error, "result", self.last)
            if self.ended:
                self.ended(str(error) or "stopped")
            raise
        finally:
            if self.progress:
                self.progress.close()
        self.last = result
        self.launched.append(Launched(result.kernel, items, result.setup, len(result.tokens) - result.setup,
                                      time.perf_counter() - start, result.check.positions if result.check else None))
        if self.ended:
            self.ended("")
        return result

    def kernel(self, name: str, block: int | tuple[int, int], *arguments: Argument, items: int = 0) -> None:
        """Launch a kernel of this package with one thread block. Arguments: int32 and int64 arrays, updated in place, and ints."""
        size = (block, 1, 1) if isinstance(block, int) else (*block, 1)
        self.run(kernel_source(name), name, (1, 1, 1), size, list(arguments), items)

    def most(self, arrays: int, spare: int = 0, threads: bool = True) -> int:
        """How many elements a launch takes: `arrays` words of memory for each and `spare` ones beside, and a thread for each if told."""
        machine = self.machine
        words = (machine.global_words - spare) // arrays
        found = min(words, machine.threads) if threads else words
        if found < 4 or machine.threads < 16:
            raise UsageError(f"machine {machine.name} is too small for calculations", why=f"{machine.global_words} words of memory, "
                             f"{machine.threads} threads", fix="use the machine article or default")
        return found


def zeros(n: int) -> np.ndarray:
    """An int32 array for a kernel to write."""
    return np.zeros(n, np.int32)
