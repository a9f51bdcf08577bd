"""Which dims of a model's residual stream the circuit takes, and how large a machine token's embedding is.

Nothing here is trusted: `proof` checks the outcome against every row of the vocabulary and of the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import ceil, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from ..bf16 import round_bf16
from ..circuit.records import code_of
from ..compile.layout import constant_dims
from ..compile.placement import Placement
from ..errors import CheckpointError
from ..machine.description import Machine
from ..machine.tokens import KINDS, Token
from .base import Base, wide
from .survey import Survey, normalised

SMALLEST_SCALE, LARGEST_SCALE = 2.0 ** -4, 8.0
SPREADS = (1.25, 1.5, 2.0, 3.0)
"""How far the final norm's weights on the code dims may lie from their median, the tightest that leaves enough dims."""
TRIED_PAIRS = 48
MOST_ONES = 8
NO_ROW = "merge a model whose embedding has a dim without zeros"


@dataclass
class Choice:
    """placement: dims and sizes. head_scale: size of the machine's rows in an untied output head."""

    placement: Placement
    head_scale: float


def choose(base: Base, seen: Survey, m: Machine, exponent: int = 40) -> Choice:
    """Choose a placement. Raises CheckpointError, naming a vocabulary row, where the model has no room for one."""
    hidden = base.cfg.hidden_size
    silence = choose_silence(base, seen)
    taken = {d for d, _ in silence}
    n_code = len(code_of(m, Token("NOP")))
    weights = 1.0 + base_norm(base)                                       # (D,)
    spare = choose_code_dims(weights, seen, taken, n_code + MOST_ONES, base)
    code, ones = order_code(spare, seen, n_code)
    used = taken | set(spare)
    rest = [d for d in range(hidden) if d not in used]
    ballast_dim, constants = rest[0], rest[1:1 + constant_dims(hidden)]
    need = head_need(base, weights, [*code, *ones])
    head_scale = min(LARGEST_SCALE, max(SMALLEST_SCALE, 2.0 ** ceil(log2(2 * need)) if need else 0.0))
    scale = head_scale if base.cfg.tie_word_embeddings else SMALLEST_SCALE
    n_ones, gain, ballast = balance(hidden, base.cfg.rms_norm_eps, n_code, scale)
    return Choice(Placement(tuple(constants), silence, tuple(code), tuple(ones[:n_ones]), (ballast_dim, ballast), scale, gain, exponent),
                  head_scale)


def base_norm(base: Base) -> NDArray[np.float64]:
    """The final norm's stored weights (D,)."""
    return wide(base.weights.norm).astype(np.float64)


# ---- reserved dims --------------------------------------------------------------------------------------------------
def choose_silence(base: Base, seen: Survey) -> tuple[tuple[int, float], ...]:
    """One dim that no text row leaves near zero, else two that no row leaves near zero together nor lets cancel.

    Raises CheckpointError naming a row where neither exists.
    """
    free = [d for d, rows in enumerate(seen.weak) if rows == []]
    if free:
        smallest = np.full(base.cfg.hidden_size, np.inf)
        for _, rows in base.rows():
            some = rows[rows.any(axis=1)]
            if len(some):
                np.minimum(smallest, np.abs(normalised(some, base.cfg.rms_norm_eps)).min(axis=0), out=smallest)
        return ((max(free, key=lambda d: smallest[d]), 1.0),)
    few = sorted((d for d, rows in enumerate(seen.weak) if rows is not None), key=lambda d: len(seen.weak[d]))[:TRIED_PAIRS]
    pairs = [(a, b) for a, b in combinations(few, 2) if not set(seen.weak[a]) & set(seen.weak[b])]
    for a, b in pairs:
        for weight in (1.0, 2.0 ** -4, 2.0 ** -9, 2.0 ** 4, 2.0 ** 9):
            if cancelling_row(base, ((a, 1.0), (b, weight))) is None:
                return ((a, 1.0), (b, weight))
    if pairs:
        row = cancelling_row(base, ((pairs[0][0], 1.0), (pairs[0][1], 1.0)))
        why = f"dims {pairs[0][0]} and {pairs[0][1]} are the best pair, and cancel there"
    elif len(few) >= 2:
        row = min(set(seen.weak[few[0]]) & set(seen.weak[few[1]]))
        why = f"it is zero in dims {few[0]} and {few[1]}, and so is some row for every other pair"
    else:
        row, why = first_weak_row(base), "almost every dim is zero in many rows"
    raise CheckpointError(f"{base.token_name(row)} cannot be told from a machine token: no choice of reserved dims silences the circuit on it",
                          where=str(base.folder), why=why, fix=NO_ROW)


def first_weak_row(base: Base) -> int:
    """The row with the most zeros that is not wholly zero."""
    best = (-1, 0)
    for first, rows in base.rows():
        zeros = (rows == 0).sum(axis=1)
        zeros[zeros == rows.shape[1]] = -1
        best = max(best, (int(zeros.max()), first + int(zeros.argmax())))
    return best[1]


def cancelling_row(base: Base, silence: tuple[tuple[int, float], ...]) -> int | None:
    """A row in which the weighted sum of the reserved dims is small beside its terms; None if there is none."""
    dims, weights = [d for d, _ in silence], np.array([w for _, w in silence])
    for first, rows in base.rows():
        terms = normalised(rows, base.cfg.rms_norm_eps)[:, dims] * weights   # (n, 1 or 2)
        bad = (np.abs(terms.sum(axis=1)) < np.abs(terms).sum(axis=1) / 32) & rows.any(axis=1)
        if bad.any():
            return first + int(np.argmax(bad))
    return None


# ---- code dims ------------------------------------------------------------------------------------------------------
def choose_code_dims(weights: NDArray[np.float64], seen: Survey, taken: set[int], count: int, base: Base) -> list[int]:
    """Dims whose final norm weights are positive and alike, of those the ones in which the head is smallest."""
    able = [d for d in range(len(weights)) if d not in taken and weights[d] > 0]
    if able:
        median = float(np.median(weights[able]))
        for spread in SPREADS:
            near = [d for d in able if median / spread <= weights[d] <= median * spread]
            if len(near) >= count:
                return sorted(near, key=lambda d: seen.head[d])[:count]
    raise CheckpointError(f"the final norm has no {count} positive weights of one size", where=str(base.folder),
                          why="the machine's tokens need dims that the output head reads alike", fix="merge another model")


def order_code(dims: list[int], seen: Survey, n_code: int) -> tuple[list[int], list[int]]:
    """(code dims in the order of the token code, ones). The kinds that the item counter reads get the smallest embeddings."""
    quiet = sorted(dims, key=lambda d: seen.largest[d])
    counted = [KINDS.index("SVAL"), KINDS.index("MEM")]
    code: list[int] = [-1] * n_code
    for at, d in zip(counted, quiet):
        code[at] = d
    left = iter(quiet[len(counted):])
    code = [next(left) if d < 0 else d for d in code]
    return code, list(left)


def head_need(base: Base, weights: NDArray[np.float64], dims: list[int]) -> float:
    """Size of the code in the head beside which every text row is smaller: the largest weighted mean of |row| over dims."""
    part = weights[dims] / weights[dims].sum()
    return max(float((np.abs(rows[:, dims]).astype(np.float64) @ part).max()) for _, rows in base.rows(head=True))


def balance(hidden: int, eps: float, n_code: int, scale: float) -> tuple[int, float, float]:
    """(ones, gain, ballast) such that scale * gain / rms is 1 and gain is a power of two.

    rms^2 = ((n_code + ones) scale^2 + ballast^2) / hidden + eps.
    """
    for k in range(-5, 1):
        gain = 2.0 ** k
        for ones in range(MOST_ONES, 1, -1):
            square = hidden * ((scale * gain) ** 2 - eps) - (n_code + ones) * scale ** 2
            if square < 0:
                continue
            ballast = float(round_bf16(np.float32(sqrt(square))))
            rms = sqrt(((n_code + ones) * scale ** 2 + ballast ** 2) / hidden + eps)
            if abs(scale * gain / rms - 1) < 2.0 ** -11:
                return ones, gain, ballast
    raise CheckpointError("no embedding of the machine's tokens makes the first norm exact", why=f"eps {eps}, scale {scale}")
