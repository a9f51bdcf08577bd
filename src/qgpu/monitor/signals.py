"""Results of stages as the layers themselves hold them: named signals of the residual stream, read while the layers run over the stream.

Most results are forwarded from stage to stage inside one forward pass and never become tokens. Here the compiled layers are fed the
stream once more, and at the first token of a pass the residual stream between two layers, where the signal map says the result's bits
are, is looked at. Nothing is computed in the layers' place; a stream that these layers would not have written is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..compile.cache import compiled_weights
from ..compile.signal_map import unpack
from ..engine.sparse import SparseEngine
from ..errors import CheckError, FaultError
from ..machine.description import WORD, Machine

PIECE = 64
"""Tokens between two looks at whether the answer is still wanted."""


def result_places(signal_map: dict, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Where a machine's stage results are: (boundary, dim), each (stages, lanes, WORD) int, lowest bit first."""
    index = {signal["name"]: i for i, signal in enumerate(signal_map["signals"])}
    wanted = {index[f"s{stage + 1}.l{lane}.r{bit}"]: (stage, lane, bit)
              for stage in range(machine.stages) for lane in range(machine.lanes) for bit in range(WORD)}
    boundary, dims = (np.zeros((machine.stages, machine.lanes, WORD), np.int64) for _ in range(2))
    for b, row in enumerate(signal_map["boundaries"]):
        for dim, signal, _, _ in row:
            if signal in wanted:  # complete at the last boundary that has it
                boundary[wanted[signal]], dims[wanted[signal]] = b, dim
    return boundary, dims


class StageSignals:
    """Stage results of any pass of a stream. ids may grow. Compiles the machine if its weights are not in the cache.

    Raises CompileError where the machine cannot be compiled.
    """

    def __init__(self, machine: Machine, ids: Sequence[int], setup: int) -> None:
        self.machine, self.ids, self.setup = machine, ids, setup
        weights = compiled_weights(machine)
        self.boundary, self.dims = result_places(unpack(weights.packed_map), machine)
        self._begin = SparseEngine(weights)
        self._feed(self._begin, 0, setup)
        self._engine, self._fed = self._begin.fork(), setup
        self._known: dict[int, dict[tuple[int, int], int]] = {}

    def known(self, position: int) -> Mapping[tuple[int, int], int] | None:
        """What `at` has found before, if it has."""
        return self._known.get(position)

    def at(self, position: int, wanted: Callable[[], bool] = lambda: True) -> Mapping[tuple[int, int], int] | None:
        """(stage, lane) -> result, 32 bits, of every lane, active or not, in the pass that token `position` (EXEC or NEXT) begins.

        None where `wanted` says no before it is found. Raises CheckError where these layers write another stream.
        """
        if position in self._known:
            return self._known[position]
        if not wanted():
            return None
        if position < self._fed:
            self._engine, self._fed = self._begin.fork(), self.setup
        while self._fed < position:
            if self._fed % PIECE == 0 and not wanted():
                return None
            self._feed(self._engine, self._fed, self._fed + 1)
            self._fed += 1
        residual = self._engine.trace(self.ids[position])  # (layers + 1, D)
        self._fed += 1
        bits = residual[self.boundary, self.dims] == 1  # (stages, lanes, WORD)
        words = (bits.astype(np.uint64) << np.arange(WORD, dtype=np.uint64)).sum(2)
        found = {(stage + 1, lane): int(words[stage, lane]) for stage in range(words.shape[0]) for lane in range(words.shape[1])}
        self._known[position] = found
        return found

    def _feed(self, engine: SparseEngine, begin: int, end: int) -> None:
        """Feed the setup, or one token, and see that what the layers write then is what comes next."""
        try:
            written = engine.feed(self.ids[begin:end])
        except FaultError as e:
            raise CheckError("these layers did not write this stream", where=f"token {end}", why=e.what) from None
        if end < len(self.ids) and written != self.ids[end]:
            raise CheckError("these layers did not write this stream", where=f"token {end}",
                             why=f"they write {written}, not {self.ids[end]}")
