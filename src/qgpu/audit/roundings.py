"""The bf16 audit: a launch through the dense forward pass of the definition, every rounding of every layer watched.

`Watching` is the arithmetic of `qgpu.qwen.naive` that also keeps what it rounds. A rounding that changes a value is counted; it is
*harmful* where it could reach a result. Some change bits by design, and are not harmful if they land on the number that the circuit
means (docs/certificate.md and docs/numerics.md say why they must):

    ln1            h / rms * (1 + w): rsqrt is inexact; it must land on the integer that the residual holds (which must be one), on 1 in
                   constant dims
    recurrence, head norm, norm weight
                   the division by sqrt(128) and the head's rsqrt; after the norm's weight it must land on f * 2^-30
    in_proj_qkv, in_proj_z
                   forms beyond 256 lose bits where a partner factor is 0 or the form is negative: only those that pass count
    ln2            its readers, the MLP's weights, are all 0

fp32 operations within the delta rule (decays, the triangular solve, the product with 128^-1/2) have no bf16 rounding; what they leave
is judged where it lands. The empty attention layer on top adds 0 and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..bf16 import round_bf16
from ..compile.compiler import CircuitWeights
from ..compile.tensors import CONST_DIMS, SCALE
from ..engine.dense import circuit_model_config, dense_layer
from ..errors import CheckError
from ..qwen.arithmetic import Arithmetic
from ..qwen.cache import new_linear_cache
from ..qwen.naive import linear_layer
from .signals import map_of

F32 = NDArray[np.float32]
OPERATIONS = ("ln1", "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "conv1d", "silu", "beta", "recurrence", "head norm",
              "norm weight", "gated", "out_proj", "residual", "ln2", "gate_proj", "up_proj", "mlp silu", "mlp product", "down_proj",
              "residual after mlp")
"""The roundings of one layer, in order."""

HEAD_UNIT = 2.0 ** -30
"""What a value of 1 leaves a head's norm as, its weight applied."""
GATED_UNIT = HEAD_UNIT * SCALE
"""The same after a gate of 1: what out_proj reads."""
NORM_ALLOWED = 2.0 ** -10
"""Of the sum of squares that may join a norm's constants (docs/numerics.md, e)."""
SUM_BITS = 24
BATCH = 256
"""Tokens that a prefill takes through a layer at once; four chunks of the delta rule."""


@dataclass
class Operation:
    """values: rounded. changed: of these, not bf16 numbers before. harmful: of these, where it matters. farthest: the largest relative change.
    sums: fp32 sums that are not exact. bits: that the largest partial sum, in any order, can need."""

    values: int = 0
    changed: int = 0
    harmful: int = 0
    farthest: float = 0.0
    sums: int = 0
    bits: int = 0

    def add(self, other: "Operation") -> None:
        """Join the counts of another."""
        for name in ("values", "changed", "harmful", "sums"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.farthest, self.bits = max(self.farthest, other.farthest), max(self.bits, other.bits)


@dataclass
class Roundings:
    """layers[i][operation]. stream_norm, head_norm: most of a norm's squares beside its constants, largest of all. smallest: the smallest
    positive pre-activation, in units of 128: 1 where all are integers. gap: the least lead of the chosen token's logit over the next,
    as a part of it. boundaries: the stream before the first layer and after each, (n, D) float32, if kept. ids: the tokens."""

    tokens: int = 0
    layers: list[dict[str, Operation]] = field(default_factory=list)
    stream_norm: float = 0.0
    head_norm: float = 0.0
    smallest: float = float("inf")
    gap: float = float("inf")
    boundaries: list[F32] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    @property
    def harmful(self) -> int:
        return sum(op.harmful + op.sums for layer in self.layers for op in layer.values())

    def total(self) -> dict[str, Operation]:
        """By operation, over all layers."""
        out = {name: Operation() for name in OPERATIONS}
        for layer in self.layers:
            for name, op in layer.items():
                out[name].add(op)
        return out

    def as_dict(self) -> dict:
        """For JSON."""
        return {"tokens": self.tokens, "harmful": self.harmful, "stream_norm": self.stream_norm, "head_norm": self.head_norm,
                "norm_allowed": NORM_ALLOWED, "smallest_preactivation": self.smallest, "logit_gap": self.gap,
                "layers": [{name: vars(op) for name, op in layer.items()} for layer in self.layers]}


class Products:
    """Exact sums of a matrix (m, K) with inputs, from its nonzeros. unit: inputs are integers times this, but for `fractions`, dims whose
    rows are left out of `bits`."""

    def __init__(self, weight: F32, unit: float = 1.0, fractions: Sequence[int] = ()) -> None:
        rows, self.cols = np.nonzero(weight)
        self.w = weight[rows, self.cols].astype(np.float64)
        self.used = rows[np.diff(rows, prepend=-1) > 0]
        self.starts = np.flatnonzero(np.diff(rows, prepend=-1))
        if len(rows):
            mantissa, exponent = np.frexp(self.w)
            whole = np.abs(mantissa * 256).astype(np.int64)
            grains = np.ldexp((whole & -whole).astype(np.float64), exponent - 8) * unit          # lowest bit of every term
            self.grain = np.minimum.reduceat(grains, self.starts)                                # (used,)
            self.grain[np.add.reduceat(np.isin(self.cols, fractions).astype(int), self.starts) > 0] = np.inf

    def check(self, x: F32, found: F32) -> tuple[NDArray[np.bool_], int]:
        """(where a sum is not exact (n, m), most bits that a partial sum in any order can need). x (n, K), found (n, m) fp32."""
        off, bits = found != 0, 0
        if not len(self.used):
            return off, 0
        for t in range(len(x)):
            terms = self.w * x[t, self.cols]
            off[t, self.used] = found[t, self.used] != np.add.reduceat(terms, self.starts)
            most = (np.add.reduceat(np.abs(terms), self.starts) / self.grain).max()
            bits = max(bits, int(np.floor(most)).bit_length())
        return off, bits


class Watching(Arithmetic):
    """bf16 arithmetic that keeps (before, after) of every rounding since `clear`, and checks the sums of products.

    fractions: dims of the layer's input that hold a fraction.
    """

    def __init__(self, fractions: Sequence[int] = ()) -> None:
        super().__init__(bf16=True)
        for name, value in (("kept", []), ("sums", {}), ("products", {}), ("fractions", fractions)):
            object.__setattr__(self, name, value)

    def clear(self) -> None:
        """Before another call of the layer."""
        self.kept.clear()
        self.sums.clear()

    def round(self, x: F32) -> F32:
        y = super().round(x)
        self.kept.append((x, y))
        return y

    def linear(self, x: F32, weight: NDArray, bias: NDArray | None = None) -> F32:
        """As the definition; notes which fp32 sums are not exact, and how many bits a partial sum can need."""
        out = super().linear(x, weight, bias)
        if id(weight) not in self.products:
            name = OPERATIONS[len(self.kept) - 1]
            fractions = self.fractions if name.startswith("in_proj") else ()
            self.products[id(weight)] = Products(weight, GATED_UNIT if name == "out_proj" else 1.0, fractions)
        self.sums[len(self.kept) - 1] = self.products[id(weight)].check(x, self.kept[-1][0])
        return out


def power_near(x: F32) -> F32:
    """The power of two nearest to x in its exponent, or 0."""
    safe = np.where(x > 0, x, 1).astype(np.float64)
    return np.where(x > 0, 2.0 ** np.rint(np.log2(safe)), 0).astype(np.float32)


class LayerJudge:
    """Says of one layer's roundings which are harmful. fractions: dims of its input that need not hold integers."""

    def __init__(self, w: CircuitWeights, number: int, fractions: Sequence[int]) -> None:
        self.w, self.layer, self.fractions = w, w.layers[number - 1], list(fractions)
        m = w.machine
        self.shape = (m.heads, m.head_dim)
        logic = np.zeros(m.heads, bool)
        logic[[h for h, kind in enumerate(self.layer.head_kinds) if kind == "logic"]] = True
        self.logic = logic[None, :, None]
        self.counts = (self.layer.dt_bias == 0)[None, :, None]
        v_taps = self.layer.conv[2 * m.heads * m.head_dim:, :3].any(axis=1)
        self.looks_back = v_taps.reshape(1, *self.shape)

    def judge(self, h: F32, ar: Watching, report: Roundings) -> dict[str, Operation]:
        """The operations of one call, which took h (n, D)."""
        kept = dict(zip(OPERATIONS, ar.kept, strict=True))
        after = {name: y for name, (_, y) in kept.items()}
        n, (heads, dim) = len(h), self.shape
        by_head = lambda x: x.reshape(n, heads, dim)
        kd = heads * dim
        z, o, scaled = by_head(after["in_proj_z"]), after["recurrence"], after["norm weight"]
        v = by_head(after["silu"][:, 2 * kd:])
        harm: dict[str, NDArray[np.bool_]] = {}
        target = h.copy()
        target[:, self.w.constants] = 1
        whole = h == np.rint(h)
        whole[:, self.fractions] = True
        harm["ln1"] = (after["ln1"] != target) | ~whole
        qkv = after["in_proj_qkv"]
        passes = np.concatenate([qkv[:, :2 * kd] > 0, ((by_head(qkv[:, 2 * kd:]) > 0) & ((z > 0) | ~self.logic | self.looks_back))
                                 .reshape(n, kd)], axis=1)
        harm["in_proj_qkv"] = passes
        harm["in_proj_z"] = ((z > 0) & (o != 0)).reshape(n, kd)
        harm["conv1d"] = harm["silu"] = after["silu"] != 0
        harm["beta"] = after["beta"] != 1
        harm["beta"][:, len(self.layer.head_kinds):] = False
        wanted = np.where(self.logic, v * np.float32(HEAD_UNIT / SCALE), np.rint(scaled / HEAD_UNIT) * np.float32(HEAD_UNIT))
        wanted = np.where(self.counts, power_near(scaled), wanted)         # the item counter: any power of two
        wrong = (scaled != wanted) & (z > 0)
        wrong[..., :CONST_DIMS] = False
        harm["norm weight"] = wrong
        for name in ("recurrence", "head norm", "ln2"):
            harm[name] = np.zeros(after[name].shape, bool)
        harm["gated"] = after["gated"] != 0
        out: dict[str, Operation] = {}
        for k, (name, (x, y)) in enumerate(kept.items()):
            changed = x.view(np.uint32) != y.view(np.uint32)
            landed = name in ("ln1", "beta", "norm weight")                # judged by the value, whether or not bits changed
            where = harm.get(name)
            bad = where if landed else changed if where is None else changed & where
            far = np.abs((y[changed] - x[changed]) / x[changed]) if changed.any() else np.zeros(1)
            inexact, bits = ar.sums.get(k, (np.zeros((1, 1), bool), 0))
            sums = int((inexact & where).sum()) if where is not None and inexact.shape == where.shape else int(inexact.sum())
            out[name] = Operation(x.size, int(changed.sum()), int(bad.sum()), float(far.max()), sums, bits)
        self._margins(h, after, o, z, report)
        return out

    def _margins(self, h: F32, after: dict, o: F32, z: F32, report: Roundings) -> None:
        constant = np.zeros(h.shape[1], bool)
        constant[self.w.constants] = True
        square = lambda x: (x.astype(np.float64) ** 2).sum(axis=-1)
        report.stream_norm = max(report.stream_norm, float((square(h[:, ~constant]) / square(h[:, constant])).max()))
        own, data = square(o[..., :CONST_DIMS]), square(o[..., CONST_DIMS:])
        report.head_norm = max(report.head_norm, float(np.divide(data, own, out=np.zeros_like(own), where=own > 0).max()))
        for x in (after["in_proj_qkv"], after["in_proj_z"]):
            if (x > 0).any():
                report.smallest = min(report.smallest, float(x[x > 0].min()) / SCALE)


def watch(w: CircuitWeights, ids: Sequence[int], setup: int, *, keep: bool = False, progress: Callable[[str], None] | None = None) -> Roundings:
    """Run a stream, layer by layer: the first `setup` tokens in chunked calls, each later one by the recurrent rule.

    keep: keep the residual stream at every boundary. progress: told of every layer.
    """
    m, cfg, names = w.machine, circuit_model_config(w), map_of(w)
    report = Roundings(len(ids), ids=list(ids))
    h = w.embedding()[np.asarray(ids, np.int64)]                               # (n, D)
    spans = [(a, min(a + BATCH, setup)) for a in range(0, setup, BATCH)] + [(t, t + 1) for t in range(setup, len(ids))]
    report.boundaries = [h] if keep else []
    for number, layer in enumerate(w.layers, 1):
        if progress is not None:
            progress(f"layer {number} of {len(w.layers)}")
        dense, cache = dense_layer(m, layer), new_linear_cache(cfg)
        fractions = [d for d, s, *_ in names.boundaries[number - 1] if names.kind[s] == "fraction"]
        ar, judge, total = Watching(fractions), LayerJudge(w, number, fractions), {name: Operation() for name in OPERATIONS}
        out = np.empty_like(h)
        for a, b in spans:
            ar.clear()
            out[a:b] = linear_layer(h[a:b], dense, cfg, cache, ar=ar)
            for name, op in judge.judge(h[a:b], ar, report).items():
                total[name].add(op)
        report.layers.append(total)
        h = out
        if keep:
            report.boundaries.append(h)
    report.gap = logit_gap(w, h[max(setup - 1, 0):-1])
    return report


def logit_gap(w: CircuitWeights, h: F32) -> float:
    """The least lead of the largest logit over the next, as a part of it, at the positions h (n, D). The final norm's weight is 1."""
    gap = float("inf")
    embedding = round_bf16(w.embedding())
    for row in h:
        x = round_bf16(row / np.sqrt(np.mean(row.astype(np.float64) ** 2) + 1e-6).astype(np.float32))
        best, second = np.sort(embedding @ x)[-1:-3:-1]
        gap = min(gap, float((best - second) / abs(best)))
    return gap


def refuse(report: Roundings) -> None:
    """Raise CheckError where a rounding or a sum was harmful, or a norm moved more than is allowed."""
    for number, layer in enumerate(report.layers, 1):
        for name, op in layer.items():
            if op.harmful or op.sums:
                raise CheckError(f"{op.harmful + op.sums} values of {name} are not what exact arithmetic gives", where=f"layer {number}",
                                 fix="this is a fault of the weights or of qgpu")
    worst = max(report.stream_norm, report.head_norm)
    if worst > NORM_ALLOWED:
        raise CheckError(f"a norm's constants are joined by {worst:g} of their squares", why=f"{NORM_ALLOWED:g} is allowed")
