"""The tokens that the host writes before the model takes over (docs/machine.md section 2, Order)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import UsageError
from ..machine.description import Machine
from ..machine.tokens import Token, Vocabulary
from .layout import Layout

LEADING_NOPS = 3
"""The convolution of the model's layers sees the last four tokens: these fill it."""


def thread_shape(threads: int, machine: Machine) -> tuple[int, int]:
    """(warps, threads in the last warp) of a thread block. Raises UsageError where it does not fit."""
    if not 1 <= threads <= machine.threads:
        raise UsageError(f"a block of {threads} threads does not fit machine {machine.name}", where="block",
                         fix=f"use 1 to {machine.threads} threads")
    warps = -(-threads // machine.lanes)
    return warps, threads - machine.lanes * (warps - 1)


def setup_tokens(machine: Machine, program: Mapping[int, Sequence[int]], threads: int, layout: Layout) -> list[int]:
    """Ids of the setup: NOPs, program words, CONFIG, memory words, WARP(0).

    program: block number -> its `machine.words_per_block` words of 32 bits.
    """
    vocabulary = Vocabulary(machine)
    out: list[Token] = [Token("NOP")] * LEADING_NOPS
    for block, words in sorted(program.items()):
        if len(words) != machine.words_per_block:
            raise ValueError(f"block {block} has {len(words)} words instead of {machine.words_per_block}")
        for number, word in enumerate(words):
            out += [*vocabulary.value_tokens(word), Token("PROG", (number, block))]
    out.append(Token("CONFIG", thread_shape(threads, machine)))
    for word in layout.used_words():
        out += [*vocabulary.value_tokens(layout.memory[word]), Token("MEM", (word,))]
    out.append(Token("WARP", (0,)))
    return [vocabulary.id_of(token) for token in out]
