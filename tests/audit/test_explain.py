"""Explanations: every signal, unit, head, row and dim has words; formulas are the map's; readers and writers agree with each other."""

import re

import pytest
from audit_machines import SMALL, weights

from qgpu.audit.explain import Explainer
from qgpu.audit.explain_text import dim_text, head_text, layer_text, signal_text, unit_text
from qgpu.audit.signals import SignalMap, is_clear, map_of, read_map
from qgpu.circuit.machine import build_machine
from qgpu.compile.export import export_checkpoint
from qgpu.compile.words import described, meaning, note_words, part_words, row_words
from qgpu.errors import CheckpointError, UsageError
from qgpu.machine.description import PRESETS


@pytest.fixture(scope="module")
def explainer():
    return Explainer(map_of(weights(SMALL)))


@pytest.mark.parametrize("machine", PRESETS)
def test_every_part_of_a_preset_has_words(machine):
    """No signal, unit, head or row without a text that says something."""
    c = build_machine(PRESETS[machine]).circuit
    assert [s for s in c.signals if len(meaning(s).split()) < 3] == []
    assert {meaning(s) for s in c.signals if "{" in meaning(s)} == set()
    texts = {(part_words(u.group), note_words(u.note)) for u in c.units}
    assert [t for t in texts if not t[0] or re.fullmatch(r"s\d.*", t[0]) or len(t[1].split()) < 2] == []
    for head in c.heads:
        view = {"note": head.note, "rows": {str(r): n for r, n in head.row_names.items()}}
        assert head.note and all(len(row_words(view, r)) > 3 for r in {**head.key, **head.query}), head.name


def test_names_that_are_no_signals_have_no_meaning():
    assert meaning("front.nothing") == meaning("s1.l0.r") == meaning("") == meaning("tail.if_else.3") == ""


def test_meanings_tell_signals_apart():
    """Signals that differ in meaning by more than a continuation have texts of their own."""
    c = build_machine(PRESETS["article"]).circuit
    seen = {}
    for name in c.signals:
        seen.setdefault(meaning(name), []).append(name)
    assert {t: n for t, n in seen.items() if len(n) > 1} == {}


def test_a_unit_by_hand(explainer):
    """[EXEC or NEXT] is the first scheduling signal: relu(kind EXEC + kind NEXT)."""
    s = explainer.signal("front.run")
    (writer,) = s["written by"]
    u = explainer.unit(writer["layer"], writer["units"][0])
    assert u["f"] == "0.5 code.kind.EXEC + 0.5 code.kind.NEXT + 1" and u["g"] == "1" and u["what"] == "a block runs"
    assert [o["name"] for o in u["outputs"]] == ["front.run"] and u["outputs"][0]["weight"] == 1
    assert u["part"] == "scheduling" and s["meaning"] == "1 at EXEC and NEXT: a block runs"
    assert f"hook_v_pre_conv[:, {u['head']}, {u['value_dim']}]" in u["hooks"]["unit f"]


def test_a_memory_head_by_hand(explainer):
    (writer,) = explainer.signal("front.target1.0")["written by"]
    h = explainer.head(writer["layer"], writer["heads"][0]["head"])
    assert h["name"] == "front.targets1.0" and [r["name"] for r in h["rows"]] == ["warp 0 group 0", "warp 1 group 0"]
    assert h["rows"][1]["written where"] == "front.retarget1 + front.warp.0 - 1" and h["rows"][1]["read where"] == "front.warp.0"
    assert [v["outputs"][0]["name"] for v in h["values"]] == [f"front.target1.{k}" for k in range(SMALL.target_bits)]


def test_readers_and_writers_agree(explainer):
    """A unit that reads a signal is among its readers; numbers lead back to the unit."""
    for layer in range(1, len(explainer.map.layers) + 1, 9):
        for number, raw in enumerate(explainer.units(layer)):
            u = explainer.unit(layer, number)
            assert u["head"] < SMALL.heads and raw is explainer.map.layers[layer - 1][u["head"]]["units"][u["value_dim"] - 2]
            if is_clear(raw):
                assert u["what"].startswith("frees dim")
                continue
            for s in u["inputs"]:
                readers = {r["layer"]: r["units"] for r in explainer.signal(s["name"])["read by"]}
                assert number in readers[layer]


def test_every_dim_of_every_layer(explainer):
    hidden, m = SMALL.hidden, explainer.map
    for layer in range(1, len(m.layers) + 1, 7):
        held = {row[0]: m.names[row[1]] for row in m.boundaries[layer]}
        for d in range(hidden):
            answer = explainer.dim(layer, d)
            if "always" not in answer:
                assert (answer["after"] and answer["after"]["name"]) == held.get(d)
            assert dim_text(answer)
    assert "2^20" in explainer.dim(1, m.data["residual"]["constants"][0])["always"]
    assert "0 on machine tokens" in explainer.dim(1, m.data["residual"]["silence"][0][0])["always"]


def test_texts_of_everything(explainer):
    """Each answer has sentences; none shows a bare brace or None."""
    texts = []
    for layer in range(1, len(explainer.map.layers) + 1):
        texts.append(layer_text(explainer.layer(layer)))
        texts += [head_text(explainer.head(layer, h)) for h in range(len(explainer.map.layers[layer - 1]))]
        texts += [unit_text(explainer.unit(layer, n)) for n in range(0, len(explainer.units(layer)), 29)]
    texts += [signal_text(explainer.signal(n)) for n in explainer.map.names[::17]]
    assert len(texts) > 300 and not [t for t in texts if "None" in t or "{" in t or not t.strip()]


def test_everything_holds_every_unit_once(explainer):
    layers = list(explainer.everything())
    assert [x["layer"] for x in layers] == list(range(1, len(explainer.map.layers) + 1))
    for x in layers:
        numbers = [u["unit"] for h in x["heads"] if h["kind"] == "logic" for u in h["units"]]
        assert numbers == list(range(x["units"]))


@pytest.mark.parametrize("ask", [lambda e: e.layer(0), lambda e: e.layer(99), lambda e: e.unit(1, 10**6), lambda e: e.head(1, 15),
                                 lambda e: e.dim(1, SMALL.hidden), lambda e: e.signal("front.runs")])
def test_what_is_not_there(explainer, ask):
    with pytest.raises(UsageError):
        ask(explainer)


def same_answers(m):
    """Meanings and rows lie in a described map; an explainer on it gives the same answers."""
    assert all(s["meaning"] == meaning(s["name"]) != "" for s in m.data["signals"]) and "transformers" in m.data["hooks"]
    rows = [(h["rows"], {*h["key"], *h["query"]}) for heads in m.layers for h in heads if h["kind"] == "memory"]
    assert rows and all(set(names) == wanted for names, wanted in rows)
    mine, theirs = Explainer(map_of(weights(SMALL))), Explainer(m)
    assert mine.unit(3, 0) == theirs.unit(3, 0) and mine.signal("s1.a0.3") == theirs.signal("s1.a0.3")


def test_a_described_map_says_the_same():
    same_answers(SignalMap(described(map_of(weights(SMALL)).data)))


@pytest.mark.slow
def test_the_exported_map_says_the_same(tmp_path):
    same_answers(read_map(export_checkpoint(SMALL, tmp_path / "out", compiled=weights(SMALL))))
    with pytest.raises(CheckpointError):
        read_map(tmp_path)
