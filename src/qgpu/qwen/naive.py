"""The forward pass of a dense Qwen3.5 text model in plain NumPy: the definition that everything else is held to.

Every value is a float32 array. In a bf16 model (``cfg.dtype == "bfloat16"``) the values are bf16 numbers wherever
transformers 5.24 holds a bf16 tensor, rounded at the same places. Overflow to infinity and what follows from it
(``rsqrt(inf) = 0``) are part of the definition and raise no warnings. n tokens, D hidden_size, I intermediate_size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qgpu.bf16 import decode
from qgpu.qwen.arithmetic import Arithmetic
from qgpu.qwen.attention import gated_attention, rms_norm
from qgpu.qwen.cache import Cache, FullCache, LinearCache, new_cache, new_full_cache, new_linear_cache
from qgpu.qwen.config import Config
from qgpu.qwen.delta import gated_delta_net
from qgpu.qwen.elementary import silu
from qgpu.qwen.hooks import Hook, Tap
from qgpu.qwen.weights import FullLayer, LinearLayer, Weights

F32 = NDArray[np.float32]


def arithmetic(cfg: Config, strict: bool = False) -> Arithmetic:
    """The arithmetic a config asks for."""
    return Arithmetic(bf16=cfg.dtype == "bfloat16", strict=strict)


@np.errstate(all="ignore")
def linear_layer(
    h: F32,
    w: LinearLayer,
    cfg: Config,
    cache: LinearCache | None = None,
    *,
    hook: Hook | None = None,
    name: str = "",
    strict: bool = False,
    ar: Arithmetic | None = None,
) -> F32:
    """One whole Gated DeltaNet layer, its MLP included.

    h: (n, D) float32 holding bf16 numbers (in a bf16 model) -> (n, D), likewise. ``cache`` is updated; None stands for
    an empty one. One token onto a started cache takes the recurrent rule, anything else the chunked rule, as in
    transformers. Hooks get ``{name}.`` before the names below ``blocks.{i}.``. Weights may be bf16 bits or float32.
    ``ar`` may bring another arithmetic than the config's own.
    """
    ar, tap = ar or arithmetic(cfg, strict), Tap(hook, f"{name}." if name else "")
    cache = new_linear_cache(cfg) if cache is None else cache
    h = tap("hook_resid_pre", h)  # (n, D)
    x = tap("ln1.hook_normalized", rms_norm(h, w.input_norm, cfg.rms_norm_eps, ar))  # (n, D)
    h = ar.round(h + gated_delta_net(x, w, cfg, cache, ar, tap.under("linear_attn")))  # (n, D)
    return _mlp_half(h, w, cfg, ar, tap)


@np.errstate(all="ignore")
def full_layer(
    h: F32,
    w: FullLayer,
    cfg: Config,
    cache: FullCache | None = None,
    start: int = 0,
    *,
    hook: Hook | None = None,
    name: str = "",
    strict: bool = False,
    ar: Arithmetic | None = None,
) -> F32:
    """One whole full-attention layer. h: (n, D) at positions start, start+1, ... -> (n, D). ``cache`` is updated."""
    ar, tap = ar or arithmetic(cfg, strict), Tap(hook, f"{name}." if name else "")
    cache = new_full_cache(cfg) if cache is None else cache
    h = tap("hook_resid_pre", h)  # (n, D)
    x = tap("ln1.hook_normalized", rms_norm(h, w.input_norm, cfg.rms_norm_eps, ar))  # (n, D)
    h = ar.round(h + gated_attention(x, w, cfg, cache, start, ar, tap.under("attn")))  # (n, D)
    return _mlp_half(h, w, cfg, ar, tap)


def _mlp_half(h: F32, w: LinearLayer | FullLayer, cfg: Config, ar: Arithmetic, tap: Tap) -> F32:
    """The second half of either kind of layer. h: (n, D) -> (n, D)."""
    h = tap("hook_resid_mid", h)  # (n, D)
    x = tap("ln2.hook_normalized", rms_norm(h, w.post_norm, cfg.rms_norm_eps, ar))  # (n, D)
    h = ar.round(h + mlp(x, w, ar, tap))  # (n, D)
    return tap("hook_resid_post", h)


def mlp(x: F32, w: LinearLayer | FullLayer, ar: Arithmetic, tap: Tap) -> F32:
    """SwiGLU: down(silu(gate x) * up x). x: (n, D) -> (n, D)."""
    gate = tap("mlp.hook_pre", ar.linear(x, w.gate))  # (n, I)
    up = tap("mlp.hook_pre_linear", ar.linear(x, w.up))  # (n, I)
    inner = tap("mlp.hook_post", ar.round(ar.round(silu(gate)) * up))  # (n, I)
    return tap("hook_mlp_out", ar.linear(inner, w.down))  # (n, D)


def embed(ids: Sequence[int] | NDArray, weights: Weights) -> F32:
    """The embedding rows. ids: (n,) -> (n, D)."""
    rows = weights.embed[np.asarray(ids, np.int64)]
    return decode(rows) if rows.dtype == np.uint16 else rows


@np.errstate(all="ignore")
def forward(
    ids: Sequence[int] | NDArray,
    weights: Weights,
    cfg: Config,
    cache: Cache | None = None,
    *,
    hook: Hook | None = None,
    strict: bool = False,
    last: bool = False,
    ar: Arithmetic | None = None,
) -> F32:
    """Logits after each of n tokens: (n, vocab) float32, or (1, vocab) with ``last``. ``cache`` is updated."""
    ar, tap = ar or arithmetic(cfg, strict), Tap(hook)
    cache = new_cache(cfg) if cache is None else cache
    h = tap("hook_embed", ar.round(embed(ids, weights)))  # (n, D)
    for i, (w, state) in enumerate(zip(weights.layers, cache.layers, strict=True)):
        name = f"blocks.{i}"
        if isinstance(w, LinearLayer):
            h = linear_layer(h, w, cfg, state, hook=hook, name=name, ar=ar)
        else:
            h = full_layer(h, w, cfg, state, cache.position, hook=hook, name=name, ar=ar)
    cache.position += h.shape[0]
    h = h[-1:] if last else h
    x = tap("ln_final.hook_normalized", rms_norm(h, weights.norm, cfg.rms_norm_eps, ar))  # (n, D)
    return tap("unembed.hook_out", ar.linear(x, weights.head))  # (n, vocab)
