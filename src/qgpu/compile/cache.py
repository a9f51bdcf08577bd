"""Compiled weights on disk: one file a machine and source version, written whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..files import cache_folder, whole_file
from ..machine.description import Machine, as_dict
from .compiler import CircuitWeights, compile_machine
from .tensors import CompiledLayer, Coo

MATRICES = ("qkv", "z", "a", "b", "out")
FACTS = ("head_kinds", "head_notes", "units", "groups", "peak")
VECTORS = ("conv", "a_log", "dt_bias", "norm_in", "low", "high")


UNRELATED = {"encoding.py", "export.py", "cache.py", "memory_map.py", "placement.py", "words.py"}
"""Files of those rooms that do not decide the weights."""


def source_digest() -> str:
    """Digest of the source that decides the weights: machine, circuit, compiler."""
    h = hashlib.sha256()
    root = Path(__file__).parent.parent
    files = (p for room in ("machine", "circuit", "compile") for p in (root / room).glob("*.py") if p.name not in UNRELATED)
    for path in sorted(files):
        h.update(path.name.encode() + b"\0" + path.read_bytes())
    return h.hexdigest()


def compiled_weights(m: Machine) -> CircuitWeights:
    """The machine's weights: from the cache if it holds them, else compiled and kept. A damaged cache file is ignored."""
    key = hashlib.sha256(json.dumps(as_dict(m), sort_keys=True).encode() + source_digest().encode()).hexdigest()[:24]
    path = cache_folder() / "circuits" / f"{key}.npz"         # no name from a user's file in a path
    try:
        return replace(read(path, m), key=key)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
        pass
    weights = replace(compile_machine(m).weights, key=key)
    try:
        write(path, weights)
    except OSError:
        pass                                     # a read-only home only costs time
    return weights


def write(path: Path, w: CircuitWeights) -> None:
    """Store weights at path."""
    arrays: dict[str, np.ndarray] = {"codes": w.codes}
    meta = {"code_dims": w.code_dims, "constants": w.constants, "reserved": w.reserved, "layers": []}
    for i, layer in enumerate(w.layers):
        meta["layers"].append({**{n: getattr(layer, n) for n in FACTS},
                               "shapes": {n: getattr(layer, n).shape for n in MATRICES}})
        for n in MATRICES:
            coo: Coo = getattr(layer, n)
            arrays[f"{i}.{n}.at"] = np.asarray([coo.rows, coo.cols], np.int32).reshape(2, -1)
            arrays[f"{i}.{n}.val"] = np.asarray(coo.vals, np.float64)
        for n in VECTORS:
            arrays[f"{i}.{n}"] = getattr(layer, n)
    arrays["map"] = np.frombuffer(w.packed_map, np.uint8)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as out:
        out.write(buffer.getbuffer())


def read(path: Path, m: Machine) -> CircuitWeights:
    """Weights stored at path. Raises OSError, ValueError or KeyError where it is missing or damaged."""
    with np.load(path, allow_pickle=False) as data:
        meta = json.loads(data["meta"].tobytes().decode())
        layers = []
        for i, info in enumerate(meta["layers"]):
            parts = {}
            for n in MATRICES:
                at, val = data[f"{i}.{n}.at"], data[f"{i}.{n}.val"]
                parts[n] = Coo(tuple(info["shapes"][n]), at[0].tolist(), at[1].tolist(), val.tolist())
            vectors = {n: data[f"{i}.{n}"] for n in VECTORS}
            layers.append(CompiledLayer(**parts, **vectors, **{n: info[n] for n in FACTS}))
        return CircuitWeights(m, layers, data["codes"], meta["code_dims"], meta["constants"], meta["reserved"],
                              data["map"].tobytes())
