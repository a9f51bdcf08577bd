"""The dynamic audit: at every token of a stream, what every dim of every layer holds, against what it must hold.

Two ways say what a signal must hold. Those that mirror the machine's state (fields of the token, fetched words, registers, operands,
carries, results, predicates, targets, items, memory words, the next token) come from the reference interpreter by name. All others,
and sums that are not complete yet, come from the map's units evaluated in integers, starting from the interpreter's values. Neither
reads a tensor; what is found comes from the tensors alone. Every dim is compared at every layer boundary: those that hold no signal
must hold 0. After each batch the rows of all addressed stores are compared as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..bf16 import round_bf16
from ..compile.tensors import CONST_DIMS, RESIDUAL_CONSTANT
from ..engine.sparse import SparseEngine
from ..errors import CheckError, CheckpointError, FaultError
from ..machine.tokens import Vocabulary
from ..runtime.prepare import Prepared
from .architecture import Architecture
from .integers import Integers
from .launches import place_of, stream_of
from .rows import Banks, state_rows
from .signals import SignalMap, map_of

BATCH = 128
LANE = re.compile(r"(?:^|[._])l(\d+)(?:[._]|$)|(?:\.(?:a|b|c|b_register|partial|new_target|target|written|data|word)|port[a-z0-9]*_)(\d+)\.\d+$"
                  r"|\.(?:active|ran|took|storing|has_store|retarget|write_lane|select_data|select_store)(\d+)$")
STAGE = re.compile(r"^s(\d+)\.")


@dataclass
class Difference:
    """One value that is not what it must be. layer: 0 the embedding, else the layer whose output it is. way: "interpreter", "integers",
    "empty" (a dim without a signal) or "row" (of a memory head: signal is its name and row)."""

    position: int
    token: str
    layer: int
    signal: str
    dim: int
    lane: int | None
    expected: float
    found: float
    way: str
    place: str = ""

    def __str__(self) -> str:
        lane = "" if self.lane is None else f", lane {self.lane}"
        place = f", {self.place}" if self.place else ""
        return (f"layer {self.layer}, {self.signal} (dim {self.dim}{lane}): expected {self.expected:.12g}, found {self.found:.12g}, "
                f"at token {self.position}, {self.token}{place}")


@dataclass
class Comparison:
    """tokens: compared. by_interpreter, by_integers: values of signals compared in each way, over all tokens and boundaries; empty: dims
    without a signal; rows: values of memory rows. signals: how many signals each way named at least once. different: how many values
    differ; first: in the order of the stream, then of layers."""

    tokens: int = 0
    by_interpreter: int = 0
    by_integers: int = 0
    empty: int = 0
    rows: int = 0
    signals: dict[str, set[int]] = field(default_factory=lambda: {"interpreter": set(), "integers": set()})
    different: int = 0
    first: Difference | None = None

    def as_dict(self) -> dict:
        """For JSON."""
        return {"tokens": self.tokens, "by_interpreter": self.by_interpreter, "by_integers": self.by_integers, "empty": self.empty,
                "rows": self.rows, "signals_by_interpreter": len(self.signals["interpreter"]),
                "signals_by_integers_only": len(self.signals["integers"] - self.signals["interpreter"]),
                "different": self.different, "first": None if self.first is None else vars(self.first)}


class Against:
    """Compares a stream with the interpreter, batch by batch. engine: a fresh one; it is fed the stream.

    place: (block of the program, stage from 1 or None) -> where that comes from in the source.
    """

    def __init__(self, engine: SparseEngine, m: SignalMap | None = None, place: Callable[[int, int | None], str] | None = None) -> None:
        self.engine, self.map = engine, m or map_of(engine.weights)
        self.vocabulary, self.integers = Vocabulary(self.map.machine), Integers(self.map)
        self.widths = {h["name"]: len(h["outs"]) for heads in self.map.layers for h in heads if h["kind"] == "memory"}
        self.completed: dict[int, list[int]] = {}
        for s, layer in enumerate(self.map.complete):
            self.completed.setdefault(layer, []).append(s)
        self.held = [(np.array([r[0] for r in rows], int), np.array([r[1] for r in rows], int)) for rows in self.map.boundaries]
        complete = np.array(self.map.complete)
        self.finished = [complete[signals] <= layer for layer, (_, signals) in enumerate(self.held)]
        self.constants = self.map.data["residual"]["constants"]
        kinds = [layer.head_kinds for layer in engine.weights.layers]
        self.where = {kinds[layer - 1][h]: (layer, state) for state, (layer, h) in enumerate(engine.where)}
        self.begin(place)

    def begin(self, place: Callable[[int, int | None], str] | None = None) -> None:
        """A fresh stream, from the empty state."""
        self.engine.reset()
        self.integers.reset()
        self.place = place or (lambda block, stage: "")
        self.at, self.banks = Architecture(self.map.machine), Banks(self.map.machine, self.widths)
        self.single = {h["name"]: h["outs"] for heads in self.map.layers for h in heads
                       if h["kind"] == "memory" and h["name"] not in self.banks.heads}
        self.position, self.result = 0, Comparison()

    def feed(self, ids: Sequence[int]) -> None:
        """Compare these tokens, in batches. Raises FaultError for one that the stream cannot have there, those before it compared."""
        for begin in range(0, len(ids), BATCH):
            batch, blocks, refused = list(ids[begin:begin + BATCH]), [], None
            for i in batch:
                try:
                    self.at.feed(i)
                except FaultError as error:
                    refused = error
                    break
                self.banks.feed(self.at, self.at.history[-1][0].kind in ("EXEC", "NEXT"))
                blocks.append(self.at.judge.block if self.at.last is not None else None)
            if blocks:
                self._batch(batch[:len(blocks)], blocks)
            if refused is not None:
                raise refused

    def _batch(self, ids: list[int], blocks: list[int | None]) -> None:
        named = {self.map.index[n]: v for n, v in self.at.columns.take().items() if n in self.map.index}
        reads = self._reads(named)
        found = np.stack([self.engine.trace(i) for i in ids])                          # (n, layers + 1, D)
        told = np.zeros(len(self.map.names), int)                                      # tokens at which the interpreter speaks
        told[list(named)] = [int(mask.sum()) for _, mask in named.values()]
        self.integers.begin(len(ids))
        worst: Difference | None = None
        for layer in range(len(self.map.layers) + 1):
            if layer:
                self.integers.step(layer, reads)
            for s in self.completed.get(layer, ()):
                if s in named:
                    self.integers.set(s, *named[s])
            worst = self._boundary(layer, found[:, layer].T, named, told, ids, blocks, worst)
        self.integers.end()
        if self.result.first is None:
            self.result.first = worst
        self._state(ids, blocks)
        self.position += len(ids)
        self.result.tokens += len(ids)

    def _reads(self, named: dict) -> dict[str, np.ndarray]:
        """What every memory head's queried row holds: that of its signals, where it alone adds to them, else as `Banks` says."""
        reads = self.banks.take()
        for name, outs in self.single.items():
            values = []
            for part in outs:
                (s, weight), = part
                if s not in named or not named[s][1].all():
                    raise CheckpointError(f"the interpreter has no value for signal {self.map.names[s]} of memory head {name}")
                values.append(named[s][0] / weight)
            reads[name] = np.stack(values)
        return reads

    def _boundary(self, layer: int, found: np.ndarray, named: dict, told: np.ndarray, ids, blocks, worst: Difference | None) -> Difference | None:
        """Compare one boundary, found (D, n). told (signals,). Returns the earlier of `worst` and the first difference here."""
        (dims, signals), finished, result = self.held[layer], self.finished[layer], self.result
        n = found.shape[1]
        expected = np.zeros(found.shape, np.float32)                                   # (D, n)
        expected[self.constants] = RESIDUAL_CONSTANT
        expected[dims] = round_bf16(self.integers.now[signals].astype(np.float32))
        by_interpreter = int(told[signals[finished]].sum())
        result.by_interpreter += by_interpreter
        result.by_integers += len(signals) * n - by_interpreter
        result.empty += (len(found) - len(signals)) * n
        mirrors = finished & (told[signals] > 0)
        result.signals["interpreter"].update(signals[mirrors].tolist())
        result.signals["integers"].update(signals[~mirrors].tolist())
        wrong = found != expected
        if not wrong.any():
            return worst
        result.different += int(wrong.sum())
        t = int(np.flatnonzero(wrong.any(axis=0))[0])
        if worst is not None and worst.position - self.position <= t:
            return worst
        dim = int(np.flatnonzero(wrong[:, t])[0])
        held = dict(zip(dims.tolist(), signals.tolist())).get(dim)
        by_name = held in named and named[held][1][t] and self.map.complete[held] <= layer
        return self._difference(t, layer, dim, "no signal" if held is None else self.map.names[held], expected[dim, t], found[dim, t],
                                "empty" if held is None else "interpreter" if by_name else "integers", ids, blocks)

    def _difference(self, t, layer, dim, signal, expected, found, way, ids, blocks) -> Difference:
        lane, stage = LANE.search(signal), STAGE.match(signal)
        place = "" if blocks[t] is None else self.place(blocks[t], int(stage[1]) if stage else None)
        return Difference(self.position + t, str(self.vocabulary.token(ids[t])), layer, signal, dim,
                          int(next(g for g in lane.groups() if g)) if lane else None, float(expected), float(found), way, place)

    def _state(self, ids, blocks) -> None:
        """Compare the rows of every addressed store after a batch."""
        result = self.result
        for name, width in self.widths.items():
            rows = state_rows(self.at, name, width)
            if rows is None:
                continue
            layer, state = self.where[name]
            found = self.engine.states[state][:len(rows), CONST_DIMS:CONST_DIMS + width]
            wrong = found != rows
            result.rows += rows.size
            result.different += int(wrong.sum())
            if wrong.any() and result.first is None:
                r, j = map(int, np.argwhere(wrong)[0])
                result.first = self._difference(len(ids) - 1, layer, CONST_DIMS + j, f"{name} row {r} bit {j}", rows[r, j], found[r, j], "row",
                                                ids, blocks)


def compare_launch(against: Against, ready: Prepared, max_tokens: int) -> Comparison:
    """Let the engine run a launch, and compare its own stream. A stream that breaks the machine's rules is compared up to that token;
    raises FaultError where nothing before it differs."""
    ids = stream_of(against.engine, ready, max_tokens)
    against.begin(place_of(ready))
    try:
        against.feed(ids)
    except FaultError:
        if against.result.first is None:
            raise
    return against.result


def refuse(result: Comparison) -> None:
    """Raise CheckError at the first difference, if there is any."""
    if result.first is not None:
        raise CheckError(f"{result.different:,} values differ from the interpreter's", where=f"token {result.first.position}",
                         why=f"the first: {result.first}", fix="this is a fault of the weights or of qgpu")
