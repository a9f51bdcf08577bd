"""The compiler, stage by stage: machine, circuit, schedule, residual dims, tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..circuit.core import Signal
from ..circuit.machine import MachineCircuit, build_machine
from ..circuit.records import code_table
from ..errors import CompileError
from ..machine.description import Machine
from .exactness import check_circuit, check_layers, check_reuse, refuse
from .layout import Layout, lay_out
from .schedule import Schedule, schedule
from .tensors import RESIDUAL_CONSTANT, CompiledLayer, write_layers

@dataclass
class CircuitWeights:
    """The circuit as numbers alone: what an engine needs and a checkpoint holds.

    codes: (vocabulary, code dims) int8, +1 or -1. constants, reserved, code_dims: residual dims.
    """

    machine: Machine
    layers: list[CompiledLayer]
    codes: np.ndarray
    code_dims: list[int]
    constants: list[int]
    reserved: list[int]

    def embedding(self) -> np.ndarray:
        """float32 (vocabulary, D): the code on the code dims, 2^20 on the constant dims, 0 elsewhere."""
        e = np.zeros((len(self.codes), self.machine.hidden), np.float32)
        e[:, self.code_dims] = self.codes
        e[:, self.constants] = RESIDUAL_CONSTANT
        return e


@dataclass
class Compiled:
    """The weights, and the named objects they came from."""

    weights: CircuitWeights
    circuit: MachineCircuit
    schedule: Schedule
    layout: Layout


def compile_machine(m: Machine, *, window: int = 1, spare_units: int = 126) -> Compiled:
    """Compile machine m. Raises CompileError where ranges break exactness or a budget does not suffice."""
    mc = build_machine(m.validate())
    parts: dict[Signal, tuple[float, float]] = {}
    refuse(m, check_circuit(mc, parts))
    keep = set(mc.next_code)
    sched = schedule(mc.circuit, m, keep, window=window, spare_units=spare_units)
    layout = lay_out(mc.circuit, m, sched, mc.records.code, keep)
    layers = write_layers(mc.circuit, m, sched, layout)
    if len(layers) + 1 > m.max_layers:
        raise CompileError(f"machine {m.name} needs {len(layers)} layers", why=f"the budget is {m.max_layers - 1} and one of attention")
    refuse(m, check_reuse(layout, parts) + check_layers(m, layers, layout.constants))
    weights = CircuitWeights(m, layers, np.asarray(code_table(m), np.int8),
                             [layout.dim_of[s] for s in mc.records.code], layout.constants, layout.reserved)
    return Compiled(weights, mc, sched, layout)
