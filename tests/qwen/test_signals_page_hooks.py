"""docs/signals.md: its example with hooks, run as it stands on an exported checkpoint, prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from qgpu.compile.export import export_checkpoint
from qgpu.machine.description import ARTICLE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_hooks_print_what_the_page_says(tmp_path):
    page = (ROOT / "docs" / "signals.md").read_text(encoding="utf-8").split("## The same without torch")[1]
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    shown = re.search(r"```\n(\[.*?)```", page, re.S)[1]
    export_checkpoint(ARTICLE, tmp_path / "checkpoint")
    (tmp_path / "kernels").symlink_to(ROOT / "kernels")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == shown and "[0. 0. 0. 1.]" in shown
