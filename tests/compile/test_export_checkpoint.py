"""The exported folder: files, config, tensors; written whole or not at all; nothing replaced unasked."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small_machine import SMALL, compiled

from qgpu.bf16 import decode
from qgpu.compile import export
from qgpu.compile.export import circuit_config, export_checkpoint, layer_tensors, token_map
from qgpu.errors import UsageError
from qgpu.machine.description import ARTICLE, as_dict
from qgpu.machine.tokens import Vocabulary
from qgpu.qwen import load
from qgpu.qwen.config import from_dict
from qgpu.qwen.weights import LINEAR_NAMES


@pytest.fixture
def weights(monkeypatch):
    """The lowest three layers, two a file."""
    monkeypatch.setattr(export, "LAYERS_PER_SHARD", 2)
    w = compiled().weights
    return replace(w, layers=w.layers[:3])


def test_files_and_config(tmp_path, weights):
    said = []
    folder = export_checkpoint(SMALL, tmp_path / "deep" / "out", compiled=weights, progress=said.append)
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["config.json", "generation_config.json", "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                     "model-00003-of-00003.safetensors", "model.safetensors.index.json", "qgpu-signals.json", "qgpu_tokens.json"]
    assert [p.name for p in folder.parent.iterdir()] == ["out"] and len(said) == 4
    config = json.loads((folder / "config.json").read_text())
    assert config["qgpu_machine"] == as_dict(SMALL) and config["tie_word_embeddings"] is True
    assert config["layer_types"] == ["linear_attention"] * 3 + ["full_attention"]
    assert config["vocab_size"] == Vocabulary(SMALL).size and from_dict(config).num_hidden_layers == 4
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == {n for n in names if n.endswith(".safetensors")}
    sizes = sum((folder / n).stat().st_size for n in set(index["weight_map"].values()))
    assert 0 <= sizes - index["metadata"]["total_size"] < 20_000
    stop = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    assert [str(Vocabulary(SMALL).token(i)) for i in stop] == ["END", "TRAP"]


def test_tensors_read_back(tmp_path, weights):
    """qgpu's own loader finds exactly the compiled numbers."""
    model = load(export_checkpoint(SMALL, tmp_path / "out", compiled=weights))
    assert np.array_equal(decode(model.weights.embed), weights.embedding()) and model.weights.head is model.weights.embed
    for layer, read in zip(weights.layers, model.weights.layers):
        for field, name in LINEAR_NAMES.items():
            stored = np.asarray(getattr(read, field))
            stored = decode(stored) if stored.dtype == np.uint16 else stored
            assert np.array_equal(stored.reshape(-1), layer_tensors(SMALL, layer)[name].reshape(-1)), name
    top = model.weights.layers[-1]
    assert not any(np.any(v) for v in vars(top).values() if v is not None)


def test_an_existing_folder_is_left_alone(tmp_path, weights):
    mine = tmp_path / "out"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    with pytest.raises(UsageError):
        export_checkpoint(SMALL, mine, compiled=weights)
    assert [p.name for p in mine.iterdir()] == ["notes.txt"] and [p.name for p in tmp_path.iterdir()] == ["out"]


def test_all_files_have_the_permissions_of_new_ones(tmp_path, weights):
    out = export_checkpoint(SMALL, tmp_path / "out", compiled=weights)
    (tmp_path / "new").touch()
    assert {f.stat().st_mode for f in out.iterdir()} == {(tmp_path / "new").stat().st_mode}


def test_force_replaces_an_exported_folder(tmp_path, weights):
    out = export_checkpoint(SMALL, tmp_path / "out", compiled=weights)
    (out / "config.json").write_text(json.dumps({"qgpu_machine": {}}))
    export_checkpoint(SMALL, out, compiled=weights, force=True)
    assert json.loads((out / "config.json").read_text())["hidden_size"] == SMALL.hidden
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("when", ["first file", "last file"])
def test_a_failure_leaves_nothing_behind(tmp_path, weights, monkeypatch, when):
    """Neither half a folder nor a temporary one; an exported folder that was there stays as it was."""
    old = export_checkpoint(SMALL, tmp_path / "out", compiled=weights)
    before = (old / "config.json").read_bytes()

    def full(*args, **kwargs):
        raise OSError("no space left")
    monkeypatch.setattr(export, "serialize_file" if when == "first file" else "write_json", full)
    for target in ("out", "new"):
        with pytest.raises(OSError):
            export_checkpoint(SMALL, tmp_path / target, compiled=weights, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"] and (old / "config.json").read_bytes() == before


def test_token_map_names_every_id():
    tokens = token_map(ARTICLE)
    v = Vocabulary(ARTICLE)
    assert tokens["size"] == v.size == len(tokens["tokens"]) == sum(k["count"] for k in tokens["kinds"].values())
    assert tokens["tokens"][v.base["END"]] == "END" and len(set(tokens["tokens"])) == v.size


def test_config_has_the_released_shapes():
    """The article machine's layers are those of a 2B model: hidden 2048, 16 heads of 128, conv kernel 4."""
    config = circuit_config(ARTICLE, 35, Vocabulary(ARTICLE).size)
    assert (config["hidden_size"], config["linear_num_key_heads"], config["linear_num_value_heads"], config["linear_key_head_dim"],
            config["linear_value_head_dim"], config["linear_conv_kernel_dim"]) == (2048, 16, 16, 128, 128, 4)
