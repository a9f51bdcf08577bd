"""Where the machine's memory words lie in the recurrent states."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..machine.description import WORD
from .tensors import CONST_DIMS


def memory_banks(head_kinds: Iterable[Iterable[str]]) -> list[tuple[int, int]]:
    """(layer index, head) of the heads that hold one whole copy of memory, in order of words: head_dim - 2 words each.

    head_kinds: names of the heads, layer by layer. Raises CheckpointError where there are none.
    """
    copies: dict[str, dict[int, tuple[int, int]]] = {}
    for i, kinds in enumerate(head_kinds):
        for h, kind in enumerate(kinds):
            name, _, bank = kind.rpartition(".memory")
            if name and bank.isdigit():
                copies.setdefault(name, {})[int(bank)] = (i, h)
    if not copies:
        raise CheckpointError("this circuit has no memory heads")
    first = next(iter(copies.values()))
    return [first[bank] for bank in sorted(first)]


def read_words(banks: list[tuple[int, int]], words: int, state_of: Callable[[int, int], NDArray], one: float) -> list[int]:
    """The first `words` words, 32-bit unsigned.

    state_of(layer, head): that head's state (rows, dims); a bit that is 1 is held as `one`.
    """
    out: list[int] = []
    for layer, head in banks:
        state = state_of(layer, head)
        rows = state[:min(len(state) - 2, words - len(out)), CONST_DIMS:CONST_DIMS + WORD]     # (rows, 32)
        bits = np.rint(rows / one).astype(np.uint64)
        out += (bits << np.arange(WORD, dtype=np.uint64)).sum(1).tolist()
        if len(out) >= words:
            break
    return out
