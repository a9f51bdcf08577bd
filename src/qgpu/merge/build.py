"""`merge`: a checkpoint that is a Qwen3.5 model and a machine, the model's text unchanged to the bit."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path

import numpy as np

from .. import __version__
from ..bf16 import encode
from ..compile.export import LAYERS_PER_SHARD, layer_tensors
from ..compile.placement import Placed, compile_placed
from ..errors import CheckpointError, UsageError
from ..machine.description import ARTICLE, Machine, as_dict
from ..machine.tokens import Vocabulary
from ..qwen.config import LINEAR, read_json
from ..qwen.tensors import Entry
from .base import Base, open_base
from .choose import choose
from .own_layers import OwnBound, bound_own_layers
from .proof import Proof, prove
from .sidecar import describe, write_sidecar
from .survey import survey
from .tokenizer import extend_tokenizer
from .write import Item, ShardWriter, bf16_item

REPORT = "qgpu_report.json"
NOTICE = "QGPU_NOTICE.md"
EXPONENTS = (40, 60)
"""The output code's exponent: the usual one, and the largest whose square, summed, is a float32."""
REPLACED = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", REPORT, NOTICE)
LEFT_OUT = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".index.json")


@dataclass
class MergeResult:
    """folder: the merged checkpoint. layers: of the circuit. first: id of the machine's token 0. report: as in qgpu_report.json."""

    folder: Path
    machine: Machine
    layers: int
    first: int
    report: dict


def merge(base: str | Path, out: str | Path, machine: Machine = ARTICLE, *, force: bool = False,
          progress: Callable[[str], None] | None = None) -> MergeResult:
    """Write to `out` the model `base` (a folder, or a name on the hub) with the machine's layers in front of its own.

    Written to a temporary folder beside `out` and moved into place. Raises UsageError where `out` exists (unless force, and only
    a checkpoint that merge wrote is replaced) or the shapes do not fit, CheckpointError for a damaged model or one in which no
    choice of dims works; the message names the tensor, file or vocabulary row.
    """
    out, began = Path(out), time.perf_counter()
    say = progress or (lambda text: None)
    if out.exists() and not (force and (out / REPORT).is_file()):
        raise UsageError(f"{out} exists", fix="choose another folder" if force else "choose another folder, or pass --force to replace a merged one")
    opened = open_base(base, machine.validate())
    say("looking at every vocabulary row")
    seen = survey(opened)
    own = bound_own_layers(opened, say)
    choice = choose(opened, seen, machine, exponent_for(own))
    say(f"compiling machine {machine.name}")
    placed = compile_placed(machine, choice.placement)
    say("proving the bounds on every row")
    proof = prove(opened, placed, choice.head_scale, own)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        digests, nbytes = write_tensors(opened, placed, choice.head_scale, work, say)
        say("writing configs")
        write_configs(opened, placed, work, digests["circuit"])
        report = make_report(opened, placed, choice.head_scale, proof, digests, nbytes, time.perf_counter() - began)
        write_json(work / REPORT, report)
        work.chmod(0o777 & ~umask())
        if out.exists():
            shutil.rmtree(out)
        os.replace(work, out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return MergeResult(out, machine, len(placed.weights.layers), opened.vocabulary, report)


def umask() -> int:
    """The process's file mode mask (a temporary folder is made for its owner alone)."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def exponent_for(own: OwnBound) -> int:
    """The smallest exponent, from the usual one on, beside which the model's own additions round away."""
    usual, most = EXPONENTS
    return min(most, max(usual, ceil(log2(max(own.largest, 1.0))) + 10))


# ---- tensors --------------------------------------------------------------------------------------------------------
def write_tensors(base: Base, placed: Placed, head_scale: float, folder: Path, say: Callable[[str], None]) -> tuple[dict, int]:
    """All shards and their index. Returns (digests, bytes of all tensors); digests: "base" and "circuit", name -> sha256."""
    files = list(dict.fromkeys(e.path for e in base.tensors.entries.values()))
    n = len(placed.weights.layers)
    writer = ShardWriter(folder, -(-n // LAYERS_PER_SHARD) + len(files))
    digests: dict[str, dict] = {"base": {}, "circuit": {}}
    for first in range(0, n, LAYERS_PER_SHARD):
        items = [item for i in range(first, min(first + LAYERS_PER_SHARD, n)) for item in circuit_items(base, placed, i)]
        path = writer.write(items)
        digests["circuit"] |= {item.name: item.written_digest for item in items}
        say(f"wrote {path.name}")
    rows = machine_rows(placed, head_scale)
    for file in files:
        items, names = [], []
        for name, entry in base.tensors.entries.items():
            if entry.path == file:
                items.append(base_item(base, name, entry, n, rows))
                names.append(name)
        path = writer.write(items)
        digests["base"] |= {name: {"sha256": item.digest, "as": item.name} for name, item in zip(names, items)}
        say(f"wrote {path.name}")
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {"total_size": writer.nbytes}, "weight_map": dict(sorted(writer.index.items()))})
    return digests, writer.nbytes


def circuit_items(base: Base, placed: Placed, number: int) -> list[Item]:
    """Tensors of one circuit layer; its MLP is zero and of the model's own size."""
    hidden, inner = base.cfg.hidden_size, base.cfg.intermediate_size
    items = []
    for name, array in layer_tensors(placed.weights.machine, placed.weights.layers[number]).items():
        full = f"{base.prefix}layers.{number}.{name}"
        if name.startswith("mlp."):
            items.append(Item(full, "BF16", (hidden, inner) if "down" in name else (inner, hidden)))
        else:
            items.append(bf16_item(full, array))
    return items


def machine_rows(placed: Placed, head_scale: float) -> dict[str, np.ndarray]:
    """bf16 bits of the rows appended to the embedding and to a head of its own."""
    w, p = placed.weights, placed.placement
    head = np.zeros((len(w.codes), w.machine.hidden), np.float32)
    head[:, list(p.code)] = w.codes * np.float32(head_scale)
    head[:, list(p.ones)] = head_scale
    return {"embed": encode(placed.embedding()), "head": encode(head)}


def base_item(base: Base, name: str, entry: Entry, shift: int, rows: dict[str, np.ndarray]) -> Item:
    """A tensor of the model: its bytes as they are, layer numbers moved up, machine rows appended where it is a vocabulary."""
    size = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
    if entry.dtype not in size:
        raise CheckpointError(f"tensor {name} has dtype {entry.dtype}", where=str(entry.path), why="it cannot be copied",
                              fix="convert the checkpoint to bfloat16")
    nbytes = int(np.prod(entry.shape, dtype=np.int64)) * size[entry.dtype]
    to, shape, extra = moved(name, base.prefix, shift), entry.shape, None
    if name in (base.embed_name, base.head_name):
        extra = rows["head" if name == base.head_name and not base.cfg.tie_word_embeddings else "embed"]
        shape = (shape[0] + len(extra), *shape[1:])
    return Item(to, entry.dtype, tuple(shape), source=entry, source_bytes=nbytes, extra=extra)


def moved(name: str, prefix: str, shift: int) -> str:
    """A tensor's name with its text layer's number moved up."""
    start = f"{prefix}layers."
    if not name.startswith(start):
        return name
    number, _, rest = name[len(start):].partition(".")
    return f"{start}{int(number) + shift}.{rest}" if number.isdigit() else name


# ---- configs --------------------------------------------------------------------------------------------------------
def write_configs(base: Base, placed: Placed, folder: Path, digests: dict[str, str]) -> None:
    """Config, generation config, tokenizer, sidecar, notice; every other small file of the model as it is."""
    m, first = placed.weights.machine, base.vocabulary
    vocabulary = Vocabulary(m)
    write_json(folder / "config.json", merged_config(base, placed))
    path = base.folder / "generation_config.json"
    kept = ("bos_token_id", "eos_token_id", "pad_token_id")
    generation = read_json(path) if path.exists() else {k: base.text[k] for k in kept if base.text.get(k) is not None}
    own = generation.get("suppress_tokens") or []
    write_json(folder / "generation_config.json", {**generation, "suppress_tokens": [*own, *range(first, first + vocabulary.size)]}, indent=None)
    extend_tokenizer(base.folder, folder, m, first)
    write_sidecar(folder, describe(placed, first, digests))
    (folder / NOTICE).write_text(notice(base, placed), encoding="utf-8")
    for path in sorted(base.folder.iterdir()):
        if path.is_file() and not (folder / path.name).exists() and path.name not in REPLACED and not path.name.endswith(LEFT_OUT):
            shutil.copyfile(path, folder / path.name)


def merged_config(base: Base, placed: Placed) -> dict:
    """config.json: the model's own, with more layers and tokens, and the machine."""
    n, config = len(placed.weights.layers), json.loads(json.dumps(base.config))
    text = config.get("text_config", config)
    text["num_hidden_layers"] = n + base.cfg.num_hidden_layers
    text["layer_types"] = [LINEAR] * n + list(base.cfg.layer_types)
    text["vocab_size"] = base.vocabulary + len(placed.weights.codes)
    config["qgpu_machine"] = as_dict(placed.weights.machine)
    config["qgpu_merge"] = {"circuit_layers": n, "base_vocabulary": base.vocabulary, "machine_tokens": len(placed.weights.codes)}
    return config


def notice(base: Base, placed: Placed) -> str:
    """What was changed, as licences such as Apache-2.0 ask."""
    n, m = len(placed.weights.layers), placed.weights.machine
    return (f"# A merged model\n\nWritten by qgpu {__version__} from `{base.folder.name}`.\n\n"
            f"- Layers 0 to {n - 1} and vocabulary rows {base.vocabulary} to {base.vocabulary + len(placed.weights.codes) - 1} are qgpu's "
            f"(machine `{m.name}`), under the MIT licence.\n"
            f"- Every other tensor is the original model's, byte for byte (`{REPORT}` lists digests); its layers are numbered from {n} on.\n"
            f"- Changed files: config.json, generation_config.json, tokenizer.json, tokenizer_config.json, the weight files' names.\n\n"
            "The original model's licence goes on to hold for its part; Qwen3.5 models are under Apache-2.0. Its LICENSE file, where it "
            "has one, is beside this file.\n")


def make_report(base: Base, placed: Placed, head_scale: float, proof: Proof, digests: dict, nbytes: int, seconds: float) -> dict:
    """qgpu_report.json."""
    p = placed.placement
    return {
        "qgpu": __version__, "base": base.folder.name, "machine": placed.weights.machine.name,
        "circuit_layers": len(placed.weights.layers), "base_layers": base.cfg.num_hidden_layers,
        "base_vocabulary": base.vocabulary, "machine_tokens": len(placed.weights.codes),
        "placement": {"constants": p.constants, "silence": p.silence, "code": p.code, "ones": p.ones, "ballast": p.ballast,
                      "scale": p.scale, "first_gain": p.gain, "output_exponent": p.exponent, "head_scale": head_scale},
        "proof": proof.as_dict(), "bytes": nbytes, "seconds": round(seconds, 1), "sha256": digests["base"],
    }


def write_json(path: Path, data: dict, indent: int | None = 1) -> None:
    """JSON with a line break at its end."""
    path.write_text(json.dumps(data, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")
