"""The kernels meant for the machine `article` on its compiled weights: its expected arrays, every token, and the PTX interpreter's memory."""

import manifest
import pytest

import qgpu
from qgpu.engine import make_engine
from qgpu.machine.description import ARTICLE
from qgpu.runtime.launchfile import find_launch_comments

KERNELS = [kernel.path for kernel in manifest.KERNELS if kernel.machine == "article"]


@pytest.fixture(scope="module")
def engine():
    return make_engine(ARTICLE, kind="sparse")


def test_there_are_kernels():
    assert len(KERNELS) >= 16


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernel(engine, path):
    (spec,) = find_launch_comments(path.read_text(encoding="utf-8"), path.name)
    assert spec.expect is not None and any(e is not None for e in spec.expect)
    engine.reset()
    result = qgpu.launch(path, spec.kernel, spec.grid, spec.block, spec.args, check=True, engine=engine)
    for argument, expected in zip(result.args, spec.expect):
        assert expected is None or argument.tolist() == expected
    assert result.check.positions == len(result.tokens) - result.setup and result.check.mismatches == 0
    if path.stem == "dot":
        assert result.check.positions <= 20
