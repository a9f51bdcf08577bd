"""One pass over every vocabulary row: what a choice of dims has to know about a model's embedding and head."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from .base import Base

F64 = NDArray[np.float64]
SMALLEST = 2.0 ** -30
"""Normalised embedding values below this cannot silence a layer (2^100 times them must have a square beyond 2^128)."""


@dataclass
class Survey:
    """Per residual dim, over all vocabulary rows.

    weak:      for each dim the rows (not wholly zero ones) in which the normalised embedding is too small to silence a layer;
               None for a dim with more than MANY of them.
    largest:   (D,) largest absolute normalised embedding value.
    head:      (D,) largest absolute value in the output head.
    zero_rows: how many embedding rows are wholly zero.
    """

    weak: list[list[int] | None]
    largest: F64
    head: F64
    zero_rows: int


MANY = 1000


def normalised(rows: NDArray[np.float32], eps: float) -> F64:
    """Embedding rows over their root mean square. (n, D) -> (n, D) float64."""
    wide = rows.astype(np.float64)
    return wide / np.sqrt((wide ** 2).mean(axis=1, keepdims=True) + eps)


def survey(base: Base) -> Survey:
    """Look at every row. Raises CheckpointError naming a row that holds an infinity or a NaN."""
    hidden = base.cfg.hidden_size
    weak: list[list[int] | None] = [[] for _ in range(hidden)]
    largest, head, zero_rows = np.zeros(hidden), np.zeros(hidden), 0
    for first, rows in base.rows():
        _finite(rows, first, base.embed_name, base)
        n = np.abs(normalised(rows, base.cfg.rms_norm_eps))             # (n, D)
        np.maximum(largest, n.max(axis=0), out=largest)
        blank = ~rows.any(axis=1)                                       # (n,)
        zero_rows += int(blank.sum())
        row, dim = np.nonzero((n < SMALLEST) & ~blank[:, None])
        for r, d in zip((row + first).tolist(), dim.tolist()):
            if weak[d] is not None:
                weak[d].append(r)
                if len(weak[d]) > MANY:
                    weak[d] = None
        if base.cfg.tie_word_embeddings:
            np.maximum(head, np.abs(rows).max(axis=0), out=head)
    if not base.cfg.tie_word_embeddings:
        for first, rows in base.rows(head=True):
            _finite(rows, first, base.head_name, base)
            np.maximum(head, np.abs(rows).max(axis=0), out=head)
    return Survey(weak, largest, head, zero_rows)


def _finite(rows: NDArray[np.float32], first: int, name: str, base: Base) -> None:
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        entry = base.tensors.entries[name]
        raise CheckpointError(f"tensor {name} holds an infinity or a NaN in row {first + int(np.argmax(bad))}", where=str(entry.path),
                              why="the file is damaged, or the training diverged", fix="download the checkpoint again")
