"""A checkpoint folder to a config and weights.

Tensor names may start with ``model.`` or ``model.language_model.`` (the multimodal release). Vision towers and ``mtp``
heads are ignored. A tensor of the wrong shape or dtype, or one that is missing, is a CheckpointError naming it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qgpu.bf16 import encode
from qgpu.errors import CheckpointError
from qgpu.qwen.config import LINEAR, Config, read_config, read_json
from qgpu.qwen.hub import find
from qgpu.qwen.model import Model
from qgpu.qwen.tensors import AGAIN, Tensors, open_folder
from qgpu.qwen.weights import FullLayer, LinearLayer, Weights, layer_names, layer_shapes

PREFIXES = ("model.language_model.", "model.", "language_model.", "")
HEADS = ("lm_head.weight", "model.lm_head.weight", "language_model.lm_head.weight")


def load(folder: str | Path, *, strict: bool = False) -> Model:
    """A model from a checkpoint folder, or by its name on the Hugging Face hub (downloaded on first use).

    strict: take every sum in the documented order (:mod:`qgpu.qwen.arithmetic`). Stop and suppressed tokens come from
    generation_config.json where there is one, stop tokens otherwise from config.json.
    Raises UsageError where there is no such folder, CheckpointError for a checkpoint that cannot be used or downloaded.
    """
    folder = find(folder)
    cfg, weights = load_weights(folder)
    path = folder / "generation_config.json"
    generation = read_json(path) if path.exists() else {}
    stop = _token_ids(generation, "eos_token_id", cfg, path) or cfg.eos_token_ids
    suppress = _token_ids(generation, "suppress_tokens", cfg, path)
    return Model(cfg, weights, folder, strict, stop, suppress)


def _token_ids(data: dict[str, Any], field: str, cfg: Config, path: Path) -> tuple[int, ...]:
    """One token id or a list of them, checked against the vocabulary."""
    value = data.get(field)
    ids = [] if value is None else value if isinstance(value, list) else [value]
    for one in ids:
        if type(one) is not int or not 0 <= one < cfg.vocab_size:
            raise CheckpointError(f"{field} holds {one!r}, not a token id", where=str(path))
    return tuple(ids)


def load_weights(folder: str | Path) -> tuple[Config, Weights]:
    """Config and weights of a checkpoint folder; matrices stay mapped files. Raises CheckpointError."""
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError("there is no such folder", where=str(folder), fix="give a folder with config.json in it")
    cfg = read_config(folder)
    return cfg, read_weights(cfg, open_folder(folder), where=str(folder))


def read_weights(cfg: Config, tensors: Tensors, where: str = "") -> Weights:
    """The records of :mod:`qgpu.qwen.weights`, filled. Raises CheckpointError."""
    prefix = next((p for p in PREFIXES if f"{p}embed_tokens.weight" in tensors), None)
    if prefix is None:
        raise CheckpointError("the checkpoint has no embed_tokens.weight", where=where, fix=AGAIN)
    take = _Taker(cfg, tensors, where)
    layers: list[LinearLayer | FullLayer] = []
    for i, kind in enumerate(cfg.layer_types):
        shapes = layer_shapes(cfg, i)
        fields = {
            field: take(f"{prefix}layers.{i}.{name}", shapes[field]) for field, name in layer_names(cfg, i).items()
        }
        layers.append(LinearLayer(**fields) if kind == LINEAR else FullLayer(**fields))
    shape = (cfg.vocab_size, cfg.hidden_size)
    embed = take(f"{prefix}embed_tokens.weight", shape)
    head_name = next((name for name in HEADS if name in tensors), None)
    if not cfg.tie_word_embeddings and head_name is None:
        raise CheckpointError(
            "the checkpoint has no lm_head.weight",
            where=where,
            why="the config says that the head is not tied to the embedding",
            fix=AGAIN,
        )
    head = embed if cfg.tie_word_embeddings else take(head_name, shape)
    return Weights(embed, layers, take(f"{prefix}norm.weight", (cfg.hidden_size,)), head)


class _Taker:
    """Takes tensors by name, checking each against the shape it must have."""

    def __init__(self, cfg: Config, tensors: Tensors, where: str) -> None:
        self.cfg, self.tensors, self.where = cfg, tensors, where

    def __call__(self, name: str, shape: tuple[int, ...]) -> NDArray:
        tensor = self.tensors.get(name)
        stored = (shape[0], 1, shape[1]) if name.endswith("conv1d.weight") else shape
        if tensor.shape != stored:
            raise CheckpointError(
                f"tensor {name} has shape {tensor.shape}, not {stored}",
                where=self.where,
                why="the config asks for the latter",
            )
        return self._held(tensor.reshape(shape))

    def _held(self, tensor: NDArray) -> NDArray:
        """uint16 or float32: float16 is widened, and a matrix of a bf16 model is rounded to bf16 if it is not yet."""
        if tensor.dtype == np.float16:
            tensor = tensor.astype(np.float32)
        if tensor.dtype == np.float32 and tensor.ndim == 2 and self.cfg.dtype == "bfloat16":
            return encode(tensor)
        return tensor
