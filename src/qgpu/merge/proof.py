"""What makes a merged checkpoint right, checked on every row of the vocabulary and of the head.

1. Silence: on every text row, rows of q and k overflow in every circuit layer, so that the layer adds exactly 0.
2. Finiteness: no other pre-activation of a text row reaches an infinity, so 0 times it is 0.
3. Counter: the decay that text adds in the first layer stays so small that halvings later in the same chunk are exact.
4. Output: after the last layer the next token's code decides the argmax over the whole vocabulary, whatever the model's own
   layers add.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..bf16 import round_bf16
from ..compile.placement import Placed
from ..compile.tensors import SILENCE
from ..errors import CheckpointError
from .base import Base
from .choose import NO_ROW, base_norm
from .own_layers import OwnBound
from .survey import normalised

F64 = NDArray[np.float64]
LOW, HIGH = 2.0 ** 65, 2.0 ** 125
"""A silencing row must lie between: its square overflows float32, it does not. A factor of two is kept on either side."""
FINITE = 2.0 ** 120
CHUNK = 64
COUNT_ERROR = 0.75 * 2.0 ** -9
"""A power of two that is off by less than 2^-9 of itself rounds to itself."""
ROUND = 1 + 2.0 ** -7
"""A rounding to bf16 and the input's own uncertainty, as a factor."""


@dataclass
class Proof:
    """Bounds that hold, with the vocabulary row that comes nearest to breaking each."""

    rows: int = 0
    zero_rows: int = 0
    silence_smallest: float = np.inf
    silence_smallest_row: int = -1
    silence_largest: float = 0.0
    largest_preactivation: float = 0.0
    counter_largest_a: float = -np.inf
    counter_row: int = -1
    counter_error: float = 0.0
    own_sublayer_largest: float = 0.0
    own_sublayer_limit: float = 0.0
    own_total_largest: float = 0.0
    own_inner_largest: float = 0.0
    logit_own: float = 0.0
    logit_machine_next: float = 0.0
    logit_text_next: float = 0.0
    logit_text_row: int = -1
    logit_rest: float = 0.0
    sublayers: list = field(default_factory=list)

    def as_dict(self) -> dict:
        return asdict(self)


def prove(base: Base, placed: Placed, head_scale: float, own: OwnBound) -> Proof:
    """Check everything. Raises CheckpointError naming the row or tensor that breaks a condition."""
    proof = Proof(sublayers=[[i, what, bound] for i, what, bound in own.sublayers])
    prove_text(base, placed, proof)
    prove_output(base, placed, head_scale, own, proof)
    return proof


def _refuse(base: Base, row: int, what: str, why: str) -> CheckpointError:
    return CheckpointError(f"{base.token_name(row)} {what}", where=str(base.folder), why=why, fix=NO_ROW)


# ---- text -----------------------------------------------------------------------------------------------------------
def prove_text(base: Base, placed: Placed, proof: Proof) -> None:
    """Conditions 1 to 3."""
    p, layers, hidden = placed.placement, placed.weights.layers, base.cfg.hidden_size
    dims, signs = [d for d, _ in p.silence], np.array([w for _, w in p.silence]) * SILENCE
    scales = {float(1 + layer.norm_in[d]) for layer in layers for d in dims}
    a = layers[0].a.dense().astype(np.float64)                                     # (heads, D)
    a *= 1.0 + layers[0].norm_in.astype(np.float64)
    for first, rows in base.rows():
        some = rows.any(axis=1)
        proof.rows += len(rows)
        proof.zero_rows += int((~some).sum())
        n = normalised(rows, base.cfg.rms_norm_eps)                                # (n, D)
        terms = n[:, dims] * signs                                                 # (n, 1 or 2)
        total = np.abs(terms.sum(axis=1))
        unsure = np.abs(terms).sum(axis=1) > 32 * total
        for scale in scales:
            size = np.where(some, total * scale, np.inf)
            at = int(np.argmin(size))
            if size[at] < proof.silence_smallest:
                proof.silence_smallest, proof.silence_smallest_row = float(size[at]), first + at
            if size[at] < LOW or (unsure & some).any():
                at = at if size[at] < LOW else int(np.argmax(unsure & some))
                raise _refuse(base, first + at, "does not silence the circuit", f"its reserved dims {dims} are too small")
            top = np.abs(terms).sum(axis=1) * scale
            proof.silence_largest = max(proof.silence_largest, float(top.max()))
            if top.max() > HIGH:
                raise _refuse(base, first + int(top.argmax()), "overflows the circuit", f"its reserved dims {dims} are too large")
        decay = (n @ a.T).max(axis=1)                                              # (n,)
        if decay.max() > proof.counter_largest_a:
            proof.counter_largest_a, proof.counter_row = float(decay.max()), first + int(decay.argmax())
    for number, layer in enumerate(layers, 1):
        if number > 1 and layer.a.nonzeros:
            raise CheckpointError(f"layer {number} has a decay that depends on the token", where=base.folder.name)
        gain = np.abs(1.0 + layer.norm_in.astype(np.float64))
        free = np.ones(hidden)
        free[dims] = 0                                                             # those are condition 1
        for coo in (layer.qkv, layer.z, layer.b):
            sums = np.zeros(coo.shape[0])
            np.add.at(sums, np.asarray(coo.rows, int), np.abs(np.asarray(coo.vals)) * (gain * free)[np.asarray(coo.cols, int)])
            proof.largest_preactivation = max(proof.largest_preactivation, float(sums.max()) * hidden ** 0.5)
    if proof.largest_preactivation > FINITE:
        raise CheckpointError("a circuit layer could overflow on text", where=base.folder.name)
    # the sum of decays over a chunk that text fills but for one token: one rounding for each halving that follows
    softplus = max(proof.counter_largest_a, 0.0) + 1.0
    span = float(2.0 ** np.ceil(np.log2((CHUNK - 1) * softplus + CHUNK)))
    m = placed.weights.machine
    items = m.stages * m.lanes + 2 * m.lanes
    proof.counter_error = items * span * 2.0 ** -25      # half a unit in the last place of a sum below span
    if proof.counter_error > COUNT_ERROR:
        raise _refuse(base, proof.counter_row, "disturbs the item counter", f"it makes the first layer's decay {proof.counter_largest_a:.1f}")


# ---- output ---------------------------------------------------------------------------------------------------------
def prove_output(base: Base, placed: Placed, head_scale: float, own: OwnBound, proof: Proof) -> None:
    """Condition 4.

    In the code dims the last circuit layer leaves exactly +-2^exponent. Numbers of at most 2^(exponent - 9) added one at a time
    round away there. Every other dim holds at most what the circuit left plus the model's own additions.
    """
    p, hidden, tied = placed.placement, base.cfg.hidden_size, base.cfg.tie_word_embeddings
    big = 2.0 ** p.exponent
    hot = [*p.code, *p.ones]
    limit = big * 2.0 ** -10
    proof.own_sublayer_largest, proof.own_sublayer_limit = own.largest, limit
    proof.own_total_largest, proof.own_inner_largest = float(own.total.max()), own.inner
    if own.largest > limit or own.inner > FINITE:
        layer, what, bound = max(own.sublayers, key=lambda s: s[2])
        raise CheckpointError(f"the {what} of layer {layer} may add {bound:.3g} to the residual stream", where=str(base.folder),
                              why=f"the machine's output is {big:.3g}; beside it at most {limit:.3g} rounds away", fix="merge another model")
    rest = placed.residue.astype(np.float64) + own.total                            # (D,)
    rest[hot] = 0
    square = (len(hot) * big ** 2 + np.array([0.0, (rest ** 2).sum()])) / hidden    # smallest and largest mean square
    weight = 1.0 + base_norm(base)                                                  # (D,)
    x = round_bf16((big / np.sqrt(square[0]) * weight[hot]).astype(np.float32)).astype(np.float64)   # (hot,)
    x_rest = rest / np.sqrt(square[0]) * np.abs(weight) * ROUND                     # (D,)
    if square[1] > square[0] * (1 + 2.0 ** -9):
        raise CheckpointError("the model's own layers may move the last norm", where=str(base.folder))
    codes = np.concatenate([placed.weights.codes, np.ones((len(placed.weights.codes), len(p.ones)))], axis=1)   # (M, hot)
    proof.logit_own = head_scale * float(x.sum())
    proof.logit_machine_next = head_scale * _nearest_code(codes, x)
    ballast = abs(p.ballast[1]) * float(x_rest[p.ballast[0]]) if tied else 0.0
    for first, rows in base.rows(head=True):
        size = np.abs(rows).astype(np.float64)
        text = size[:, hot] @ x                                                     # (n,)
        at = int(text.argmax())
        if text[at] > proof.logit_text_next:
            proof.logit_text_next, proof.logit_text_row = float(text[at]), first + at
        proof.logit_rest = max(proof.logit_rest, float((size @ x_rest).max()) + ballast)
    least = proof.logit_own / ROUND - proof.logit_rest                              # x is known to within ROUND
    gap = (proof.logit_own - proof.logit_machine_next) / ROUND
    if gap <= 2 * proof.logit_own * 2.0 ** -7:
        raise CheckpointError("two machine tokens may get the same logit", where=str(base.folder),
                              why="the final norm's weights on the code dims differ too much")
    if least <= (proof.logit_text_next * ROUND + proof.logit_rest) * ROUND * ROUND:
        raise _refuse(base, proof.logit_text_row, "may win over a machine token", f"its logit may reach {proof.logit_text_next:.3g}, "
                      f"a machine token's own is {proof.logit_own:.3g}")


def _nearest_code(codes: F64, x: F64) -> float:
    """The largest x-weighted agreement of two different codes. codes: (M, hot) of +-1, x: (hot,)."""
    best = -np.inf
    weighted = (codes * x).astype(np.float32)
    table = codes.astype(np.float32)
    for first in range(0, len(codes), 512):
        scores = weighted[first:first + 512] @ table.T                              # (512, M)
        scores[np.arange(len(scores)), first + np.arange(len(scores))] = -np.inf
        best = max(best, float(scores.max()))
    return best
