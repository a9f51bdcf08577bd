"""A merged model at work: text to the bit, launches in between, both ways through the layers."""

import dataclasses

import numpy as np
import pytest
from merge_models import CONFIG, REMAINDER, TINY, make_base

import qgpu
from qgpu.bf16 import round_bf16
from qgpu.errors import CheckpointError, UsageError
from qgpu.merge import load, merge
from qgpu.merge.kl import compare
from qgpu.qwen import load as load_model

RNG = np.random.default_rng(4)
TEXT = np.concatenate([RNG.integers(0, 400, 90), [33, 33], RNG.integers(0, 400, 60)])       # row 33 is zero


def same_bits(a, b):
    return np.array_equal(np.ascontiguousarray(a).view(np.uint32), np.ascontiguousarray(b).view(np.uint32))


@pytest.fixture(scope="module")
def models(tied):
    base, result = tied
    return load_model(base), load(result.folder)


@pytest.fixture(scope="module")
def both(multimodal):
    base, result = multimodal
    return load_model(base), load(result.folder)


def launch(merged, engine, start, **options):
    rest = np.zeros(len(start), np.int32)
    result = qgpu.launch(REMAINDER, None, 1, len(start), [np.array(start, np.int32), rest], engine=engine, machine=merged.machine, **options)
    assert rest.tolist() == [x % 3 for x in start]
    return result


@pytest.mark.parametrize("made", ["models", "both"])
def test_text_through_all_layers_has_the_bases_bits(made, request):
    base, merged = request.getfixturevalue(made)
    wanted = base.forward(TEXT)
    whole = merged.model.forward(TEXT)                                                        # chunks
    assert same_bits(whole[:, :400], wanted)
    assert same_bits(merged.text.forward(TEXT), whole)
    ours, theirs = merged.model.new_cache(), base.new_cache()                                 # one by one
    for token in TEXT[85:100]:
        assert same_bits(merged.model.forward([token], ours)[:, :400], base.forward([token], theirs))


@pytest.mark.parametrize("tokens", [1, 20])
def test_a_heads_rows_do_not_depend_on_the_rows_below(models, tokens):
    """Whatever kernel a processor has for a head of a round number of rows serves a longer one with the same bits."""
    ar = models[1].model.fast.ar
    w, x = models[1].model.weights.head, round_bf16(RNG.standard_normal((tokens, 2048)))
    for rows in (64, 416, 1000):
        assert same_bits(ar.linear(x, w)[:, :rows], ar.linear(x, w[:rows])), rows


def test_the_circuit_adds_nothing_at_all_to_text(models):
    base, merged = models
    h = {}
    merged.model.forward(TEXT, hook=lambda name, x: h.update({name: x}) if name.endswith("hook_resid_post") else None)
    embed = merged.model.weights.embed[TEXT].astype(np.uint32) << 16
    for layer in range(merged.layers):
        assert np.array_equal(h[f"blocks.{layer}.hook_resid_post"].view(np.uint32), embed), layer


@pytest.mark.parametrize("made, full", [("models", False), ("both", False), ("models", True), pytest.param("both", True, marks=pytest.mark.slow)])
def test_launches_between_text(made, full, request):
    base, merged = request.getfixturevalue(made)
    talk = merged.conversation(full=full)
    wanted = base.generate(TEXT, 12, stop=[])
    talk.forward(TEXT[:70])
    first = launch(merged, talk.engine(), [4, 0, 7], check=True)
    second = launch(merged, talk.engine(), [1, 9, 2], check=True)
    assert talk.generate(TEXT[70:], 12, stop=[]) == wanted
    third = launch(merged, talk.engine(), [4, 0, 7], check=True)
    assert first.tokens == third.tokens != second.tokens
    assert talk.cache.position == len(TEXT) + 11


def test_both_ways_write_the_same_tokens_and_memory(models):
    _, merged = models
    streams = []
    for full in (False, True):
        talk = merged.conversation(full=full)
        talk.forward(TEXT[:10])
        streams.append([launch(merged, talk.engine(), [5, 3, 1]).tokens, talk.engine().read_global(8)])
        talk.forward(TEXT[10:50])                                                             # text leaves the memory alone
        streams[-1].append(talk.engine().read_global(8))
        assert streams[-1][1] == streams[-1][2] and any(streams[-1][1])
    assert streams[0] == streams[1]


@pytest.mark.parametrize("cut", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_text_and_launch_in_one_stream(models, cut):
    """No forks, no skipping: everything in one call (chunks), and the last `cut` tokens one by one."""
    _, merged = models
    tokens = launch(merged, merged.engine(), [4, 0, 7]).tokens
    setup = launch(merged, merged.engine(), [4, 0, 7]).setup
    stream = np.concatenate([TEXT[:80], np.array(tokens) + merged.first, TEXT[:20], np.array(tokens) + merged.first])
    cache = merged.model.new_cache()
    written = [merged.model.forward(stream[:-cut], cache).argmax(axis=1)]
    written += [merged.model.forward([t], cache).argmax(axis=1) for t in stream[-cut:]]
    written = np.concatenate(written)
    for start in (80, 100 + len(tokens)):
        ours = written[start + setup - 1:start + len(tokens) - 1] - merged.first
        assert ours.tolist() == tokens[setup:]


def test_forks_do_not_see_each_other(models):
    base, merged = models
    for full in (False, True):
        talk, cache = merged.conversation(full=full), base.new_cache()
        launch(merged, talk.engine(), [5, 3])
        talk.forward(TEXT[:5])
        other = talk.fork()
        launch(merged, other.engine(), [8, 8, 8])
        other.forward(TEXT[5:9])
        assert talk.engine().read_global(2) == [5, 3] and other.engine().read_global(3) == [8, 8, 8]
        base.forward(TEXT[:5], cache)
        assert same_bits(talk.forward(TEXT[5:9])[:, :400], base.forward(TEXT[5:9], cache))


def test_machine_tokens_are_no_text(models):
    _, merged = models
    with pytest.raises(UsageError, match="is not text"):
        merged.conversation().forward([3, 400])
    assert max(merged.conversation().generate(TEXT[:5], 30, stop=[])) < 400


@pytest.mark.parametrize("skip", [False, True])
def test_divergence_is_zero(models, skip):
    base, merged = models
    found = compare(base, merged, [TEXT.tolist(), [1, 2]], skip=skip, most=64)
    assert (found.tokens, found.logits, found.different) == (len(TEXT) + 2, (len(TEXT) + 2) * 400, 0)
    assert found.base_max == found.base_mean == found.suppressed_max == 0
    assert found.extended_mean > 0                                                            # machine tokens have some mass


def test_divergence_sees_a_changed_model(models, tmp_path):
    base, merged = models
    other = load_model(make_base(tmp_path / "other", seed=1))
    found = compare(other, merged, [TEXT.tolist()], skip=True)
    assert found.different > 1000 and found.base_mean > 0.01


def test_a_damaged_circuit_is_named(tied, tmp_path):
    import shutil
    _, result = tied
    shutil.copytree(result.folder, tmp_path / "copy")
    path = tmp_path / "copy" / "model-00001-of-00004.safetensors"
    data = bytearray(path.read_bytes())
    at = len(data) // 2
    data[at] ^= 1
    path.write_bytes(data)
    merged = load(tmp_path / "copy")
    with pytest.raises(CheckpointError, match="is damaged") as e:
        merged.engine().read_global(1)
    assert "model-00001" in str(e.value)
    (tmp_path / "copy" / "qgpu_circuit.json").write_text('{"format": 1}')
    with pytest.raises(CheckpointError, match="damaged"):
        load(tmp_path / "copy")


def test_a_model_through_launch(tied):
    _, result = tied
    for full in (False, True):
        rest = np.zeros(2, np.int32)
        qgpu.launch(REMAINDER, None, 1, 2, [np.array([7, 2], np.int32), rest], model=result.folder, full=full)
        assert rest.tolist() == [1, 2]


@pytest.mark.slow
def test_an_embedding_that_needs_two_reserved_dims(tmp_path):
    """Every dim is zero in some row."""
    cfg = dataclasses.replace(CONFIG, vocab_size=2096)
    embed = np.random.default_rng(9).standard_normal((2096, 2048)).astype(np.float32) * np.float32(0.04)
    embed[np.arange(2048), np.arange(2048)] = 0
    base = make_base(tmp_path / "base", cfg, embed=embed)
    result = merge(base, tmp_path / "out", TINY)
    assert len(result.report["placement"]["silence"]) == 2
    merged, ids = load(result.folder), np.arange(2096)
    assert same_bits(merged.model.forward(ids)[:, :2096], load_model(base).forward(ids))
