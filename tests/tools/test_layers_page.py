"""docs/layers.md is what the compiler makes."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import layers  # noqa: E402

from qgpu.compile.cache import compiled_weights  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402


def test_the_page_is_current():
    assert layers.TARGET.read_text(encoding="utf-8") == layers.document(compiled_weights(ARTICLE)), "run python tools/layers.py"


def test_check_tells_a_stale_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(layers, "TARGET", tmp_path / "layers.md")
    assert layers.main(["--check"]) == 1
    assert layers.main([]) == 0 and layers.main(["--check"]) == 0
    layers.TARGET.write_text(layers.TARGET.read_text().replace("| 1 |", "| 2 |", 1))
    assert layers.main(["--check"]) == 1


def test_budget_of_the_article_machine():
    """At most 40 layers of 16 heads at hidden size 2048, the attention layer on top included."""
    w = compiled_weights(ARTICLE)
    assert len(w.layers) + 1 <= 40 and all(len(layer.head_kinds) <= 16 and layer.peak <= 2048 for layer in w.layers)
