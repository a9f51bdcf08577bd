"""The compiler, stage by stage: machine, circuit, schedule, residual dims, tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..circuit.core import Signal
from ..circuit.machine import MachineCircuit, build_machine
from ..circuit.output import OUT_SCALE as CODE_SCALE
from ..circuit.records import code_table
from ..errors import CompileError
from ..machine.description import Machine
from .exactness import check_circuit, check_layers, check_reuse, refuse
from .layout import Layout, lay_out
from .schedule import Schedule, schedule
from .signal_map import MapWriter, pack
from .tensors import RESIDUAL_CONSTANT, CompiledLayer, write_layers


@dataclass
class CircuitWeights:
    """The circuit as numbers alone: what an engine needs and a checkpoint holds.

    codes: (vocabulary, code dims) int8, +1 or -1. constants, reserved, code_dims: residual dims. packed_map: the signal map
    (`signal_map.unpack`); empty where weights were read from a checkpoint. key: what the cache knows them by; "" where it does not, and
    in a copy with other weights, which must not be given the cached tables of these.
    """

    machine: Machine
    layers: list[CompiledLayer]
    codes: np.ndarray
    code_dims: list[int]
    constants: list[int]
    reserved: list[int]
    packed_map: bytes = b""
    key: str = ""

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


@dataclass
class Scheduled:
    """A proved circuit in layers, before it has tensors. parts: least and greatest value of signals on the way to their sums."""

    circuit: MachineCircuit
    parts: dict[Signal, tuple[float, float]]
    schedule: Schedule

    def lay_out(self) -> Layout:
        """Residual dims of every signal. Raises CompileError where they run out."""
        mc = self.circuit
        return lay_out(mc.circuit, mc.machine, self.schedule, mc.records.code, set(mc.next_code))

    def check(self, layers: list[CompiledLayer], layout: Layout) -> None:
        """Raise CompileError where the written layers exceed the budget or would not be exact."""
        m = self.circuit.machine
        if len(layers) + 1 > m.max_layers:
            raise CompileError(f"machine {m.name} needs {len(layers)} layers", why=f"the budget is {m.max_layers - 1} and one of attention")
        refuse(m, check_reuse(layout, self.parts) + check_layers(m, layers, layout.constants))


def scheduled(m: Machine, window: int, spare_units: int) -> Scheduled:
    """Build machine m's circuit, prove it exact and give its ops layers. Raises CompileError."""
    mc = build_machine(m.validate())
    parts: dict[Signal, tuple[float, float]] = {}
    refuse(m, check_circuit(mc, parts))
    return Scheduled(mc, parts, schedule(mc.circuit, m, set(mc.next_code), window=window, spare_units=spare_units))


def compile_machine(m: Machine, *, window: int = 1, spare_units: int = 126) -> Compiled:
    """Compile machine m. Raises CompileError where ranges break exactness or a budget does not suffice."""
    plan = scheduled(m, window, spare_units)
    mc, layout = plan.circuit, plan.lay_out()
    layers = write_layers(mc.circuit, m, plan.schedule, layout)
    plan.check(layers, layout)
    code_dims = [layout.dim_of[s] for s in mc.records.code]
    residual = {"constants": layout.constants, "silence": [[d, 1.0] for d in layout.reserved], "code": code_dims, "ones": [],
                "ballast": None, "scale": 1.0, "gain": 1.0, "exponent": CODE_SCALE.bit_length() - 1}
    signals = MapWriter(m, mc.circuit, layout, residual, mc.records.code, mc.next_code, plan.parts)
    weights = CircuitWeights(m, layers, np.asarray(code_table(m), np.int8),
                             code_dims, layout.constants, layout.reserved, pack(signals.build([x.made_from for x in layers])))
    return Compiled(weights, mc, plan.schedule, layout)
