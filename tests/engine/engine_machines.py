"""Machines and their compiled weights for engine tests."""

from functools import cache

from qgpu.compile.cache import compiled_weights
from qgpu.compile.compiler import CircuitWeights, compile_machine
from qgpu.machine.description import ARTICLE, Machine

SMALL = Machine("small", lanes=2, registers=3, stages=2, blocks=5, global_words=9, warps=2, chunk_bits=8, stage_mul=(2,),
                stage_shift=(1,), hidden=1024)
"""Layers of hidden size 1024: small enough for the plain NumPy forward pass."""


@cache
def weights(machine: Machine) -> CircuitWeights:
    return compiled_weights(machine) if machine == ARTICLE else compile_machine(machine).weights
