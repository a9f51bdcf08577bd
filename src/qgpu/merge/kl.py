"""How far a merged model's next-token distributions are from its base's: Kullback-Leibler divergences and single bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..qwen import Model
from .model import Merged

F64 = NDArray[np.float64]
TEXTS = (
    "A river that has run in one bed for ten thousand years will, in a single wet spring, find another way to the sea.",
    "def mean(values):\n    \"\"\"Arithmetic mean of a list that is not empty.\"\"\"\n    return sum(values) / len(values)\n",
    "Question: a train leaves at 7:45 and arrives at 11:20. How long is the journey?\nAnswer: 3 hours and 35 minutes.",
    "Zwei Dinge braucht ein guter Kaffee: frisch gemahlene Bohnen und Geduld. 良い一日を。 Bonne journée.",
)
"""Built-in texts: prose, code, arithmetic, other languages."""


@dataclass
class Comparison:
    """tokens compared; mean and largest KL(base || merged) in nats: over the base's vocabulary, over the merged one, and over the
    merged one with machine tokens suppressed as generation_config.json says. different: logits that differ in any bit.
    """

    tokens: int = 0
    logits: int = 0
    different: int = 0
    base_mean: float = 0.0
    base_max: float = 0.0
    extended_mean: float = 0.0
    extended_max: float = 0.0
    suppressed_mean: float = 0.0
    suppressed_max: float = 0.0


def log_softmax(logits: F64) -> F64:
    """Over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def compare(base: Model, merged: Merged, texts: Iterable[Sequence[int]], *, skip: bool = False, most: int = 256) -> Comparison:
    """Compare on texts given as token ids. skip: let text skip the circuit's layers; by default it runs through all.

    Each text is read in pieces of `most` tokens (caches go on), so that logits of large vocabularies fit in memory.
    """
    out, sums = Comparison(), np.zeros(3)
    model, v = merged.text if skip else merged.model, merged.first
    left = np.ones(merged.model.cfg.vocab_size, bool)                       # what suppression leaves of the machine's tokens
    left[[i for i in merged.model.suppress if i >= v]] = False
    for ids in texts:
        ours, theirs = model.new_cache(), base.new_cache()
        for at in range(0, len(ids), most):
            a = base.forward(ids[at:at + most], theirs)                     # (n, V)
            b = model.forward(ids[at:at + most], ours)                      # (n, V + M)
            out.tokens += len(a)
            out.logits += a.size
            out.different += int((a.view(np.uint32) != np.ascontiguousarray(b[:, :v]).view(np.uint32)).sum())
            p, b = log_softmax(a.astype(np.float64)), b.astype(np.float64)
            for k, (name, part) in enumerate((("base", b[:, :v]), ("extended", b), ("suppressed", b[:, left]))):
                q = log_softmax(np.ascontiguousarray(part))[:, :v]          # (n, V)
                kl = (np.exp(p) * (p - q)).sum(axis=1)                      # (n,)
                sums[k] += kl.sum()
                setattr(out, f"{name}_max", max(getattr(out, f"{name}_max"), float(kl.max())))
    if out.tokens:
        out.base_mean, out.extended_mean, out.suppressed_mean = (sums / out.tokens).tolist()
    return out
