"""The whole machine as a circuit: records, front, stages, tail."""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.description import Machine
from .control import Front, build_front
from .core import Circuit, Signal
from .records import Records, build_records
from .stage import StoreBus, build_stage, store_bus
from .tail import build_tail


@dataclass
class MachineCircuit:
    """The circuit and the signals that tools look at."""

    machine: Machine
    circuit: Circuit
    records: Records
    front: Front
    results: list[list[list[Signal]]]   # [stage][lane][bit]
    bus: StoreBus
    next_code: list[Signal]


def build_machine(m: Machine) -> MachineCircuit:
    """Build every unit and memory head of machine m."""
    c = Circuit()
    records = build_records(c, m)
    front = build_front(c, m, records)
    bus = store_bus(c, m)
    results: list[list[list[Signal]]] = []
    operands: tuple[Signal, ...] = ()
    for number in range(1, m.stages + 1):
        result, operands = build_stage(c, m, records, front, number, results, bus, operands)
        results.append(result)
    next_code = build_tail(c, m, records, front, results, bus)
    return MachineCircuit(m, c, records, front, results, bus, next_code)
