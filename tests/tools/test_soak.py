"""The soak run compares what it says it compares, stops at a difference, and goes on where it was stopped."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import soak  # noqa: E402
from qgpu.engine import make_engine  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402


@pytest.fixture(scope="module")
def engine():
    return make_engine(ARTICLE)


class Wrong:
    """The engine, but one token, or one word of memory, is another."""

    def __init__(self, engine, token=None, word=None):
        self.engine, self.token, self.word, self.fed = engine, token, word, 0
        self.reset = engine.reset

    def feed(self, ids):
        found = self.engine.feed(ids)
        self.fed += 1
        return found ^ 1 if self.fed - 1 == self.token else found

    def read_global(self, words):
        memory = self.engine.read_global(words)
        if self.word is not None:
            memory[self.word] ^= 1
        return memory


def test_a_run_and_its_continuation(tmp_path, capsys, monkeypatch, engine):
    monkeypatch.setattr(soak, "make_engine", lambda m: engine)
    path = tmp_path / "state.json"
    options = ["--machine", "article", "--seed", "40", "--state", str(path), "--positions"]
    assert soak.main([*options, "400"]) == 0
    first = json.loads(path.read_text())
    assert first["positions"] >= 400 and not first["mismatches"] and first["programs"] > 1
    assert soak.main([*options, str(first["positions"] + 100)]) == 0
    second = json.loads(path.read_text())
    assert second["next_seed"] > first["next_seed"] and second["positions"] >= first["positions"] + 100
    assert 0 < second["resets"] < second["programs"], "some launches follow one another in a stream"
    assert list(tmp_path.iterdir()) == [path]
    assert "0 mismatches" in capsys.readouterr().out
    assert soak.main(["--machine", "article", "--seed", "41", "--state", str(path)]) == 2
    assert "another first_seed" in capsys.readouterr().err


@pytest.mark.parametrize("wrong, says", [({"token": 7}, "position 7 after the setup"), ({"word": 3}, "word 3 is")])
def test_a_difference_ends_it(wrong, says, tmp_path, engine):
    state, told = soak.new_state(ARTICLE, 40, 20), []
    stream = soak.Stream(ARTICLE, Wrong(engine, **wrong))
    assert soak.soak(stream, state, 500, tmp_path / "state.json", told.append) == 1
    kept = json.loads((tmp_path / "state.json").read_text())["mismatches"]
    assert len(kept) == 1 and says in kept[0]["what"] and f"seed {kept[0]['seed']}" in told[0]


def test_the_ptx_interpreter_is_asked(engine):
    job = soak.job_of(ARTICLE, 40, 20)
    job.expected[-1] ^= 1
    with pytest.raises(soak.Mismatch, match="PTX interpreter"):
        soak.Stream(ARTICLE, engine).run(job)


def test_no_kernels_for_other_warps(tmp_path, capsys):
    (tmp_path / "pair.toml").write_text("lanes = 2\n")
    assert soak.main(["--machine", str(tmp_path / "pair.toml")]) == 2
    assert "warps of 2" in capsys.readouterr().err
