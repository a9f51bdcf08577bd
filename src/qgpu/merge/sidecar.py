"""What a merged checkpoint says about its circuit: `qgpu_circuit.json` beside the tensors, and weights read back from both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..circuit.records import code_table
from ..compile.compiler import CircuitWeights
from ..compile.placement import Placed, Placement
from ..compile.tensors import CompiledLayer, Coo
from ..errors import CheckpointError, UsageError
from ..machine.description import ARTICLE, Machine, as_dict
from ..qwen.config import read_json
from ..qwen.tensors import open_folder
from ..qwen.weights import LinearLayer, Weights
from .base import wide

NAME = "qgpu_circuit.json"
AGAIN = "merge the model again"
FORMAT = 1
MATRICES = ("qkv", "z", "a", "b", "out")


def describe(placed: Placed, base_vocabulary: int, digests: dict[str, str]) -> dict:
    """The sidecar of a placed circuit. digests: name -> sha256 of its tensors, "" for those that are zero."""
    w = placed.weights
    layers = []
    for layer in w.layers:
        dims = np.flatnonzero((layer.low != 0) | (layer.high != 0))
        layers.append({"head_kinds": layer.head_kinds, "head_notes": layer.head_notes, "units": layer.units,
                       "groups": layer.groups, "peak": layer.peak,
                       "ranges": [dims.tolist(), layer.low[dims].tolist(), layer.high[dims].tolist()]})
    return {"format": FORMAT, "machine": as_dict(w.machine), "base_vocabulary": base_vocabulary, "tokens": len(w.codes),
            "placement": asdict(placed.placement), "layers": layers, "sha256": digests}


class Sidecar:
    """A read sidecar. first: id of the machine's token 0 in the merged vocabulary."""

    def __init__(self, folder: str | Path) -> None:
        """Raises CheckpointError where the folder holds none or a damaged one."""
        self.path = Path(folder) / NAME
        data = read_json(self.path)
        try:
            if data["format"] != FORMAT:
                raise CheckpointError(f"the circuit is described in format {data['format']}, not {FORMAT}", where=str(self.path), fix=AGAIN)
            self.machine = Machine(**{k: tuple(v) if isinstance(getattr(ARTICLE, k), tuple) else v
                                      for k, v in data["machine"].items()}).validate()
            self.first, self.tokens = int(data["base_vocabulary"]), int(data["tokens"])
            p = data["placement"]
            self.placement = Placement(tuple(p["constants"]), tuple((int(d), float(w)) for d, w in p["silence"]), tuple(p["code"]),
                                       tuple(p["ones"]), (int(p["ballast"][0]), float(p["ballast"][1])), float(p["scale"]),
                                       float(p["gain"]), int(p["exponent"]))
            self.layers, self.digests = data["layers"], dict(data["sha256"])
            for layer in self.layers:
                layer["ranges"], layer["head_kinds"], layer["units"]
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, UsageError) as error:
            raise CheckpointError("the description of the circuit is damaged", where=str(self.path), why=f"{type(error).__name__}: {error}",
                                  fix=AGAIN) from None

    def weights(self, model: Weights) -> CircuitWeights:
        """The circuit's weights, read from the checkpoint's tensors. Raises CheckpointError where these are no circuit's."""
        m, p = self.machine, self.placement
        self._check_digests()
        layers = []
        for i, facts in enumerate(self.layers):
            w = model.layers[i] if i < len(model.layers) else None
            if not isinstance(w, LinearLayer):
                raise CheckpointError(f"layer {i} is not a circuit layer", where=str(self.path), fix=AGAIN)
            layers.append(read_layer(w, facts, m.hidden))
        codes = np.asarray(code_table(m), np.int8)
        rows = wide(model.embed[self.first:self.first + self.tokens])     # (M, D)
        if rows.shape[0] != len(codes) or not np.array_equal(rows[:, list(p.code)], codes * np.float32(p.scale)):
            raise CheckpointError("the machine's embedding rows are not its tokens' codes", where=str(self.path.parent), fix=AGAIN)
        return CircuitWeights(m, layers, codes, list(p.code), [*p.constants, *p.ones], [d for d, _ in p.silence])


    def _check_digests(self) -> None:
        tensors = open_folder(self.path.parent)
        for name, wanted in self.digests.items():
            tensor = tensors.get(name)
            if tensor.any() if not wanted else hashlib.sha256(np.ascontiguousarray(tensor)).hexdigest() != wanted:
                raise CheckpointError(f"tensor {name} is damaged", where=str(tensors.entries[name].path),
                                      why="its digest is not the one that the merge recorded", fix=AGAIN)


def nonzeros(matrix: NDArray[np.uint16]) -> Coo:
    """Where a mapped bf16 matrix (m, n), n a multiple of 4, is not zero."""
    flat = np.ascontiguousarray(matrix).reshape(-1)
    four = np.flatnonzero(flat.view(np.uint64))[:, None] * 4 + np.arange(4)            # four numbers at a time
    at = four.reshape(-1)
    at = at[flat[at] != 0]
    rows, cols = np.divmod(at, matrix.shape[1])
    return Coo(tuple(matrix.shape), rows.tolist(), cols.tolist(), wide(flat[at]).tolist())


def read_layer(w: LinearLayer, facts: dict, hidden: int) -> CompiledLayer:
    """One circuit layer from its tensors and the sidecar's facts."""
    low, high = np.zeros(hidden, np.float32), np.zeros(hidden, np.float32)
    dims, lows, highs = facts["ranges"]
    low[dims], high[dims] = lows, highs
    matrices = {name: nonzeros(getattr(w, name)) for name in MATRICES}
    return CompiledLayer(**matrices, conv=wide(w.conv), a_log=wide(w.a_log), dt_bias=wide(w.dt_bias), norm_in=wide(w.input_norm),
                         head_kinds=facts["head_kinds"], units=facts["units"], low=low, high=high,
                         head_notes=facts.get("head_notes", []), groups=facts.get("groups", {}), peak=facts.get("peak", 0))


def write_sidecar(folder: Path, data: dict) -> None:
    """Write it compactly: most of it is ranges."""
    (folder / NAME).write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")
