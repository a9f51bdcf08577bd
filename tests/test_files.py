"""Temporary files and folders: apart from each other, with the permissions of any new file."""

import os
import stat
import sys

import pytest

from qgpu.files import new_file, new_folder, whole_file


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_mask(tmp_path, mask):
    before = os.umask(mask)
    try:
        out, path = new_file(tmp_path)
        out.close()
        folder = new_folder(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~mask


def test_names_are_fresh_and_hidden(tmp_path):
    made = [new_folder(tmp_path) for _ in range(20)]
    for _ in range(20):
        out, path = new_file(tmp_path)
        with out:
            out.write(b"\x00\xff")
        made.append(path)
        assert path.read_bytes() == b"\x00\xff"
    assert len(set(made)) == 40 and all(p.parent == tmp_path and p.name.startswith(".qgpu-") for p in made)
    with pytest.raises(OSError):
        new_file(tmp_path / "none")


def test_a_whole_file_or_the_old_one(tmp_path):
    path = tmp_path / "kept"
    with whole_file(path) as out:
        out.write(b"one")
        assert not path.exists()
    with pytest.raises(KeyboardInterrupt), whole_file(path) as out:
        out.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"one" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError), whole_file(tmp_path / "none" / "x"):
        pass
