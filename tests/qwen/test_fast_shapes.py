"""The fast forward on models of generated shapes: prefill, then single tokens, in the strict naive forward's bits."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from qgpu.qwen import naive
from qgpu.qwen.cache import new_cache
from qgpu.qwen.config import FULL, LINEAR, Config
from qgpu.qwen.fast import FastModel
from qgpu.qwen.synthetic import random_weights

EVEN = st.sampled_from([16, 32, 48])  # no padding: one call a layer
ODD = st.sampled_from([6, 10, 16, 20, 34])


@st.composite
def configs(draw):
    size = draw(st.sampled_from([EVEN, ODD]))
    key_heads, groups = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return Config(
        vocab_size=draw(st.integers(5, 70)),
        hidden_size=draw(size),
        intermediate_size=draw(size),
        layer_types=tuple(kinds := draw(st.lists(st.sampled_from([LINEAR, FULL]), min_size=1, max_size=3))),
        num_hidden_layers=len(kinds),
        num_attention_heads=groups * draw(st.integers(1, 3)),
        num_key_value_heads=groups,
        head_dim=draw(size) * 4,
        attention_bias=draw(st.booleans()),
        partial_rotary_factor=draw(st.sampled_from([0.25, 0.5, 1.0])),
        linear_num_key_heads=key_heads,
        linear_num_value_heads=key_heads * draw(st.integers(1, 3)),
        linear_key_head_dim=draw(size),
        linear_value_head_dim=draw(size),
        linear_conv_kernel_dim=draw(st.integers(1, 5)),
        tie_word_embeddings=draw(st.booleans()),
        rope_theta=1e4,
        dtype=draw(st.sampled_from(["bfloat16", "bfloat16", "float32"])),
    )


@settings(max_examples=40, deadline=None)
@given(configs(), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_prefill_and_decoding_equal_the_strict_naive_forward(cfg, prompt, seed):
    weights = random_weights(cfg, seed=seed)
    model = FastModel(cfg, weights, strict=True)
    ids = np.random.default_rng(seed).integers(0, cfg.vocab_size, prompt + 10)
    ours, theirs = new_cache(cfg), new_cache(cfg)
    for part in (ids[:prompt], *ids[prompt:, None]):
        mine = model.forward(part, ours, last=True)
        true = naive.forward(part, weights, cfg, theirs, last=True, strict=True)
        assert np.array_equal(mine.view(np.uint32), true.view(np.uint32))
