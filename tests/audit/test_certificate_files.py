"""Tensors and settings as the certificate reads them from files, and files that it refuses."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from qgpu.audit.checkpoint import FileTensors, read_config, sha256
from qgpu.audit.claims import read_claims
from qgpu.cli import main
from qgpu.errors import CheckpointError


def packed(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype="BF16", shape=(2, 3), at=(0, 12)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(at)}


def test_tensors_of_several_files(tmp_path):
    f32 = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
    save_file({"a": f32, "odd": np.arange(3, dtype=np.int64)}, tmp_path / "model-00001.safetensors", metadata={"format": "pt"})
    bits = np.array([[0x3F80, 0xBF80, 0], [0x8000, 1, 0x7F7F]], "<u2")
    (tmp_path / "model-00002.safetensors").write_bytes(packed({"b": entry(), "none": entry("F32", (0, 4), (12, 12))}, bits.tobytes()))
    tensors = FileTensors(tmp_path)
    assert set(tensors.names()) == {"a", "b", "odd", "none"}
    assert tensors.get("a").dtype == np.float32 and np.array_equal(tensors.get("a"), f32)
    assert tensors.get("b").dtype == np.uint16 and np.array_equal(tensors.get("b"), bits)
    assert tensors.get("none").shape == (0, 4)
    assert sha256(tensors.get("b")) == hashlib.sha256(bits.tobytes()).hexdigest() != sha256(tensors.get("a"))
    with pytest.raises(CheckpointError, match="no tensor c"):
        tensors.get("c")
    with pytest.raises(CheckpointError, match="I64"):
        tensors.get("odd")


@pytest.mark.parametrize("file", [
    b"", b"\x05", packed(b"[1]"), packed(b"{", length=1), packed(b"{}", length=1 << 60), packed({"a": {}}), packed({"a": 3}),
    packed({"a": entry()}, bytes(11)), packed({"a": entry(shape=(2, 4))}, bytes(12)), packed({"a": entry(at=(-12, 0))}, bytes(12)),
    packed({"a": entry(at=(12, 0))}, bytes(12)), packed({"a": entry(shape=(-2, -3))}, bytes(12)),
    packed({"a": entry(shape="23")}, bytes(9)),
    packed({"a": entry(shape=(1 << 40, 1 << 40))}, bytes(12))], ids=range(14))
def test_damaged_files_are_refused(tmp_path, file):
    (tmp_path / "model.safetensors").write_bytes(file)
    with pytest.raises(CheckpointError, match="damaged"):
        FileTensors(tmp_path)


def test_a_tensor_in_two_files_is_refused(tmp_path):
    for name in ("model-1.safetensors", "model-2.safetensors"):
        (tmp_path / name).write_bytes(packed({"a": entry()}, bytes(12)))
    with pytest.raises(CheckpointError, match="damaged") as refused:
        FileTensors(tmp_path)
    assert "two files" in str(refused.value)


def test_settings_and_map(tmp_path, capsys):
    with pytest.raises(CheckpointError):
        FileTensors(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(packed({"a": entry()}, bytes(12)))
    for name, read in (("config.json", read_config), ("qgpu-signals.json", read_claims)):
        for text in (None, b"{", b"[]", b"\xff"):
            if text is not None:
                (tmp_path / name).write_bytes(text)
            with pytest.raises(CheckpointError):
                read(tmp_path)
    (tmp_path / "config.json").write_bytes(b'{"a": 1, "text_config": {"b": 2}}')
    assert read_config(tmp_path)["a"] == 1 and read_config(tmp_path)["b"] == 2
    assert main(["audit", str(tmp_path)]) not in (0, None)
    assert "signal map" in capsys.readouterr().err
