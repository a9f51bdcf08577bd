"""An exported checkpoint as an engine: Qwen's own forward pass over the tensors that lie in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..bf16 import encode
from ..compile.cache import compiled_weights
from ..compile.export import layer_tensors
from ..compile.memory_map import memory_banks, read_words
from ..compile.tensors import SCALE
from ..errors import CheckpointError, UsageError
from ..machine.description import ARTICLE, Machine
from ..machine.tokens import Vocabulary
from ..merge.model import load as load_merged
from ..merge.sidecar import NAME as MERGED
from ..qwen import Model, load
from .engine_api import Engine

AGAIN = "write it again with qgpu export"
WROTE = "give a folder that qgpu export or qgpu merge wrote"


def checkpoint_machine(folder: str | Path) -> Machine:
    """The machine that a checkpoint was made for, as its config.json says. Raises CheckpointError, and UsageError without a folder."""
    path = Path(folder) / "config.json"
    if not path.parent.is_dir():
        raise UsageError("there is no such folder", where=str(folder), fix=WROTE)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        fields = data["qgpu_machine"]
        machine = Machine(**{k: tuple(v) if isinstance(getattr(ARTICLE, k), tuple) else v for k, v in fields.items()})
        return machine.validate()
    except (OSError, ValueError) as e:
        raise CheckpointError("this is not a checkpoint folder", where=str(path), why=getattr(e, "strerror", None) or str(e), fix=WROTE) from None
    except (KeyError, TypeError, AttributeError):
        raise CheckpointError("this checkpoint holds no machine of qgpu", where=str(path), fix=WROTE) from None
    except UsageError as e:
        raise CheckpointError(e.what, where=str(path), why=e.why, fix=AGAIN) from None


def open_engine(folder: str | Path, machine: Machine, *, full: bool = False) -> Engine:
    """An engine on an exported or a merged checkpoint. full: machine tokens of a merged one go through its own layers too.

    Raises CheckpointError where it is damaged or made for another machine.
    """
    if not (Path(folder) / MERGED).is_file():
        return ModelEngine(folder, machine)
    merged = load_merged(folder)
    if merged.machine != machine:
        raise CheckpointError(f"this checkpoint was made for another machine than {machine.name!r}", where=str(folder),
                              fix="leave --machine out, or merge again for this machine")
    return merged.engine(full=full)


class ModelEngine:
    """One token stream on a loaded checkpoint. Implements runtime.engine_api.Engine."""

    def __init__(self, folder: str | Path, machine: Machine) -> None:
        """Load the checkpoint for a machine. Raises CheckpointError where it is damaged or made for another one."""
        if checkpoint_machine(folder) != machine:
            raise CheckpointError(f"this checkpoint was made for another machine than {machine.name!r}", where=str(folder),
                                  fix="leave --machine out, or export again for this machine")
        self.machine = machine
        self.vocabulary = Vocabulary(machine).size
        self.model: Model = load(folder)
        self.memory = _global_memory(self.model, machine, str(folder))
        self.reset()

    def reset(self) -> None:
        """Empty recurrent and conv states."""
        self.cache = self.model.new_cache()

    def fork(self) -> "ModelEngine":
        """A second stream that continues from here; weights are shared."""
        other = object.__new__(ModelEngine)
        other.__dict__.update(self.__dict__)
        other.cache = self.cache.copy()
        return other

    def feed(self, ids: Sequence[int]) -> int:
        """Consume token ids in one call; the id that the model writes next."""
        logits = self.model.forward(ids, self.cache, last=True)[0]  # (vocab,)
        return int(np.argmax(logits[:self.vocabulary]))

    def read_global(self, words: int) -> list[int]:
        """Global memory's first words, 32-bit unsigned, from the recurrent state."""
        return read_words(self.memory, words, lambda layer, head: self.cache.layers[layer].state[head], SCALE)


def _global_memory(model: Model, machine: Machine, where: str) -> list[tuple[int, int]]:
    """Banks of one copy of memory, in the compiled weights; the checkpoint must have the same heads there."""
    compiled = compiled_weights(machine)
    banks = memory_banks(layer.head_kinds for layer in compiled.layers)
    layer = banks[0][0]
    tensors = layer_tensors(machine, compiled.layers[layer])
    wanted = encode(tensors["linear_attn.in_proj_qkv.weight"])  # (3 heads * head_dim, D)
    if not np.array_equal(getattr(model.weights.layers[layer], "qkv", None) if layer < len(model.weights.layers) else None, wanted):
        raise CheckpointError("this checkpoint is not what this version of qgpu compiles", where=where, fix=AGAIN)
    return banks
