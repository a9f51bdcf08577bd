"""What passes from one pass to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..machine.description import Machine
from ..ptx.model import Instruction, Kernel, Module
from .ir import Function
from .launch import LaunchShape


@dataclass(frozen=True)
class Refusal:
    """An instruction that cannot be lowered, and why. ins None: found after translation, `where` says the place."""

    ins: Instruction | None
    reason: str
    where: str = ""
    line: int = 0


@dataclass
class Unit:
    """One kernel on its way from PTX to machine blocks."""

    module: Module
    kernel: Kernel
    machine: Machine
    launch: LaunchShape
    parameters: bytes
    function: Function = field(default_factory=lambda: Function(""))
    refusals: list[Refusal] = field(default_factory=list)
