"""docs/signals.md: its example, run as it stands on an exported checkpoint in transformers, prints what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from qgpu.compile.export import export_checkpoint  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402

pytestmark = pytest.mark.crosscheck
ROOT = Path(__file__).resolve().parents[2]


def test_the_example_prints_what_the_page_says(tmp_path):
    page = (ROOT / "docs" / "signals.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    shown = re.search(r"It prints\n\n```\n(.*?)```", page, re.S)[1]
    export_checkpoint(ARTICLE, tmp_path / "checkpoint")
    (tmp_path / "kernels").symlink_to(ROOT / "kernels")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=900,
                          env=os.environ | {"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == shown and "results [4, 10, 18]" in shown and "results [32," in shown
