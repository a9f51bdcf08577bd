"""A merged checkpoint at work: text that skips the circuit's layers, launches that skip the model's, or everything through all.

Skipping gives the same tokens by what the merge proved: on text the circuit's layers add exactly 0; on machine tokens the
model's own layers cannot change the argmax.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..compile.compiler import CircuitWeights
from ..compile.memory_map import memory_banks, read_words
from ..compile.tensors import SCALE
from ..engine.sparse import SparseEngine
from ..errors import FaultError, UsageError
from ..machine.description import Machine
from ..qwen import Model, Sampling, load as load_model
from ..qwen.cache import Cache, LinearCache, new_linear_cache
from ..qwen.weights import Weights
from .sidecar import NAME as SIDECAR
from .sidecar import Sidecar

F32 = NDArray[np.float32]


@dataclass
class Merged:
    """A loaded merged checkpoint. model: all layers. first: id of the machine's token 0. layers: how many are the circuit's."""

    folder: Path
    model: Model
    sidecar: Sidecar

    @property
    def machine(self) -> Machine:
        return self.sidecar.machine

    @property
    def first(self) -> int:
        return self.sidecar.first

    @property
    def layers(self) -> int:
        return len(self.sidecar.layers)

    @cached_property
    def weights(self) -> CircuitWeights:
        """The circuit as numbers, read back from the checkpoint's tensors."""
        return self.sidecar.weights(self.model.weights)

    @cached_property
    def text(self) -> Model:
        """The model without the circuit's layers: the same logits on text, over the merged vocabulary."""
        m, n = self.model, self.layers
        cfg = dataclasses.replace(m.cfg, num_hidden_layers=m.cfg.num_hidden_layers - n, layer_types=m.cfg.layer_types[n:])
        w = Weights(m.weights.embed, m.weights.layers[n:], m.weights.norm, m.weights.head)
        return Model(cfg, w, m.folder, m.strict, m.stop, m.suppress)

    @cached_property
    def memory(self) -> list[tuple[int, int]]:
        """(layer, head) of the banks of one copy of memory."""
        return memory_banks(facts["head_kinds"] for facts in self.sidecar.layers)

    def conversation(self, *, full: bool = False) -> "Conversation":
        """A new one. full: everything runs through all layers."""
        return Conversation(self, full)

    def engine(self, *, full: bool = False) -> "SparseEngine | FullEngine":
        """An engine (runtime.engine_api.Engine) for launches apart from any text."""
        return self.conversation(full=full).engine()


def load(folder: str | Path, *, strict: bool = False) -> Merged:
    """A merged checkpoint. Raises CheckpointError where it is damaged or no merged one."""
    sidecar = Sidecar(folder)
    return Merged(Path(folder), load_model(folder, strict=strict), sidecar)


def load_text(model: str | Path) -> Model:
    """The model that writes text: a folder's or a hub model's; of a merged checkpoint, without the circuit, which adds nothing to text.

    Raises UsageError or CheckpointError.
    """
    if os.path.isfile(os.path.join(model, SIDECAR)):          # False, too, for a name that no file can have
        return load(model).text
    return load_model(model)


class FullEngine:
    """Machine tokens through all layers, the next one the argmax over the whole vocabulary. Implements runtime.engine_api.Engine."""

    kind = "full"

    def __init__(self, merged: Merged, cache: Cache) -> None:
        self.merged, self.machine, self.cache = merged, merged.machine, cache

    def feed(self, ids: Sequence[int]) -> int:
        """Consume machine token ids; the machine token that comes next. Raises FaultError where a text token does."""
        first = self.merged.first
        logits = self.merged.model.forward(np.asarray(ids, np.int64) + first, self.cache, last=True)[0]   # (vocab,)
        best = int(np.argmax(logits))
        if best < first:
            raise FaultError(f"the model wrote text (token {best}) in a launch", where=f"position {self.cache.position - 1}",
                             why="the token stream is not one that a launch produces, or the checkpoint is damaged")
        return best - first

    def read_global(self, words: int) -> list[int]:
        """Global memory's first words, 32-bit unsigned, from the recurrent state."""
        return read_words(self.merged.memory, words, lambda layer, head: self.cache.layers[layer].state[head], SCALE)

    def fork(self) -> "FullEngine":
        """A second stream that continues from here."""
        return FullEngine(self.merged, self.cache.copy())

    def reset(self) -> None:
        """Empty recurrent and conv states."""
        self.cache = self.merged.model.new_cache()


class Conversation:
    """Text with launches in between. The text does not see them; the machine's memory stays from one launch to the next.

    A launch reads the conversation through copies of the model's own caches, which are dropped afterwards; the circuit's
    states are the conversation's. Not for two threads at once.
    """

    def __init__(self, merged: Merged, full: bool = False) -> None:
        self.merged, self.full = merged, full
        self.cache = merged.text.new_cache()
        self.circuit: list[LinearCache] = [new_linear_cache(merged.model.cfg) for _ in range(merged.layers)] if full else []
        self._skipping: SparseEngine | None = None

    def fork(self) -> "Conversation":
        """A second conversation that continues from here, its machine included."""
        other = Conversation.__new__(Conversation)
        other.merged, other.full, other.cache = self.merged, self.full, self.cache.copy()
        other.circuit = [c.copy() for c in self.circuit]
        other._skipping = self._skipping.fork() if self._skipping else None
        return other

    def _whole(self, own: Cache) -> Cache:
        """One cache for all layers, made of the circuit's entries and `own`'s."""
        return Cache([*self.circuit, *own.layers], own.position)

    def forward(self, ids: Sequence[int] | NDArray, *, last: bool = False) -> F32:
        """Logits after each text token, (n, vocab) float32 over the merged vocabulary. Raises UsageError for a machine token."""
        ids = self._text_ids(ids)
        if not self.full:
            return self.merged.text.forward(ids, self.cache, last=last)
        whole = self._whole(self.cache)
        logits = self.merged.model.forward(ids, whole, last=last)
        self.cache.position = whole.position
        return logits

    def generate(self, ids: Sequence[int] | NDArray, max_new_tokens: int, *, sampling: Sampling | None = None,
                 stop: Iterable[int] | None = None) -> list[int]:
        """The text that follows ids; machine tokens are suppressed. As qgpu.qwen.Model.generate."""
        ids = self._text_ids(ids)
        if not self.full:
            return self.merged.text.generate(ids, max_new_tokens, sampling=sampling, stop=stop, cache=self.cache)
        whole = self._whole(self.cache)
        out = self.merged.model.generate(ids, max_new_tokens, sampling=sampling, stop=stop, cache=whole)
        self.cache.position = whole.position
        return out

    def engine(self) -> "SparseEngine | FullEngine":
        """The machine, for one launch: `qgpu.launch(..., engine=conversation.engine())`."""
        if self.full:
            return FullEngine(self.merged, self._whole(self.cache.copy()))
        if self._skipping is None:
            self._skipping = SparseEngine(self.merged.weights)
        return self._skipping

    def _text_ids(self, ids: Sequence[int] | NDArray) -> NDArray:
        array = np.asarray(ids)
        if array.size and array.dtype.kind in "iu" and array.max() >= self.merged.first:
            raise UsageError(f"token id {int(array.max())} is not text", why=f"the machine's tokens begin at {self.merged.first}",
                             fix="launch with qgpu.launch(..., engine=conversation.engine())")
        return array
