"""Which dims a merge takes, what it refuses, and that its checks can fail."""

import dataclasses

import numpy as np
import pytest
from merge_models import CONFIG, TINY, make_base

from qgpu.bf16 import round_bf16
from qgpu.errors import CheckpointError
from qgpu.merge import build, merge
from qgpu.merge.base import open_base
from qgpu.merge.choose import balance, choose
from qgpu.merge.own_layers import bound_own_layers
from qgpu.merge.proof import prove
from qgpu.merge.survey import survey
from qgpu.qwen.naive import rms_norm
from qgpu.qwen.arithmetic import Arithmetic


def embedding(seed=0, rows=400):
    return np.random.default_rng(seed).standard_normal((rows, 2048)).astype(np.float32) * np.float32(0.04)


@pytest.mark.parametrize("hidden, eps, code, scale", [(2048, 1e-6, 24, 2.0 ** -4), (2048, 1e-6, 30, 0.25), (1024, 1e-6, 24, 2.0 ** -4),
                                                      (2048, 1e-5, 24, 1.0)])
def test_the_first_norm_reads_exactly_one(hidden, eps, code, scale):
    ones, gain, ballast = balance(hidden, eps, code, scale)
    h = np.zeros((1, hidden), np.float32)
    h[0, :code + ones] = scale * np.where(np.arange(code + ones) % 2, -1, 1)
    h[0, -1] = ballast
    assert np.array_equal(round_bf16(h), h)
    x = rms_norm(h, np.full(hidden, gain - 1, np.float32), eps, Arithmetic())
    assert np.array_equal(np.abs(x[0, :code + ones]), np.ones(code + ones))


def test_dims_are_apart_and_the_report_says_why(tied):
    _, result = tied
    p, proof = result.report["placement"], result.report["proof"]
    dims = [*p["constants"], *(d for d, _ in p["silence"]), *p["code"], *p["ones"], p["ballast"][0]]
    assert len(set(dims)) == len(dims)
    assert proof["rows"] == 400 and proof["zero_rows"] == 1
    assert proof["silence_smallest"] >= 2.0 ** 65 and proof["silence_largest"] <= 2.0 ** 125
    assert proof["logit_own"] > proof["logit_machine_next"] and proof["logit_own"] > proof["logit_text_next"] + proof["logit_rest"]
    assert proof["own_sublayer_largest"] <= proof["own_sublayer_limit"]
    assert len(proof["sublayers"]) == 8


def test_an_embedding_that_no_pair_of_dims_silences(tmp_path):
    embed = embedding()
    for row in range(3):                                   # three rows that live in one dim each
        embed[10 + row] = 0
        embed[10 + row, 5 + row] = 0.5
    base = make_base(tmp_path / "base", embed=embed)
    with pytest.raises(CheckpointError, match="vocabulary row 1[0-2] ") as e:
        merge(base, tmp_path / "out", TINY)
    assert "reserved dims" in str(e.value) and not (tmp_path / "out").exists()


def test_a_text_row_larger_than_any_machine_row(tmp_path):
    cfg = dataclasses.replace(CONFIG, tie_word_embeddings=True)
    embed = embedding()
    embed[17] = 1000.0
    base = make_base(tmp_path / "base", cfg, embed=embed)
    with pytest.raises(CheckpointError, match="vocabulary row 17 may win over a machine token"):
        merge(base, tmp_path / "out", TINY)


def test_a_text_row_that_disturbs_the_counter(tmp_path):
    base = make_base(tmp_path / "base")
    opened = open_base(base, TINY)
    seen, own = survey(opened), bound_own_layers(opened)
    choice = choose(opened, seen, TINY)
    placed = build.compile_placed(TINY, choice.placement)
    prove(opened, placed, choice.head_scale, own)
    embed = embedding()
    embed[123] = 0
    embed[123, list(choice.placement.code)] = 1.0          # text that looks like every kind of token at once
    embed[123, choice.placement.silence[0][0]] = 1.0
    other = open_base(make_base(tmp_path / "other", embed=embed), TINY)
    with pytest.raises(CheckpointError, match="vocabulary row 123"):
        prove(other, placed, choice.head_scale, own)


def test_a_row_without_anything_in_the_reserved_dim(tmp_path):
    base = make_base(tmp_path / "base")
    opened = open_base(base, TINY)
    choice = choose(opened, survey(opened), TINY)
    placed = build.compile_placed(TINY, choice.placement)
    embed = embedding()
    embed[200, choice.placement.silence[0][0]] = 0
    other = open_base(make_base(tmp_path / "other", embed=embed), TINY)
    with pytest.raises(CheckpointError, match="vocabulary row 200 does not silence"):
        prove(other, placed, choice.head_scale, bound_own_layers(other))


def test_a_final_norm_without_enough_positive_weights(tmp_path):
    def spoil(tensors):
        tensors["model.norm.weight"][:] = 0xC000           # -2: every weight is -1

    base = make_base(tmp_path / "base", edit=spoil)
    with pytest.raises(CheckpointError, match="positive weights"):
        merge(base, tmp_path / "out", TINY)
