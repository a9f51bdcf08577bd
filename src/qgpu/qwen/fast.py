"""The fast forward: the naive one's steps in Numba kernels, weights left as mapped bf16.

Sums are taken in the strict order of :mod:`qgpu.qwen.arithmetic`, whatever the number of threads, so the result equals
the strict naive forward bit for bit. Two things depart from that in a prefill unless ``strict`` is asked for: on processors
with AMX the large products go through its tiles, which add in another (fixed) order, and the chunked delta rule takes
denormal numbers as zero.

With a hook the naive functions run, on this arithmetic: the same bits, and every value passes by. More than 512 tokens
are taken 512 at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qgpu.qwen import amx, chunk, decode, elementwise, kernels, naive
from qgpu.qwen.arithmetic import LANES, Arithmetic
from qgpu.qwen.attend import attend
from qgpu.qwen.attention import rotary_table, rotate
from qgpu.qwen.cache import Cache, FullCache, LinearCache, new_cache
from qgpu.qwen.config import Config
from qgpu.qwen.delta import CHUNK
from qgpu.qwen.hooks import Hook
from qgpu.qwen.matrices import ByInput, FullSmall, LinearSmall, Matrices, by_input, norm_factor, small_of
from qgpu.qwen.weights import Weights

F32 = NDArray[np.float32]
PREFILL = 512  # tokens at a time; a multiple of the delta rule's 64, so that its chunks fall in the same places
AMX_TOKENS = 8  # from this many tokens on the tiles are worth filling


def in_pieces(ids: NDArray) -> list[NDArray]:
    """ids, PREFILL at a time. Every piece but the last is a multiple of the delta rule's 64, and a last piece of one
    token, which would take the recurrent rule, gets 64 more from the one before it."""
    ends = list(range(PREFILL, len(ids), PREFILL))
    if ends and len(ids) - ends[-1] == 1:
        ends[-1] -= CHUNK
    return np.split(ids, ends)


@dataclass(frozen=True)
class FastArithmetic(Arithmetic):
    """The strict order in Numba. tiles: large products may go through AMX instead. flush: see ``chunk``."""

    strict: bool = True
    tiles: bool = False
    flush: bool = False

    def contract(self, a: F32, b: F32) -> F32:
        """As Arithmetic.contract, strict."""
        shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a = _padded(np.broadcast_to(a, (*shape, *a.shape[-2:])).reshape(-1, *a.shape[-2:]))
        b = _padded(np.broadcast_to(b, (*shape, *b.shape[-2:])).reshape(-1, *b.shape[-2:]))
        out = np.empty((a.shape[0], a.shape[1], b.shape[1]), np.float32)
        kernels.contract_f32(a.ctypes.data, b.ctypes.data, a.shape[2], out)
        return out.reshape(*shape, a.shape[1], b.shape[1])

    def chunked_rule(self, q: F32, k: F32, v: F32, beta: F32, decay: F32, state: F32) -> tuple[F32, F32]:
        """The definition's chunked rule as one kernel."""
        out, state = np.empty(v.shape, np.float32), np.array(state)
        scale = np.float32(1.0 / k.shape[2] ** 0.5)
        arrays = (np.ascontiguousarray(x) for x in (q, k, v, beta, decay))
        chunk.delta_chunks(*arrays, scale, state, False, self.flush, out)
        return out, state

    def solve(self, system: F32, right: F32) -> F32:
        """As Arithmetic.solve, strict."""
        x = np.array(right, np.float32, order="C")
        elementwise.solve(np.ascontiguousarray(system), x)
        return x

    def linear(self, x: F32, weight: NDArray, bias: NDArray | None = None) -> F32:
        """As Arithmetic.linear."""
        return self.linears(x, Matrices([weight], [bias]))[0]

    def linears(self, x: F32, matrices: Matrices) -> list[F32]:
        """Several matrices times the same x, (n, K) -> (n, m_i) each: waking the threads once costs less."""
        n, widths = x.shape[0], matrices.widths
        out = np.empty(n * sum(widths), np.float32)
        outs, start = [], 0
        for width in widths:
            outs.append(out[start : start + n * width].reshape(n, width))
            start += n * width
        tiled = self.tiles and n >= AMX_TOKENS
        if matrices.plain and not tiled:
            kernels.linear_bf16(*matrices.parts, _padded(x), self.bf16, out)
            return outs
        tiles = None
        for weight, bias, part in zip(matrices.weights, matrices.biases, outs, strict=True):
            if tiled and weight.dtype == np.uint16 and amx.fits(weight):
                tiles = amx.pack(x) if tiles is None else tiles
                amx.linear(tiles, weight, part)
            elif weight.dtype == np.uint16:
                one = Matrices([_padded(weight)])
                kernels.linear_bf16(*one.parts, _padded(x), False, part.reshape(-1))
            else:
                a, b = _padded(x), _padded(weight)
                kernels.contract_f32(a.ctypes.data, b.ctypes.data, a.shape[1], part[None])
            if bias is not None:
                part += self.widen(bias)
            if self.bf16:
                elementwise.round_in_place(part.reshape(-1))
        return outs


def _padded(x: NDArray) -> NDArray:
    """x, C-contiguous, with zeros after the last axis up to a multiple of the lanes. Free when there is nothing to do."""
    short = -x.shape[-1] % LANES
    if short:
        x = np.concatenate([x, np.zeros((*x.shape[:-1], short), x.dtype)], axis=-1)
    return np.ascontiguousarray(x)


@dataclass
class FastModel:
    """A model's weights with what the kernels want prepared once: small vectors in float32, matrices by their inputs.

    strict: no AMX, so that every bit is the strict naive forward's.
    """

    cfg: Config
    weights: Weights
    strict: bool = False
    ar: FastArithmetic = field(init=False)
    small: list[LinearSmall | FullSmall] = field(init=False)
    matrices: list[ByInput] = field(init=False)
    head: Matrices = field(init=False)

    def __post_init__(self) -> None:
        bf16 = self.cfg.dtype == "bfloat16"
        self.ar = FastArithmetic(bf16, tiles=bf16 and not self.strict and amx.available(), flush=not self.strict)
        self.small = [small_of(layer, self.ar) for layer in self.weights.layers]
        self.matrices = [by_input(layer) for layer in self.weights.layers]
        self.head = Matrices([self.weights.head])
        self.norm = norm_factor(self.weights.norm, self.ar)
        self.eps = np.float32(self.cfg.rms_norm_eps)

    @np.errstate(all="ignore")
    def forward(
        self, ids: Sequence[int] | NDArray, cache: Cache | None = None, *, hook: Hook | None = None, last: bool = False
    ) -> F32:
        """Logits after each of n tokens: (n, vocab) float32, or (1, vocab) with ``last``. ``cache`` is updated."""
        ids = np.asarray(ids, np.int64).reshape(-1)
        cache = new_cache(self.cfg) if cache is None else cache
        pieces = in_pieces(ids)
        if hook is not None:
            logits = [
                naive.forward(piece, self.weights, self.cfg, cache, hook=hook, last=last, ar=self.ar) for piece in pieces
            ]
            return logits[-1] if last else np.concatenate(logits)
        streams = [self._layers(piece, cache) for piece in pieces]  # (up to PREFILL, D) each
        parts = [streams[-1][-1:]] if last else streams
        x = self._rms(np.concatenate(parts), self.norm)  # (n, D)
        return self.ar.linears(x, self.head)[0]  # (n, vocab)

    def _layers(self, ids: NDArray, cache: Cache) -> F32:
        """The residual stream after the last layer. ids: (n,) -> (n, D)."""
        h = self.ar.round(naive.embed(ids, self.weights))
        turn = rotary_table(self.cfg, cache.position, len(ids), self.ar)  # (n, R) twice
        for small, matrices, state in zip(self.small, self.matrices, cache.layers, strict=True):
            if len(ids) == 1 and self._decode(h, small, matrices, state, turn):
                continue
            x = self._rms(h, small.input)  # (n, D)
            if isinstance(state, LinearCache):
                mixed = self._delta_net(x, small, matrices, state)
            else:
                mixed = self._attention(x, small, matrices, state, turn)
            h = self._add(h, mixed)  # (n, D)
            x = self._rms(h, small.post)  # (n, D)
            gate, up = self.ar.linears(x, matrices.mlp_in)  # (n, I)
            inner = np.empty_like(gate)  # (n, I)
            elementwise.swiglu(gate, up, self.ar.bf16, inner)
            h = self._add(h, self.ar.linears(inner, matrices.mlp_out)[0])  # (n, D)
        cache.position += len(ids)
        return h

    def _decode(
        self,
        h: F32,
        small: LinearSmall | FullSmall,
        matrices: ByInput,
        cache: LinearCache | FullCache,
        turn: tuple[F32, F32],
    ) -> bool:
        """One token through a layer in one call, h in place: (1, D). False, and nothing done, where that cannot be."""
        if not all(group.plain for group in matrices):
            return False
        parts = tuple(group.parts for group in matrices)
        if isinstance(cache, FullCache):
            cache.reserve(1)
            cos, sin = turn[0][0], turn[1][0]  # (R,) each
            decode.full_layer(
                h, self.eps, self.ar.bf16, small, parts, cos, sin, cache.keys, cache.values, cache.length
            )
            cache.length += 1
        elif cache.started:
            decode.linear_layer(h, self.eps, self.ar.bf16, small, parts, cache.conv, cache.state)
        else:
            return False
        return True

    def _rms(self, x: F32, scale: F32) -> F32:
        out = np.empty_like(x)
        elementwise.rms_norm(x, scale, self.eps, self.ar.bf16, out)
        return out

    def _add(self, h: F32, x: F32) -> F32:
        out = np.empty_like(h)
        elementwise.add(h.reshape(-1), x.reshape(-1), self.ar.bf16, out.reshape(-1))
        return out

    def _delta_net(self, x: F32, small: LinearSmall, matrices: ByInput, cache: LinearCache) -> F32:
        """As naive: delta.gated_delta_net. x: (n, D) -> (n, D)."""
        cfg, ar, n = self.cfg, self.ar, x.shape[0]
        key_dim, key_shape = cfg.key_dim, (n, cfg.linear_num_key_heads, cfg.linear_key_head_dim)
        value_shape = (n, cfg.linear_num_value_heads, cfg.linear_value_head_dim)
        qkv, z, b, a = ar.linears(x, matrices.mixer_in)  # (n, C), (n, Hv Dv), (n, Hv) twice
        mixed = np.empty_like(qkv)  # (n, C)
        elementwise.conv_silu(qkv, cache.conv, small.taps, ar.bf16, mixed)
        past = cache.conv.shape[0]
        if past:
            cache.conv = np.concatenate([cache.conv, qkv[-past:]])[-past:].copy()
        parts = np.split(mixed, [key_dim, 2 * key_dim], axis=1)
        q, k, v = (np.ascontiguousarray(part) for part in parts)
        q, k, v = q.reshape(key_shape), k.reshape(key_shape), v.reshape(value_shape)
        beta, decay = np.empty_like(b), np.empty_like(b)  # (n, Hv)
        elementwise.gates(b, a, small.rate, small.dt_bias, ar.bf16, beta, decay)
        o = np.empty(value_shape, np.float32)  # (n, Hv, Dv)
        root = cfg.linear_key_head_dim**0.5
        if cache.started and n == 1:
            elementwise.delta_step(q[0], k[0], v[0], beta[0], decay[0], np.float32(root), cache.state, ar.bf16, o[0])
        else:
            scale = np.float32(1.0 / root)
            chunk.delta_chunks(q, k, v, beta, decay, scale, cache.state, ar.bf16, ar.flush, o)
        cache.started = True
        rows = o.reshape(-1, cfg.linear_value_head_dim)  # (n Hv, Dv)
        y = np.empty_like(rows)
        elementwise.gated_norm(rows, z.reshape(rows.shape), small.gated, self.eps, ar.bf16, y)
        return ar.linears(y.reshape(n, -1), matrices.mixer_out)[0]

    def _attention(
        self, x: F32, small: FullSmall, matrices: ByInput, cache: FullCache, turn: tuple[F32, F32]
    ) -> F32:
        """As naive: attention.gated_attention. x: (n, D), turn: cos and sin, (n, R) each -> (n, D)."""
        cfg, ar, n = self.cfg, self.ar, x.shape[0]
        heads, groups, size = cfg.num_attention_heads, cfg.num_key_value_heads, cfg.head_dim
        both, k, v = ar.linears(x, matrices.mixer_in)  # (n, H 2E), (n, G E) twice
        both, v = both.reshape(n, heads, 2, size), v.reshape(n, groups, size)
        gate = np.ascontiguousarray(both[:, :, 1]).reshape(n, -1)  # (n, H E)
        q = self._rms(np.ascontiguousarray(both[:, :, 0]).reshape(-1, size), small.q)  # (n H, E)
        k = self._rms(k.reshape(-1, size), small.k)  # (n G, E)
        cos, sin = turn
        q = np.ascontiguousarray(rotate(q.reshape(n, heads, size), cos, sin, ar))  # (n, H, E)
        cache.append(rotate(k.reshape(n, groups, size), cos, sin, ar), v)
        mixed = np.empty_like(q)
        attend(q, cache.keys, cache.values, cache.length, np.float32(size**-0.5), ar.bf16, mixed)
        out = np.empty_like(gate)  # (n, H E)
        elementwise.gate_output(mixed.reshape(-1), gate.reshape(-1), ar.bf16, out.reshape(-1))
        return ar.linears(out, matrices.mixer_out)[0]
