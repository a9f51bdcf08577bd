"""Choosing the next token from logits: greedy, or by temperature, top-k, top-p and a repetition penalty, with a seed.

The steps and their order are those of transformers' generation: repetition penalty, temperature, top-k, top-p.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qgpu.errors import UsageError

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Sampling:
    """How to choose. temperature 0 is greedy. top_k 0 and top_p 1 switch those off; seed None draws a fresh one."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for holds, what in (
            (0 <= self.temperature < float("inf"), "temperature must be 0 or more"),
            (self.top_k >= 0, "top_k must be 0 or more"),
            (0 < self.top_p <= 1, "top_p must be above 0 and at most 1"),
            (0 < self.repetition_penalty < float("inf"), "repetition_penalty must be above 0"),
        ):
            if not holds:
                raise UsageError(what)


class Sampler:
    """Draws tokens one after another. suppress: token ids that are never chosen."""

    def __init__(self, how: Sampling | None = None, suppress: Iterable[int] = ()) -> None:
        self.how = how or Sampling()
        self.suppress = np.fromiter(suppress, np.int64)
        self.random = np.random.default_rng(self.how.seed)

    def choose(self, logits: F32, seen: Iterable[int] = ()) -> int:
        """A token id from logits (vocab,). seen: the ids so far, for the repetition penalty. Ties go to the lowest id."""
        scores = self._scores(logits, seen)
        if self.how.temperature == 0:
            return int(scores.argmax())
        with np.errstate(over="ignore"):                       # a tiny temperature sends all but the best to -inf
            scores = (scores - scores.max()) / self.how.temperature
        reached = np.cumsum(probabilities(scores, self.how.top_k, self.how.top_p))
        return int(np.searchsorted(reached, self.random.random() * reached[-1], side="right"))

    def _scores(self, logits: F32, seen: Iterable[int]) -> NDArray[np.float64]:
        scores = logits.astype(np.float64)
        if self.how.repetition_penalty != 1.0:
            ids = np.unique(np.fromiter(seen, np.int64))
            old = scores[ids]
            penalty = self.how.repetition_penalty
            scores[ids] = np.where(old < 0, old * penalty, old / penalty)
        scores[self.suppress] = -np.inf
        return scores


def probabilities(scores: NDArray[np.float64], top_k: int = 0, top_p: float = 1.0) -> NDArray[np.float64]:
    """Softmax over what top-k and top-p keep; 0 elsewhere. scores: (vocab,) -> (vocab,), which sums to 1.

    top-k keeps every token that scores at least as much as the k-th. top-p keeps the fewest best tokens whose
    probabilities reach p.
    """
    scores = scores.copy()
    if 0 < top_k < scores.size:
        least = np.partition(scores, -top_k)[-top_k]
        scores[scores < least] = -np.inf
    if top_p < 1.0:
        order = np.argsort(-scores, kind="stable")
        before = np.cumsum(_softmax(scores)[order]) - _softmax(scores)[order]  # what the better tokens already hold
        scores[order[before >= top_p]] = -np.inf
    return _softmax(scores)


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(scores - scores.max())
    return e / e.sum()
