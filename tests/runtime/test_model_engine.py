"""A launch on an exported checkpoint, and folders that are none."""

import json

import numpy as np
import pytest

import qgpu
from qgpu.compile.export import export_checkpoint
from qgpu.errors import CheckpointError
from qgpu.machine.description import ARTICLE, as_dict
from qgpu.runtime.model_engine import ModelEngine, checkpoint_machine

ADD = "__global__ void add(int *a, int n) { a[threadIdx.x] += n; }\n"


@pytest.mark.parametrize("config, says", [
    (None, "not a checkpoint folder"), ("{", "not a checkpoint folder"), ("{}", "no machine"), ("[]", "no machine"),
    ('{"qgpu_machine": 3}', "no machine"), ('{"qgpu_machine": {"name": "x", "arms": 2}}', "no machine"),
    (json.dumps({"qgpu_machine": as_dict(ARTICLE) | {"lanes": 3}}), "lanes"),
    (json.dumps({"qgpu_machine": as_dict(ARTICLE) | {"lanes": "4"}}), "machine"),
])
def test_folders_that_are_no_checkpoint(tmp_path, config, says):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(CheckpointError, match=says) as e:
        checkpoint_machine(tmp_path)
    assert str(tmp_path) in str(e.value)
    with pytest.raises(CheckpointError):
        qgpu.launch(ADD, "add", 1, 1, [np.zeros(1, np.int32), 1], model=tmp_path)


def test_a_checkpoint_of_another_machine(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"qgpu_machine": as_dict(ARTICLE) | {"warps": 2}}))
    with pytest.raises(CheckpointError, match="another machine"):
        ModelEngine(tmp_path, ARTICLE)


@pytest.mark.slow
def test_a_launch_on_an_exported_checkpoint(tmp_path):
    folder = export_checkpoint(ARTICLE, tmp_path / "checkpoint")
    a = np.array([1, 2**31 - 1, -5], np.int32)
    result = qgpu.launch(ADD, "add", 1, 3, [a, 7], model=folder, check=True)
    assert a.tolist() == [8, -2147483642, 2] and result.check.mismatches == 0
