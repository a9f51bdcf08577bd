"""Refuses what would not be exact: the conditions (a) to (e) of docs/numerics.md, proved from declared ranges.

Units and signals are proved by `circuit.checks.check_static`, the item counter by `circuit.counter`; here are memory heads,
and what only shows once ops have layers and dims: norms, partial sums of out_proj, the budgets.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from ..circuit.bounds import F_LIMIT, G_LIMIT, H_LIMIT
from ..circuit.checks import SUM_BITS, VALUE_LIMIT, check_static, is_bf16, is_bias, partial_sums
from ..circuit.core import Circuit, Form, MemoryHead, Signal
from ..circuit.counter import check_counting, counting_units, without
from ..circuit.machine import MachineCircuit
from ..errors import CompileError
from ..machine.description import Machine
from ..machine.tokens import KINDS
from .layout import Layout
from .tensors import CONST_DIMS, HEAD_CONSTANT, OUT_SCALE, RESIDUAL_CONSTANT, CompiledLayer

NORM_MARGIN = 2.0 ** -10       # of a norm's sum of squares: its root then stays within 2^-11
ROWS_AT_ONCE = 12              # rows of bits that one read may add up
LARGEST = 256                  # every integer up to here is a bf16 number
SHOWN = 8


def refuse(machine: Machine, problems: list[str]) -> None:
    """Raise CompileError listing the problems, if there are any."""
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise CompileError(f"machine {machine.name} would not be exact in bf16", why="; ".join(problems[:SHOWN]) + more)


def check_circuit(mc: MachineCircuit, parts: dict[Signal, tuple[float, float]] | None = None) -> list[str]:
    """Everything in the circuit that cannot be proved exact, in words (empty: all is proved). parts: as check_static."""
    c, m, code = mc.circuit, mc.machine, mc.records.code
    counting = counting_units(c)
    problems = check_static(without(c, counting), code, mc.next_code, parts)
    problems += check_counting(c, m.stages * m.lanes + 2 * m.lanes)
    box = _Bits(c, code)
    for head in c.heads:
        problems += [f"memory head {head.name}: {p}" for p in check_head(head, box)]
    return problems


# ---- memory heads ---------------------------------------------------------------------------------------------------
class _Bits:
    """Ranges of signals, codes (-1, +1) taken as bits of which only one names a kind; one-hot groups."""

    def __init__(self, c: Circuit, code: list[Signal]) -> None:
        self.code = frozenset(code)
        self.group: dict[Signal, int] = dict.fromkeys(code[:len(KINDS)], 0)
        for k, members in enumerate(c.groups, 1):
            for s in members:
                self.group.setdefault(s, k)

    def matrix(self, forms: list[Form]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Forms over bits: coefficients (n, s), constants (n,), ranges (2, s), groups (s,)."""
        signals = list(dict.fromkeys(s for f in forms for s in f.coef))
        at = {s: i for i, s in enumerate(signals)}
        k, const = np.zeros((len(forms), len(signals))), np.zeros(len(forms))
        for j, f in enumerate(forms):
            const[j] = f.const
            for s, v in f.coef.items():
                if s in self.code:                     # -1, +1 = 2 t - 1 with t = 0, 1
                    const[j] -= v
                    v = 2 * v
                k[j, at[s]] = v
        ranges = np.array([(0, 1) if s in self.code else (s.lo, s.hi) for s in signals], float).reshape(-1, 2).T
        group = np.array([self.group.get(s, -1) for s in signals], int)
        return k, const, ranges, group


def _greatest(k: np.ndarray, const: np.ndarray, ranges: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Upper bound (n,) of each form k (n, s), const (n,) over the ranges and groups."""
    best = np.maximum(k * ranges[0], k * ranges[1])              # (n, s)
    total = const + best[:, group < 0].sum(axis=1)
    for g in np.unique(group[group >= 0]):
        total = total + np.maximum(best[:, group == g].max(axis=1), 0)
    return total


def check_head(head: MemoryHead, bits: _Bits) -> list[str]:
    """What is not exact about a memory head: rows, values, gates, weights."""
    problems = []
    forms = [*head.key.values(), *head.query.values(), *head.value, *head.gate]
    forms += [f for f in (head.halve, head.const_form) if f is not None]
    for f in {id(f): f for f in forms}.values():
        problems += _linear(f)
    key, query = _rows(head.key, bits), _rows(head.query, bits)
    for name, (top, pair) in (("key", key), ("query", query)):
        if top > 1:
            problems.append(f"a {name} reaches {top:g}: not a conjunction")
        if pair > 1 and (name == "key" or _most_rows(head.query, bits) > ROWS_AT_ONCE):
            problems.append(f"too many {name} rows can be addressed at once")
    most = F_LIMIT if query[1] <= 1 else 1
    data = [bits.matrix([f]) for f in head.value]
    gates = [bits.matrix([f]) for f in head.gate]
    for (k, const, *_), what in [(x, "value") for x in data] + [(x, "gate") for x in gates]:
        if np.any(k != np.rint(k)) or np.any(const != np.rint(const)):
            problems.append(f"a {what} is not always an integer")
    for value, gate in zip(data, gates):
        v, g = (float(_greatest(*x)[0]) for x in (value, gate))
        if v > most or g > G_LIMIT or v * g > H_LIMIT:
            problems.append(f"a value up to {v:g} through a gate up to {g:g}")
    for extra, what in ((head.halve, "halving"), (head.const_form, "constants")):
        if extra is not None and float(_greatest(*bits.matrix([extra]))[0]) > 1:
            problems.append(f"the form for {what} is no bit")
    problems += [f"weight {w} into {s.name}" for outs in head.outs for s, w in outs if not is_bf16(w)]
    return list(dict.fromkeys(problems))


def _rows(rows: dict[int, Form], bits: _Bits) -> tuple[float, float]:
    """Upper bounds of a row's form, and of the sum of two rows' forms where both could be 1 (it is then 2)."""
    if not rows:
        return 0.0, 0.0
    k, const, ranges, group = bits.matrix(list(rows.values()))
    if np.any(k != np.rint(k)) or np.any(const != np.rint(const)):
        return np.inf, np.inf
    pair = 0.0
    for i in range(len(rows) - 1):
        pair = max(pair, float(_greatest(k[i] + k[i + 1:], const[i] + const[i + 1:], ranges, group).max()))
    return float(_greatest(k, const, ranges, group).max()), pair


def _most_rows(rows: dict[int, Form], bits: _Bits) -> int:
    """Most rows whose forms can be 1 at once: exact, by trying all values, where the rows read few bits."""
    k, const, ranges, _ = bits.matrix(list(rows.values()))
    n = k.shape[1]
    if n > 12 or np.any(ranges[0] != 0) or np.any(ranges[1] != 1):
        return len(rows)
    values = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1              # (2^n, n)
    return int((values @ k.T + const > 0).sum(axis=1).max())


def _linear(f: Form) -> Iterable[str]:
    """Coefficients, bias and partial sums."""
    for s, k in f.coef.items():
        if not is_bf16(k):
            yield f"coefficient {k} of {s.name}"
    if not is_bias(f.const):
        yield f"bias {f.const} is not the sum of two bf16 numbers"
    low, high = partial_sums(f)
    if max(-low, high) >= VALUE_LIMIT:
        yield f"partial sums reach {max(-low, high)}"


# ---- layers ---------------------------------------------------------------------------------------------------------
def check_layer(m: Machine, layer: CompiledLayer, constants: list[int]) -> list[str]:
    """What is not exact about one layer's tensors, given the declared ranges at its input."""
    problems = []
    if len(layer.head_kinds) > m.heads:
        problems.append(f"{len(layer.head_kinds)} heads, {m.heads} are there")
    free = np.ones(m.hidden, bool)
    free[constants] = False
    size = np.maximum(np.abs(layer.low), np.abs(layer.high)).astype(np.float64)   # (D,)
    if np.sum(size[free] ** 2) > len(constants) * RESIDUAL_CONSTANT ** 2 * NORM_MARGIN:
        problems.append(f"signals of sum of squares {np.sum(size[free] ** 2):g} move the norm")
    return problems + _head_norms(m, layer) + _out_sums(layer)


def _head_norms(m: Machine, layer: CompiledLayer) -> list[str]:
    """Whether value pre-activations stay far below the head's constants, whatever the gates do."""
    kd, n = m.heads * m.head_dim, m.head_dim
    rows, cols, vals = (np.asarray(x) for x in (layer.qkv.rows, layer.qkv.cols, layer.qkv.vals))
    most = np.zeros(3 * kd)
    np.add.at(most, rows, np.maximum(vals * layer.low[cols], vals * layer.high[cols]))
    data = np.maximum(most[2 * kd:].reshape(m.heads, n)[:, CONST_DIMS:], 0)      # (heads, n - 2)
    limit = CONST_DIMS * HEAD_CONSTANT ** 2 * NORM_MARGIN
    return [f"head {h} ({layer.head_kinds[h]}): values of sum of squares {s:g} move its norm"
            for h, s in enumerate((data ** 2).sum(axis=1)[:len(layer.head_kinds)]) if s > limit]


def check_reuse(layout: Layout, parts: dict[Signal, tuple[float, float]]) -> list[str]:
    """Where a dim takes a new cell in the layer that clears it: whether minus the old value plus the new is exact in any part."""
    ended = {(dim, last): s for s, dim, _, last in layout.spans}
    problems = []
    for s, dim, first, _ in layout.spans:
        versions = [s]
        while versions[-1].base is not None:
            versions.append(versions[-1].base)
        root, old = versions[-1], ended.get((dim, first))
        if old is None or root.is_input or old is s:
            continue
        between = [parts.get(t, (t.lo, t.hi)) for t in versions]
        low, high = min(a for a, _ in between), max(b for _, b in between)
        if high - old.lo > LARGEST or old.hi - low > LARGEST:
            problems.append(f"signal {root.name} takes the dim of {old.name} in layer {first}: their difference needs more than 8 bits")
    return problems


def _out_sums(layer: CompiledLayer) -> list[str]:
    """Whether everything that a layer adds to a dim is a sum of multiples of one power of two, below 2^24 of them."""
    problems = []
    rows: dict[int, list[Fraction]] = {}
    for r, v in zip(layer.out.rows, layer.out.vals):
        rows.setdefault(r, []).append(Fraction(v) / Fraction(OUT_SCALE))
    for r, weights in rows.items():
        grain = min(_grain(w) for w in weights)
        if sum(abs(w) for w in weights) / grain * H_LIMIT >= 1 << SUM_BITS:
            problems.append(f"sums into dim {r} may need more than {SUM_BITS} bits")
    return problems


def _grain(w: Fraction) -> Fraction:
    """The largest power of two that divides w."""
    return Fraction(w.numerator & -w.numerator, w.denominator)


def check_layers(m: Machine, layers: list[CompiledLayer], constants: list[int]) -> list[str]:
    """What is not exact about any layer."""
    return [f"layer {i}: {p}" for i, layer in enumerate(layers, 1) for p in check_layer(m, layer, constants)]
