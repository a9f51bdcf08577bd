"""A random program on the compiled weights, token by token against the machine interpreter, memory against the PTX interpreter."""

from __future__ import annotations

import struct

from ptx_programs import RandomProgram

from qgpu.errors import LoweringError
from qgpu.lower import LaunchShape, lower
from qgpu.machine.description import ARTICLE
from qgpu.machine.tokens import Token, Vocabulary
from qgpu.ptx import parse_ptx
from qgpu_reference.machine import MachineInterpreter
from qgpu_reference.ptx import launch as reference_launch

VOCABULARY = Vocabulary(ARTICLE)


def follow(engine, setup: list[int], most: int = 1 << 20) -> tuple[list[int], MachineInterpreter]:
    """Feed a setup and what the engine writes after it, at most `most` tokens, each compared. Returns them and the judge."""
    judge = MachineInterpreter(ARTICLE)
    for i in setup:
        judge.feed(i)
    token, out = engine.feed(setup), []
    while True:
        assert token == judge.expected, (f"token {len(out)} after the setup is {VOCABULARY.token(token)}, "
                                         f"the interpreter's {VOCABULARY.token(judge.expected)}")
        judge.feed(token)
        out.append(token)
        if not judge.running or len(out) >= most:
            if not judge.running:
                assert engine.read_global(ARTICLE.global_words) == judge.memory
            return out, judge
        token = engine.feed([token])


def setup_of(ptx: str, threads: int, parameters: list[int], memory: list[int]) -> list[int] | None:
    """The setup stream of a kernel; None where it takes more blocks or registers than the machine has."""
    m, v = ARTICLE, VOCABULARY
    try:
        program = lower(parse_ptx(ptx), None, m, LaunchShape((1, 1, 1), (threads, 1, 1), parameters))
    except LoweringError as e:
        assert "blocks" in e.what or "registers" in e.what, e
        return None
    tokens = [Token("NOP")] * 3
    for block, words in enumerate(program.words()):
        for number, word in enumerate(words):
            tokens += [*v.value_tokens(word), Token("PROG", (number, block))]
    tokens.append(Token("CONFIG", (-(-threads // m.lanes), (threads - 1) % m.lanes + 1)))
    for number, word in enumerate(memory):
        tokens += [*v.value_tokens(word), Token("MEM", (number,))]
    return [v.id_of(t) for t in [*tokens, Token("WARP", (0,))]]


def three_ways(engine, ptx: str, threads: int, arrays: list[list[int]], scalars: list[int]) -> list[int]:
    """Circuit = machine interpreter = PTX interpreter. Parameters: arrays of words, one after the other in memory, then scalars.

    Returns the ids generated; none where the kernel does not fit.
    """
    memory = [w & 0xFFFFFFFF for a in arrays for w in a]
    bases = [ARTICLE.global_base + 4 * sum(map(len, arrays[:k])) for k in range(len(arrays))]
    setup = setup_of(ptx, threads, [*bases, *scalars], memory)
    if setup is None:
        return []
    engine.reset()
    generated, judge = follow(engine, setup)
    assert judge.ended == "END"
    data = [struct.pack(f"<{len(a)}I", *(w & 0xFFFFFFFF for w in a)) for a in arrays]
    outcome = reference_launch(parse_ptx(ptx), None, 1, threads, [*data, *scalars], warp_size=4, bases=[*bases, *[None] * len(scalars)])
    expected = [w for a in outcome.arrays if a is not None for w in struct.unpack(f"<{len(a) // 4}I", a)]
    assert engine.read_global(len(memory)) == expected
    return generated


def random_three_ways(engine, p: RandomProgram) -> list[int]:
    """The same for a random program."""
    assert p.addresses == [ARTICLE.global_base, ARTICLE.global_base + 4 * len(p.inputs)]
    return three_ways(engine, p.ptx, p.threads, [p.inputs, [0] * p.outputs], [p.number])
