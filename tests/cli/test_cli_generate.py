"""`qgpu generate` on tiny checkpoints with a byte-level tokenizer, both made on the spot."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from qgpu.bf16 import encode
from qgpu.qwen import Sampling, load
from qgpu.qwen.chat import render
from qgpu.qwen.config import Config
from qgpu.qwen.synthetic import random_weights, save, tensors_of
from qgpu.qwen.text import Text, complete
from qgpu.qwen.text import generate as answer

LINE = "né日👍!"  # its 11 UTF-8 bytes differ, so each one says which comes next


def make_tokenizer(folder):
    """One token a byte, one merge ("hi"), two special tokens. Returns it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {c: i for i, c in enumerate([*alphabet, "hi"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("h", "i")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def make_model(folder, recite=False):
    """A random model; recite: one that writes LINE after a line break, since the layers add nothing and the head looks up the next byte."""
    cfg = Config(vocab_size=259, hidden_size=64, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                 head_dim=32, rope_theta=1e7, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=4,
                 linear_num_value_heads=8, tie_word_embeddings=False)
    weights = random_weights(cfg, seed=4)
    folder.mkdir()
    tokenizer = make_tokenizer(folder)
    if recite:
        for layer in weights.layers:
            for name in ("out", "o", "down"):
                if hasattr(layer, name):
                    getattr(layer, name)[:] = 0
        weights.embed = encode(np.random.default_rng(1).standard_normal(weights.embed.shape, np.float32))
        weights.head = np.zeros_like(weights.embed)
        ids = tokenizer.encode("\n" + LINE + "<|im_end|>", add_special_tokens=False).ids
        assert len(set(ids)) == len(ids) == 13
        weights.head[ids[1:]] = weights.embed[ids[:-1]]
    save(folder, cfg, tensors_of(cfg, weights))
    return folder


@pytest.fixture(scope="module")
def reciting(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("models") / "reciting", recite=True)


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("models") / "noise")


def test_an_answer_up_to_the_end_of_the_turn(qgpu_command, reciting):
    assert qgpu_command("generate", reciting, "hi") == (0, LINE + "\n", "")


def test_pieces_come_one_by_one_and_hold_whole_characters(reciting, monkeypatch):
    from qgpu.cli import main
    written = []

    class Out:
        def write(self, text):
            written.append(text)

        def flush(self):
            written.append(None)
    monkeypatch.setattr(sys, "stdout", Out())
    assert main(["generate", str(reciting), "hi"]) == 0
    parts = [p for p in written if p]
    assert parts == [*LINE, "\n"]
    assert all(written[written.index(c) + 1] is None or written[written.index(c) + 1] == "" for c in LINE)
    assert written.index(None) < written.index("é")


@pytest.mark.parametrize("n, wanted", [(1, "n"), (2, "n\ufffd"), (3, "né"), (5, "né\ufffd"), (12, LINE), (99, LINE)])
def test_a_limit(qgpu_command, reciting, n, wanted):
    assert qgpu_command("generate", reciting, "hi", "--max-new-tokens", n)[:2] == (0, wanted + "\n")


def test_raw_goes_on_from_the_prompt(qgpu_command, reciting):
    assert qgpu_command("generate", reciting, "hi né", "--raw") == (0, LINE[2:] + "\n", "")
    assert qgpu_command("generate", reciting, "hi né") == (0, LINE + "\n", "")


def test_json(qgpu_command, reciting):
    text = Text(reciting)
    user = {"role": "user", "content": "hi"}
    for words, prompt in (((), render([user])), (("--raw",), "hi"),
                          (("--system", "Be brief."), render([{"role": "system", "content": "Be brief."}, user]))):
        status, out, err = qgpu_command("generate", reciting, "hi", "--json", "--max-new-tokens", 40, *words)
        found = json.loads(out)
        assert status == 0 and err == "" and out.count("\n") == 1 and found["seconds"] >= 0
        assert found["tokens"]["prompt"] == len(text.encode(prompt))
        assert (found["text"], found["tokens"]["generated"]) == (LINE, 12) or words == ("--raw",)


def test_every_option_reaches_the_model(qgpu_command, noise):
    model, text = load(noise), Text(noise)

    def shown(*words):
        status, out, _ = qgpu_command("generate", noise, "hi", "--max-new-tokens", 12, "--json", *words)
        assert status == 0
        return json.loads(out)["text"]
    greedy = "".join(answer(model, text, "hi", 12))
    assert shown() == shown("--seed", 5, "--top-k", 2) == greedy
    how = dict(temperature=1.3, top_k=9, top_p=0.8, repetition_penalty=1.4, seed=3)
    words = [w for name, value in how.items() for w in ("--" + name.replace("_", "-"), value)]
    assert shown(*words) == "".join(answer(model, text, "hi", 12, sampling=Sampling(**how)))
    for name, other in dict(temperature=3.0, top_k=0, top_p=1.0, repetition_penalty=1.0, seed=4).items():
        changed = {**how, name: other}
        wanted = "".join(answer(model, text, "hi", 12, sampling=Sampling(**changed)))
        assert shown(*words, "--" + name.replace("_", "-"), other) == wanted
    system = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert shown("--system", "Be brief.") == "".join(answer(model, text, system, 12))
    assert shown("--raw") == "".join(complete(model, text, "hi", 12))


@pytest.mark.parametrize("words, status, says", [
    (["nowhere", "hi"], 2, ["nowhere", "no such folder", "config.json"]),
    (["MODEL", ""], 2, ["PROMPT", "no text"]),
    (["MODEL", "a\udcff"], 2, ["PROMPT", "UTF-8", "character 2"]),
    (["MODEL", "hi", "--system", "\udcff"], 2, ["--system", "UTF-8"]),
    (["MODEL", "hi", "--system", "x", "--raw"], 2, ["--system", "--raw"]),
    (["MODEL", "hi", "--temperature", "-1"], 2, ["temperature must be 0 or more"]),
    (["MODEL", "hi", "--temperature", "nan"], 2, ["temperature must be 0 or more"]),
    (["MODEL", "hi", "--temperature", "warm"], 2, ["--temperature", "warm"]),
    (["MODEL", "hi", "--top-p", "0"], 2, ["top_p must be above 0"]),
    (["MODEL", "hi", "--top-k", "-1"], 2, ["--top-k"]),
    (["MODEL", "hi", "--repetition-penalty", "0"], 2, ["repetition_penalty must be above 0"]),
    (["MODEL", "hi", "--seed", "-1"], 2, ["--seed"]),
    (["MODEL", "hi", "--seed", "1.5"], 2, ["--seed", "1.5"]),
    (["MODEL", "hi", "--max-new-tokens", "0"], 2, ["--max-new-tokens", "at least 1"]),
    (["MODEL"], 2, ["PROMPT"]),
    (["x" * 5000, "hi"], 2, ["no such folder"]),
    (["a\0b", "hi"], 2, ["no such folder"]),
    (["owner/a--b", "hi"], 1, ["owner/a--b", "neither a folder nor a name"]),
])
def test_what_is_refused(qgpu_command, reciting, tmp_path, monkeypatch, words, status, says):
    monkeypatch.chdir(tmp_path)
    got, out, err = qgpu_command("generate", *[str(reciting) if w == "MODEL" else w for w in words])
    assert got == status and out == "" and all(s in err for s in says), err


def test_folders_that_lack_something(qgpu_command, reciting, tmp_path):
    status, out, err = qgpu_command("generate", tmp_path, "hi")
    assert status == 1 and out == "" and "config.json" in err
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((reciting / name).read_bytes())
    status, out, err = qgpu_command("generate", tmp_path, "hi")
    assert status == 1 and out == "" and "tokenizer.json" in err and "missing" in err
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    status, out, err = qgpu_command("generate", tmp_path, "hi")
    assert status == 1 and out == "" and "cannot be read" in err


def test_a_hub_name_offline(qgpu_command, tmp_path, monkeypatch):
    from huggingface_hub import constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    status, out, err = qgpu_command("generate", "owner/model", "hi")
    assert status == 1 and out == "" and "owner/model: the model is not on this machine" in err and "go online" in err


def test_a_hub_name_that_was_downloaded(qgpu_command, reciting, monkeypatch):
    import huggingface_hub
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: {"owner/model": str(reciting)}[name])
    assert qgpu_command("generate", "owner/model", "hi") == (0, LINE + "\n", "")


def test_help_has_examples(qgpu_command):
    status, out, _ = qgpu_command("generate", "--help")
    assert status == 0 and 'python -m qgpu generate ./model "Once upon a time" --raw' in out
    assert "generate" in qgpu_command("--help")[1]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupting_ends_the_line(reciting):
    program = ("import sys, time\nfrom qgpu.qwen.model import Model\nfrom qgpu.cli import main\nwhole = Model.stream\n"
               "def slow(self, *a, **k):\n    yield next(whole(self, *a, **k))\n    time.sleep(60)\n"
               "Model.stream = slow\nsys.exit(main(sys.argv[1:]))\n")
    command = subprocess.Popen([sys.executable, "-c", program, "generate", reciting, "hi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout.read(1) == b"n"
    time.sleep(0.1)
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=30)
    assert (command.returncode, out, err) == (130, b"\n", b"qgpu: interrupted\n")
