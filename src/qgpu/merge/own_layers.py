"""How much a model's own layers can add to the residual stream, whatever the token: a bound from norms of its weights.

Every sublayer reads a normalised input, so its output is bounded by its weights alone. With ||x|| the largest 2-norm of an
input, x_i = n_i (1 + w_i) and ||n|| <= sqrt(D):

    linear attention   |z_j| <= ||Z_j|| ||x||; the head's own norm leaves 2-norm at most sqrt(Dv), times |weight_j silu(z_j)| with
                       |silu(z)| <= |z|; then |out_i| <= ||O_i|| ||y||. What the state holds does not matter.
    full attention     a weighted mean of values, |v_j| <= ||V_j|| ||x|| + |bias|, times a sigmoid: |out_i| <= ||O_i|| ||v||
    MLP                |silu(g_j) u_j| <= ||G_j|| ||U_j|| ||x||^2; |out_i| <= ||D_i|| ||gu||

SLACK covers every rounding on the way: fewer than ten roundings to bf16 at 2^-8 each, and float32 sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..qwen.config import Config
from ..qwen.weights import FullLayer, LinearLayer, layer_names
from .base import Base, wide

F64 = NDArray[np.float64]
SLACK = 1.25
BLOCK = 1 << 22


@dataclass
class OwnBound:
    """sublayers: (layer, what, largest |addition| to any dim). total (D,): bound on the sum of all additions to each dim.

    inner: the largest number anywhere inside (it must stay finite).
    """

    sublayers: list[tuple[int, str, float]]
    total: F64
    inner: float

    @property
    def largest(self) -> float:
        return max((b for _, _, b in self.sublayers), default=0.0)


def row_norms(matrix: NDArray) -> F64:
    """2-norm of every row. (m, K) -> (m,)."""
    out = np.empty(len(matrix))
    step = max(1, BLOCK // matrix.shape[1])
    for r in range(0, len(matrix), step):
        part = wide(matrix[r:r + step])
        out[r:r + step] = np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64))
    return out


def bound_own_layers(base: Base, progress: Callable[[str], None] = lambda text: None) -> OwnBound:
    """Bound every sublayer of the model. Raises CheckpointError naming a tensor that holds an infinity or a NaN."""
    cfg = base.cfg
    sublayers: list[tuple[int, str, float]] = []
    total, inner = np.zeros(cfg.hidden_size), 0.0
    for i, w in enumerate(base.weights.layers):
        progress(f"bounding layer {i + 1} of {len(base.weights.layers)}")
        _all_finite(base, i, w)
        mix, mix_inner = bound_linear(w, cfg) if isinstance(w, LinearLayer) else bound_full(w, cfg)
        mlp, mlp_inner = bound_mlp(w, cfg)
        for what, bound in (("attention", mix), ("mlp", mlp)):
            sublayers.append((i, what, float(bound.max())))
            total += bound
        inner = max(inner, mix_inner, mlp_inner)
        base.tensors.release()
    # each addition to a dim is rounded: a factor of at most 1 + 2^-8 on everything before it
    return OwnBound(sublayers, total * (1 + 2.0 ** -8) ** (2 * len(base.weights.layers)), inner)


def input_norm(weight: NDArray, cfg: Config) -> float:
    """Largest 2-norm of a normalised input."""
    return float(np.abs(1.0 + wide(weight).astype(np.float64)).max() * cfg.hidden_size ** 0.5)


def bound_linear(w: LinearLayer, cfg: Config) -> tuple[F64, float]:
    """(D,) bound on a Gated DeltaNet sublayer's output, and the largest number inside."""
    x, size = input_norm(w.input_norm, cfg), cfg.linear_value_head_dim
    z = row_norms(w.z) * x                                                         # (Hv Dv,)
    scaled = np.abs(wide(w.gated_norm).astype(np.float64)) * z.reshape(-1, size)   # (Hv, Dv)
    y = float(np.sqrt((size * scaled.max(axis=1) ** 2).sum()))
    inner = max(float((row_norms(w.qkv) * x).max()) * float(np.abs(wide(w.conv)).sum(axis=1).max()), float(z.max()), y)
    return SLACK * row_norms(w.out) * y, inner


def bound_full(w: FullLayer, cfg: Config) -> tuple[F64, float]:
    """(D,) bound on a full-attention sublayer's output, and the largest number inside."""
    x, size = input_norm(w.input_norm, cfg), cfg.head_dim
    v = row_norms(w.v) * x                                                         # (G E,)
    if w.v_bias is not None:
        v = v + np.abs(wide(w.v_bias))
    of_head = np.sqrt((v.reshape(-1, size) ** 2).sum(axis=1))                      # (G,)
    o = float(np.sqrt((of_head ** 2).sum() * (cfg.num_attention_heads // cfg.num_key_value_heads)))
    out = SLACK * row_norms(w.o) * o
    if w.o_bias is not None:
        out = out + np.abs(wide(w.o_bias))
    return out, max(float((row_norms(w.q) * x).max()), float((row_norms(w.k) * x).max()), o)


def bound_mlp(w: LinearLayer | FullLayer, cfg: Config) -> tuple[F64, float]:
    """(D,) bound on an MLP's output, and the largest number inside."""
    x = input_norm(w.post_norm, cfg)
    product = row_norms(w.gate) * row_norms(w.up) * x ** 2                          # (I,)
    inner = float(np.sqrt((product ** 2).sum()))
    return SLACK * row_norms(w.down) * inner, inner


def _all_finite(base: Base, index: int, w: LinearLayer | FullLayer) -> None:
    for field, name in layer_names(base.cfg, index).items():
        tensor = np.asarray(getattr(w, field))
        step = max(1, BLOCK // max(1, tensor[0].size))
        for r in range(0, len(tensor), step):
            part = tensor[r:r + step]
            good = (part & 0x7F80) != 0x7F80 if part.dtype == np.uint16 else np.isfinite(part)
            if not good.all():
                full = f"{base.prefix}layers.{index}.{name}"
                entry = base.tensors.entries[full]
                raise CheckpointError(f"tensor {full} holds an infinity or a NaN", where=str(entry.path),
                                      why="the file is damaged, or the training diverged", fix="download the checkpoint again")
