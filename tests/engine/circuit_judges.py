"""A random program on the compiled weights, token by token against the machine interpreter, memory against the PTX interpreter."""

from __future__ import annotations

import struct

from ptx_programs import RandomProgram

from qgpu.errors import LoweringError
from qgpu.lower import LaunchShape, lower
from qgpu.machine.description import Machine
from qgpu.machine.tokens import Token, Vocabulary
from qgpu.ptx import parse_ptx
from qgpu_reference.machine import MachineInterpreter
from qgpu_reference.ptx import launch as reference_launch

FREE_BELOW = 65536
"""The PTX interpreter keeps addresses below this free. Kernels here compare and store no addresses, so theirs may be moved."""


def follow(engine, setup: list[int], most: int = 1 << 20) -> tuple[list[int], MachineInterpreter]:
    """Feed a setup and what the engine writes after it, at most `most` tokens, each compared. Returns them and the judge.

    A launch that has ended leaves the interpreter's words in all of memory.
    """
    m, v = engine.machine, Vocabulary(engine.machine)
    judge = MachineInterpreter(m)
    for i in setup:
        judge.feed(i)
    token, out = engine.feed(setup), []
    while True:
        assert token == judge.expected, (f"token {len(out)} after the setup is {v.token(token)}, "
                                         f"the interpreter's {v.token(judge.expected)}")
        judge.feed(token)
        out.append(token)
        if not judge.running or len(out) >= most:
            if not judge.running:
                assert engine.read_global(m.words) == judge.memory
            return out, judge
        token = engine.feed([token])


def setup_of(m: Machine, ptx: str, launch: LaunchShape, memory: list[int]) -> list[int] | None:
    """The setup stream of a kernel; None where it takes more blocks or registers than the machine has."""
    v = Vocabulary(m)
    try:
        program = lower(parse_ptx(ptx), None, m, launch)
    except LoweringError as e:
        assert "blocks" in e.what or "registers" in e.what, e
        return None
    tokens = [Token("NOP")] * 3
    for block, words in enumerate(program.words()):
        for number, word in enumerate(words):
            tokens += [*v.value_tokens(word), Token("PROG", (number, block))]
    tokens.append(Token("CONFIG", (-(-launch.threads // m.warp_size), (launch.threads - 1) % m.warp_size + 1)))
    for axis, size in enumerate(launch.grid):
        tokens += [*v.value_tokens(size - 1), Token("GRID", (axis,))]
    for number, word in (dict(enumerate(memory)) | program.data).items():
        tokens += [*v.value_tokens(word), Token("MEM", (number,))]
    for axis in range(3):
        tokens += [*v.value_tokens(0), Token("BLOCK", (axis,))]
    return [v.id_of(t) for t in [*tokens, Token("WARP", (0, 0, 1))]]


def three_ways(engine, ptx: str, block: tuple[int, int, int], arrays: list[list[int]], scalars: list[int], blocks: int = 1) -> list[int]:
    """Circuit = machine interpreter = PTX interpreter. Parameters: arrays of words, one after the other in memory, then scalars.

    blocks: thread blocks along x. Returns the ids generated; none where the kernel does not fit.
    """
    m = engine.machine
    memory = [w & 0xFFFFFFFF for a in arrays for w in a]
    bases = [m.global_base + 4 * sum(map(len, arrays[:k])) for k in range(len(arrays))]
    setup = setup_of(m, ptx, LaunchShape((blocks, 1, 1), block, [*bases, *scalars], 0, len(memory)), memory)
    if setup is None:
        return []
    engine.reset()
    generated, judge = follow(engine, setup)
    assert judge.ended == "END"
    data = [struct.pack(f"<{len(a)}I", *(w & 0xFFFFFFFF for w in a)) for a in arrays]
    outcome = reference_launch(parse_ptx(ptx), None, blocks, block, [*data, *scalars], warp_size=m.warp_size,
                               bases=[*(b + FREE_BELOW for b in bases), *[None] * len(scalars)])
    expected = [w for a in outcome.arrays if a is not None for w in struct.unpack(f"<{len(a) // 4}I", a)]
    assert engine.read_global(len(memory)) == expected
    return generated


def random_three_ways(engine, p: RandomProgram) -> list[int]:
    """The same for a random program."""
    base = engine.machine.global_base
    assert p.addresses(base) == [base, base + 4 * len(p.inputs)]
    return three_ways(engine, p.ptx, p.block, [p.inputs, [0] * p.outputs], [p.number], p.blocks)
