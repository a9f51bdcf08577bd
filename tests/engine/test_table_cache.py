"""The sparse kernel's tables on disk: the same arrays come back, damage costs only time."""

from dataclasses import replace

import numpy as np
import pytest
from engine_machines import SMALL, weights

from qgpu.engine import table_cache
from qgpu.engine.table_cache import arrays, tables_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("QGPU_CACHE", str(tmp_path))
    return tmp_path / "circuits"


def same(a, b):
    assert type(a[0]) is type(b[0]) and a[1] == b[1]
    x, y = dict(arrays(a[0])), dict(arrays(b[0]))
    assert x.keys() == y.keys() and len(x) > 40
    for name in x:
        assert x[name].dtype == y[name].dtype and np.array_equal(x[name], y[name], equal_nan=x[name].dtype.kind == "f"), name


def test_tables_come_back_and_damage_is_ignored(folder, monkeypatch):
    w = replace(weights(SMALL), key="some-weights")
    made = tables_of(w)
    (file,) = folder.iterdir()
    monkeypatch.setattr(table_cache, "build_plan", None)             # read, not made
    same(tables_of(w), made)
    monkeypatch.undo()
    monkeypatch.setenv("QGPU_CACHE", str(folder.parent))
    whole = file.read_bytes()
    for damaged in (whole[:len(whole) // 2], b"", b"PK" + whole[2:100]):
        file.write_bytes(damaged)
        same(tables_of(w), made)
        assert file.read_bytes() == whole


def test_weights_that_no_cache_knows_leave_nothing(folder):
    tables_of(replace(weights(SMALL), key=""))
    assert not folder.exists()


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("QGPU_CACHE", str(tmp_path / "file"))
    assert tables_of(replace(weights(SMALL), key="k"))[1]
