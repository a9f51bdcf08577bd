"""The model that is merged: its config, its tensors where they lie, and whether the circuit's layers fit its shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..bf16 import decode
from ..errors import CheckpointError, UsageError
from ..machine.description import Machine
from ..qwen.config import Config, from_dict, read_json
from ..qwen.hub import find
from ..qwen.load import HEADS, PREFIXES, read_weights
from ..qwen.tensors import Tensors, open_folder
from ..qwen.weights import Weights

ROWS = 4096
"""Vocabulary rows that are looked at together."""


def wide(tensor: NDArray) -> NDArray[np.float32]:
    """A tensor's values (bf16 bits, float16 or float32) as float32."""
    tensor = np.asarray(tensor)
    return decode(tensor) if tensor.dtype == np.uint16 else tensor.astype(np.float32)


@dataclass
class Base:
    """An opened checkpoint. prefix: of its text tensors. head_name: the output head's tensor, None where it is tied.

    config: as in config.json; text: the part of it that describes the text model (the same object where there is one part).
    """

    folder: Path
    config: dict
    cfg: Config
    tensors: Tensors
    weights: Weights
    prefix: str
    head_name: str | None

    @property
    def text(self) -> dict:
        return self.config.get("text_config", self.config)

    @property
    def embed_name(self) -> str:
        return f"{self.prefix}embed_tokens.weight"

    @property
    def vocabulary(self) -> int:
        return self.cfg.vocab_size

    def rows(self, head: bool = False) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """(first row, block (n, D) float32) over the embedding, or over the output head."""
        table = self.weights.head if head else self.weights.embed
        for first in range(0, len(table), ROWS):
            yield first, wide(table[first:first + ROWS])
            self.tensors.release()

    def token_name(self, row: int) -> str:
        """A vocabulary row as messages name it."""
        return f"vocabulary row {row}"


def open_base(name: str | Path, machine: Machine) -> Base:
    """Open a checkpoint and check that the machine's layers fit it. Raises UsageError or CheckpointError."""
    folder = find(name)
    config = read_json(folder / "config.json")
    where = str(folder / "config.json")
    if "qgpu_machine" in config:
        raise UsageError("this checkpoint holds a machine already", where=where, fix="merge into the model that it was made from")
    cfg = from_dict(config, where=where)
    _check_shape(cfg, machine, where)
    tensors = open_folder(folder)
    weights = read_weights(cfg, tensors, where=str(folder))
    prefix = next(p for p in PREFIXES if f"{p}embed_tokens.weight" in tensors)
    head = next((h for h in HEADS if h in tensors), None)
    if weights.embed.dtype != np.uint16 or weights.head.dtype != np.uint16:
        raise CheckpointError("the embedding is not bf16", where=str(folder), fix="convert the checkpoint to bfloat16")
    return Base(folder, config, cfg, tensors, weights, prefix, head)


def _check_shape(cfg: Config, m: Machine, where: str) -> None:
    """Raise UsageError naming every size of the model that the machine's layers cannot have."""
    wanted = {"hidden_size": m.hidden, "linear_num_key_heads": m.heads, "linear_num_value_heads": m.heads,
              "linear_key_head_dim": m.head_dim, "linear_value_head_dim": m.head_dim, "linear_conv_kernel_dim": 4}
    wrong = [f"{name} is {getattr(cfg, name)}, not {value}" for name, value in wanted.items() if getattr(cfg, name) != value]
    if cfg.dtype != "bfloat16":
        wrong.append(f"dtype is {cfg.dtype}, not bfloat16")
    if cfg.rms_norm_eps > 1e-4:
        wrong.append(f"rms_norm_eps is {cfg.rms_norm_eps}, above 1e-4")
    if wrong:
        raise UsageError(f"machine {m.name} does not fit this model", where=where, why="; ".join(wrong),
                         fix="choose a model or a machine of that shape (all layers of a model have one shape)")
