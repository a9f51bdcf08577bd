"""The tokens that the host writes before the model takes over (docs/machine.md section 2, Order)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..machine.description import AXES, Machine
from ..machine.tokens import Token, Vocabulary

LEADING_NOPS = 3
"""The convolution of the model's layers sees the last four tokens: these fill it."""


def thread_shape(threads: int, machine: Machine) -> tuple[int, int]:
    """(warps, threads in the last warp) of a thread block."""
    warps = -(-threads // machine.warp_size)
    return warps, threads - machine.warp_size * (warps - 1)


def setup_tokens(machine: Machine, program: Mapping[int, Sequence[int]], grid: Sequence[int], threads: int,
                 memory: Mapping[int, int]) -> list[int]:
    """Ids of the setup: NOPs, program words, CONFIG, the grid, memory words, the first thread block's index, WARP.

    program: block number -> its `machine.words_per_block` words of 32 bits. grid: thread blocks along x, y, z.
    threads: in a thread block. memory: word number -> what it holds at the start.
    Raises ValueError for sizes and words that the machine does not have.
    """
    vocabulary = Vocabulary(machine)
    out: list[Token] = [Token("NOP")] * LEADING_NOPS
    for block, words in sorted(program.items()):
        if len(words) != machine.words_per_block:
            raise ValueError(f"block {block} has {len(words)} words instead of {machine.words_per_block}")
        for number, word in enumerate(words):
            out += [*vocabulary.value_tokens(word), Token("PROG", (number, block))]
    out.append(Token("CONFIG", thread_shape(threads, machine)))
    for axis, size in enumerate(grid):
        out += [*vocabulary.value_tokens(size - 1), Token("GRID", (axis,))]
    for word, value in sorted(memory.items()):
        out += [*vocabulary.value_tokens(value), Token("MEM", (word,))]
    for axis in range(len(AXES)):
        out += [*vocabulary.value_tokens(0), Token("BLOCK", (axis,))]
    out.append(Token("WARP", (0, 0, 1)))
    return [vocabulary.id_of(token) for token in out]
