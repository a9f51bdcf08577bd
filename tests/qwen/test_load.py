"""Loading: every prefix and layout that checkpoints come in, and a named error for each way a file can be bad."""

import json

import numpy as np
import pytest
from qwen_shapes import CONFIGS

import qgpu.qwen
from qgpu.bf16 import decode
from qgpu.errors import CheckpointError, UsageError
from qgpu.qwen.config import FULL, LINEAR, from_dict
from qgpu.qwen.load import load_weights
from qgpu.qwen.synthetic import config_dict, random_weights, save, tensors_of, write_safetensors

CFG = CONFIGS["16/16 tied"]
WEIGHTS = random_weights(CFG, seed=1)


def equal(a, b):
    return all(
        np.array_equal(x, vars(other)[name])
        for layer, other in zip(a.layers, b.layers, strict=True)
        for name, x in vars(layer).items()
        if x is not None
    ) and all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("embed", "norm", "head"))


@pytest.mark.parametrize("name", CONFIGS)
def test_round_trip(tmp_path, name):
    weights = random_weights(CONFIGS[name], seed=2)
    save(tmp_path, CONFIGS[name], tensors_of(CONFIGS[name], weights))
    cfg, read = load_weights(tmp_path)
    assert cfg == CONFIGS[name]
    assert equal(read, weights)
    assert (read.head is read.embed) == cfg.tie_word_embeddings


def test_fp32_tensors_stay_fp32_and_matrices_become_bf16(tmp_path):
    tensors = tensors_of(CFG, WEIGHTS)
    name = "model.layers.0.linear_attn.in_proj_qkv.weight"
    tensors[name] = decode(tensors[name])
    save(tmp_path, CFG, tensors)
    _, read = load_weights(tmp_path)
    assert read.layers[0].a_log.dtype == read.layers[0].gated_norm.dtype == np.float32
    assert read.layers[0].qkv.dtype == np.uint16
    assert equal(read, WEIGHTS)


def test_multimodal_names_and_config(tmp_path):
    tensors = tensors_of(CFG, WEIGHTS, prefix="model.language_model.")
    tensors["model.visual.blocks.0.attn.qkv.weight"] = np.zeros((3, 3), np.float32)
    tensors["mtp.layers.0.mlp.up_proj.weight"] = np.zeros((3, 3), np.uint16)
    save(tmp_path, CFG, tensors)
    inner = config_dict(CFG)
    inner.pop("tie_word_embeddings")
    outer = {"model_type": "qwen3_5", "text_config": inner, "tie_word_embeddings": True, "vision_config": {}}
    (tmp_path / "config.json").write_text(json.dumps(outer))
    cfg, read = load_weights(tmp_path)
    assert cfg == CFG and equal(read, WEIGHTS)


def shard(folder, tensors):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_dict(CFG)))
    names = list(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, keys in parts.items():
        write_safetensors(folder / file, {k: tensors[k] for k in keys})
    index = {"metadata": {}, "weight_map": {k: file for file, keys in parts.items() for k in keys}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return index


def test_sharded(tmp_path):
    shard(tmp_path, tensors_of(CFG, WEIGHTS))
    assert equal(load_weights(tmp_path)[1], WEIGHTS)


def test_generation_config(tmp_path):
    save(tmp_path, CFG, tensors_of(CFG, WEIGHTS))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 6], "suppress_tokens": [7]}')
    model = qgpu.qwen.load(tmp_path)
    assert model.stop == (5, 6) and model.suppress == (7,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 1000000}')
    with pytest.raises(CheckpointError, match="eos_token_id"):
        qgpu.qwen.load(tmp_path)


def fails(folder, *words):
    with pytest.raises(CheckpointError) as caught:
        qgpu.qwen.load(folder)
    text = str(caught.value)
    assert all(word in text for word in words), text


def test_missing_things(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        qgpu.qwen.load(tmp_path / "nowhere")
    fails(tmp_path, "config.json", "missing")
    (tmp_path / "config.json").write_text(json.dumps(config_dict(CFG)))
    fails(tmp_path, "model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    fails(tmp_path, "pickle")
    for gone in ("model.embed_tokens.weight", "model.layers.3.self_attn.q_norm.weight", "model.norm.weight"):
        tensors = tensors_of(CFG, WEIGHTS)
        del tensors[gone]
        save(tmp_path, CFG, tensors)
        fails(tmp_path, gone.removeprefix("model."))
    untied = CONFIGS["16/32 untied"]
    tensors = tensors_of(untied, random_weights(untied))
    del tensors["lm_head.weight"]
    save(tmp_path, untied, tensors)
    fails(tmp_path, "lm_head.weight", "not tied")


def test_wrong_shape_and_dtype(tmp_path):
    tensors = tensors_of(CFG, WEIGHTS)
    name = "model.layers.0.linear_attn.conv1d.weight"
    save(tmp_path, CFG, {**tensors, name: tensors[name][:, 0]})
    fails(tmp_path, name, "shape")
    save(tmp_path, CFG, tensors)
    file = tmp_path / "model.safetensors"
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b'"dtype": "BF16"', b'"dtype": "I16" ', 1))
    fails(tmp_path, "model.embed_tokens.weight", "I16")
    file.write_bytes(raw.replace(b'"dtype": "BF16"', b'"dtype": "F32" ', 1))
    fails(tmp_path, "model.embed_tokens.weight", "bytes")


def test_damaged_files(tmp_path):
    save(tmp_path, CFG, tensors_of(CFG, WEIGHTS))
    file = tmp_path / "model.safetensors"
    raw = file.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    for cut in (0, 7, 8, 100, 8 + length - 1, 8 + length, len(raw) - 1):
        file.write_bytes(raw[:cut])
        fails(tmp_path, "model.safetensors", "cut short")
    file.write_bytes(raw[:8] + b"!" * length + raw[8 + length :])
    fails(tmp_path, "header is not JSON")
    file.write_bytes((2**60).to_bytes(8, "little") + raw[8:])
    fails(tmp_path, "cut short")
    entry = b'{"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}  '
    file.write_bytes(len(entry).to_bytes(8, "little") + entry + bytes(4))
    fails(tmp_path, "tensor x", "malformed")


def test_bad_index(tmp_path):
    index = shard(tmp_path, tensors_of(CFG, WEIGHTS))
    path = tmp_path / "model.safetensors.index.json"

    def with_map(change):
        path.write_text(json.dumps({"weight_map": {**index["weight_map"], **change}}))

    path.write_text("{")
    fails(tmp_path, "index.json", "not JSON")
    path.write_text("[]")
    fails(tmp_path, "not a JSON object")
    path.write_text("{}")
    fails(tmp_path, "weight_map")
    with_map({"model.norm.weight": "../elsewhere.safetensors"})
    fails(tmp_path, "beside the index")
    with_map({"model.norm.weight": "model-00009-of-00002.safetensors"})
    fails(tmp_path, "model-00009-of-00002.safetensors", "missing")
    with_map({"model.norm.weight": 3})
    fails(tmp_path, "not a file name")
    other = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
    with_map({"model.norm.weight": (other - {index["weight_map"]["model.norm.weight"]}).pop()})
    fails(tmp_path, "model.norm.weight", "does not hold it")


GOOD = config_dict(CFG)
BAD_CONFIGS = {
    "model_type": ({"model_type": "llama"}, "llama"),
    "moe": ({"model_type": "qwen3_5_moe_text"}, "dense"),
    "text_config": ({"text_config": 3}, "text_config"),
    "negative": ({"hidden_size": -1}, "hidden_size"),
    "bool": ({"hidden_size": True}, "hidden_size"),
    "text": ({"num_hidden_layers": "four"}, "num_hidden_layers"),
    "float": ({"head_dim": 32.0}, "head_dim"),
    "eps": ({"rms_norm_eps": 0}, "rms_norm_eps"),
    "act": ({"hidden_act": "gelu"}, "hidden_act"),
    "tie": ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    "kinds": ({"layer_types": ["linear_attention"]}, "layer_types"),
    "kind": ({"layer_types": ["sliding"] * 4}, "layer_types[0]"),
    "rope": ({"rope_parameters": {"rope_type": "yarn"}}, "yarn"),
    "rope object": ({"rope_parameters": [1]}, "rope_parameters"),
    "rope theta": ({"rope_parameters": {"rope_theta": "big"}}, "rope_theta"),
    "rotary": ({"rope_parameters": {"partial_rotary_factor": 0.1}}, "even"),
    "dtype": ({"dtype": "float16"}, "float16"),
    "heads": ({"num_key_value_heads": 3}, "num_key_value_heads"),
    "value heads": ({"linear_num_value_heads": 17}, "linear_num_value_heads"),
    "eos": ({"eos_token_id": "end"}, "eos_token_id"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_bad_config(name):
    change, word = BAD_CONFIGS[name]
    with pytest.raises(CheckpointError) as caught:
        from_dict({**GOOD, **change})
    assert word in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", "[" * 100_000])
def test_config_that_is_not_an_object(tmp_path, text):
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    fails(tmp_path, "config.json")


def test_defaults_are_those_of_the_released_architecture():
    cfg = from_dict({"model_type": "qwen3_5_text"})
    assert (cfg.hidden_size, cfg.num_hidden_layers, cfg.head_dim, cfg.rotary_dim) == (4096, 32, 256, 64)
    assert cfg.layer_types == ((LINEAR,) * 3 + (FULL,)) * 8
    assert cfg.rope_theta == 10000.0 and cfg.dtype == "bfloat16" and not cfg.tie_word_embeddings
    assert from_dict({"model_type": "qwen3_5_text", "rope_theta": 5.0}).rope_theta == 5.0
    legacy = {"model_type": "qwen3_5_text", "torch_dtype": "float32", "rope_scaling": {"type": "mrope"}}
    assert from_dict(legacy).dtype == "float32"
    assert from_dict({"model_type": "qwen3_5_text", "full_attention_interval": 2}).layer_types[:2] == (LINEAR, FULL)
