"""What the fast forward prepares of a layer's weights once: matrices by the input they share, small vectors in float32."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qgpu.qwen.arithmetic import LANES, Arithmetic
from qgpu.qwen.elementary import exp
from qgpu.qwen.weights import FullLayer, LinearLayer

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]


class Matrices:
    """Weight matrices (m_i, K) that take the same input, and their biases.

    plain: all are bf16, need no padding and have no bias, so that one kernel call does it all.
    parts: addresses and numbers of rows, as that kernel takes them; they are those of ``weights``, which must live on.
    """

    def __init__(self, weights: list[NDArray], biases: list[NDArray | None] | None = None) -> None:
        self.weights = weights
        self.biases = biases or [None] * len(weights)
        self.widths = [weight.shape[0] for weight in weights]
        self.parts: tuple[I64, I64] = (
            np.array([weight.ctypes.data for weight in weights], np.int64),
            np.array(self.widths, np.int64),
        )
        self.plain = all(bias is None for bias in self.biases) and all(
            weight.dtype == np.uint16 and weight.shape[1] % LANES == 0 and weight.flags.c_contiguous for weight in weights
        )


class ByInput(NamedTuple):
    """A layer's matrices, those with the same input together."""

    mixer_in: Matrices
    mixer_out: Matrices
    mlp_in: Matrices
    mlp_out: Matrices


class LinearSmall(NamedTuple):
    """The small vectors of a linear layer, float32; norms as the factor they multiply by."""

    input: F32  # (D,)
    post: F32  # (D,)
    taps: F32  # (K, C)
    rate: F32  # (Hv,): e^A_log
    dt_bias: F32  # (Hv,)
    gated: F32  # (Dv,)


class FullSmall(NamedTuple):
    """The small vectors of a full layer, as LinearSmall."""

    input: F32  # (D,)
    post: F32  # (D,)
    q: F32  # (E,)
    k: F32  # (E,)


def by_input(w: LinearLayer | FullLayer) -> ByInput:
    """A layer's matrices by their inputs."""
    if isinstance(w, LinearLayer):
        inward, outward = Matrices([w.qkv, w.z, w.b, w.a]), Matrices([w.out])
    else:
        inward, outward = Matrices([w.q, w.k, w.v], [w.q_bias, w.k_bias, w.v_bias]), Matrices([w.o], [w.o_bias])
    return ByInput(inward, outward, Matrices([w.gate, w.up]), Matrices([w.down]))


def small_of(w: LinearLayer | FullLayer, ar: Arithmetic) -> LinearSmall | FullSmall:
    """A layer's small vectors."""
    norms = norm_factor(w.input_norm, ar), norm_factor(w.post_norm, ar)
    if isinstance(w, FullLayer):
        return FullSmall(*norms, norm_factor(w.q_norm, ar), norm_factor(w.k_norm, ar))
    taps = np.ascontiguousarray(ar.widen(np.asarray(w.conv)).T)
    rate, dt_bias, gated = (np.array(ar.widen(np.asarray(part))) for part in (w.a_log, w.dt_bias, w.gated_norm))
    return LinearSmall(*norms, taps, exp(rate), dt_bias, gated)


def norm_factor(weight: NDArray, ar: Arithmetic) -> F32:
    """1 + weight, which a norm multiplies by. weight: (d,)."""
    return np.float32(1.0) + ar.widen(np.asarray(weight))
