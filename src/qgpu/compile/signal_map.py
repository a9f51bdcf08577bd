"""The signal map: what every dim, unit, head and row of a compiled circuit means. One JSON object, `qgpu-signals.json` beside a checkpoint.

The certificate (`qgpu audit`) takes it as a set of *claims* and proves them from the tensors; `qgpu explain` puts it in words.

    format       1
    machine      the machine description, as in config.json
    residual     {"constants": dims of 2^20, "silence": [[dim, weight]] zero on machine tokens, "code": dims of the token code,
                 "ones": dims of +scale or [], "ballast": [dim, value] or null, "scale", "gain", "exponent"} (qgpu.compile.placement)
    signals      [{"name", "dim", "lo", "hi", "base": index or null, "kind"}], in the order in which forms name them.
                 kind: "code" (-1 or +1, held by the embedding), "integer", "fraction" (the item counter), "output" (next token's
                 code), "constant" (written by the first layer of a merged circuit). base: the signal that it continues in its dim
    one_hot      [{"members": [signal], "when": signal or null}]: at most one is not 0 (where the bit `when` is 1)
    boundaries   n + 1 lists for n layers, boundaries[b] the stream after layer b (0: the embedding): [[dim, signal, lo, hi], ...],
                 one for each dim that holds a signal, all others (but constants, ones, ballast) hold 0. signal is the latest version
                 that has been written to; lo and hi bound what the dim holds there, complete or not
    layers       [{"heads": [head, ...]}], heads in the order of the tensors
      head       {"kind": "logic", "name": "logic", "units": [unit, ...]}: unit j is value dim 2 + j; a head that looks back has a "tap"
                 {"kind": "memory", "name", "note", "key": {row: form}, "query": {row: form}, "value": [form], "gate": [form],
                  "outs": [[[signal, weight], ...], ...], "key_tap", "value_tap": [tap, ...], "halve": form or null,
                  "constant": form or null, "rows": {row: name}}: item j of value, gate, outs and value_tap is value dim 2 + j
      unit       {"f": form, "g": form, "outs": [[signal, weight], ...], "tap", "note", "group"}: adds weight relu(f) relu(g) to signals;
                 f reads the token `tap` before this one. group "clear": the unit frees a dim
      form       [constant, [signal, coefficient], ...], coefficients and constant as numbers of any size, exact
    sha256       {tensor: digest of its bytes} (written by the exporter)

More keys may follow; readers pass over those they do not know.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from fractions import Fraction

from ..circuit.core import Circuit, Form, MemoryHead, Signal, Unit
from ..machine.description import Machine, as_dict
from .layout import Layout

NAME = "qgpu-signals.json"
FORMAT = 1


def number(x: int | float | Fraction) -> int | float:
    """A dyadic number for JSON: an int where it is one."""
    return int(x) if x == int(x) else float(x)


class MapWriter:
    """Builds the map of one circuit. residual: the map's `residual`. outputs: signals of the next token's code. heads: by layer, what
    each head was made from. extra: signals outside the circuit with their dims."""

    def __init__(self, m: Machine, c: Circuit, layout: Layout, residual: dict, code: list[Signal], outputs: list[Signal],
                 parts: Mapping[Signal, tuple[float, float]], extra: Mapping[Signal, int] = {}) -> None:
        self.m, self.c, self.layout, self.residual, self.parts = m, c, layout, residual, parts
        self.dim_of = {**layout.dim_of, **extra}
        named = [*(s for s in c.signals.values() if s in layout.dim_of), *extra]
        self.index = {s: i for i, s in enumerate(named)}
        self.kinds = dict.fromkeys(code, "code") | dict.fromkeys(outputs, "output") | {
            s: "fraction" for s in named if s.fractional} | dict.fromkeys(extra, "constant")

    def signals(self) -> list[dict]:
        """Every signal that has a dim."""
        return [{"name": s.name, "dim": self.dim_of[s], "lo": s.lo, "hi": s.hi,
                 "base": None if s.base is None else self.index[s.base], "kind": self.kinds.get(s, "integer")} for s in self.index]

    def form(self, f: Form | None) -> list | None:
        """A form as JSON; signals that nothing writes are 0 and left out."""
        if f is None:
            return None
        return [number(f.const), *([self.index[s], number(k)] for s, k in f.coef.items() if s in self.index)]

    def outs(self, outs: Iterable[tuple[Signal, int | Fraction]]) -> list:
        return [[self.index[s], number(w)] for s, w in outs]

    def unit(self, u: Unit) -> dict:
        return {"f": self.form(u.f), "g": self.form(u.g), "outs": self.outs(u.outs), "tap": u.tap, "note": u.note, "group": u.group}

    def head(self, made_from: MemoryHead | list[Unit]) -> dict:
        if not isinstance(made_from, MemoryHead):
            return {"kind": "logic", "name": "logic", "units": [self.unit(u) for u in made_from]}
        h = made_from
        rows = lambda forms: {str(i): self.form(f) for i, f in forms.items()}
        return {"kind": "memory", "name": h.name, "note": h.note, "key": rows(h.key), "query": rows(h.query),
                "value": [self.form(f) for f in h.value], "gate": [self.form(f) for f in h.gate], "outs": [self.outs(o) for o in h.outs],
                "key_tap": h.key_tap, "value_tap": [h.tap_of(j) for j in range(len(h.value))], "halve": self.form(h.halve),
                "constant": self.form(h.const_form), "rows": {str(i): n for i, n in h.row_names.items()}}

    def one_hot(self) -> list[dict]:
        """Groups with two or more members that have dims."""
        found = [(None, members) for members in self.c.groups] + list(self.c.groups_when)
        kept = [(when, [self.index[s] for s in members if s in self.index]) for when, members in found
                if when is None or when in self.index]
        return [{"members": at, "when": None if when is None else self.index[when]} for when, at in kept if len(at) > 1]

    def boundaries(self, heads: list[list[MemoryHead | list[Unit]]]) -> list[list]:
        """What each dim holds at each boundary, complete signals by their declared range, others by that of any part of their sum."""
        last_write: dict[Signal, int] = {}
        for at, layer in enumerate(heads, 1):
            for op in (op for made in layer for op in (made if isinstance(made, list) else [made])):
                if isinstance(op, Unit) and op.group == "clear":
                    continue
                for s, _ in op.outs if isinstance(op, Unit) else (o for outs in op.outs for o in outs):
                    last_write[s] = at
        n, first = len(heads), self.layout.first_write
        out: list[list] = [[] for _ in range(n + 1)]
        for top, dim, begin, end in self.layout.spans:
            versions = [top]
            while versions[-1].base is not None:
                versions.append(versions[-1].base)
            for b in range(begin, n + 1 if end == n else end):
                s = next(v for v in versions if first.get(v, 0 if v.is_input else n + 1) <= b)
                complete = b >= last_write.get(s, 0) or (s in self.kinds and self.kinds[s] != "integer")
                lo, hi = (s.lo, s.hi) if complete else self.parts.get(s, (min(s.lo, 0), max(s.hi, 0)))
                out[b].append([dim, self.index[s], number(lo), number(hi)])
        for row in out:
            row.sort()
        return out

    def build(self, heads: list[list[MemoryHead | list[Unit]]]) -> dict:
        """The whole map. heads: what each layer's heads were made from."""
        return {"format": FORMAT, "machine": as_dict(self.m), "residual": self.residual, "signals": self.signals(),
                "one_hot": self.one_hot(), "boundaries": self.boundaries(heads),
                "layers": [{"heads": [self.head(h) for h in layer]} for layer in heads]}


def pack(signal_map: dict) -> bytes:
    """A map as compressed JSON, which weights carry along."""
    return zlib.compress(to_json(signal_map), 6)


def unpack(packed: bytes) -> dict:
    """The map that `pack` took. Raises ValueError where it is damaged."""
    try:
        return json.loads(zlib.decompress(packed))
    except zlib.error as error:
        raise ValueError(f"the packed signal map is damaged: {error}") from None


def to_json(signal_map: dict) -> bytes:
    """A map as it is written beside a checkpoint."""
    return json.dumps(signal_map, separators=(",", ":"), ensure_ascii=False).encode()
