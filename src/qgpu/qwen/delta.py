"""Gated DeltaNet: a linear layer's token mixer, by the definition.

Everything is float32 arrays; in a bf16 model ``ar.round`` marks each place where transformers' tensors are bf16.
n tokens; Hk key heads of Dk and Hv value heads of Dv (each key head serves Hv/Hk value heads in a row); C = 2 Hk Dk +
Hv Dv channels. The state of a value head is a Dk x Dv matrix S; a key's read of it is S^T k.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qgpu.qwen.arithmetic import Arithmetic
from qgpu.qwen.cache import LinearCache
from qgpu.qwen.config import Config
from qgpu.qwen.elementary import exp, rsqrt, sigmoid, silu, softplus
from qgpu.qwen.hooks import Tap
from qgpu.qwen.weights import LinearLayer

F32 = NDArray[np.float32]
CHUNK = 64
L2_EPS = np.float32(1e-6)


def gated_delta_net(x: F32, w: LinearLayer, cfg: Config, cache: LinearCache, ar: Arithmetic, tap: Tap) -> F32:
    """x: (n, D), the layer's normalised input -> (n, D). Reads and updates cache."""
    n, key_dim = x.shape[0], cfg.key_dim
    key_shape = (n, cfg.linear_num_key_heads, cfg.linear_key_head_dim)
    value_shape = (n, cfg.linear_num_value_heads, cfg.linear_value_head_dim)
    x = tap("hook_in", x)  # (n, D)
    qkv = ar.linear(x, w.qkv)  # (n, C)
    z = ar.linear(x, w.z).reshape(value_shape)  # (n, Hv, Dv)
    b = ar.linear(x, w.b)  # (n, Hv)
    a = ar.linear(x, w.a)  # (n, Hv)

    if tap.hook is not None:
        q0 = tap("hook_q_pre_conv", qkv[:, :key_dim].reshape(key_shape))
        k0 = tap("hook_k_pre_conv", qkv[:, key_dim : 2 * key_dim].reshape(key_shape))
        v0 = tap("hook_v_pre_conv", qkv[:, 2 * key_dim :].reshape(value_shape))
        qkv = np.concatenate([part.reshape(n, -1) for part in (q0, k0, v0)], axis=1)  # (n, C)
    mixed = causal_conv(qkv, w.conv, cache, ar)  # (n, C)
    mixed = tap("hook_conv_out", ar.round(silu(mixed)))  # (n, C)
    q = tap("hook_q", mixed[:, :key_dim].reshape(key_shape))  # (n, Hk, Dk)
    k = tap("hook_k", mixed[:, key_dim : 2 * key_dim].reshape(key_shape))  # (n, Hk, Dk)
    v = tap("hook_v", mixed[:, 2 * key_dim :].reshape(value_shape))  # (n, Hv, Dv)

    beta = tap("hook_beta", ar.round(sigmoid(b)))  # (n, Hv)
    decay = -exp(ar.widen(w.a_log)) * softplus(a + ar.widen(w.dt_bias))  # (n, Hv) float32, log of the factor
    decay = tap("hook_log_decay", decay)
    single = cache.started and n == 1
    o = delta_rule(q, k, v, beta, decay, cache, ar, recurrent=single)  # (n, Hv, Dv)
    cache.started = True
    tap("hook_state", cache.state)
    o = tap("hook_recurrence_out", ar.round(o))  # (n, Hv, Dv)
    z = tap("hook_gate_input", z)  # (n, Hv, Dv)
    y = tap("hook_normed_gated", gated_norm(o, z, w.gated_norm, cfg.rms_norm_eps, ar))  # (n, Hv, Dv)
    return tap("hook_out", ar.linear(y.reshape(n, -1), w.out))  # (n, D)


def causal_conv(x: F32, weight: NDArray, cache: LinearCache, ar: Arithmetic) -> F32:
    """Each channel's own K taps over the last K inputs. x: (n, C), weight: (C, K) -> (n, C). Updates cache.conv."""
    taps = ar.widen(weight)  # (C, K)
    n, width = x.shape[0], taps.shape[1]
    past = np.concatenate([cache.conv, x])  # (K-1+n, C)
    out = past[:n] * taps[:, 0]  # (n, C)
    for j in range(1, width):
        out = out + past[j : j + n] * taps[:, j]
    cache.conv = past[n:].copy()  # (K-1, C)
    return ar.round(out)


def l2_norm(x: F32, ar: Arithmetic) -> F32:
    """x / |x| in float32, as x * rsqrt(sum x^2 + 1e-6). x: (..., d)."""
    return x * rsqrt(ar.total(x * x) + L2_EPS)


def gated_norm(o: F32, z: F32, weight: NDArray, eps: float, ar: Arithmetic) -> F32:
    """RMS norm a head with a plain weight, then times silu(z). o, z: (n, Hv, Dv), weight: (Dv,) -> (n, Hv, Dv)."""
    mean = ar.total(o * o) / np.float32(o.shape[-1])  # (n, Hv, 1)
    normed = ar.round(o * rsqrt(mean + np.float32(eps)))  # (n, Hv, Dv)
    scaled = ar.round(ar.widen(weight) * normed)  # (n, Hv, Dv)
    return ar.round(scaled * silu(z))  # silu itself stays float32


def delta_rule(
    q: F32, k: F32, v: F32, beta: F32, decay: F32, cache: LinearCache, ar: Arithmetic, *, recurrent: bool
) -> F32:
    """Run the gated delta rule over n tokens, updating cache.state.

    q, k: (n, Hk, Dk), v: (n, Hv, Dv), beta, decay: (n, Hv) -> (n, Hv, Dv), float32, not yet rounded.
    recurrent: token by token; otherwise in chunks of 64, which rounds differently (so does transformers).
    """
    if not recurrent and (own := ar.chunked_rule(q, k, v, beta, decay, cache.state)):
        out, cache.state = own
        return out
    group = v.shape[1] // k.shape[1]
    q, k = l2_norm(q, ar), l2_norm(k, ar)  # (n, Hk, Dk)
    root = k.shape[2] ** 0.5
    q = q / np.float32(root) if recurrent else q * np.float32(1.0 / root)
    q, k = (np.repeat(part, group, axis=1).transpose(1, 0, 2) for part in (q, k))  # (Hv, n, Dk)
    v = v.transpose(1, 0, 2)  # (Hv, n, Dv)
    beta, decay = beta.T, decay.T  # (Hv, n)
    out = np.empty(v.shape, np.float32)  # (Hv, n, Dv)
    step = 1 if recurrent else CHUNK
    rule = _one_token if recurrent else _one_chunk
    for t in range(0, v.shape[1], step):
        part = slice(t, t + step)
        out[:, part], cache.state = rule(
            q[:, part], k[:, part], v[:, part], beta[:, part], decay[:, part], cache.state, ar
        )
    return out.transpose(1, 0, 2)  # (n, Hv, Dv)


def _one_token(q: F32, k: F32, v: F32, beta: F32, decay: F32, state: F32, ar: Arithmetic) -> tuple[F32, F32]:
    """q, k: (Hv, 1, Dk), v: (Hv, 1, Dv), beta, decay: (Hv, 1), state: (Hv, Dk, Dv) -> (Hv, 1, Dv), new state."""
    state = state * exp(decay)[:, :, None]  # (Hv, Dk, Dv)
    held = ar.contract(k, state.swapaxes(1, 2))  # (Hv, 1, Dv): what k reads now
    delta = (v - held) * beta[:, :, None]  # (Hv, 1, Dv)
    state = state + k.swapaxes(1, 2) * delta  # (Hv, Dk, Dv)
    return ar.contract(q, state.swapaxes(1, 2)), state


def _one_chunk(q: F32, k: F32, v: F32, beta: F32, decay: F32, state: F32, ar: Arithmetic) -> tuple[F32, F32]:
    """L <= 64 tokens at once. q, k: (Hv, L, Dk), v: (Hv, L, Dv), beta, decay: (Hv, L) -> (Hv, L, Dv), new state.

    With G_i the running sum of log decays, token i writes beta_i k_i (v_i - what k_i reads)^T, where the read sums the
    old state and every earlier write of the chunk, each decayed by exp(G_i - G_j). That is a unit lower triangular
    system for the writes, solved here by forward substitution.
    """
    total = np.cumsum(decay, axis=1, dtype=np.float32)  # (Hv, L): G
    apart = total[:, :, None] - total[:, None, :]  # (Hv, L, L): G_i - G_j
    upper = np.triu(np.ones(apart.shape[1:], bool), 1)  # (L, L): j > i, not yet seen
    between = exp(np.where(upper, np.float32(-np.inf), apart))  # (Hv, L, L)
    since = exp(total)[:, :, None]  # (Hv, L, 1): decay since the chunk began
    until = exp(total[:, -1:] - total)[:, :, None]  # (Hv, L, 1): decay until it ends

    k_beta = k * beta[:, :, None]  # (Hv, L, Dk)
    system = ar.contract(k_beta, k) * between  # (Hv, L, L), used below its diagonal
    written = ar.solve(system, v * beta[:, :, None])  # (Hv, L, Dv): writes if the old state were empty
    reads = ar.solve(system, k_beta * since)  # (Hv, L, Dk): how each write depends on the old state
    within = ar.contract(q, k) * between  # (Hv, L, L)

    written = written - ar.contract(reads, state.swapaxes(1, 2))  # (Hv, L, Dv)
    from_state = ar.contract(q * since, state.swapaxes(1, 2))  # (Hv, L, Dv)
    out = from_state + ar.in_order(within, written)  # (Hv, L, Dv)
    gained = ar.contract((k * until).swapaxes(1, 2), written.swapaxes(1, 2))  # (Hv, Dk, Dv)
    return out, state * exp(total[:, -1])[:, None, None] + gained
