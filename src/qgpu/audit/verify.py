"""A recorded launch as a proof: every token that the model wrote is the argmax, given all tokens before it.

Nothing is decoded. The recorded stream is read in prefill, all positions of a piece at once, and what the layers write after each
position is compared with the token that the record has next. So the first position at which the two part is the first one that
no such launch holds; positions after it were read behind a wrong token and say nothing.

What the record cannot be trusted to say of itself comes from the verifier: the layers (their digest must be the recorded one), and the
setup, derived again from the kernel's source where that is at hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..compile.cache import compiled_weights
from ..errors import CheckError, CheckpointError, UsageError
from ..engine.prefill import PrefillEngine
from ..machine.description import Machine
from ..machine.tokens import Vocabulary
from ..merge.model import load as load_merged
from ..merge.sidecar import NAME as MERGED
from ..qwen import load
from ..qwen.fast import in_pieces
from ..runtime.launchfile import KEYS, LaunchSpec, parse_launch
from ..runtime.model_engine import checkpoint_machine
from ..runtime.prepare import Prepared, block_places, prepare
from ..runtime.progress import Progress
from ..runtime.source import Source, to_ptx
from ..runtime.trace import Narrator
from .binding import ids_digest, layers_digest, text_digest
from .recorded import FORGED, Recorded, read_recorded

HOST = frozenset(("NOP", "VAL", "SVAL", "PROG", "CONFIG", "GRID", "MEM", "BLOCK", "WARP"))
"""What a setup is made of."""

PART = 2048
"""Positions between two looks at the result."""

Predict = Callable[[Sequence[int]], Iterator[NDArray[np.int64]]]
"""Token ids -> what the layers write after each of them, in parts; -1 for no token."""


@dataclass(frozen=True)
class Verdict:
    """A record that holds. derived: its setup was derived again from the source. seconds: for the prefill of `positions` tokens,
    of which the model wrote `generated`."""

    recorded: Recorded
    checkpoint: str
    derived: bool
    positions: int
    generated: int
    seconds: float

    @property
    def speed(self) -> float:
        """Positions a second."""
        return self.positions / max(self.seconds, 1e-9)


def verify(path: str | Path, *, model: str | Path | None = None, source: Source | None = None, launch: LaunchSpec | None = None,
           frontend: str | None = None, setup_sha256: str | None = None, progress: Progress | None = None) -> Verdict:
    """Check a trace that `qgpu run --trace` wrote.

    model:        folder of an exported or merged checkpoint; by default the machine's compiled layers.
    source:       the kernel: the setup must be what it and the launch give. launch: by default the recorded one.
    setup_sha256: the setup's digest, known from elsewhere.
    Raises CheckError naming the first place that does not hold (its `position` is the token's, or None), UsageError for a file that is no
    trace, CheckpointError for a bad checkpoint, and what `prepare` raises for a source that does not compile.
    """
    waiting = progress.waiting if progress is not None else lambda text: nullcontext()
    with waiting("reading the trace"):
        recorded = read_recorded(path)
    _check_setup(recorded, setup_sha256)
    with waiting(f"the layers of machine {recorded.machine.name}: reading them and their digest"):
        predict, checkpoint = _layers(recorded, model)
    if source is not None:
        with waiting("deriving the setup from the source"):
            _check_source(recorded, source, launch, frontend)
    seconds = _check_tokens(recorded, predict, progress)
    return Verdict(recorded, checkpoint, source is not None, len(recorded.ids), len(recorded.ids) - recorded.setup, seconds)


# ---- layers ---------------------------------------------------------------------------------------------------------
def _layers(recorded: Recorded, model: str | Path | None) -> tuple[Predict, str]:
    """The layers that the trace is checked against, and their digest, which must be the recorded one."""
    machine = recorded.machine
    if model is not None and (own := _machine_of(model)) != machine:
        raise CheckError(f"the trace is of machine {machine.name!r}, the checkpoint of {own.name!r}", where=f"{recorded.path}:1",
                         why="these are other layers than those that wrote it" if own.name != machine.name else "their fields differ")
    digest, told = _compiled_digest(machine) if model is None else layers_digest(machine, model), recorded.launch["checkpoint"]
    if digest != told:
        raise CheckError("the trace was written by other layers than these", where=f"{recorded.path}:1",
                         why=f"it names the checkpoint sha256 {told[:64]}, these layers are {digest}",
                         fix="name the checkpoint that wrote it with --model DIR, or record the launch again")
    return (sparse_prediction(machine) if model is None else model_prediction(model, machine)), digest


def _machine_of(model: str | Path) -> Machine:
    return load_merged(model).machine if (Path(model) / MERGED).is_file() else checkpoint_machine(model)


@lru_cache(maxsize=2)
def _compiled_digest(machine: Machine) -> str:
    return layers_digest(machine)


@lru_cache(maxsize=2)
def sparse_prediction(machine: Machine) -> Predict:
    """By the compiled layers' nonzeros, a layer at a time."""
    engine = PrefillEngine(compiled_weights(machine))
    engine.feed([0])                                       # what is compiled at first use, is now

    def predict(ids: Sequence[int]) -> Iterator[NDArray[np.int64]]:
        engine.reset()
        for at in range(0, len(ids), PART):
            yield engine.feed(ids[at:at + PART])
    return predict


def model_prediction(folder: str | Path, machine: Machine) -> Predict:
    """By Qwen's forward pass over a checkpoint's own files, in prefill; a merged one through all its layers, over its whole vocabulary.

    Raises CheckpointError.
    """
    first, most = 0, Vocabulary(machine).size
    if (Path(folder) / MERGED).is_file():
        merged = load_merged(folder)
        merged.weights                                     # reads the circuit and holds its tensors to their digests
        model, first, most = merged.model, merged.first, None
    else:
        model = load(folder)
        if model.cfg.vocab_size < most:
            raise CheckpointError(f"the checkpoint has {model.cfg.vocab_size} tokens, its machine {most}", where=str(folder))

    model.forward([first] * 2, model.new_cache(), last=True)  # what is compiled at first use, is now

    def predict(ids: Sequence[int]) -> Iterator[NDArray[np.int64]]:
        cache = model.new_cache()
        for piece in in_pieces(np.asarray(ids, np.int64) + first):
            logits = model.forward(piece, cache)                            # (n, vocabulary)
            found = np.argmax(logits[:, :most], axis=1) - first
            yield np.where(found < 0, -1, found)
    return predict


# ---- setup ----------------------------------------------------------------------------------------------------------
def _check_setup(recorded: Recorded, known: str | None) -> None:
    """The setup: tokens that a host writes, with the digest that the trace itself names, and with one from elsewhere."""
    vocabulary = Vocabulary(recorded.machine)
    for position, token_id in enumerate(recorded.ids[:recorded.setup]):
        token = vocabulary.token(token_id)
        if token.kind not in HOST or token.kind == "WARP" and token.fields != (0, 0, 1):
            raise CheckError(f"no host writes {token} in a setup", where=f"{recorded.path}, token {position}", why=FORGED)
    found, told = ids_digest(recorded.ids[:recorded.setup]), recorded.launch["setup_sha256"]
    where = f"{recorded.path}, tokens 0 to {recorded.setup - 1}"
    if (found, recorded.setup) != (told, recorded.launch["setup"]):
        raise CheckError("the setup is not the one that was recorded", where=where,
                         why=f"its sha256 is {found} over {recorded.setup} tokens, the trace names {told[:64]} over {recorded.launch['setup']}: "
                         "the program, the launch or the inputs were changed")
    if known is not None and found != known.lower():
        raise CheckError("the setup is not the expected one", where=where, why=f"its sha256 is {found}, expected {known.lower()}")


def _check_source(recorded: Recorded, source: Source, launch: LaunchSpec | None, frontend: str | None) -> None:
    """The setup and what the trace says of the launch, against the source."""
    told = recorded.launch
    ready = _prepared(recorded, source, launch, frontend)
    setup = recorded.ids[:recorded.setup]
    if ready.setup != setup:
        short = min(len(setup), len(ready.setup))
        position = next((i for i in range(short) if setup[i] != ready.setup[i]), short)
        raise _differs(recorded, position, ready.setup[position] if position < len(ready.setup) else None, f"{source.name} and its launch give",
                       ready.setup)
    facts = {"grid": list(ready.grid), "block": list(ready.block), "shared_bytes": ready.shared_bytes, "kernel": ready.kernel.short_name,
             "ptx": text_digest(to_ptx(source, frontend))}
    for key, own in facts.items():
        if told[key] != own:
            raise CheckError(f"the trace says {key} {_words(told[key])}, {source.name} and its launch give {_words(own)}",
                             where=f"{recorded.path}:1")
    places = block_places(ready.program.blocks)
    for block, place in recorded.places.items():
        if places.get(block) != place:
            raise CheckError(f"the trace places block {block} at {place[:80]}, the source at {places.get(block, 'no line')}",
                             where=str(recorded.path))


def _words(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)[:80]


def _prepared(recorded: Recorded, source: Source, launch: LaunchSpec | None, frontend: str | None) -> Prepared:
    """The launch that should have been recorded."""
    told, where = recorded.launch, f"{recorded.path}:1"
    if launch is None:
        launch = parse_launch({key: told[key] for key in KEYS}, where)
    if launch.block is None:
        raise UsageError("no block size is given", where=launch.where, fix='add "block" to the launch file')
    return prepare(source, launch.kernel, launch.grid or (1, 1, 1), launch.block, launch.args or [], recorded.machine, frontend,
                   launch.shared_bytes)


# ---- tokens ---------------------------------------------------------------------------------------------------------
def _check_tokens(recorded: Recorded, predict: Predict, progress: Progress | None) -> float:
    """Every generated token against the layers. Returns the seconds that they took. Raises CheckError at the first that differs."""
    ids, setup, vocabulary = recorded.ids, recorded.setup, Vocabulary(recorded.machine)
    if progress is not None:
        progress.begin()
    stops = {vocabulary.base["END"], vocabulary.base["TRAP"]}
    at, seconds, start = 0, 0.0, time.perf_counter()
    for found in predict(ids):
        seconds += time.perf_counter() - start
        written = np.full(len(found), -2, np.int64)                         # the recorded next token; -2 where there is none
        written[:max(0, min(len(found), len(ids) - 1 - at))] = ids[at + 1:at + 1 + len(found)]
        wrong = np.flatnonzero((written != found) & (np.arange(at + 1, at + 1 + len(found)) >= setup) & (written != -2))
        if len(wrong):
            position = at + 1 + int(wrong[0])
            raise _differs(recorded, position, int(found[wrong[0]]), "the layers write")
        if progress is not None:
            progress.tokens += len(found) - 1
            progress.step()
        at += len(found)
        start = time.perf_counter()
    last = int(found[-1])
    if ids[-1] not in stops:
        raise _differs(recorded, len(ids), last, "the layers write")
    early = next((p for p in range(setup, len(ids) - 1) if ids[p] in stops), None)
    if early is not None:
        raise _differs(recorded, early + 1, None, "a launch that has ended holds")
    return seconds


def _differs(recorded: Recorded, position: int, expected: int | None, who: str, stream: Sequence[int] = ()) -> CheckError:
    """The error for a token that should be another one. expected: None for no token at all, -1 for none that the machine has.

    who: what wants it, with its verb. stream: the tokens that should be there, where they are known beyond this one.
    """
    ids, setup, machine = recorded.ids, recorded.setup, recorded.machine
    vocabulary = Vocabulary(machine)
    found = ids[position] if position < len(ids) else None
    name = lambda i: "nothing" if i is None else "no token of the machine" if i < 0 else str(vocabulary.token(i))
    words = []
    for label, token_id in (("expected", expected), ("found", found)):
        if token_id is not None and token_id >= 0:
            narrator = Narrator(machine, recorded.places)
            for i in ids[:position]:
                narrator.meaning(vocabulary.token(i))
            words.append(f"{label}: {narrator.meaning(vocabulary.token(token_id))}")
        else:
            words.append(f"{label}: {'the end of the record' if token_id is None else 'nothing that a launch can hold'}")
    if (what := _purpose(recorded, stream, position)):
        words[0] += f" ({what})"
    place = f"number {position - setup + 1} of the model's" if position >= setup else "the host's"
    error = CheckError(f"the trace holds {name(found)}, {who} {name(expected)}", where=f"{recorded.path}, token {position} ({place})",
                       why="\n       ".join(words),
                       fix="everything before this token is right; it or its inputs were changed after the launch, or records were dropped, "
                       "inserted or moved here")
    error.position, error.expected, error.found = position, expected, found
    return error


def _purpose(recorded: Recorded, stream: Sequence[int], position: int) -> str:
    """What the value at a position of a stream is sent for: the meaning of the token after it that uses it; "" where there is none."""
    vocabulary = Vocabulary(recorded.machine)
    end = next((p for p in range(position, len(stream)) if vocabulary.token(stream[p]).kind not in ("VAL", "SVAL")), None)
    if end is None or end == position:
        return ""
    narrator = Narrator(recorded.machine, recorded.places)
    return [narrator.meaning(vocabulary.token(i)) for i in stream[:end + 1]][-1]
