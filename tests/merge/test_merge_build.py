"""What lies in a merged folder: the model's tensors byte for byte, its config, its tokens; and what is refused."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from merge_models import CONFIG, TINY, make_base

from qgpu.compile.placement import Placement
from qgpu.errors import CheckpointError, UsageError
from qgpu.machine.description import ARTICLE, Machine
from qgpu.machine.tokens import Vocabulary
from qgpu.merge import build, merge
from qgpu.merge.own_layers import bound_own_layers
from qgpu.merge.base import open_base
from qgpu.qwen.config import from_dict
from qgpu.qwen.tensors import open_folder


def read(folder, name="config.json"):
    return json.loads((folder / name).read_text())


def raw(tensors, name):
    """A tensor's bytes, whatever its dtype."""
    return np.ascontiguousarray(tensors.get(name)).tobytes()


@pytest.mark.parametrize("made, prefix", [("tied", "model."), ("multimodal", "model.language_model.")])
def test_every_tensor_of_the_base_is_there_byte_for_byte(made, prefix, request):
    base, result = request.getfixturevalue(made)
    before, after = open_folder(base), open_folder(result.folder)
    assert result.report["sha256"].keys() == before.entries.keys()
    for name in before.entries:
        moved = name
        if name.startswith(f"{prefix}layers."):
            number, rest = name[len(f"{prefix}layers."):].split(".", 1)
            moved = f"{prefix}layers.{int(number) + result.layers}.{rest}"
        old, new = raw(before, name), raw(after, moved)
        assert before.entries[name].dtype == after.entries[moved].dtype
        assert new[:len(old)] == old
        grows = name == f"{prefix}embed_tokens.weight" or name == "lm_head.weight"
        assert (len(new) > len(old)) == grows
        noted = result.report["sha256"][name]
        assert noted == {"sha256": hashlib.sha256(old).hexdigest(), "as": moved}
    circuit = {n for n in after.entries if n.startswith(f"{prefix}layers.")} - {d["as"] for d in result.report["sha256"].values()}
    assert {int(n[len(f"{prefix}layers."):].split(".")[0]) for n in circuit} == set(range(result.layers))
    index = read(result.folder, "model.safetensors.index.json")
    assert index["weight_map"].keys() == after.entries.keys()
    assert index["metadata"]["total_size"] == sum(len(raw(after, n)) for n in after.entries)


def test_the_config_says_what_was_added_and_keeps_the_rest(multimodal, tied):
    base, result = multimodal
    before, after = read(base), read(result.folder)
    assert from_dict(after).num_hidden_layers == CONFIG.num_hidden_layers + result.layers
    inner = after["text_config"]
    assert inner.pop("layer_types") == ["linear_attention"] * result.layers + before["text_config"].pop("layer_types")
    assert inner.pop("num_hidden_layers") == result.layers + before["text_config"].pop("num_hidden_layers")
    assert inner.pop("vocab_size") == Vocabulary(TINY).size + before["text_config"].pop("vocab_size")
    assert after.pop("qgpu_machine")["name"] == "tiny"
    assert after.pop("qgpu_merge") == {"circuit_layers": result.layers, "base_vocabulary": 400, "machine_tokens": Vocabulary(TINY).size}
    assert after == before
    assert read(tied[1].folder)["vocab_size"] == 400 + Vocabulary(TINY).size


def test_text_generation_suppresses_machine_tokens(tied):
    base, result = tied
    g = read(result.folder, "generation_config.json")
    assert g["suppress_tokens"] == [5, *range(400, 400 + Vocabulary(TINY).size)]
    assert (g["eos_token_id"], g["top_k"]) == (7, 20)
    assert (result.folder / "LICENSE").read_text() == "a licence\n"
    assert "Apache-2.0" in (result.folder / "QGPU_NOTICE.md").read_text()


def test_the_tokenizer_knows_the_machines_tokens(tied):
    from tokenizers import Tokenizer
    base, result = tied
    old, new = (Tokenizer.from_file(str(f / "tokenizer.json")) for f in (base, result.folder))
    v = Vocabulary(TINY)
    for i in (0, 1, v.base["EXEC"] + 5, v.size - 1):
        text = f"<|gpu:{v.token(i)}|>"
        assert new.encode(text).ids == [400 + i]
        assert new.decode([400 + i], skip_special_tokens=False) == text
    assert new.get_vocab_size() == 400 + v.size
    for text in ("word by word", "<|endoftext|> <|gpu", "naïve 良い"):
        assert old.encode(text).ids == new.encode(text).ids
    named = read(result.folder, "tokenizer_config.json")["added_tokens_decoder"]
    assert named[str(400)]["content"] == "<|gpu:NOP|>" and named["379"]["content"] == "<|endoftext|>"


def test_what_is_there_is_not_replaced(tied, tmp_path):
    base, result = tied
    with pytest.raises(UsageError, match="exists"):
        merge(base, result.folder, TINY)
    other = tmp_path / "notes"
    other.mkdir()
    (other / "note").write_text("keep me")
    with pytest.raises(UsageError, match="exists"):
        merge(base, other, TINY, force=True)
    assert (other / "note").read_text() == "keep me"
    with pytest.raises(UsageError, match="holds a machine already"):
        merge(result.folder, tmp_path / "again", TINY)


def test_a_merge_that_fails_leaves_nothing(tmp_path, monkeypatch):
    base = make_base(tmp_path / "base")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "write_configs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        merge(base, tmp_path / "out", TINY)
    assert [p.name for p in tmp_path.iterdir()] == ["base"]


@pytest.mark.slow
def test_a_killed_merge_leaves_no_out(tmp_path):
    base = make_base(tmp_path / "base")
    program = ("import sys; from qgpu.merge import merge, build; from qgpu.machine.description import load_machine\n"
               "import time; build.write_configs = lambda *a: time.sleep(60)\n"
               "merge(sys.argv[1], sys.argv[2], load_machine(sys.argv[3]))")
    machine = tmp_path / "tiny.toml"
    machine.write_text("\n".join(f"{k} = {list(v) if isinstance(v, tuple) else json.dumps(v)}" for k, v in vars(TINY).items()
                                 if k in Machine.__dataclass_fields__))
    process = subprocess.Popen([sys.executable, "-c", program, str(base), str(tmp_path / "out"), str(machine)])
    try:
        for _ in range(600):
            if list(tmp_path.glob(".out.*/model-*.safetensors")) or process.poll() is not None:
                break
            time.sleep(0.05)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "out").exists()


def test_damaged_shards_are_named(tmp_path):
    base = make_base(tmp_path / "base", shards=2)
    path = base / "model-00002-of-00002.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match="model-00002-of-00002.*cut short"):
        merge(base, tmp_path / "out", TINY)
    path.unlink()
    with pytest.raises(CheckpointError, match="model-00002-of-00002"):
        merge(base, tmp_path / "out", TINY)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name, where", [("model.embed_tokens.weight", "row 12"), ("model.layers.1.mlp.up_proj.weight", "layers.1.mlp.up_proj")])
def test_numbers_that_are_none_are_named(tmp_path, name, where):
    def spoil(tensors):
        tensors[name][12, 3] = 0x7FC0

    base = make_base(tmp_path / "base", edit=spoil)
    with pytest.raises(CheckpointError, match="NaN") as e:
        merge(base, tmp_path / "out", TINY)
    assert where in str(e.value) and "model.safetensors" in str(e.value)


def test_a_machine_of_another_shape_is_refused(tmp_path):
    base = make_base(tmp_path / "base")
    with pytest.raises(UsageError, match="linear_num_key_heads is 8, not 16.*linear_num_value_heads is 8, not 16"):
        merge(base, tmp_path / "out", ARTICLE)
    with pytest.raises(UsageError, match="there is no such folder"):
        merge(tmp_path / "nowhere" / "model" / "x", tmp_path / "out", TINY)


def test_the_bound_of_the_own_layers_holds_and_sees_large_weights(tmp_path, tied):
    from qgpu.qwen import load
    base, _ = tied
    bound = bound_own_layers(open_base(base, TINY))
    seen = []
    model = load(base)
    model.forward(np.random.default_rng(0).integers(0, 400, 50), hook=lambda name, x: seen.append((name, x)) and None)
    residual = {n: x for n, x in seen}
    for i in range(4):
        added = np.abs(residual[f"blocks.{i}.hook_resid_mid"] - residual[f"blocks.{i}.hook_resid_pre"]).max()
        assert 0 < added <= bound.sublayers[2 * i][2]
        assert np.abs(residual[f"blocks.{i}.hook_mlp_out"]).max() <= bound.sublayers[2 * i + 1][2]

    def enlarge(tensors):
        tensors["model.layers.2.mlp.down_proj.weight"] += np.uint16(90 << 7)      # times 2^90

    huge = make_base(tmp_path / "huge", edit=enlarge)
    with pytest.raises(CheckpointError, match="mlp of layer 2"):
        merge(huge, tmp_path / "out", TINY)


def test_larger_own_layers_get_a_larger_output(tmp_path):
    def enlarge(tensors):
        tensors["model.layers.2.mlp.down_proj.weight"] += np.uint16(20 << 7)      # times 2^20

    base = make_base(tmp_path / "base", edit=enlarge)
    opened = open_base(base, TINY)
    assert 40 < build.exponent_for(bound_own_layers(opened)) <= 60
    assert Placement.__dataclass_fields__["exponent"].default == 40
