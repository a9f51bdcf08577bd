"""A machine that compiles in two seconds, compiled once."""

from functools import cache

from qgpu.compile.compiler import Compiled, compile_machine
from qgpu.machine.description import Machine

SMALL = Machine("small", lanes=2, registers=3, stages=2, blocks=5, global_words=9, warps=2, chunk_bits=8, stage_mul=(2,),
                stage_shift=(1,), hidden=1024)
"""At hidden size 1024 four constant dims set the norm, at 2048 two."""


@cache
def compiled() -> Compiled:
    return compile_machine(SMALL)
