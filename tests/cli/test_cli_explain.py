"""`qgpu explain`: what it prints, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

from qgpu import cli_explain
from qgpu.audit.signals import map_of
from qgpu.compile.cache import compiled_weights
from qgpu.machine.description import ARTICLE


@pytest.fixture(scope="module")
def article():
    return map_of(compiled_weights(ARTICLE))


@pytest.fixture(autouse=True)
def read_once(request, monkeypatch):
    """The article machine's map is unpacked once for all tests, but for those that name another source."""
    whole = cli_explain._map
    keep = request.getfixturevalue("article")
    monkeypatch.setattr(cli_explain, "_map", lambda options: keep if options.machine == "article" and not options.model else whole(options))


def test_a_layer_in_words(qgpu_command):
    status, out, err = qgpu_command("explain", "--layer", 12)
    assert status == 0 and out.startswith("layer 12: 11 heads") and "registers of lane 0" in out and "clearing dims" in out and not err


def test_a_unit_in_words_and_json(qgpu_command):
    status, out, _ = qgpu_command("explain", "--layer", 14, "--unit", 340)
    assert status == 0 and "h = relu(" in out and "adds " in out and "read" in out and "blocks.13.linear_attn" in out
    status, text, _ = qgpu_command("explain", "--layer", 14, "--unit", 340, "--json")
    answer = json.loads(text)
    assert status == 0 and answer["unit"] == 340 and f"h = relu({answer['f']}) * relu({answer['g']})" in out


def test_a_head_a_dim_a_signal(qgpu_command):
    assert "rows" in qgpu_command("explain", "--layer", 12, "--head", 3)[1]
    status, out, _ = qgpu_command("explain", "--layer", 15, "--dim", 700)
    assert status == 0 and "before:" in out and "after:" in out
    status, out, _ = qgpu_command("explain", "--signal", "front.active0")
    assert status == 0 and "lane 0 is active" in out and "read by layer" in out


def test_a_signal_that_is_almost_one(qgpu_command):
    status, out, err = qgpu_command("explain", "--signal", "front.activ0")
    assert status == 2 and not out and "no signal is called 'front.activ0'" in err and "front.active0" in err
    status, _, err = qgpu_command("explain", "--signal", "q" * 40)
    assert status == 2 and "s1 to s4" in err


@pytest.mark.slow
def test_all_of_it_is_one_json_object(qgpu_command):
    status, out, _ = qgpu_command("explain", "--json")
    everything = json.loads(out)
    assert status == 0 and len(everything["layers"]) == 35 and len(everything["signals"]) > 5000


@pytest.mark.parametrize("words, why", [
    (["explain"], "nothing is selected"), (["explain", "--unit", 3], "belong to a layer"), (["explain", "--layer", 99], "no layer 99"),
    (["explain", "--layer", 1, "--unit", 99999], "no unit 99999"), (["explain", "--layer", 1, "--head", 14], "no head 14"),
    (["explain", "--layer", 1, "--dim", 2048], "no dim 2048"), (["explain", "--signal", "front.nobody"], "no signal is called"),
    (["explain", "--layer", 2, "--signal", "front.run"], "all layers"), (["explain", "--layer", "x"], "not a number"),
    (["explain", "--layer", 1, "--unit", 1, "--dim", 2], "not allowed with"), (["explain", "--layer", 1, "--machine", "huge"], "no machine"),
    (["explain", "--layer", 1, "--model", "/nowhere"], "signal map")])
def test_refusals(qgpu_command, words, why):
    status, out, err = qgpu_command(*words)
    assert status in (1, 2) and why in err and not out


def test_the_page_shows_what_is_printed(qgpu_command):
    """docs/signals.md quotes a unit; its commands work."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "signals.md").read_text(encoding="utf-8")
    (quoted,) = re.findall(r"```\n(layer \d+, unit .*?)```", page, re.S)
    layer, unit = re.match(r"layer (\d+), unit (\d+)", quoted).groups()
    assert quoted in qgpu_command("explain", "--layer", layer, "--unit", unit)[1]
    for words in re.findall(r"python -m qgpu (explain (?:--\w+ [\w.]+ ?)+)", page):
        status, out, err = qgpu_command(*words.split())
        assert status == 0 and out, err
