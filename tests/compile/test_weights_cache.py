"""The cache of compiled weights: found again, ignored when damaged, keyed by machine and source."""

from dataclasses import replace

import numpy as np
import pytest
from small_machine import SMALL, compiled

from qgpu.compile import cache
from qgpu.compile.cache import MATRICES, VECTORS, compiled_weights, read, source_digest, write


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("QGPU_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def compilations(monkeypatch):
    """How often the compiler ran; it hands out the one compiled machine."""
    count = []

    def compile_once(m):
        count.append(m)
        return replace(compiled(), weights=replace(compiled().weights, machine=m))
    monkeypatch.setattr(cache, "compile_machine", compile_once)
    return count


def same(a, b):
    assert (a.machine, a.code_dims, a.constants, a.reserved) == (b.machine, b.code_dims, b.constants, b.reserved)
    assert np.array_equal(a.codes, b.codes) and len(a.layers) == len(b.layers)
    for x, y in zip(a.layers, b.layers):
        for n in MATRICES:
            p, q = getattr(x, n), getattr(y, n)
            assert (tuple(p.shape), p.rows, p.cols, p.vals) == (tuple(q.shape), q.rows, q.cols, q.vals)
        assert all(np.array_equal(getattr(x, n), getattr(y, n)) for n in VECTORS)
        assert all(getattr(x, n) == getattr(y, n) for n in cache.FACTS)


def test_what_is_read_is_what_was_written(folder):
    path = folder / "deep" / "file.npz"
    write(path, compiled().weights)
    same(read(path, SMALL), compiled().weights)
    assert [p.name for p in path.parent.iterdir()] == ["file.npz"]


def test_compiled_once(folder, compilations):
    first, second = compiled_weights(SMALL), compiled_weights(SMALL)
    same(first, second)
    assert len(compilations) == 1 and len(list((folder / "circuits").iterdir())) == 1


DAMAGE = {"empty": lambda b: b"", "cut": lambda b: b[:len(b) // 2], "not a zip": lambda b: b"x" * 1000,
          "flipped bytes": lambda b: b[:len(b) // 3] + bytes(x ^ 0xFF for x in b[len(b) // 3:len(b) // 3 + 4000]) + b[len(b) // 3 + 4000:],
          "another archive": None}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_compiled_again_and_mended(folder, compilations, how):
    compiled_weights(SMALL)
    (path,) = (folder / "circuits").iterdir()
    if DAMAGE[how] is None:
        np.savez(path, codes=np.zeros(3))
    else:
        path.write_bytes(DAMAGE[how](path.read_bytes()))
    same(compiled_weights(SMALL), compiled().weights)
    assert len(compilations) == 2
    same(read(path, SMALL), compiled().weights)


def test_no_pickle_is_ever_loaded(folder, compilations):
    compiled_weights(SMALL)
    (path,) = (folder / "circuits").iterdir()
    np.savez(path, codes=np.array([object()], object), meta=np.array([object()], object))
    same(compiled_weights(SMALL), compiled().weights)
    assert len(compilations) == 2


def test_another_machine_or_source_has_another_file(folder, compilations, monkeypatch):
    compiled_weights(SMALL)
    compiled_weights(replace(SMALL, warps=1))
    monkeypatch.setattr(cache, "source_digest", lambda: "other")
    compiled_weights(SMALL)
    assert len(compilations) == 3 and len(list((folder / "circuits").iterdir())) == 3


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch, compilations):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("QGPU_CACHE", str(blocked))
    same(compiled_weights(SMALL), compiled().weights)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("QGPU_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "qgpu"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder().parts[-2:] == (".cache", "qgpu")
    assert len(source_digest()) == 64
