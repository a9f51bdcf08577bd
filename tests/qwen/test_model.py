"""Caches, forks, generation and sampling on small random models."""

import numpy as np
import pytest
from qwen_shapes import CONFIGS

from qgpu.errors import UsageError
from qgpu.qwen import Model, Sampling
from qgpu.qwen.hooks import Recorder
from qgpu.qwen.sampling import Sampler, probabilities
from qgpu.qwen.synthetic import random_weights


@pytest.fixture(scope="module", params=["16/32 untied", "odd sizes"])
def model(request):
    cfg = CONFIGS[request.param]
    return Model(cfg, random_weights(cfg, seed=11))


def some_ids(model, n, seed=0):
    return np.random.default_rng(seed).integers(0, model.cfg.vocab_size, n)


def test_a_fork_is_independent_and_restores_bit_for_bit(model):
    cache = model.new_cache()
    model.forward(some_ids(model, 70), cache)
    fork = cache.copy()
    straight = [model.forward([t], cache) for t in (1, 2, 3)]
    model.forward([5, 6, 7, 8], fork.copy())
    again = [model.forward([t], fork) for t in (1, 2, 3)]
    assert all(np.array_equal(a, b) for a, b in zip(straight, again, strict=True))
    assert fork.position == cache.position == 73


def test_prefill_then_decode_is_one_forward_within_the_bound(model):
    ids = some_ids(model, 80)
    whole = model.forward(ids)
    cache = model.new_cache()
    parts = [model.forward(ids[:66], cache)] + [model.forward([t], cache) for t in ids[66:]]
    difference = np.concatenate(parts) - whole
    assert np.sqrt(np.mean(difference**2)) < 0.03 * np.sqrt(np.mean(whole**2))


def test_generate_is_greedy_and_stops(model):
    ids = some_ids(model, 5)
    tokens = model.generate(ids, 12)
    assert len(tokens) == 12
    cache, fresh = model.new_cache(), ids
    for token in tokens:
        logits = model.forward(fresh, cache)[-1]
        assert token == int(logits.argmax())
        fresh = [token]
    first = tokens.index(tokens[5])
    assert model.generate(ids, 12, stop=[tokens[5]]) == tokens[: first + 1]


def test_suppressed_tokens_never_come(model):
    ids = some_ids(model, 5)
    first = model.generate(ids, 1)[0]
    other = Model(model.cfg, model.weights, suppress=(first,))
    assert other.generate(ids, 1)[0] != first


def test_hooks_fire_on_every_generated_token_and_can_change_values(model):
    ids = some_ids(model, 5)
    seen = Recorder(lambda name: name.endswith("linear_attn.hook_beta"))
    assert model.generate(ids, 4, hook=seen) == model.generate(ids, 4)
    assert [v.shape[0] for v in next(iter(seen.values.values()))] == [5, 1, 1, 1]
    quiet = lambda name, value: np.zeros_like(value) if name == "ln_final.hook_normalized" else None  # noqa: E731
    assert not model.forward(ids, hook=quiet).any()


@pytest.mark.parametrize("bad", [[], [-1], [10**6], [[1, 2]], [0.5]])
def test_bad_ids(model, bad):
    with pytest.raises(UsageError):
        model.forward(bad)


def test_probabilities():
    scores = np.log(np.array([0.1, 0.4, 0.2, 0.3]))
    assert np.allclose(probabilities(scores), [0.1, 0.4, 0.2, 0.3])
    assert np.allclose(probabilities(scores, top_k=2), [0, 4 / 7, 0, 3 / 7])
    assert np.allclose(probabilities(scores, top_p=0.65), [0, 4 / 7, 0, 3 / 7])
    assert np.allclose(probabilities(scores, top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9])
    assert np.allclose(probabilities(scores, top_p=1e-9), [0, 1, 0, 0])


def test_sampling_follows_the_probabilities_and_the_seed():
    logits = np.log(np.array([0.1, 0.4, 0.2, 0.3])).astype(np.float32)
    draw = lambda seed: [s.choose(logits) for s in [Sampler(Sampling(1.0, seed=seed))] for _ in range(4000)]  # noqa: E731
    a = draw(1)
    assert a == draw(1) and a != draw(2)
    assert np.allclose(np.bincount(a, minlength=4) / 4000, [0.1, 0.4, 0.2, 0.3], atol=0.03)
    cold = Sampler(Sampling(0.01, seed=1))
    assert {cold.choose(logits) for _ in range(50)} == {1}
    penalised = Sampler(Sampling(repetition_penalty=2.0))
    assert penalised.choose(logits, seen=[1]) == 3
    assert penalised.choose(-logits, seen=[0]) == 2


@pytest.mark.parametrize("wrong", [dict(temperature=-1.0), dict(top_k=-1), dict(top_p=0.0), dict(repetition_penalty=0.0)])
def test_wrong_sampling_options(wrong):
    with pytest.raises(UsageError):
        Sampling(**wrong)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("temperature", [5e-324, 1e-310, 1e-30, 1e300])
def test_any_temperature_draws_a_token(temperature):
    logits = np.array([1.0, -3.0, 2.5, 2.0], np.float32)
    drawn = {Sampler(Sampling(temperature, seed=s), suppress=[1]).choose(logits) for s in range(40)}
    assert drawn == ({2} if temperature < 1 else {0, 2, 3})
