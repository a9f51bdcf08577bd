"""The circuit layers alone as a Hugging Face checkpoint: config, sharded safetensors, token map.

On top of the circuit sits one full-attention layer of zeros: transformers cannot ask a cache of linear layers alone for
its length. The head is tied to the embedding, so greedy generation writes the machine's next token.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from safetensors import TensorSpec, serialize_file

from ..bf16 import encode
from ..errors import UsageError
from ..files import new_folder, usual_permissions
from ..machine.description import Machine, as_dict
from ..machine.tokens import KINDS, Vocabulary
from . import signal_map
from .cache import compiled_weights
from .compiler import CircuitWeights
from .tensors import NORM_WEIGHT, CompiledLayer
from .words import described

LAYERS_PER_SHARD = 8
INTERMEDIATE = 16
"""Size of the circuit layers' MLPs, which are all zero."""
ATTENTION_HEADS, KEY_HEADS, ATTENTION_DIM = 2, 1, 64


def circuit_config(m: Machine, layers: int, vocabulary: int) -> dict:
    """config.json of a checkpoint made of `layers` circuit layers and one empty full-attention layer on top."""
    return {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "dtype": "bfloat16",
        "hidden_size": m.hidden, "intermediate_size": INTERMEDIATE, "num_hidden_layers": layers + 1,
        "layer_types": ["linear_attention"] * layers + ["full_attention"], "vocab_size": vocabulary,
        "num_attention_heads": ATTENTION_HEADS, "num_key_value_heads": KEY_HEADS, "head_dim": ATTENTION_DIM,
        "hidden_act": "silu", "linear_conv_kernel_dim": 4, "linear_key_head_dim": m.head_dim,
        "linear_value_head_dim": m.head_dim, "linear_num_key_heads": m.heads, "linear_num_value_heads": m.heads,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "max_position_embeddings": 1 << 20, "attention_bias": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        "bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "qgpu_machine": as_dict(m),
    }


def layer_tensors(m: Machine, layer: CompiledLayer, matrices: bool = True) -> dict[str, np.ndarray]:
    """Tensors of one circuit layer under their names after `layers.N.`, float32 holding bf16 numbers.

    matrices: False leaves out the five projections.
    """
    d, zero = m.hidden, np.zeros
    dense = {
        "linear_attn.in_proj_qkv.weight": layer.qkv,
        "linear_attn.in_proj_z.weight": layer.z,
        "linear_attn.in_proj_b.weight": layer.b,
        "linear_attn.in_proj_a.weight": layer.a,
        "linear_attn.out_proj.weight": layer.out,
    } if matrices else {}
    return {
        "input_layernorm.weight": layer.norm_in,
        **{name: coo.dense() for name, coo in dense.items()},
        "linear_attn.conv1d.weight": layer.conv[:, None, :],
        "linear_attn.A_log": layer.a_log,
        "linear_attn.dt_bias": layer.dt_bias,
        "linear_attn.norm.weight": np.full(m.head_dim, NORM_WEIGHT, np.float32),
        "post_attention_layernorm.weight": zero(d, np.float32),
        "mlp.gate_proj.weight": zero((INTERMEDIATE, d), np.float32),
        "mlp.up_proj.weight": zero((INTERMEDIATE, d), np.float32),
        "mlp.down_proj.weight": zero((d, INTERMEDIATE), np.float32),
    }


def attention_tensors(m: Machine) -> dict[str, np.ndarray]:
    """Tensors of the empty full-attention layer."""
    d, q, kv = m.hidden, ATTENTION_HEADS * ATTENTION_DIM, KEY_HEADS * ATTENTION_DIM
    shapes = {
        "input_layernorm.weight": (d,), "self_attn.q_proj.weight": (2 * q, d), "self_attn.k_proj.weight": (kv, d),
        "self_attn.v_proj.weight": (kv, d), "self_attn.o_proj.weight": (d, q), "self_attn.q_norm.weight": (ATTENTION_DIM,),
        "self_attn.k_norm.weight": (ATTENTION_DIM,), "post_attention_layernorm.weight": (d,),
        "mlp.gate_proj.weight": (INTERMEDIATE, d), "mlp.up_proj.weight": (INTERMEDIATE, d),
        "mlp.down_proj.weight": (d, INTERMEDIATE),
    }
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def shards(compiled: CircuitWeights) -> Iterator[dict[str, np.ndarray]]:
    """The checkpoint's tensors, a few layers at a time."""
    m, n = compiled.machine, len(compiled.layers)
    for first in range(0, n, LAYERS_PER_SHARD):
        yield {f"model.layers.{i}.{name}": t for i in range(first, min(first + LAYERS_PER_SHARD, n))
               for name, t in layer_tensors(m, compiled.layers[i]).items()}
    top = {f"model.layers.{n}.{name}": t for name, t in attention_tensors(m).items()}
    yield {**top, "model.norm.weight": np.zeros(m.hidden, np.float32), "model.embed_tokens.weight": compiled.embedding()}


def token_map(m: Machine) -> dict:
    """Names and ids of the machine's records."""
    v = Vocabulary(m)
    return {"size": v.size, "kinds": {k: {"first": v.base[k], "count": v.counts[k]} for k in KINDS},
            "tokens": [str(v.token(i)) for i in range(v.size)]}


def export_checkpoint(machine: Machine, folder: str | Path, *, force: bool = False, compiled: CircuitWeights | None = None,
                      progress: Callable[[str], None] | None = None) -> Path:
    """Write the compiled machine to `folder` as a Qwen3.5 text checkpoint (bf16, about 42 MB a layer).

    Written to a temporary folder beside it and moved into place. Raises UsageError if folder exists and not force.
    """
    folder = Path(folder)
    if folder.exists() and not force:
        raise UsageError(f"{folder} exists", fix="choose another folder or pass --force")
    say = progress or (lambda text: None)
    say(f"compiling machine {machine.name}")
    compiled = compiled or compiled_weights(machine)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = new_folder(folder.parent)
    try:
        total = 0
        files = list(range(-(-len(compiled.layers) // LAYERS_PER_SHARD) + 1))
        index: dict[str, str] = {}
        digests: dict[str, str] = {}
        for k, tensors in zip(files, shards(compiled)):
            name = f"model-{k + 1:05d}-of-{len(files):05d}.safetensors"
            bits = {t: np.ascontiguousarray(encode(a)) for t, a in tensors.items()}
            digests |= {t: hashlib.sha256(a).hexdigest() for t, a in bits.items()}
            total += sum(a.nbytes for a in bits.values())
            serialize_file({t: TensorSpec(dtype="bfloat16", shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
                            for t, a in bits.items()}, str(work / name), {"format": "pt"})
            usual_permissions(work / name)
            index |= dict.fromkeys(tensors, name)
            say(f"wrote {name}")
        write_json(work / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": index})
        write_json(work / "config.json", circuit_config(machine, len(compiled.layers), len(compiled.codes)))
        vocabulary = Vocabulary(machine)
        write_json(work / "generation_config.json",
                   {"do_sample": False, "eos_token_id": [vocabulary.base["END"], vocabulary.base["TRAP"]]})
        write_json(work / "qgpu_tokens.json", token_map(machine))
        if compiled.packed_map:
            (work / signal_map.NAME).write_bytes(signal_map.to_json({**described(signal_map.unpack(compiled.packed_map)), "sha256": digests}))
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(work, folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return folder


def write_json(path: Path, data: dict) -> None:
    """Readable JSON."""
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
