"""Values of named signals at the tokens of a stream: words collected token by token, spelled out in bits at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass
class Field:
    """One value a token, for some signals. signals: names, lowest bit first, or the one signal of a plain number (`plain`).

    absent: the value at tokens that say nothing of it; None: unspecified there.
    """

    signals: list[str]
    absent: int | float | None = 0
    plain: bool = False
    values: list[int | float | None] = field(default_factory=list)


class Columns:
    """Fields by name. Every token gives a dict of values; those that it leaves out are absent."""

    def __init__(self) -> None:
        self.fields: dict[str, Field] = {}

    def bits(self, name: str, signals: list[str], absent: int | None = 0) -> None:
        """A number that `signals` spell, lowest bit first."""
        self.fields[name] = Field(signals, absent)

    def plain(self, name: str, absent: int | None = 0) -> None:
        """A number that the signal `name` holds as it is."""
        self.fields[name] = Field([name], absent, True)

    def add(self, row: dict[str, int | float | None]) -> None:
        """Values of one more token. Raises KeyError for a name that is no field."""
        for name, f in self.fields.items():
            f.values.append(row.pop(name, f.absent))
        if row:
            raise KeyError(f"no fields: {', '.join(row)}")

    def take(self) -> dict[str, tuple[F64, NDArray[np.bool_]]]:
        """signal -> (values (n,), where they are specified (n,)) of the tokens since the last call."""
        out: dict[str, tuple[F64, NDArray[np.bool_]]] = {}
        for f in self.fields.values():
            mask = np.array([v is not None for v in f.values], bool)
            if f.plain:
                out[f.signals[0]] = (np.array([0 if v is None else v for v in f.values], np.float64), mask)
            else:
                word = np.array([v or 0 for v in f.values], np.int64)
                for k, name in enumerate(f.signals):
                    out[name] = ((word >> k & 1).astype(np.float64), mask)
            f.values = []
        return out
