"""The benchmark's own arithmetic: wrong tokens stop it, other scripts are handed their options."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench  # noqa: E402


class Counter:
    """Answers with the next number."""

    def reset(self):
        self.seen = 0

    def feed(self, ids):
        self.seen += len(ids)
        return self.seen


def test_measures_what_it_fed(capsys):
    c = Counter()
    assert bench.measure("counter", c.feed, c.reset, [0, 0, 0], list(range(3, 50)), 0.001) > 0
    assert "tokens/s" in capsys.readouterr().out


def test_a_wrong_token_stops_it():
    c = Counter()
    with pytest.raises(SystemExit, match="token 3 instead of 4"):
        bench.measure("counter", c.feed, c.reset, [0, 0, 0], [4, 5, 6], 0.001)


def test_other_scripts_get_their_options(monkeypatch, tmp_path):
    (tmp_path / "bench_echo.py").write_text("import sys; sys.exit(int(sys.argv[1]))")
    monkeypatch.setattr(bench, "HERE", tmp_path)
    assert bench.main(["echo", "7"]) == 7


def test_the_stream_it_feeds():
    setup, generated = bench.stream(bench.HERE.parent / "kernels" / "dot.cu", bench.PRESETS["article"])
    assert len(setup) > 100 and 1 < len(generated) <= 20
