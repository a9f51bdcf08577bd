"""Machines and their compiled weights for engine tests."""

from functools import cache

from qgpu.compile.cache import compiled_weights
from qgpu.compile.compiler import CircuitWeights, compile_machine
from qgpu.machine.description import PRESETS, Machine

SMALL = Machine("small", lanes=2, registers=3, stages=2, blocks=5, global_words=9, warps=2, chunk_bits=8, stage_load=(1, 2),
                stage_mul=(2,), stage_shift=(1,), hidden=1024)
"""Layers of hidden size 1024: small enough for the plain NumPy forward pass."""
GROUPED = Machine("grouped", lanes=2, groups=4, registers=5, register_classes=3, stages=3, blocks=6, global_words=130, shared_words=5,
                  warps=2, chunk_bits=8, stage_load=(1,), stage_mul=(2,), stage_shift=(1,), stage_bits=(2,), stage_mulhi=(3,))
"""Groups, register classes, memory in several heads."""


@cache
def weights(machine: Machine) -> CircuitWeights:
    return compiled_weights(machine) if machine.name in PRESETS else compile_machine(machine).weights
