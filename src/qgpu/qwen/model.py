"""A loaded model: forward, caches, generation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qgpu.errors import UsageError
from qgpu.qwen.cache import Cache, new_cache
from qgpu.qwen.config import Config
from qgpu.qwen.fast import FastModel
from qgpu.qwen.hooks import Hook
from qgpu.qwen.sampling import Sampler, Sampling
from qgpu.qwen.weights import Weights

F32 = NDArray[np.float32]


@dataclass
class Model:
    """A Qwen3.5 text model. folder: where it was loaded from, if from anywhere.

    stop: token ids that end a generation. suppress: token ids that are never generated.
    """

    cfg: Config
    weights: Weights
    folder: Path | None = None
    strict: bool = False
    stop: tuple[int, ...] = ()
    suppress: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.fast = FastModel(self.cfg, self.weights, strict=self.strict)

    def new_cache(self) -> Cache:
        """An empty cache. ``cache.copy()`` forks it."""
        return new_cache(self.cfg)

    def forward(
        self, ids: Sequence[int] | NDArray, cache: Cache | None = None, *, hook: Hook | None = None, last: bool = False
    ) -> F32:
        """Logits after each token. ids: n token ids -> (n, vocab) float32, or (1, vocab) with ``last``.

        With a cache, the tokens follow those it has seen, and it is updated. hook: see :mod:`qgpu.qwen.hooks`.
        Raises UsageError for an id outside the vocabulary, or no ids at all.
        """
        return self.fast.forward(self._checked(ids), cache, hook=hook, last=last)

    def generate(
        self,
        ids: Sequence[int] | NDArray,
        max_new_tokens: int,
        *,
        sampling: Sampling | None = None,
        stop: Iterable[int] | None = None,
        cache: Cache | None = None,
        hook: Hook | None = None,
    ) -> list[int]:
        """The tokens that follow ids, greedily unless ``sampling`` says otherwise; see ``stream``."""
        return list(self.stream(ids, max_new_tokens, sampling=sampling, stop=stop, cache=cache, hook=hook))

    def stream(
        self,
        ids: Sequence[int] | NDArray,
        max_new_tokens: int,
        *,
        sampling: Sampling | None = None,
        stop: Iterable[int] | None = None,
        cache: Cache | None = None,
        hook: Hook | None = None,
    ) -> Iterator[int]:
        """Generate one token id at a time, a stop token included as the last one.

        stop replaces the model's own stop tokens. cache: continues what it has seen; afterwards it has seen ids and
        every token yielded but the last.
        """
        stops = frozenset(self.stop if stop is None else stop)
        sampler = Sampler(sampling, self.suppress)
        cache = self.new_cache() if cache is None else cache
        fresh = self._checked(ids)
        seen = fresh.tolist()
        for _ in range(max_new_tokens):
            logits = self.fast.forward(fresh, cache, hook=hook, last=True)[0]  # (vocab,)
            token = sampler.choose(logits, seen)
            yield token
            if token in stops:
                return
            seen.append(token)
            fresh = np.array([token])

    def _checked(self, ids: Sequence[int] | NDArray) -> NDArray[np.int64]:
        array = np.asarray(ids)
        if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
            raise UsageError("token ids must be a non-empty list of whole numbers")
        if array.min() < 0 or array.max() >= self.cfg.vocab_size:
            bad = int(array.min() if array.min() < 0 else array.max())
            raise UsageError(f"token id {bad} is outside the vocabulary of {self.cfg.vocab_size}")
        return array.astype(np.int64)
