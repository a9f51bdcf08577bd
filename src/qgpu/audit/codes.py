"""The code of every token, from docs/machine.md section 2 alone: which of its dims are +1. Rules V of docs/certificate.md.

A code is one dim a kind of token, in the order of the kinds; then the payload's bits, lowest first; then one that is always +1. A
payload is its fields one after another, lowest bits first; an outcome is a bit a lane that ran, then a bit a lane that took the branch.
"""

from __future__ import annotations

import numpy as np

from ..machine.description import Machine
from ..machine.tokens import KINDS, Token, Vocabulary


def bits_for(count: int) -> int:
    """Bits that tell `count` things apart, at least 1."""
    return max(1, (count - 1).bit_length())


def payload(m: Machine, token: Token) -> tuple[int, int]:
    """(number, bits) of a token's payload."""
    f = token.fields
    mask = lambda lanes: sum(1 << lane for lane in lanes)
    fields: list[tuple[int, int]] = []                     # (value, width), lowest first
    if token.kind in ("EXEC", "NEXT", "PARK"):
        fields = [(mask(i for i, o in enumerate(f[-1]) if o), m.lanes), (mask(i for i, o in enumerate(f[-1]) if o == 2), m.lanes)]
        if token.kind != "PARK":
            fields.append((f[0], m.block_bits if token.kind == "EXEC" else m.group_bits))
    elif token.kind in ("VAL", "SVAL"):
        fields = [(f[0], m.chunk_bits)]
    elif token.kind == "PROG":
        fields = [(f[1], m.block_bits), (f[0], bits_for(m.words_per_block))]
    elif token.kind == "CONFIG":
        group, lane = divmod(f[1] - 1, m.lanes)
        fields = [(f[0] - 1, m.warp_bits), (group, m.group_bits), (mask(range(lane + 1, m.lanes)), m.lanes)]
    elif token.kind in ("GRID", "BLOCK"):
        fields = [(1 << f[0], 3)]
    elif token.kind == "MEM":
        shared = f[0] >= m.global_words
        fields = [(f[0] - m.global_words * shared, m.window_bits - 2), (int(shared), 1)]
    elif token.kind == "WARP":
        fields = [(f[0], m.warp_bits), (f[1], 1), (f[2], 1)]
    elif token.kind == "INIT":
        fields = [(0, 2 * m.lanes), (f[0], m.group_bits)]
    number = shift = 0
    for value, width in fields:
        number |= value << shift
        shift += width
    return number, shift


def code_table(m: Machine) -> np.ndarray:
    """int8 (tokens, code dims), +1 and -1."""
    vocabulary = Vocabulary(m)
    tokens = [vocabulary.token(i) for i in range(vocabulary.size)]
    payloads = [payload(m, t) for t in tokens]
    width = max(w for _, w in payloads)
    numbers = np.array([n for n, _ in payloads], np.int64)
    kinds = np.array([KINDS.index(t.kind) for t in tokens])
    return np.concatenate([np.where(kinds[:, None] == np.arange(len(KINDS)), 1, -1),
                           np.where(numbers[:, None] >> np.arange(width) & 1, 1, -1),
                           np.ones((len(tokens), 1), int)], axis=1).astype(np.int8)
