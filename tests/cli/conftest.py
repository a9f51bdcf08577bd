"""Fixtures of the command line's tests: the command in this process, with the reference interpreter in the model's place."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from reference_engine import ReferenceEngine  # noqa: E402

import qgpu.engine  # noqa: E402
from qgpu.cli import main  # noqa: E402


@pytest.fixture
def make_engine(monkeypatch):
    """Sets what `qgpu.engine.make_engine` gives; by default the reference interpreter."""
    def put(make=lambda machine, **_: ReferenceEngine(machine)):
        monkeypatch.setattr(qgpu.engine, "make_engine", make, raising=False)
    put()
    return put


@pytest.fixture
def qgpu_command(make_engine, capsys):
    """Runs a command line: (exit status, standard output, standard error). Never a traceback."""
    def command(*words):
        try:
            status = main([str(word) for word in words])
        except SystemExit as stop:  # argparse's own way out
            status = stop.code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err
    return command
