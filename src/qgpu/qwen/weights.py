"""The weights of a model as flat records: one field a tensor, named for what it does.

A tensor is either ``uint16`` (bf16 bits) or ``float32``, as it was stored. Matrices are (out, in), as in the files.
D is hidden_size, I intermediate_size, Hk/Hv the key and value heads of a linear layer and Dk/Dv their sizes,
C = 2 Hk Dk + Hv Dv the convolution's channels, K its taps, H/G the query and key-value heads of a full layer, E head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from qgpu.qwen.config import LINEAR, Config


@dataclass
class LinearLayer:
    """A Gated DeltaNet layer with its MLP."""

    input_norm: NDArray  # (D,)
    qkv: NDArray  # (C, D)
    z: NDArray  # (Hv Dv, D)
    b: NDArray  # (Hv, D)
    a: NDArray  # (Hv, D)
    conv: NDArray  # (C, K)
    a_log: NDArray  # (Hv,)
    dt_bias: NDArray  # (Hv,)
    gated_norm: NDArray  # (Dv,)
    out: NDArray  # (D, Hv Dv)
    post_norm: NDArray  # (D,)
    gate: NDArray  # (I, D)
    up: NDArray  # (I, D)
    down: NDArray  # (D, I)


@dataclass
class FullLayer:
    """A gated full-attention layer with its MLP."""

    input_norm: NDArray  # (D,)
    q: NDArray  # (H 2E, D): a head's query rows, then its gate rows
    k: NDArray  # (G E, D)
    v: NDArray  # (G E, D)
    o: NDArray  # (D, H E)
    q_norm: NDArray  # (E,)
    k_norm: NDArray  # (E,)
    post_norm: NDArray  # (D,)
    gate: NDArray  # (I, D)
    up: NDArray  # (I, D)
    down: NDArray  # (D, I)
    q_bias: NDArray | None = None  # (H 2E,)
    k_bias: NDArray | None = None  # (G E,)
    v_bias: NDArray | None = None  # (G E,)
    o_bias: NDArray | None = None  # (D,)


@dataclass
class Weights:
    """A whole text model. head is embed itself where the two are tied."""

    embed: NDArray  # (vocab, D)
    layers: list[LinearLayer | FullLayer]
    norm: NDArray  # (D,)
    head: NDArray  # (vocab, D)


MLP_NAMES = {
    "post_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}
LINEAR_NAMES = {
    "input_norm": "input_layernorm.weight",
    "qkv": "linear_attn.in_proj_qkv.weight",
    "z": "linear_attn.in_proj_z.weight",
    "b": "linear_attn.in_proj_b.weight",
    "a": "linear_attn.in_proj_a.weight",
    "conv": "linear_attn.conv1d.weight",  # (C, 1, K) in the file
    "a_log": "linear_attn.A_log",
    "dt_bias": "linear_attn.dt_bias",
    "gated_norm": "linear_attn.norm.weight",
    "out": "linear_attn.out_proj.weight",
    **MLP_NAMES,
}
FULL_NAMES = {
    "input_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    **MLP_NAMES,
}
BIAS_NAMES = {
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "o_bias": "self_attn.o_proj.bias",
}


def layer_names(cfg: Config, index: int) -> dict[str, str]:
    """Field of the layer's record to the tensor's name after ``layers.{index}.``."""
    if cfg.layer_types[index] == LINEAR:
        return dict(LINEAR_NAMES)
    return {**FULL_NAMES, **(BIAS_NAMES if cfg.attention_bias else {})}


def layer_shapes(cfg: Config, index: int) -> dict[str, tuple[int, ...]]:
    """Field of the layer's record to the shape it must have in the record."""
    hidden, inner = cfg.hidden_size, cfg.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "input_norm": (hidden,),
        "post_norm": (hidden,),
        "gate": (inner, hidden),
        "up": (inner, hidden),
        "down": (hidden, inner),
    }
    if cfg.layer_types[index] == LINEAR:
        heads = cfg.linear_num_value_heads
        return shapes | {
            "qkv": (cfg.conv_dim, hidden),
            "z": (cfg.value_dim, hidden),
            "b": (heads, hidden),
            "a": (heads, hidden),
            "conv": (cfg.conv_dim, cfg.linear_conv_kernel_dim),
            "a_log": (heads,),
            "dt_bias": (heads,),
            "gated_norm": (cfg.linear_value_head_dim,),
            "out": (hidden, cfg.value_dim),
        }
    queries, keys = cfg.num_attention_heads * cfg.head_dim, cfg.num_key_value_heads * cfg.head_dim
    shapes |= {
        "q": (2 * queries, hidden),
        "k": (keys, hidden),
        "v": (keys, hidden),
        "o": (hidden, queries),
        "q_norm": (cfg.head_dim,),
        "k_norm": (cfg.head_dim,),
    }
    if cfg.attention_bias:
        shapes |= {"q_bias": (2 * queries,), "k_bias": (keys,), "v_bias": (keys,), "o_bias": (hidden,)}
    return shapes
