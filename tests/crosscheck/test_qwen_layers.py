"""The naive forward held to transformers on random models of several shapes, in float32 and in bf16."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from qgpu.qwen import naive  # noqa: E402
from qgpu.qwen.cache import new_cache  # noqa: E402
from qgpu.qwen.load import load_weights  # noqa: E402

pytestmark = pytest.mark.crosscheck

SHAPES = {
    "16/16": dict(linear_num_key_heads=16, linear_num_value_heads=16, tie_word_embeddings=True),
    "16/32": dict(linear_num_key_heads=16, linear_num_value_heads=32, tie_word_embeddings=False),
    "odd": dict(
        hidden_size=72,
        intermediate_size=37,
        vocab_size=131,
        linear_num_key_heads=3,
        linear_num_value_heads=9,
        linear_key_head_dim=20,
        linear_value_head_dim=12,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=24,
        linear_conv_kernel_dim=3,
        attention_bias=True,
        layer_types=["full_attention", "linear_attention", "linear_attention"],
        num_hidden_layers=3,
    ),
}


def make(tmp_path, name, dtype):
    """A random model saved to a folder in dtype and read back by transformers (eager attention)."""
    torch.manual_seed(7)
    sizes = dict(
        vocab_size=200,
        hidden_size=96,
        intermediate_size=80,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    )
    config = transformers.Qwen3_5TextConfig(**{**sizes, **SHAPES[name]})
    model = transformers.Qwen3_5ForCausalLM(config)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "norm" in key:
                p.add_(torch.randn_like(p) * 0.2)
            elif p.ndim > 1:
                p.mul_(4.0)
            if "dt_bias" in key:
                p.copy_(torch.randn_like(p))
    model = model.to(dtype)
    for layer in model.model.layers:
        if hasattr(layer, "linear_attn"):  # as released: these two stored in float32, and not bf16 numbers
            layer.linear_attn.A_log.data = layer.linear_attn.A_log.data.float() + 0.001
            layer.linear_attn.norm.weight.data = layer.linear_attn.norm.weight.data.float() + 0.001
    model.save_pretrained(tmp_path)
    theirs = transformers.Qwen3_5ForCausalLM.from_pretrained(tmp_path, dtype=dtype, attn_implementation="eager").eval()
    cfg, weights = load_weights(tmp_path)
    return theirs, dataclasses.replace(cfg, dtype=str(dtype).removeprefix("torch.")), weights


def ids_of(n, vocab):
    return np.random.default_rng(n).integers(0, vocab, n)


@torch.no_grad()
def their_logits(model, ids):
    return model(torch.from_numpy(ids)[None], use_cache=False).logits[0].float().numpy()


@torch.no_grad()
def their_steps(model, ids):
    """Token by token: the recurrent rule."""
    cache, out = None, []
    for token in ids:
        result = model(torch.tensor([[token]]), cache=cache, use_cache=True)
        cache = result.cache
        out.append(result.logits[0, -1].float().numpy())
    return np.stack(out)


def our_steps(cfg, weights, ids):
    cache = new_cache(cfg)
    return np.concatenate([naive.forward([token], weights, cfg, cache) for token in ids])


@pytest.mark.parametrize("name", SHAPES)
def test_float32(tmp_path, name):
    model, cfg, weights = make(tmp_path, name, torch.float32)
    for n in (1, 2, 5, 63, 64, 65, 70, 130):
        ids = ids_of(n, cfg.vocab_size)
        theirs, ours = their_logits(model, ids), naive.forward(ids, weights, cfg)
        assert np.abs(ours - theirs).max() < 1e-4 * np.abs(theirs).max(), n
    ids = ids_of(20, cfg.vocab_size)
    theirs, ours = their_steps(model, ids), our_steps(cfg, weights, ids)
    assert np.abs(ours - theirs).max() < 1e-4 * np.abs(theirs).max()


def spread(a, b):
    """How far two sets of logits are apart, as a share of the logits' size (root mean square)."""
    return float(np.sqrt(np.mean((a - b) ** 2)) / np.sqrt(np.mean(b**2)))


@pytest.mark.parametrize("name", SHAPES)
def test_bf16_is_as_close_as_their_own_two_rules_are(tmp_path, name):
    model, cfg, weights = make(tmp_path, name, torch.bfloat16)
    ids = ids_of(70, cfg.vocab_size)
    chunked, recurrent = their_logits(model, ids), their_steps(model, ids)
    bound = spread(chunked, recurrent)
    assert 0 < bound < 0.1
    assert spread(naive.forward(ids, weights, cfg), chunked) <= bound
    assert spread(our_steps(cfg, weights, ids), recurrent) <= bound
    cache = new_cache(cfg)
    mixed = [naive.forward(ids[:40], weights, cfg, cache), naive.forward(ids[40:66], weights, cfg, cache)]
    mixed += [naive.forward([token], weights, cfg, cache) for token in ids[66:]]
    assert spread(np.concatenate(mixed), chunked) <= bound
    print(name, bound, spread(naive.forward(ids, weights, cfg), chunked), spread(np.concatenate(mixed), chunked))


@pytest.mark.parametrize("name", SHAPES)
def test_bf16_rounds_where_they_round(tmp_path, name):
    """Of the first layer's output, nearly every value has the same bits; with a rounding point misplaced few would."""
    model, cfg, weights = make(tmp_path, name, torch.bfloat16)
    ids = ids_of(66, cfg.vocab_size)
    with torch.no_grad():
        theirs = model(torch.from_numpy(ids)[None], output_hidden_states=True).hidden_states
    cache = new_cache(cfg)
    for i, w in enumerate(weights.layers):
        h = theirs[i][0].float().numpy()
        if cfg.layer_types[i] == "linear_attention":
            ours = naive.linear_layer(h, w, cfg, cache.layers[i])
        else:
            ours = naive.full_layer(h, w, cfg, cache.layers[i])
        if i + 1 < len(weights.layers):  # the last hidden state they return is after the final norm
            same = np.mean(ours == theirs[i + 1][0].float().numpy())
            print(name, i, cfg.layer_types[i], same)
            assert same > 0.97, (i, same)
