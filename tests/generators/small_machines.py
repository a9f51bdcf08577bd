"""Small machines, whose weights are quickly compiled, and the streams that programs make of a setup."""

from qgpu.machine.description import Machine
from qgpu_reference.machine import MachineInterpreter

SMALL = Machine("small", lanes=2, registers=3, stages=2, blocks=5, global_words=9, warps=2, chunk_bits=8, stage_load=(1, 2),
                stage_mul=(2,), stage_shift=(1,), hidden=1024)
"""Layers of hidden size 1024: small enough for the plain NumPy forward pass."""
GROUPED = Machine("grouped", lanes=2, groups=4, registers=5, register_classes=3, stages=3, blocks=6, global_words=130, shared_words=5,
                  warps=2, chunk_bits=8, stage_load=(1,), stage_mul=(2,), stage_shift=(1,), stage_bits=(2,), stage_mulhi=(3,))
"""Groups, register classes, memory in several heads, every kind of unit."""


def continued(machine: Machine, setup: list[int], most: int) -> tuple[list[int], bool]:
    """(the setup's ids and at most `most` tokens that the interpreter expects after it, whether the launch has ended)."""
    judge, ids = MachineInterpreter(machine), list(setup)
    for i in ids:
        judge.feed(i)
    while judge.running and len(ids) < len(setup) + most:
        ids.append(judge.expected)
        judge.feed(ids[-1])
    return ids, not judge.running
