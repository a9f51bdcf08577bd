"""Which residual dim each signal lives in, layer by layer.

A *cell* is a signal with all its in-place revisions: one dim from the first contribution to the last read. Once read for the
last time a cell is cleared by units that add minus its value, in spare slots of the same or a later layer; the dim can take
a new cell in the very layer that clears it, since a layer adds to its dims after reading them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..circuit.core import Circuit, Signal, Unit
from ..errors import CompileError
from ..machine.description import Machine
from .schedule import Schedule


@dataclass
class Layout:
    """dim_of: signal -> residual dim. clears[i]: clearing units of layer i + 1. peak: dims in use after each layer.

    constants: dims that hold 2^20. reserved: dims that are zero on machine tokens and not on text.
    spans: (signal, dim, first layer, last layer) of every cell, for maps and explanations. first_write: first layer
    that adds to a signal (a revision starts later than its cell).
    """

    dim_of: dict[Signal, int]
    clears: list[list[Unit]]
    peak: list[int]
    constants: list[int]
    reserved: list[int]
    spans: list[tuple[Signal, int, int, int]]
    first_write: dict[Signal, int]

    def ranges(self, layer: int, hidden: int) -> tuple[np.ndarray, np.ndarray]:
        """Declared range (low, high), each (D,) float32, of every dim at the input of `layer` (from 1)."""
        low, high = np.zeros(hidden, np.float32), np.zeros(hidden, np.float32)
        low[self.constants] = high[self.constants] = 1
        for s, dim, first, last in self.spans:
            if first < layer <= last:
                t: Signal | None = s
                while t is not None:
                    if self.first_write.get(t, 0) < layer:
                        low[dim], high[dim] = min(low[dim], t.lo), max(high[dim], t.hi)
                    t = t.base
        return low, high


def constant_dims(hidden: int) -> int:
    """How many dims must hold 2^20 for the RMS to be a power of two: n / hidden a power of four.

    At least 2, since a bias may need two bf16 numbers: 2 for 2048, 4 for 1024 and 4096, 5 for 5120, 10 for 2560.
    Raises CompileError where no small n does it.
    """
    for n in range(2, 64):
        ratio = hidden / n
        if ratio == int(ratio) and int(ratio) & (int(ratio) - 1) == 0 and (int(ratio).bit_length() - 1) % 2 == 0:
            return n
    raise CompileError(f"no number of constant dims makes the norm of hidden size {hidden} a power of two")


def clearing_units(s: Signal) -> list[Unit]:
    """Units that add minus the value of a complete signal."""
    note = f"clear {s.name}"
    one = s.form() * 0 + 1
    if s.lo >= 0:
        f, g = (s.form(), one) if s.hi <= 40 else (one, s.form())
        return [Unit(f, g, ((s, -1),), note, "clear")]
    return [Unit(one, s.form(), ((s, -1),), note, "clear"), Unit(one, -s.form(), ((s, 1),), note, "clear")]


def free_units(m: Machine, sched: Schedule, layer: int) -> int:
    """Units that a layer (from 1) has room for beside its own. Units that look back share no head with others: a merged circuit's."""
    units, room = sched.layer_units[layer - 1], m.head_dim - 2
    taps = [u.tap for u in units]
    heads = sum(-(-taps.count(tap) // room) for tap in set(taps) - {0})
    return (m.heads - len(sched.layer_heads[layer - 1]) - heads) * room - taps.count(0)


def lay_out(c: Circuit, m: Machine, sched: Schedule, inputs: list[Signal], keep: set[Signal]) -> Layout:
    """Allocate dims by live range. Raises CompileError naming the layer where they run out."""
    last_version: dict[Signal, Signal] = {}
    root_of: dict[Signal, Signal] = {}
    for s in c.signals.values():
        r = s
        while r.base is not None:
            r = r.base
        root_of[s] = r
    revised = {s.base: s for s in c.signals.values() if s.base is not None}
    first: dict[Signal, int] = {}
    last: dict[Signal, int] = {}
    first_write: dict[Signal, int] = {}
    for layer in range(1, sched.layers + 1):
        for op in [*sched.layer_units[layer - 1], *sched.layer_heads[layer - 1]]:
            outs = op.outs if isinstance(op, Unit) else [o for outs in op.outs for o in outs]
            for s, _ in outs:
                r = root_of[s]
                first.setdefault(r, layer)
                first_write.setdefault(s, layer)
                last[r] = max(last.get(r, 0), layer)
            for s in op.reads():
                r = root_of[s]
                last[r] = max(last.get(r, 0), layer)
    for s in inputs:
        first[root_of[s]] = 0
    forever = {root_of[s] for s in keep}
    for r in first:
        t = r
        while t in revised:
            t = revised[t]
        last_version[r] = t

    n_const = constant_dims(m.hidden)
    constants = list(range(n_const))
    reserved = [n_const, n_const + 1]
    free = list(range(m.hidden - 1, n_const + 1, -1))
    dim_root: dict[Signal, int] = {}
    for s in inputs:
        dim_root[root_of[s]] = free.pop()
    by_start: dict[int, list[Signal]] = {}
    for r, layer in first.items():
        if layer > 0:
            by_start.setdefault(layer, []).append(r)
    by_end: dict[int, list[Signal]] = {}
    for r in first:
        if r not in forever:
            by_end.setdefault(last.get(r, 0), []).append(r)

    clears: list[list[Unit]] = []
    peak: list[int] = []
    dead: list[Signal] = []
    spans = []
    for layer in range(1, sched.layers + 1):
        dead += [r for r in by_end.get(layer, ()) if not last_version[r].fractional]
        slots = free_units(m, sched, layer)
        now: list[Unit] = []
        kept_dead: list[Signal] = []
        for r in dead:
            if layer >= sched.layers - 1:
                break
            written_here = first[r] == layer or layer_writes(sched, layer, r, root_of)
            us = clearing_units(last_version[r])
            if written_here or len(us) > slots:
                kept_dead.append(r)
                continue
            slots -= len(us)
            now += us
            free.append(dim_root[r])
            spans.append((last_version[r], dim_root[r], first[r], layer))
        dead = kept_dead
        need = by_start.get(layer, [])
        if len(need) > len(free):
            raise CompileError(f"the residual stream is full at layer {layer}",
                               why=f"{len(need)} new signals, {len(free)} free dims, {len(dead)} waiting to be cleared",
                               fix="fewer lanes, stages or registers")
        for r in need:
            dim_root[r] = free.pop()
        clears.append(now)
        peak.append(m.hidden - len(free))
    done = {s for s, *_ in spans}
    for r, d in dim_root.items():
        if last_version.get(r) not in done:
            spans.append((last_version.get(r, r), d, first[r], sched.layers))
    dim_of = {s: dim_root[root_of[s]] for s in c.signals.values() if root_of[s] in dim_root}
    return Layout(dim_of, clears, peak, constants, reserved, spans, first_write)


def layer_writes(sched: Schedule, layer: int, root: Signal, root_of: dict[Signal, Signal]) -> bool:
    """Whether any op of this layer adds to root's cell (it can then be cleared only above)."""
    cache = sched.notes.setdefault("writes", {})
    if layer not in cache:
        cells = set()
        for u in sched.layer_units[layer - 1]:
            cells |= {root_of[s] for s, _ in u.outs}
        for h in sched.layer_heads[layer - 1]:
            cells |= {root_of[s] for outs in h.outs for s, _ in outs}
        cache[layer] = cells
    return root in cache[layer]
