"""The signal map as the certificate reads it: a list of claims, of the right shape and size, and nothing more.

The format is described in docs/certificate.md. Every form comes out over *bits*: a code signal c, which is -1 or +1, is 2 t - 1 with a
bit t, so that forms of codes have integer coefficients like all others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from ..errors import CheckpointError

NAME = "qgpu-signals.json"
FORMAT = 1
LARGEST_FILE = 1 << 28
MOST = 1 << 21
"""Most entries of any list."""
KINDS = ("code", "integer", "fraction", "output", "constant")


@dataclass(frozen=True)
class Signal:
    """One named number of the residual stream. base: index of the signal that it continues in the same dim."""

    name: str
    dim: int
    lo: int
    hi: int
    base: int | None
    kind: str


RawForm = tuple[float, tuple[tuple[int, float], ...]]
"""(constant, ((signal, coefficient), ...)) as written: codes are -1 or +1."""
Outs = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Unit:
    """weight * relu(f) * relu(g) for each of outs; f reads the token `tap` before this one."""

    f: RawForm
    g: RawForm
    outs: Outs
    tap: int
    note: str
    clears: bool


@dataclass(frozen=True)
class Head:
    """units of a logic head, or the rows, values, gates and outs of a memory head (`memory`)."""

    name: str
    memory: bool
    units: tuple[Unit, ...] = ()
    key: dict[int, RawForm] = field(default_factory=dict)
    query: dict[int, RawForm] = field(default_factory=dict)
    value: tuple[RawForm, ...] = ()
    gate: tuple[RawForm, ...] = ()
    outs: tuple[Outs, ...] = ()
    key_tap: int = 0
    value_tap: tuple[int, ...] = ()
    halve: RawForm | None = None
    constant: RawForm | None = None


@dataclass(frozen=True)
class Residual:
    """Fixed dims of the stream. See `qgpu-signals.json`, key residual."""

    constants: tuple[int, ...]
    silence: tuple[tuple[int, float], ...]
    code: tuple[int, ...]
    ones: tuple[int, ...]
    ballast: tuple[int, float] | None
    scale: float
    gain: float
    exponent: int


@dataclass(frozen=True)
class Claims:
    """Everything that the map says. boundaries[b]: dim -> (signal, lo, hi) after layer b. digests: tensor -> sha256."""

    machine: dict
    residual: Residual
    signals: tuple[Signal, ...]
    one_hot: tuple[tuple[tuple[int, ...], int | None], ...]
    boundaries: tuple[dict[int, tuple[int, float, float]], ...]
    layers: tuple[tuple[Head, ...], ...]
    digests: dict[str, str]


def read_claims(folder: Path) -> Claims:
    """The map beside a checkpoint. Raises CheckpointError where it is missing, too large or malformed."""
    path = folder / NAME
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise CheckpointError(f"the signal map is larger than {LARGEST_FILE >> 20} MiB", where=str(path))
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError("the signal map cannot be read", where=str(path), why=str(error)[:200],
                              fix="export the machine again, which writes one") from None
    return parse_claims(data, str(path))


def parse_claims(data: Any, where: str = "signal map") -> Claims:
    """The claims of a map. Raises CheckpointError where it is not one."""
    try:
        if data["format"] != FORMAT:
            raise CheckpointError(f"the signal map has format {data['format']!r}, not {FORMAT}", where=where)
        return _Parser(data).claims()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise CheckpointError("the signal map is malformed", where=where, why=f"{type(error).__name__}: {error}",
                              fix="export the machine again") from None


class _Parser:
    def __init__(self, data: dict) -> None:
        self.data, self.count = data, len(data["signals"])

    def claims(self) -> Claims:
        d = self.data
        signals = tuple(self.signal(s) for s in d["signals"])
        groups = tuple((tuple(self.at(i) for i in g["members"]), None if g["when"] is None else self.at(g["when"])) for g in d["one_hot"])
        boundaries = tuple({int(dim): (self.at(s), self.number(lo), self.number(hi)) for dim, s, lo, hi in row} for row in d["boundaries"])
        layers = tuple(tuple(self.head(h) for h in layer["heads"]) for layer in d["layers"])
        if len(boundaries) != len(layers) + 1 or not layers or max(len(signals), len(groups)) > MOST:
            raise ValueError(f"{len(boundaries)} boundaries of {len(layers)} layers, {len(signals)} signals")
        return Claims(dict(d["machine"]), self.residual(d["residual"]), signals, groups, boundaries, layers, dict(d.get("sha256", {})))

    def at(self, i: Any) -> int:
        if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < self.count:
            raise ValueError(f"there is no signal {i!r}")
        return i

    def number(self, x: Any) -> float:
        if not isinstance(x, (int, float)) or isinstance(x, bool) or not isfinite(x) or abs(x) > 2.0 ** 70:
            raise ValueError(f"{x!r} is not a number of a map")
        return x

    def tap(self, x: Any) -> int:
        if x not in (0, 1, 2, 3):
            raise ValueError(f"{x!r} is not a tap")
        return int(x)

    def signal(self, s: dict) -> Signal:
        base = None if s["base"] is None else self.at(s["base"])
        lo, hi = s["lo"], s["hi"]
        if not (isinstance(lo, int) and isinstance(hi, int) and lo <= hi and abs(lo) < 1 << 70 and abs(hi) < 1 << 70):
            raise ValueError(f"signal {s['name']!r} has the range {lo!r}..{hi!r}")
        if s["kind"] not in KINDS or not isinstance(s["dim"], int):
            raise ValueError(f"signal {s['name']!r} is malformed")
        return Signal(str(s["name"]), s["dim"], lo, hi, base, s["kind"])

    def form(self, f: list) -> RawForm:
        terms = tuple((self.at(i), self.number(k)) for i, k in f[1:])
        if len({i for i, _ in terms}) != len(terms):
            raise ValueError("a form names a signal twice")
        return self.number(f[0]), terms

    def outs(self, outs: list) -> Outs:
        return tuple((self.at(i), self.number(w)) for i, w in outs)

    def head(self, h: dict) -> Head:
        if h["kind"] == "logic":
            return Head(str(h["name"]), False, tuple(
                Unit(self.form(u["f"]), self.form(u["g"]), self.outs(u["outs"]), self.tap(u["tap"]), str(u["note"]), u["group"] == "clear")
                for u in h["units"]))
        if h["kind"] != "memory":
            raise ValueError(f"a head is of kind {h['kind']!r}")
        rows = lambda r: {int(i): self.form(f) for i, f in r.items()}
        maybe = lambda f: None if f is None else self.form(f)
        value, gate = tuple(self.form(f) for f in h["value"]), tuple(self.form(f) for f in h["gate"])
        outs, taps = tuple(self.outs(o) for o in h["outs"]), tuple(self.tap(t) for t in h["value_tap"])
        if not len(value) == len(gate) == len(outs) == len(taps):
            raise ValueError(f"memory head {h['name']!r} has {len(value)} values, {len(gate)} gates, {len(outs)} outs, {len(taps)} taps")
        return Head(str(h["name"]), True, (), rows(h["key"]), rows(h["query"]), value, gate, outs, self.tap(h["key_tap"]), taps,
                    maybe(h["halve"]), maybe(h["constant"]))

    def residual(self, r: dict) -> Residual:
        dims = lambda x: tuple(int(d) for d in x)
        ballast = None if r["ballast"] is None else (int(r["ballast"][0]), self.number(r["ballast"][1]))
        return Residual(dims(r["constants"]), tuple((int(d), self.number(w)) for d, w in r["silence"]), dims(r["code"]), dims(r["ones"]),
                        ballast, self.number(r["scale"]), self.number(r["gain"]), int(r["exponent"]))
