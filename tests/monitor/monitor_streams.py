"""Streams for the monitor's tests: three small machine programs, written by hand, run by the reference interpreter."""

from functools import cache

from machine_programs import setup_ids

from qgpu.machine.description import ARTICLE, DEFAULT, Machine
from qgpu.machine.encoding import Block, Instruction, Register, Result, Source
from qgpu.monitor.traces import Trace
from qgpu_reference.machine import MachineInterpreter

EXIT = {m.name: m.exit_target for m in (ARTICLE, DEFAULT)}


def op(name: str, a=Source.ZERO, b=Source.ZERO, c=Source.ZERO, immediate: int = 0) -> Instruction:
    return Instruction(frozenset(name.split("+")), a, b, c, immediate & 0xFFFFFFFF)


IMM = Source.IMMEDIATE

LOOP = [  # each lane adds up its number's numbers: lanes leave the loop at different times
    Block((op("add", Source.TID), op("add", Source.ZERO)), (1, 2), 1),
    Block((op("add", Register(2), Register(1)), op("sub", Register(1), IMM, immediate=1), op("set+gt+signed", Result(2), IMM, immediate=0),
           op("add", Result(3))), (2, 1, 0, 0), 2, 1, True),
    Block((op("shl", Source.TID, IMM, immediate=2), op("add+st", Result(1), IMM, Register(2), ARTICLE.global_base + 32)), (0, 0), EXIT["article"]),
]
BARRIER = [  # shared[tid] = 3 tid; barrier; global[tid] = shared[63 - tid] - 100
    Block((op("shl", Source.TID, IMM, immediate=2), op("mul", Source.TID, IMM, immediate=3),
           op("add+st", Result(1), IMM, Result(2), DEFAULT.shared_base)), (0, 0, 0), 1, barrier=True),
    Block((None, op("xor", Source.TID, IMM, immediate=63), op("shl", Result(2), IMM, immediate=2)), (0, 0, 1), 2),
    Block((op("add+ld", Register(1), IMM, immediate=DEFAULT.shared_base), op("sub", Result(1), IMM, immediate=100),
           op("shl", Source.TID, IMM, immediate=2), op("add+st", Result(3), IMM, Result(2), DEFAULT.global_base)), (0, 0, 0, 0), EXIT["default"]),
]
TRAP = [Block((op("add+ld", Source.TID),), (1,), EXIT["article"])]


@cache
def ids_of(name: str) -> tuple[Machine, tuple[int, ...], int]:
    """(machine, stream, tokens of the host) of "loop", "barrier" or "trap"."""
    machine, blocks, threads = {"loop": (ARTICLE, LOOP, 6), "barrier": (DEFAULT, BARRIER, 64), "trap": (ARTICLE, TRAP, 4)}[name]
    setup = setup_ids(machine, blocks, threads)
    return machine, (*setup, *MachineInterpreter(machine).run(setup)), len(setup)


def trace_of(name: str) -> Trace:
    """The stream as read from a trace, with places for two blocks."""
    machine, ids, setup = ids_of(name)
    return Trace(machine, list(ids), setup, {0: f"{name}.cu:3", 1: f"{name}.cu:5-6"})
