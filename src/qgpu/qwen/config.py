"""The shape of a dense Qwen3.5 text model, read from ``config.json``.

Field names and defaults are those of transformers 5.24 (``Qwen3_5TextConfig``). A multimodal config carries the text
model under ``text_config``; vision fields are ignored.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qgpu.errors import CheckpointError

LINEAR = "linear_attention"
FULL = "full_attention"
MODEL_TYPES = ("qwen3_5", "qwen3_5_text")


@dataclass(frozen=True)
class Config:
    """Every size and constant that the forward pass uses.

    dtype is ``"bfloat16"`` (each operation rounds to bf16) or ``"float32"`` (no rounding beyond float32's own).
    """

    vocab_size: int = 248320
    hidden_size: int = 4096
    intermediate_size: int = 12288
    num_hidden_layers: int = 32
    num_attention_heads: int = 16
    num_key_value_heads: int = 4
    head_dim: int = 256
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    rope_theta: float = 10000.0
    partial_rotary_factor: float = 0.25
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32
    layer_types: tuple[str, ...] = ()
    max_position_embeddings: int = 32768
    eos_token_ids: tuple[int, ...] = ()
    dtype: str = "bfloat16"

    def __post_init__(self) -> None:
        if not self.layer_types:
            object.__setattr__(self, "layer_types", default_layer_types(self.num_hidden_layers))
        _check(self)

    @property
    def key_dim(self) -> int:
        """Width of all q heads, or all k heads, of a linear layer."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_dim(self) -> int:
        """Width of all v heads of a linear layer."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the causal convolution: q, k and v side by side."""
        return 2 * self.key_dim + self.value_dim

    @property
    def rotary_dim(self) -> int:
        """How many of head_dim's leading components are rotated by position."""
        return int(self.head_dim * self.partial_rotary_factor)


def default_layer_types(layers: int, interval: int = 4) -> tuple[str, ...]:
    """Three linear layers, then a full one, and so on (for an interval of 4)."""
    return tuple(LINEAR if (i + 1) % interval else FULL for i in range(layers))


def read_config(folder: str | Path) -> Config:
    """The config of a checkpoint folder. Raises CheckpointError for a missing, unreadable or malformed file."""
    path = Path(folder) / "config.json"
    return from_dict(read_json(path), where=str(path))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or a CheckpointError that says what is wrong with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            "the file is missing",
            where=str(path),
            fix="point at the folder that holds config.json and the .safetensors files",
        ) from None
    except OSError as error:
        raise CheckpointError("the file cannot be read", where=str(path), why=error.strerror or str(error)) from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError("the file is not JSON", where=str(path), why=str(error)) from None
    if not isinstance(data, dict):
        raise CheckpointError("the file is not a JSON object", where=str(path), why=f"it holds a {type(data).__name__}")
    return data


def from_dict(data: dict[str, Any], *, where: str = "config.json") -> Config:
    """A Config from the object in ``config.json``. Raises CheckpointError, naming the field, for anything malformed."""
    reader = _Reader(data, where)
    model_type = data.get("model_type")
    if model_type not in MODEL_TYPES:
        raise CheckpointError(
            f"model_type is {model_type!r}",
            where=where,
            why="only dense Qwen3.5 models are supported: " + " or ".join(MODEL_TYPES),
        )
    if "text_config" in data:
        inner = data["text_config"]
        if not isinstance(inner, dict):
            raise CheckpointError("text_config is not an object", where=where)
        tie = data.get("tie_word_embeddings", inner.get("tie_word_embeddings", False))
        outer_dtype = data.get("dtype", data.get("torch_dtype"))
        reader = _Reader({**inner, "tie_word_embeddings": tie}, f"{where}, text_config")
    else:
        outer_dtype = None

    act = reader.get("hidden_act", str, "silu")
    if act != "silu":
        reader.fail("hidden_act", f"is {act!r}; Qwen3.5 uses silu")
    layers = reader.count("num_hidden_layers", 32)
    rope = reader.rope()
    dtype = reader.data.get("dtype", reader.data.get("torch_dtype", outer_dtype)) or outer_dtype or "bfloat16"
    fields: dict[str, Any] = {
        name: reader.count(name, default)
        for name, default in (
            ("vocab_size", 248320),
            ("hidden_size", 4096),
            ("intermediate_size", 12288),
            ("num_attention_heads", 16),
            ("num_key_value_heads", 4),
            ("head_dim", 256),
            ("linear_conv_kernel_dim", 4),
            ("linear_key_head_dim", 128),
            ("linear_value_head_dim", 128),
            ("linear_num_key_heads", 16),
            ("linear_num_value_heads", 32),
            ("max_position_embeddings", 32768),
        )
    }
    return Config(
        **fields,
        num_hidden_layers=layers,
        rms_norm_eps=reader.number("rms_norm_eps", 1e-6),
        tie_word_embeddings=reader.get("tie_word_embeddings", bool, False),
        attention_bias=reader.get("attention_bias", bool, False),
        rope_theta=rope["rope_theta"],
        partial_rotary_factor=rope["partial_rotary_factor"],
        layer_types=reader.layer_types(layers),
        eos_token_ids=reader.token_ids("eos_token_id"),
        dtype=str(dtype).removeprefix("torch."),
    )


class _Reader:
    """Typed access to a config object; every failure names the file and the field."""

    def __init__(self, data: dict[str, Any], where: str) -> None:
        self.data, self.where = data, where

    def fail(self, field: str, what: str, why: str = "") -> None:
        raise CheckpointError(f"{field} {what}", where=self.where, why=why)

    def get(self, field: str, kind: type, default: Any) -> Any:
        value = self.data.get(field)
        if value is None:
            return default
        if not isinstance(value, kind):
            self.fail(field, f"is {value!r}, not a {kind.__name__}")
        return value

    def count(self, field: str, default: int) -> int:
        value = self.data.get(field)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.fail(field, f"is {value!r}, not a positive whole number")
        return value

    def number(self, field: str, default: float) -> float:
        value = self.data.get(field)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            self.fail(field, f"is {value!r}, not a positive number")
        return float(value)

    def rope(self) -> dict[str, float]:
        raw = self.data.get("rope_parameters") or self.data.get("rope_scaling") or {}
        if not isinstance(raw, dict):
            self.fail("rope_parameters", f"is {raw!r}, not an object")
        kind = raw.get("rope_type", raw.get("type", "default"))
        if kind not in ("default", "mrope"):
            self.fail("rope_parameters", f"has rope_type {kind!r}", "only the default rotary embedding is supported")
        merged = {
            "rope_theta": raw.get("rope_theta", self.data.get("rope_theta")),
            "partial_rotary_factor": raw.get("partial_rotary_factor", self.data.get("partial_rotary_factor")),
        }
        inner = _Reader(merged, f"{self.where}, rope_parameters")
        return {
            "rope_theta": inner.number("rope_theta", 10000.0),
            "partial_rotary_factor": inner.number("partial_rotary_factor", 0.25),
        }

    def layer_types(self, layers: int) -> tuple[str, ...]:
        kinds = self.data.get("layer_types")
        if kinds is None:
            return default_layer_types(layers, self.count("full_attention_interval", 4))
        if not isinstance(kinds, list) or len(kinds) != layers:
            self.fail("layer_types", f"does not list one type for each of the {layers} layers")
        for i, kind in enumerate(kinds):
            if kind not in (LINEAR, FULL):
                self.fail(f"layer_types[{i}]", f"is {kind!r}; it must be {LINEAR} or {FULL}")
        return tuple(kinds)

    def token_ids(self, field: str) -> tuple[int, ...]:
        value = self.data.get(field)
        ids = [] if value is None else value if isinstance(value, list) else [value]
        for one in ids:
            if isinstance(one, bool) or not isinstance(one, int) or one < 0:
                self.fail(field, f"holds {one!r}, not a token id")
        return tuple(ids)


def _check(cfg: Config) -> None:
    """The relations between fields that the forward pass relies on."""

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise CheckpointError(what, where="config")

    require(cfg.dtype in ("bfloat16", "float32"), f"dtype is {cfg.dtype!r}; it must be bfloat16 or float32")
    require(
        cfg.num_attention_heads % cfg.num_key_value_heads == 0,
        f"num_attention_heads ({cfg.num_attention_heads}) is not a multiple of"
        f" num_key_value_heads ({cfg.num_key_value_heads})",
    )
    require(
        cfg.linear_num_value_heads % cfg.linear_num_key_heads == 0,
        f"linear_num_value_heads ({cfg.linear_num_value_heads}) is not a multiple of"
        f" linear_num_key_heads ({cfg.linear_num_key_heads})",
    )
    require(len(cfg.layer_types) == cfg.num_hidden_layers, "layer_types does not have one entry for each layer")
    require(cfg.partial_rotary_factor <= 1.0, "partial_rotary_factor is above 1")
    require(
        cfg.rotary_dim % 2 == 0,
        f"head_dim * partial_rotary_factor is {cfg.rotary_dim}; it must be even",
    )
