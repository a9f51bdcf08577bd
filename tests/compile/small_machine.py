"""Machines that compile in seconds, compiled once."""

from functools import cache

from qgpu.compile.compiler import Compiled, compile_machine
from qgpu.machine.description import Machine

SMALL = Machine("small", lanes=2, registers=3, stages=2, blocks=5, global_words=9, warps=2, chunk_bits=8, stage_load=(1, 2),
                stage_mul=(2,), stage_shift=(1,), hidden=1024)
"""At hidden size 1024 four constant dims set the norm, at 2048 two."""
GROUPED = Machine("grouped", lanes=2, groups=4, registers=5, register_classes=3, stages=3, blocks=6, global_words=130, shared_words=5,
                  warps=2, chunk_bits=8, stage_load=(1,), stage_mul=(2,), stage_shift=(1,), stage_bits=(2,), stage_mulhi=(3,))
"""Groups, register classes, memory in several heads, operands that wait for those of the stage before."""
MACHINES = {m.name: m for m in (SMALL, GROUPED)}


@cache
def compiled(name: str = "small") -> Compiled:
    return compile_machine(MACHINES[name])
