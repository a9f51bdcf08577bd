"""Gated full attention, by the definition.

The rounding points are those of transformers' *eager* attention, which its modelling code writes out: scores, scaled
scores, probabilities and the weighted sum are each rounded. (Its other backends are fused kernels that round less and
whose order depends on block sizes; they differ from eager by about as much as its own two delta rules differ.)
n new tokens, T positions so far including them; H query heads and G key-value heads of size E, R of it rotary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qgpu.qwen.arithmetic import Arithmetic
from qgpu.qwen.cache import FullCache
from qgpu.qwen.config import Config
from qgpu.qwen.elementary import exp, rsqrt, sigmoid
from qgpu.qwen.hooks import Tap
from qgpu.qwen.weights import FullLayer

F32 = NDArray[np.float32]


def rms_norm(x: F32, weight: NDArray, eps: float, ar: Arithmetic) -> F32:
    """x / rms(x) * (1 + weight), one rounding at the end. x: (..., d), weight: (d,)."""
    mean = ar.total(x * x) / np.float32(x.shape[-1])  # (..., 1)
    normed = x * rsqrt(mean + np.float32(eps))  # (..., d)
    return ar.round(normed * (np.float32(1.0) + ar.widen(weight)))


def rotary_table(cfg: Config, start: int, n: int, ar: Arithmetic) -> tuple[F32, F32]:
    """cos and sin for positions start .. start+n-1, each (n, R).

    Frequencies and angles are float32 whatever the model's dtype (a loaded model keeps them so); cos and sin are
    rounded. All three of Qwen3.5's position axes are equal on text, so the axes need no mixing.
    """
    half = np.arange(0, cfg.rotary_dim, 2, dtype=np.float32) / np.float32(cfg.rotary_dim)  # (R/2,)
    power = np.power(np.float64(cfg.rope_theta), half.astype(np.float64)).astype(np.float32)  # (R/2,)
    frequency = np.float32(1.0) / power  # (R/2,)
    angle = np.arange(start, start + n, dtype=np.float32)[:, None] * frequency  # (n, R/2)
    wide = np.concatenate([angle, angle], axis=1).astype(np.float64)  # (n, R)
    return ar.round(np.cos(wide).astype(np.float32)), ar.round(np.sin(wide).astype(np.float32))


def rotate(x: F32, cos: F32, sin: F32, ar: Arithmetic) -> F32:
    """Turn the first R components of each head by position. x: (n, heads, E), cos, sin: (n, R) -> (n, heads, E)."""
    r = cos.shape[-1]
    turn, keep = x[..., :r], x[..., r:]
    swapped = np.concatenate([-turn[..., r // 2 :], turn[..., : r // 2]], axis=-1)  # (n, heads, R)
    turned = ar.round(ar.round(turn * cos[:, None]) + ar.round(swapped * sin[:, None]))  # (n, heads, R)
    return np.concatenate([turned, keep], axis=-1)


def gated_attention(
    x: F32, w: FullLayer, cfg: Config, cache: FullCache, start: int, ar: Arithmetic, tap: Tap
) -> F32:
    """x: (n, D), the layer's normalised input, at positions start on -> (n, D). Appends to cache."""
    n, heads, groups, size = x.shape[0], cfg.num_attention_heads, cfg.num_key_value_heads, cfg.head_dim
    x = tap("hook_in", x)
    both = ar.linear(x, w.q, w.q_bias).reshape(n, heads, 2, size)  # query and gate, head by head
    gate = tap("hook_gate", both[:, :, 1])  # (n, H, E)
    q = tap("hook_q", rms_norm(both[:, :, 0], w.q_norm, cfg.rms_norm_eps, ar))  # (n, H, E)
    k = ar.linear(x, w.k, w.k_bias).reshape(n, groups, size)  # (n, G, E)
    k = tap("hook_k", rms_norm(k, w.k_norm, cfg.rms_norm_eps, ar))  # (n, G, E)
    v = tap("hook_v", ar.linear(x, w.v, w.v_bias).reshape(n, groups, size))  # (n, G, E)
    cos, sin = rotary_table(cfg, start, n, ar)  # (n, R) each
    q = tap("hook_rot_q", rotate(q, cos, sin, ar))  # (n, H, E)
    k = tap("hook_rot_k", rotate(k, cos, sin, ar))  # (n, G, E)

    cache.append(k, v)
    keys, values = (np.repeat(part, heads // groups, axis=1).transpose(1, 0, 2) for part in cache.read())  # (H, T, E)
    scores = ar.round(ar.contract(q.transpose(1, 0, 2), keys))  # (H, n, T)
    scores = ar.round(scores * np.float32(size**-0.5))  # (H, n, T)
    later = np.triu(np.ones((n, cache.length), bool), cache.length - n + 1)  # (n, T): positions not yet seen
    scores = tap("hook_attn_scores", np.where(later, np.float32(-np.inf), scores))  # (H, n, T)
    pattern = tap("hook_pattern", ar.round(softmax(scores, ar)))  # (H, n, T)
    mixed = ar.round(ar.contract(pattern, values.swapaxes(1, 2)))  # (H, n, E)
    mixed = tap("hook_z", mixed.transpose(1, 0, 2))  # (n, H, E)
    mixed = ar.round(mixed * ar.round(sigmoid(gate)))  # (n, H, E)
    return tap("hook_out", ar.linear(mixed.reshape(n, -1), w.o, w.o_bias))  # (n, D)


def softmax(scores: F32, ar: Arithmetic) -> F32:
    """Over the last axis, float32. scores: (..., T), -inf where nothing is to be seen."""
    e = exp(scores - scores.max(axis=-1, keepdims=True))
    return e / ar.total(e)
