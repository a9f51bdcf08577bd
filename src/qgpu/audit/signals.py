"""A signal map (compile/signal_map.py) as tools read it: signals by name and number, forms, boundaries, who writes and reads what."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import json

from ..compile.compiler import CircuitWeights
from ..compile.signal_map import FORMAT, NAME, unpack
from ..errors import CheckpointError
from ..machine.description import Machine

Form = list
"""[constant, [signal, coefficient], ...]"""


class SignalMap:
    """names[i], dim[i], base[i] (or None), kind[i], lo[i], hi[i] of signal i; index: name -> i. Layers are numbered from 1.

    Raises CheckpointError for an object that is no signal map.
    """

    def __init__(self, data: Mapping, where: str = NAME) -> None:
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise CheckpointError("this is no signal map of a format that is known", where=where, fix="export the checkpoint again")
        try:
            self.data = data
            self.machine = Machine(**{k: tuple(v) if isinstance(v, list) else v for k, v in data["machine"].items()}).validate()
            signals = data["signals"]
            self.names, self.dim = [s["name"] for s in signals], [s["dim"] for s in signals]
            self.base, self.kind = [s["base"] for s in signals], [s["kind"] for s in signals]
            self.lo, self.hi = [s["lo"] for s in signals], [s["hi"] for s in signals]
            self.layers: list[list[dict]] = [layer["heads"] for layer in data["layers"]]
            self.boundaries: list[list[list]] = data["boundaries"]
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"the signal map is damaged: {error}", where=where, fix="export the checkpoint again") from None
        self.index = {name: i for i, name in enumerate(self.names)}

    def chain(self, signal: int) -> list[int]:
        """The signal and those it continues in its dim, latest first."""
        out: list[int] = [signal]
        while (base := self.base[out[-1]]) is not None:
            out.append(base)
        return out

    @cached_property
    def continuations(self) -> dict[int, list[int]]:
        """signal -> signals that continue it, directly or not."""
        out: dict[int, list[int]] = {}
        for s in range(len(self.names)):
            for t in self.chain(s)[1:]:
                out.setdefault(t, []).append(s)
        return out

    @cached_property
    def written(self) -> dict[int, tuple[int, int]]:
        """signal -> (first, last layer that adds to it); (0, 0) for what the embedding holds. Units that clear do not count."""
        out = {i: (0, 0) for i, k in enumerate(self.kind) if k == "code"}
        for number, heads in enumerate(self.layers, 1):
            for head in heads:
                for s in written_by(head):
                    out[s] = (out[s][0] if s in out else number, number)
        return out

    @cached_property
    def complete(self) -> list[int]:
        """signal -> the layer after which it has its value: all that adds to it and to what it continues lies at or below."""
        return [max(self.written.get(s, (0, 0))[1] for s in self.chain(signal)) for signal in range(len(self.names))]

    def number(self, name: str) -> int | None:
        """The signal of that name, or None."""
        return self.index.get(name)


def is_clear(unit: Mapping) -> bool:
    """Whether a unit frees a dim."""
    return unit["group"] == "clear"


def written_by(head: Mapping) -> set[int]:
    """Signals that a head adds to, clearing apart."""
    if head["kind"] == "logic":
        return {s for unit in head["units"] if not is_clear(unit) for s, _ in unit["outs"]}
    return {s for outs in head["outs"] for s, _ in outs}


def reads_of(form: Form | None) -> set[int]:
    """Signals of a form."""
    return set() if form is None else {s for s, _ in form[1:]}


def map_of(weights: CircuitWeights) -> SignalMap:
    """The map that compiled weights carry. Raises CheckpointError where they carry none."""
    if not weights.packed_map:
        raise CheckpointError("these weights carry no signal map", fix="compile the machine again")
    return SignalMap(unpack(weights.packed_map))


def read_map(path: str | Path) -> SignalMap:
    """The map of a checkpoint (folder, or the file itself). Raises CheckpointError where it is missing or damaged."""
    path = Path(path)
    path = path / NAME if path.is_dir() else path
    try:
        return SignalMap(json.loads(path.read_bytes()), str(path))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read the signal map: {error}", where=str(path), fix="export the checkpoint again") from None
