"""Machines and their compiled weights for engine tests."""

from functools import cache

from small_machines import GROUPED, SMALL  # noqa: F401: for tests to import

from qgpu.compile.cache import compiled_weights
from qgpu.compile.compiler import CircuitWeights, compile_machine
from qgpu.machine.description import PRESETS, Machine


@cache
def weights(machine: Machine) -> CircuitWeights:
    return compiled_weights(machine) if machine.name in PRESETS else compile_machine(machine).weights
