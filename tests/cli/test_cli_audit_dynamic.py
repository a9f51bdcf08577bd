"""The options of `qgpu audit` that run a launch: words, table, JSON, exit status, refusals."""

import argparse
import json
from pathlib import Path

import pytest

from qgpu import cli_audit_dynamic as dynamic
from qgpu.audit.against import Comparison, Difference
from qgpu.audit.roundings import OPERATIONS, Operation, Roundings
from qgpu.cli_options import add_machine_option
from qgpu.errors import UsageError

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


def parsed(*words):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--json", action="store_true")
    dynamic.add_options(parser)
    add_machine_option(parser, None)
    return parser.parse_args([str(w) for w in words])


def test_a_launch_in_words(capsys):
    options = parsed("--against-interpreter", KERNELS / "dot.cu", "--machine", "article")
    assert dynamic.asked(options) and dynamic.run(options) == 0
    out, err = capsys.readouterr()
    assert out.startswith("dot, machine article: 248 tokens") and "no difference" in out and "mirror the machine's state" in out
    assert "preparing the layers" in err


def faulty(*args):
    """A comparison that found something, in the place of the real one."""
    result = Comparison(tokens=5, by_interpreter=7, by_integers=8, different=2)
    result.first = Difference(4, "EXEC b0 outcome=....", 12, "s1.a0.3", 700, 0, 1.0, 0.0, "interpreter", "block 0 stage 1, dot.cu:7 (PTX line 20)")
    return result


@pytest.fixture
def fault(monkeypatch):
    monkeypatch.setattr("qgpu.audit.against.compare_launch", faulty)
    monkeypatch.setattr(dynamic.Auditors, "of", lambda self, machine: None)


def test_a_difference_ends_in_status_1_and_says_where(fault, capsys):
    assert dynamic.run(parsed("--against-interpreter", KERNELS / "dot.cu")) == 1
    out = capsys.readouterr().out
    for word in ("2 differ", "layer 12", "s1.a0.3", "dim 700", "lane 0", "expected 1, found 0", "token 4", "dot.cu:7 (PTX line 20)"):
        assert word in out, word


def test_several_files_make_a_table(fault, capsys):
    assert dynamic.run(parsed("--against-interpreter", KERNELS / "dot.cu", KERNELS / "collatz.cu")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["kernel", "machine", "tokens"] and lines[1].startswith("dot ") and lines[2].startswith("  first: layer 12")
    assert lines[-1].startswith("2 launches") and " 14 " in lines[-1]


def test_json_holds_every_count(fault, capsys):
    assert dynamic.run(parsed("--against-interpreter", KERNELS / "dot.cu", "--json")) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["kernel"] == "dot" and found["machine"] == "article" and found["different"] == 2
    assert found["first"]["signal"] == "s1.a0.3" and found["by_interpreter"] == 7


def test_a_file_that_cannot_run_fails_the_table_alone(fault, capsys, tmp_path):
    bare = tmp_path / "bare.cu"
    bare.write_text("__global__ void f() {}\n")
    assert dynamic.run(parsed("--against-interpreter", KERNELS / "dot.cu", bare)) == 1
    out, err = capsys.readouterr()
    assert "1 launch " in out and "no launch comment" in err
    with pytest.raises(UsageError):
        dynamic.run(parsed("--against-interpreter", bare))


def roundings(harmful):
    report = Roundings(9, [{name: Operation(values=10, changed=3, farthest=0.001, bits=4) for name in OPERATIONS}], 1e-9, 1e-12, 1.0, 0.05)
    report.layers[0]["out_proj"].harmful = harmful
    return report


@pytest.mark.parametrize("harmful, status", [(0, 0), (2, 1)])
def test_roundings_as_a_table_and_json(monkeypatch, capsys, harmful, status):
    monkeypatch.setattr("qgpu.audit.launches.stream_of", lambda *args: [0] * 9)
    monkeypatch.setattr("qgpu.audit.roundings.watch", lambda *args, **named: roundings(harmful))
    monkeypatch.setattr("qgpu.engine.sparse.SparseEngine", lambda weights: None)
    assert dynamic.run(parsed("--trace", KERNELS / "dot.cu", "--machine", "article")) == status
    out, err = capsys.readouterr()
    assert all(name in out for name in OPERATIONS) and "1 layer\n" in out and "5.0 %" in out
    assert ("layer 1" in err and "out_proj" in err) == bool(harmful)
    assert dynamic.run(parsed("--trace", KERNELS / "dot.cu", "--json", "--machine", "article")) == status
    found = json.loads(capsys.readouterr().out)
    assert found["harmful"] == harmful and found["layers"][0]["out_proj"]["bits"] == 4


def test_refusals():
    for words, why in ((["there", "--trace", "a.cu"], "not a folder"), (["there", "--against-interpreter", "a.cu", "--machine", "article"], "own machine"),
                       (["--trace", "a.cu", "--against-interpreter", "b.cu"], "do not go together"), (["--trace", "nowhere.cu"], "nowhere.cu"),
                       (["--against-interpreter", KERNELS / "dot.cu", "--kernel", "nobody"], "no launch comment for kernel nobody")):
        with pytest.raises(UsageError, match=why):
            dynamic.run(parsed(*words))
