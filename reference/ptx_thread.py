"""Threads of the PTX interpreter: registers, frames, what a thread waits for, and its special registers (PTX ISA 10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qgpu.ptx.model import Function, Instruction

from .ptx_memory import Memory, Region
from .ptx_values import Undefined

if TYPE_CHECKING:
    from .ptx_schedule import Warp

Value = int | Undefined
RUNNING, SYNC, BARRIER, EXITED = "running", "sync", "barrier", "exited"


class Trouble(Exception):
    """A fault in a thread; the scheduler adds kernel, place, block and thread and raises FaultError."""

    def __init__(self, thread: "Thread", what: str, why: str = "", fix: str = "") -> None:
        self.thread, self.what, self.why, self.fix = thread, what, why, fix
        super().__init__(what)


@dataclass
class Frame:
    """What a caller gets back on return: its registers, variables and where it goes on."""

    regs: dict[str, Value]
    symbols: dict[str, Region]
    return_pc: int
    results: tuple[Any, ...]  # where the caller wants the returned parameters
    function: "CompiledFunction"


@dataclass
class CompiledFunction:
    """A function in the program: its first step, and the variables a call of it needs."""

    function: Function
    entry: int


@dataclass
class Waiting:
    """Why a thread stands still. key: threads with equal keys wait for one another.

    mask: lanes that take part (a warp operation). number, count: barrier and its thread count or None.
    operands: what the thread brings; deliver: takes the result; pc: the instruction it waits at.
    """

    key: tuple
    operands: tuple
    deliver: Callable[["Thread", Any], None]
    combine: Callable[[dict[int, "Thread"]], dict[int, Any]] | None = None
    mask: int = 0
    number: int = 0
    count: int | None = None
    pc: int = 0


@dataclass(eq=False)
class Thread:
    """One CUDA thread."""

    index: tuple[int, int, int]  # threadIdx
    lane: int
    warp: "Warp"
    memory: Memory
    regs: dict[str, Value] = field(default_factory=dict)
    symbols: dict[str, Region] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    pc: int = 0
    state: str = RUNNING
    waiting: Waiting | None = None

    def wait(self, state: str, waiting: Waiting) -> None:
        """Stand still at the present instruction (the scheduler has already set pc to the next one)."""
        waiting.pc = self.pc - 1
        self.state, self.waiting = state, waiting

    def release(self, result: Any) -> None:
        """Go on with the result of what was waited for."""
        waiting, self.waiting = self.waiting, None
        self.state = RUNNING
        waiting.deliver(self, result)


@dataclass(frozen=True)
class Step:
    """One instruction, ready to run. execute takes the threads whose guard holds.

    guard: register and the value it must have, or None. control: it may change pc or state of its threads.
    """

    instruction: Instruction
    execute: Callable[[list[Thread]], None]
    guard: tuple[str, int] | None
    control: bool


def _axis(text: str) -> int:
    return "xyz".index(text)


def special_register(name: str) -> Callable[[Thread], int] | None:
    """A reader of a special register, or None for one that this interpreter does not have."""
    base, _, axis = name.lstrip("%").partition(".")
    if base in ("tid", "ntid", "ctaid", "nctaid") and axis in ("x", "y", "z"):
        k = _axis(axis)
        return {"tid": lambda t: t.index[k], "ntid": lambda t: t.warp.block.launch.block[k],
                "ctaid": lambda t: t.warp.block.index[k], "nctaid": lambda t: t.warp.block.launch.grid[k]}[base]
    return {
        "laneid": lambda t: t.lane,
        "warpid": lambda t: t.warp.number,
        "nwarpid": lambda t: len(t.warp.block.warps),
        "WARP_SZ": lambda t: t.warp.block.launch.warp_size,
        "smid": lambda t: 0,
        "nsmid": lambda t: 1,
        "gridid": lambda t: 0,
        "lanemask_eq": lambda t: 1 << t.lane,
        "lanemask_lt": lambda t: (1 << t.lane) - 1,
        "lanemask_le": lambda t: (2 << t.lane) - 1,
        "lanemask_gt": lambda t: ~((2 << t.lane) - 1) & t.warp.block.launch.lane_mask,
        "lanemask_ge": lambda t: ~((1 << t.lane) - 1) & t.warp.block.launch.lane_mask,
        "clock": lambda t: t.warp.block.launch.steps,
        "clock64": lambda t: t.warp.block.launch.steps,
        "clock_hi": lambda t: t.warp.block.launch.steps >> 32,
        "globaltimer": lambda t: t.warp.block.launch.steps,
        "globaltimer_lo": lambda t: t.warp.block.launch.steps,
        "globaltimer_hi": lambda t: t.warp.block.launch.steps >> 32,
        "dynamic_smem_size": lambda t: t.warp.block.launch.shared_bytes,
        "total_smem_size": lambda t: t.warp.block.launch.total_shared,
    }.get(base if not axis else "")
