"""One token through a layer in one call: the fast forward's kernels, called by compiled code.

They are the same kernels on the same arrays, so the bits are the same. What is saved is the time between them, in which
memory, the one thing decoding waits for, has nothing to do. For layers whose matrices are all plain bf16 (``Matrices``).

``bf16`` is True throughout; a literal would have Numba compile every kernel a second time. So would rows of an array that
are unpacked rather than indexed, since they lose the knowledge that they are contiguous.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from qgpu.bf16_numba import encode1, round1
from qgpu.qwen import elementwise, kernels
from qgpu.qwen.attend import attend


@nb.njit(cache=True, nogil=True, error_model="numpy")
def linear_layer(h, eps, bf16, small, products, conv, state):
    """A Gated DeltaNet layer with its MLP; as fast: FastModel._delta_net. h: (1, D), changed in place.

    small: LinearSmall. products: the ``parts`` of a ByInput. conv: (K-1, C) and state: (Hv, Dk, Dv), the cache's, updated.
    """
    heads, key_size, value_size = state.shape
    channels, values = conv.shape[1], heads * value_size
    mixer_in, mixer_out, mlp_in, mlp_out = products
    x = np.empty_like(h)
    elementwise.rms_norm(h, small.input, eps, bf16, x)
    all_in = _product(x, bf16, mixer_in)  # (C + Hv Dv + 2 Hv,)
    qkv, z = all_in[:channels].reshape(1, channels), all_in[channels : channels + values].reshape(heads, value_size)
    b_a = all_in[channels + values :].reshape(2, 1, heads)
    b, a = b_a[0], b_a[1]

    mixed = np.empty_like(qkv)  # (1, C)
    elementwise.conv_silu(qkv, conv, small.taps, bf16, mixed)
    for j in range(conv.shape[0]):
        conv[j] = conv[j + 1] if j + 1 < conv.shape[0] else qkv[0]
    keys = (channels - values) // 2  # Hk Dk
    q = mixed[0, :keys].reshape(-1, key_size)
    k = mixed[0, keys : 2 * keys].reshape(-1, key_size)
    v = mixed[0, 2 * keys :].reshape(heads, value_size)
    beta, decay = np.empty_like(b), np.empty_like(b)  # (1, Hv)
    elementwise.gates(b, a, small.rate, small.dt_bias, bf16, beta, decay)
    o, y = np.empty_like(v), np.empty_like(v)
    elementwise.delta_step(q, k, v, beta[0], decay[0], np.float32(np.sqrt(np.float64(key_size))), state, bf16, o)
    elementwise.gated_norm(o, z, small.gated, eps, bf16, y)
    elementwise.add(h[0], _product(y.reshape(1, values), bf16, mixer_out), bf16, h[0])
    _mlp(h, eps, bf16, small.post, mlp_in, mlp_out)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def full_layer(h, eps, bf16, small, products, cos, sin, keys, values, length):
    """A gated full-attention layer with its MLP; as fast: FastModel._attention. h: (1, D), changed in place.

    small: FullSmall. products: the ``parts`` of a ByInput. cos, sin: (R,). keys, values: the cache's, (capacity, G, E) of
    bf16 bits, of which ``length`` rows are in use; the next one is written.
    """
    groups, size = keys.shape[1:]
    mixer_in, mixer_out, mlp_in, mlp_out = products
    x = np.empty_like(h)
    elementwise.rms_norm(h, small.input, eps, bf16, x)
    all_in = _product(x, bf16, mixer_in)  # (H 2E + 2 G E,)
    heads = all_in.size // (2 * size) - groups
    both = all_in[: 2 * heads * size].reshape(heads, 2, size)
    k_v = all_in[2 * heads * size :].reshape(2, groups, size)
    k, v = k_v[0], k_v[1]
    q, k_normed = np.empty((1, heads, size), np.float32), np.empty_like(k)
    elementwise.rms_norm(np.ascontiguousarray(both[:, 0]), small.q, eps, bf16, q[0])
    elementwise.rms_norm(k, small.k, eps, bf16, k_normed)
    _rotate(q[0], cos, sin)
    _rotate(k_normed, cos, sin)
    for g in range(groups):
        for i in range(size):
            keys[length, g, i], values[length, g, i] = encode1(k_normed[g, i]), encode1(v[g, i])

    mixed = np.empty_like(q)
    scale = np.float32(np.float64(size) ** -0.5)
    attend(q, keys, values, length + 1, scale, bf16, mixed)
    out = np.empty(heads * size, np.float32)
    elementwise.gate_output(mixed.reshape(-1), np.ascontiguousarray(both[:, 1]).reshape(-1), bf16, out)
    elementwise.add(h[0], _product(out.reshape(1, -1), bf16, mixer_out), bf16, h[0])
    _mlp(h, eps, bf16, small.post, mlp_in, mlp_out)


@nb.njit(error_model="numpy")
def _mlp(h, eps, bf16, factor, mlp_in, mlp_out):
    """The second half of either kind of layer. h: (1, D), changed in place."""
    x = np.empty_like(h)
    elementwise.rms_norm(h, factor, eps, bf16, x)
    both = _product(x, bf16, mlp_in).reshape(2, 1, -1)
    gate, up = both[0], both[1]  # (1, I) each
    inner = np.empty_like(gate)
    elementwise.swiglu(gate, up, bf16, inner)
    elementwise.add(h[0], _product(inner, bf16, mlp_out), bf16, h[0])


@nb.njit
def _product(x, bf16, parts):
    """Several matrices times one token, rounded. x: (1, K), parts: see Matrices -> (sum of their rows,)."""
    out = np.empty(parts[1].sum(), np.float32)
    kernels.linear_bf16(parts[0], parts[1], x, bf16, out)
    return out


@nb.njit
def _rotate(x, cos, sin):
    """As attention: rotate, one token, in place. x: (heads, E), cos, sin: (R,)."""
    half = cos.size // 2
    for head in range(x.shape[0]):
        row = x[head]
        for i in range(half):
            low, high = row[i], row[i + half]
            row[i] = round1(round1(low * cos[i]) + round1(-high * sin[i]))
            row[i + half] = round1(round1(high * cos[i + half]) + round1(low * sin[i + half]))
