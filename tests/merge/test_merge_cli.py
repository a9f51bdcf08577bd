"""The commands merge, kl and run --model."""

import json

import pytest
from merge_models import REMAINDER, TINY, make_base

from qgpu.cli import main
from qgpu.machine.description import Machine
from qgpu.qwen import Model


@pytest.fixture
def command(capsys):
    """Runs a command line: (exit status, standard output, standard error)."""
    def run(*words):
        try:
            status = main([str(w) for w in words])
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err
    return run


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    path = tmp_path_factory.mktemp("machine") / "tiny.toml"
    path.write_text("\n".join(f"{k} = {list(v) if isinstance(v, tuple) else json.dumps(v)}" for k, v in vars(TINY).items()
                              if k in Machine.__dataclass_fields__))
    return path


def test_merge_and_kl(tmp_path, machine, command):
    base = make_base(tmp_path / "base", tokenizer=True)
    status, out, err = command("merge", base, tmp_path / "out", "--machine", machine)
    assert status == 0 and "machine tokens from id 400" in out and "vocabulary row" in err
    status, _, err = command("merge", base, tmp_path / "out", "--machine", machine)
    assert status == 2 and "exists" in err
    assert command("merge", base, tmp_path / "out", "--machine", machine, "--force")[0] == 0
    status, out, _ = command("kl", base, tmp_path / "out", "--json")
    found = json.loads(out)
    assert status == 0 and found["different"] == 0 and found["tokens"] > 100 and found["base_max"] == 0
    (tmp_path / "a.txt").write_text("some text")
    status, out, _ = command("kl", base, tmp_path / "out", "--text", tmp_path / "a.txt", "--skip")
    assert status == 0 and "0 differ in any bit" in out
    assert command("kl", base, tmp_path / "out", "--text", tmp_path / "none.txt")[0] == 2
    other = make_base(tmp_path / "other", seed=3)
    assert command("kl", other, tmp_path / "out")[0] == 2                       # it has no tokenizer
    status, out, _ = command("kl", other, tmp_path / "out", "--random", 20)
    assert status == 1 and " 0 differ" not in out


def test_run_on_a_merged_model(tied, tmp_path, command):
    _, result = tied
    file = tmp_path / "remainder.cu"
    file.write_text(REMAINDER)
    words = ["run", file, "--model", result.folder, "--block", 2, "--arg", "[7,5]", "--arg", "zeros(2)", "--check", "--json"]
    streams = []
    for extra in ([], ["--full"]):
        status, out, err = command(*words, *extra, "--trace", tmp_path / "trace.jsonl")
        assert status == 0, err
        found = json.loads(out)
        assert found["args"][1] == [1, 2] and found["check"]["mismatches"] == 0 and found["machine"] == "tiny"
        streams.append((tmp_path / "trace.jsonl").read_text())
    assert streams[0] == streams[1]


def test_bad_bases(tmp_path, command):
    assert command("merge", tmp_path / "none", tmp_path / "out")[0] == 2
    (tmp_path / "empty").mkdir()
    status, _, err = command("merge", tmp_path / "empty", tmp_path / "out")
    assert status == 1 and "config.json" in err
    base = make_base(tmp_path / "base")
    status, _, err = command("merge", base, tmp_path / "out")
    assert status == 2 and "linear_num_key_heads is 8, not 16" in err
    assert command("kl", base, base)[0] == 1


def test_generate_on_a_merged_model_is_the_base_without_the_circuit(tmp_path, machine, command, monkeypatch):
    base = make_base(tmp_path / "base", tokenizer=True)
    assert command("merge", base, tmp_path / "out", "--machine", machine)[0] == 0
    options = ("--raw", "--json", "--max-new-tokens", 12)
    text = {folder: json.loads(command("generate", tmp_path / folder, "a b", *options)[1]) for folder in ("base", "out")}
    assert text["base"]["text"] == text["out"]["text"] and text["out"]["tokens"]["generated"] > 0
    layers = []
    monkeypatch.setattr(Model, "stream", lambda self, *a, **k: layers.append(self.cfg.num_hidden_layers) or iter(()))
    assert [command("generate", tmp_path / folder, "a b", *options)[0] for folder in ("base", "out")] == [0, 0]
    assert layers[0] == layers[1]
