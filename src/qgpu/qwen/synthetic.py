"""Models of any shape with random weights, for tests and measurements: the sizes are real, the words are noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qgpu.bf16 import encode
from qgpu.qwen.config import LINEAR, Config
from qgpu.qwen.weights import FullLayer, LinearLayer, Weights, layer_names, layer_shapes

BLOCK = 1 << 22


def random_weights(cfg: Config, seed: int = 0) -> Weights:
    """Weights of a trained model's rough sizes: bf16 in a bf16 model, but a_log and gated_norm float32 as released."""
    rng = np.random.default_rng(seed)
    layers: list[LinearLayer | FullLayer] = []
    for i, kind in enumerate(cfg.layer_types):
        fields = {name: _random(rng, name, shape, cfg) for name, shape in layer_shapes(cfg, i).items()}
        layers.append(LinearLayer(**fields) if kind == LINEAR else FullLayer(**fields))
    shape = (cfg.vocab_size, cfg.hidden_size)
    embed = _random(rng, "embed", shape, cfg)
    head = embed if cfg.tie_word_embeddings else _random(rng, "head", shape, cfg)
    return Weights(embed, layers, _random(rng, "norm", (cfg.hidden_size,), cfg), head)


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...], cfg: Config) -> NDArray:
    if name == "a_log":
        return np.log(rng.uniform(0.01, 16.0, shape)).astype(np.float32)
    if name == "gated_norm":
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    size = 0.5 if name in ("conv", "dt_bias") else 0.2 if len(shape) == 1 else shape[1] ** -0.5
    if cfg.dtype != "bfloat16":
        return rng.standard_normal(shape, np.float32) * np.float32(size)
    out = np.empty(shape, np.uint16)
    flat = out.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK]
        part[:] = encode(rng.standard_normal(part.size, np.float32) * np.float32(size))
    return out


def tensors_of(cfg: Config, weights: Weights, prefix: str = "model.") -> dict[str, NDArray]:
    """Hugging Face tensor names to arrays, a tied head left out."""
    out = {f"{prefix}embed_tokens.weight": weights.embed, f"{prefix}norm.weight": weights.norm}
    for i, layer in enumerate(weights.layers):
        for field, name in layer_names(cfg, i).items():
            tensor = getattr(layer, field)
            out[f"{prefix}layers.{i}.{name}"] = tensor[:, None, :] if field == "conv" else tensor
    if weights.head is not weights.embed:
        out["lm_head.weight"] = weights.head
    return out


def config_dict(cfg: Config) -> dict[str, Any]:
    """The config as transformers writes it for a text-only model."""
    plain = (
        "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim "
        "rms_norm_eps tie_word_embeddings attention_bias linear_conv_kernel_dim linear_key_head_dim "
        "linear_value_head_dim linear_num_key_heads linear_num_value_heads max_position_embeddings dtype"
    ).split()
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "hidden_act": "silu",
        **{name: getattr(cfg, name) for name in plain},
        "layer_types": list(cfg.layer_types),
        "eos_token_id": list(cfg.eos_token_ids) or None,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": cfg.rope_theta,
            "partial_rotary_factor": cfg.partial_rotary_factor,
        },
    }


def save(folder: str | Path, cfg: Config, tensors: dict[str, NDArray], name: str = "model.safetensors") -> None:
    """Write config.json and one safetensors file. uint16 arrays are written as BF16, float32 as F32."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_dict(cfg), indent=2) + "\n", encoding="utf-8")
    write_safetensors(folder / name, tensors)


def write_safetensors(path: Path, tensors: dict[str, NDArray]) -> None:
    """One safetensors file, tensors in the order given."""
    kinds = {np.dtype(np.uint16): "BF16", np.dtype(np.float32): "F32", np.dtype(np.float16): "F16"}
    header: dict[str, Any] = {}
    start = 0
    for key, tensor in tensors.items():
        end = start + tensor.nbytes
        header[key] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little"))
        file.write(raw)
        for tensor in tensors.values():
            np.ascontiguousarray(tensor).tofile(file)
