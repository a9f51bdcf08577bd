"""The compiler, stage by stage: machine, circuit, schedule, residual dims, tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..circuit.machine import MachineCircuit, build_machine
from ..circuit.records import code_table
from ..errors import CompileError
from ..machine.description import Machine
from .layout import Layout, lay_out
from .schedule import Schedule, schedule
from .tensors import RESIDUAL_CONSTANT, CompiledLayer, write_layers

MAX_LAYERS = 40


@dataclass
class Compiled:
    """Everything the compiler knows: tensors, and the named objects they came from."""

    machine: Machine
    layers: list[CompiledLayer]
    codes: np.ndarray            # (vocabulary, code dims) int8, +1 or -1
    code_dims: list[int]
    circuit: MachineCircuit
    schedule: Schedule
    layout: Layout


def compile_machine(m: Machine, *, window: int = 2, spare_units: int = 126) -> Compiled:
    """Compile machine m. Raises CompileError where ranges break exactness or a budget does not suffice."""
    mc = build_machine(m.validate())
    keep = set(mc.next_code)
    sched = schedule(mc.circuit, m, keep, window=window, spare_units=spare_units)
    layout = lay_out(mc.circuit, m, sched, mc.records.code, keep)
    layers = write_layers(mc.circuit, m, sched, layout)
    if len(layers) + 1 > MAX_LAYERS:
        raise CompileError(f"machine {m.name} needs {len(layers)} layers", why=f"the budget is {MAX_LAYERS - 1} and one of attention")
    codes = np.asarray(code_table(m), np.int8)
    return Compiled(m, layers, codes, [layout.dim_of[s] for s in mc.records.code], mc, sched, layout)


def embedding(compiled: Compiled) -> np.ndarray:
    """float32 (vocabulary, D): the code on the code dims, 2^20 on the constant dims, 0 elsewhere."""
    e = np.zeros((len(compiled.codes), compiled.machine.hidden), np.float32)
    e[:, compiled.code_dims] = compiled.codes
    e[:, compiled.layout.constants] = RESIDUAL_CONSTANT
    return e
