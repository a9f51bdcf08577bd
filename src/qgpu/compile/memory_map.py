"""Where the machine's memory words lie in the recurrent states."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..machine.description import WORD
from .tensors import CONST_DIMS


def memory_head(head_kinds: Iterable[Iterable[str]]) -> tuple[int, int]:
    """(layer index, head) of the first head that holds a copy of global memory. head_kinds: names of the heads, by layer."""
    return next((i, h) for i, kinds in enumerate(head_kinds) for h, kind in enumerate(kinds) if kind.endswith(".memory"))


def read_words(state: NDArray, words: int, one: float) -> list[int]:
    """The first `words` words of a memory head's state (rows, dims), 32-bit unsigned; a bit that is 1 is held as `one`."""
    bits = np.rint(state[:words, CONST_DIMS:CONST_DIMS + WORD] / one).astype(np.uint64)      # (words, 32)
    return (bits << np.arange(WORD, dtype=np.uint64)).sum(1).tolist()
