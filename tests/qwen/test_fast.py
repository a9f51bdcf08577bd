"""The fast forward against the naive one: the same bits, whatever the number of threads."""

from dataclasses import replace

import numba as nb
import numpy as np
import pytest
from qwen_shapes import CONFIGS

from qgpu.bf16 import decode, encode, round_bf16
from qgpu.qwen import amx, elementary, naive
from qgpu.qwen import decode as decode_kernels
from qgpu.qwen.arithmetic import Arithmetic
from qgpu.qwen.cache import new_cache
from qgpu.qwen.elementary_numba import exp1, log1p1, sigmoid1, silu1, softplus1
from qgpu.qwen.fast import FastArithmetic, FastModel
from qgpu.qwen.hooks import Recorder
from qgpu.qwen.synthetic import random_weights


def same_bits(a, b):
    return a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.fixture(scope="module", params=CONFIGS)
def model(request):
    cfg = CONFIGS[request.param]
    return FastModel(cfg, random_weights(cfg, seed=3), strict=True)


def test_prefill_equals_the_strict_naive_forward(model):
    cfg, weights = model.cfg, model.weights
    for n in (1, 3, 64, 70):
        ids = np.random.default_rng(n).integers(0, cfg.vocab_size, n)
        assert same_bits(model.forward(ids), naive.forward(ids, weights, cfg, strict=True)), n


def test_decoding_equals_the_strict_naive_forward(model):
    cfg, weights = model.cfg, model.weights
    ids = np.random.default_rng(1).integers(0, cfg.vocab_size, 30)
    ours, theirs = new_cache(cfg), new_cache(cfg)
    for part in (ids[:20], *ids[20:, None]):
        assert same_bits(model.forward(part, ours), naive.forward(part, weights, cfg, theirs, strict=True))
    for a, b in zip(ours.layers, theirs.layers, strict=True):
        for field in ("conv", "state") if hasattr(a, "conv") else ("keys", "values"):
            length = getattr(a, "length", None)
            assert np.array_equal(getattr(a, field)[:length], getattr(b, field)[:length]), field
    assert ours.position == theirs.position == 30


def test_one_token_takes_one_call_a_layer_where_it_can(monkeypatch):
    cfg = replace(CONFIGS["16/16 tied"], attention_bias=True)  # its full layer cannot
    weights = random_weights(cfg, seed=3)
    model, calls = FastModel(cfg, weights, strict=True), []
    for name in ("linear_layer", "full_layer"):
        real = getattr(decode_kernels, name)
        monkeypatch.setattr(decode_kernels, name, lambda *args, name=name, real=real: calls.append(name) or real(*args))
    ids = np.random.default_rng(9).integers(0, cfg.vocab_size, 8)
    ours, theirs = new_cache(cfg), new_cache(cfg)
    for part in (ids[:1], ids[1:7], ids[7:]):  # a first token alone takes the chunked rule
        assert same_bits(model.forward(part, ours), naive.forward(part, weights, cfg, theirs, strict=True))
    assert calls == ["linear_layer"] * 3
    fork = ours.copy()
    before = fork.layers[0].state.copy(), fork.layers[0].conv.copy()
    model.forward(ids[:1], ours)  # writes in place, into its own arrays only
    assert same_bits(fork.layers[0].state, before[0]) and same_bits(fork.layers[0].conv, before[1])


def test_hooks_see_the_same_values(model):
    cfg, weights = model.cfg, model.weights
    ids = np.random.default_rng(2).integers(0, cfg.vocab_size, 5)
    ours, theirs = Recorder(), Recorder()
    a, b = new_cache(cfg), new_cache(cfg)
    for part in (ids[:4], ids[4:]):
        plain = model.forward(part, a.copy())
        assert same_bits(model.forward(part, a, hook=ours), plain)
        naive.forward(part, weights, cfg, b, hook=theirs, strict=True)
    assert list(ours.values) == list(theirs.values)
    for name, values in ours.values.items():
        assert len(values) == 2
        for mine, other in zip(values, theirs[name], strict=True):
            assert same_bits(np.ascontiguousarray(mine), np.ascontiguousarray(other)), name


@pytest.mark.parametrize("n", [512, 513, 514])
def test_long_prompts_in_pieces(n):
    cfg = CONFIGS["odd sizes"]
    weights = random_weights(cfg, seed=3)
    ids = np.random.default_rng(n).integers(0, cfg.vocab_size, n)
    ours, theirs = new_cache(cfg), new_cache(cfg)
    a = FastModel(cfg, weights, strict=True).forward(ids, ours)
    assert same_bits(a, naive.forward(ids, weights, cfg, theirs, strict=True))
    assert same_bits(ours.layers[1].state, theirs.layers[1].state)


@pytest.mark.parametrize("n", [70, 515])
def test_hooks_change_no_bits_without_strict_either(n):
    cfg = CONFIGS["16/32 untied"]
    model = FastModel(cfg, random_weights(cfg, seed=3))
    ids = np.random.default_rng(n).integers(0, cfg.vocab_size, n)
    seen = Recorder(lambda name: name == "unembed.hook_out")
    logits = model.forward(ids, hook=seen)
    assert same_bits(logits, model.forward(ids))
    assert same_bits(np.concatenate(seen["unembed.hook_out"]), logits)
    assert same_bits(model.forward(ids, hook=seen, last=True), model.forward(ids, last=True))


def test_only_the_last_logits(model):
    ids = np.random.default_rng(2).integers(0, model.cfg.vocab_size, 9)
    assert same_bits(model.forward(ids, last=True), model.forward(ids)[-1:])


def test_the_number_of_threads_does_not_matter():
    cfg = CONFIGS["16/32 untied"]
    ids = np.random.default_rng(4).integers(0, cfg.vocab_size, 66)
    results = []
    before = nb.get_num_threads()
    try:
        for threads in {1, before}:
            nb.set_num_threads(threads)
            model = FastModel(cfg, random_weights(cfg, seed=3))
            cache = model.forward(ids[:65], c := new_cache(cfg)), model.forward(ids[65:], c)
            results.append(np.concatenate(cache))
    finally:
        nb.set_num_threads(before)
    assert all(same_bits(r, results[0]) for r in results)


@nb.njit
def _elementary(x, positive, out):
    for i in range(x.size):
        out[0, i] = exp1(x[i])
        out[1, i] = log1p1(positive[i])
        out[2, i] = sigmoid1(x[i])
        out[3, i] = silu1(x[i])
        out[4, i] = softplus1(x[i])


def test_elementary_functions_agree_and_are_right():
    rng = np.random.default_rng(5)
    x = np.concatenate(
        [rng.uniform(-110, 95, 50_000), rng.standard_normal(50_000), [0, -0.0, np.inf, -np.inf, np.nan, 200, -200, 20]]
    ).astype(np.float32)
    positive = (10.0 ** rng.uniform(-40, 9, x.size)).astype(np.float32)
    positive[:3] = 0, 2.0**-27, 1
    out = np.empty((5, x.size), np.float32)
    with np.errstate(all="ignore"):
        _elementary(x, positive, out)
        ours = [elementary.exp(x), elementary.log1p(positive)]
        ours += [f(x) for f in (elementary.sigmoid, elementary.silu, elementary.softplus)]
        for mine, theirs in zip(ours, out, strict=True):
            nan = np.isnan(mine)
            assert np.array_equal(nan, np.isnan(theirs))
            assert same_bits(mine[~nan], theirs[~nan])
        wide = x.astype(np.float64)
        exact = [np.exp(wide), np.log1p(positive.astype(np.float64))]
        for mine, true in zip(ours[:2], exact, strict=True):
            true = true.astype(np.float32)
            assert np.mean(mine[~np.isnan(true)] != true[~np.isnan(true)]) < 1e-5


def test_contract_and_solve_and_linear_equal_the_definition():
    rng = np.random.default_rng(6)
    slow, fast = Arithmetic(strict=True), FastArithmetic()
    for h, n, m, k in ((1, 1, 1, 1), (3, 5, 6, 33), (2, 70, 67, 16), (4, 7, 9, 128)):
        a = rng.standard_normal((h, n, k)).astype(np.float32)
        b = rng.standard_normal((h, m, k)).astype(np.float32)
        assert same_bits(fast.contract(a, b), slow.contract(a, b))
        system = rng.standard_normal((h, n, n)).astype(np.float32) * np.float32(0.2)
        assert same_bits(fast.solve(system, a), slow.solve(system, a))
        weight = encode(b[0])
        assert same_bits(fast.linear(round_bf16(a[0]), weight), slow.linear(round_bf16(a[0]), weight))


@pytest.mark.skipif(not amx.available(), reason="this processor has no bf16 tiles")
@pytest.mark.parametrize("shape", [(32, 32, 1), (64, 96, 33), (96, 2048, 70), (77, 64, 9)])
def test_tiles(shape):
    m, k, n = shape
    rng = np.random.default_rng(7)
    x, w = round_bf16(rng.standard_normal((n, k))), encode(rng.standard_normal((m, k)))
    out = np.empty((n, m), np.float32)
    amx.linear(amx.pack(x), w, out)
    exact = x.astype(np.float64) @ decode(w).astype(np.float64).T
    assert np.abs(out - exact).max() < 1e-6 * k
    x, w = rng.integers(-99, 99, (n, k)).astype(np.float32), encode(rng.integers(-99, 99, (m, k)).astype(np.float32))
    amx.linear(amx.pack(x), w, out)
    assert np.array_equal(out, x @ decode(w).T)  # exact sums: any order


def test_tiles_stay_within_the_bf16_bound():
    cfg = CONFIGS["16/16 tied"]
    weights = random_weights(cfg, seed=8)
    ids = np.random.default_rng(8).integers(0, cfg.vocab_size, 70)
    strict, tiled = FastModel(cfg, weights, strict=True), FastModel(cfg, weights)
    a, b = strict.forward(ids), tiled.forward(ids)
    assert np.sqrt(np.mean((a - b) ** 2)) < 0.03 * np.sqrt(np.mean(a**2))
