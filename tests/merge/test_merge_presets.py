"""Each preset goes into a base of the 2B's width, and its own kernels run there."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from merge_models import ARTICLE_CONFIG, make_base

import qgpu
from qgpu.compile.layout import free_units
from qgpu.machine.description import ARTICLE, PRESETS
from qgpu.merge import load, merge
from qgpu.runtime.launchfile import find_launch_comments

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
ROOM = ARTICLE.head_dim - 2


@pytest.mark.parametrize("taps, heads, free", [
    ([0, 0, 0], 2, 14 * ROOM - 3),
    ([0, 0, 1, 1, 1], 2, 13 * ROOM - 2),                     # those that look back fill a head of their own, whatever is free in it
    ([1, 2, 0], 0, 14 * ROOM - 1),
    ([1] * (ROOM + 1), 4, 10 * ROOM),
])
def test_units_that_look_back_take_whole_heads(taps, heads, free):
    schedule = SimpleNamespace(layer_units=[[SimpleNamespace(tap=t) for t in taps]], layer_heads=[[None] * heads])
    assert free_units(ARTICLE, schedule, 1) == free


@pytest.mark.slow
@pytest.mark.parametrize("name, kernels", [("article", ("dot", "collatz")), ("default", ("reduce_shared", "votes"))])
def test_a_preset_in_a_base(tmp_path, name, kernels):
    base = make_base(tmp_path / "base", ARTICLE_CONFIG)
    merge(base, tmp_path / "out", PRESETS[name])
    engine = load(tmp_path / "out").engine()
    for kernel in kernels:
        path = KERNELS / f"{kernel}.cu"
        (spec,) = find_launch_comments(path.read_text(), path.name)
        engine.reset()
        result = qgpu.launch(path, spec.kernel, spec.grid, spec.block, spec.args, check=True, machine=PRESETS[name], engine=engine)
        assert result.check.mismatches == 0 and len(result.tokens) > result.setup
