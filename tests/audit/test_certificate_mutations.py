"""A changed weight is found, whatever tensor it is in."""

from __future__ import annotations

import pytest

from qgpu.audit.certificate import Checker
from qgpu.audit.claims import parse_claims
from qgpu.audit.mutations import CHANGES, mutate, table
from qgpu.audit.preset import PresetTensors
from qgpu.machine.description import ARTICLE


@pytest.fixture(scope="module")
def checker():
    tensors = PresetTensors(ARTICLE)
    return Checker(tensors, tensors.config, parse_claims(tensors.signal_map))


def check(checker, count):
    mutations = mutate(checker, count)
    assert len(mutations) == count
    assert not [m for m in mutations if not m.found]
    kinds = {m.kind for m in mutations}
    assert {"linear_attn.in_proj_qkv.weight", "linear_attn.conv1d.weight", "linear_attn.A_log", "linear_attn.dt_bias",
            "embed_tokens.weight", "norm.weight", "attention layer: self_attn.q_proj.weight", "mlp.down_proj.weight"} <= kinds
    return mutations


def test_some_changed_weights(checker):
    assert table(check(checker, 40)).count("\n") >= 28


@pytest.mark.slow
def test_a_thousand_changed_weights(checker):
    assert {m.change for m in check(checker, 1000)} == set(CHANGES)


def test_the_unchanged_tensors_are_the_maps(checker):
    for layer in (1, 12, 35, 36):
        for name, matrix in checker.layer_expectations(layer).items():
            assert checker.check_tensor(name, matrix) == []
