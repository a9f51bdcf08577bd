"""What passes from one pass to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..machine.description import Machine
from ..ptx.model import Kernel, Module
from ..ptx.opcodes import Unsupported
from .ir import Function
from .launch import LaunchShape
from .variables import Variables


class Refused(Exception):
    """An instruction cannot be lowered, for the reason that the text gives; translation collects these."""


@dataclass
class Unit:
    """One kernel on its way from PTX to machine blocks."""

    module: Module
    kernel: Kernel
    machine: Machine
    launch: LaunchShape
    parameters: bytes
    variables: Variables
    function: Function = field(default_factory=lambda: Function(""))
    refusals: list[Unsupported] = field(default_factory=list)
