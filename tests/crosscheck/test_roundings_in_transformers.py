"""The watched forward pass of `audit --trace` against transformers: the same bits at every layer boundary, prefilled and token by token.

On a machine of hidden size 1024, with an exported checkpoint (torch, bf16, CPU).
"""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "audit"))

from audit_machines import SMALL, random_stream, weights  # noqa: E402

from qgpu.audit.roundings import watch  # noqa: E402
from qgpu.compile.export import export_checkpoint  # noqa: E402

pytestmark = pytest.mark.crosscheck


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = export_checkpoint(SMALL, tmp_path_factory.mktemp("small") / "checkpoint", compiled=weights(SMALL))
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()


@pytest.mark.parametrize("seed", [0])
@torch.no_grad()
def test_every_boundary_bit_for_bit(model, seed):
    ids, setup = random_stream(SMALL, seed, 8)
    report = watch(weights(SMALL), ids, setup, keep=True)
    layers = len(weights(SMALL).layers)
    assert len(report.boundaries) == layers + 1 and report.harmful == 0
    result = model(torch.tensor([ids[:setup]]), use_cache=True, output_hidden_states=True)
    parts = [result.hidden_states]
    for token in ids[setup:]:
        result = model(torch.tensor([[token]]), cache=result.cache, use_cache=True, output_hidden_states=True)
        parts.append(result.hidden_states)
    for b in range(layers + 1):
        theirs = torch.cat([part[b][0] for part in parts]).float().numpy()
        assert theirs.shape == report.boundaries[b].shape and np.array_equal(theirs, report.boundaries[b]), f"after layer {b}"
