"""The import check: the repository passes it, and each rule can be broken."""

import importlib.util
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("check_imports", REPOSITORY / "tools" / "check_imports.py")
check_imports = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_imports)


def test_this_repository():
    assert check_imports.check(REPOSITORY) == []


@pytest.mark.parametrize("module, text, says", [
    ("qgpu.ptx.parser", "from ..lower import lower", "ptx imports lower"),
    ("qgpu.ptx.parser", "import qgpu.machine.tokens", "ptx imports machine"),
    ("qgpu.engine.sparse", "from .. import runtime", "engine imports runtime"),
    ("qgpu.lower.pack", "def f():\n    from qgpu import cli_run", "lower imports cli"),
    ("qgpu.lower.pack", "from qgpu_reference.machine import MachineInterpreter", "lower imports the reference"),
    ("qgpu.qwen.load", "import torch", "imports torch"),
    ("qgpu.qwen.load", "from pickle import loads", "imports pickle"),
    ("qgpu.new.part", "import qgpu.errors", "not among the layers"),
    ("qgpu.runtime.launch", "x = eval('1')", "calls eval"),
    ("qgpu.cuda.driver", "run('x', shell=True)", "runs a shell"),
    ("qgpu_reference.ptx", "from qgpu.lower import ir", "the reference imports"),
    ("qgpu_reference.ptx", "from qgpu.machine.tokens import Token", "the reference imports"),
])
def test_what_is_refused(tmp_path, module, text, says):
    path = tmp_path / "x.py"
    path.write_text(text)
    (problem,) = check_imports.problems_in(path, module, False)
    assert says in problem and f"{path}:" in problem


@pytest.mark.parametrize("module, text", [
    ("qgpu.lower.pack", "from ..ptx.model import Kernel\nfrom .ir import Op\nfrom ..errors import LoweringError"),
    ("qgpu.runtime.check", "from qgpu_reference.machine import check_stream"),
    ("qgpu_reference.ptx", "from qgpu.ptx.model import Kernel\nfrom .tokens import Sizes\nfrom qgpu.machine.description import Machine"),
    ("qgpu.cli", "from . import __version__, cli_run"),
])
def test_what_is_allowed(tmp_path, module, text):
    path = tmp_path / "x.py"
    path.write_text(text)
    assert check_imports.problems_in(path, module, False) == []
