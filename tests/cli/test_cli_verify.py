"""`qgpu verify`: a trace from `run --trace`, accepted or refused with the place named. Never a traceback."""

import json

import pytest

KERNEL = """// qgpu: {"block": [3], "args": [{"type": "i32", "data": [5, 6, 7]}, {"type": "i32", "zeros": 3}]}
__global__ void twice(const int *a, int *b) { b[threadIdx.x] = 2 * a[threadIdx.x]; }
"""


@pytest.fixture
def trace(qgpu_command, tmp_path):
    """(source, trace) of a launch."""
    source, path = tmp_path / "twice.cu", tmp_path / "t.jsonl"
    source.write_text(KERNEL)
    assert qgpu_command("run", source, "--trace", path)[0] == 0
    return source, path


def forge(path):
    """The first stored value becomes another one, consistently in its record and nowhere else."""
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '"by": "model"' in line and '"SVAL"' in line and "store data" in line)
    record = json.loads(lines[at])
    assert record["fields"] == [10] and record["meaning"].endswith("= 10")
    record |= {"id": record["id"] + 1, "fields": [11], "meaning": record["meaning"][:-2] + "11"}
    lines[at] = json.dumps(record)
    lines[at + 1] = lines[at + 1].replace("becomes 10", "becomes 11")
    path.write_text("\n".join(lines) + "\n")
    return at


def test_accepted(qgpu_command, trace):
    source, path = trace
    status, out, _ = qgpu_command("verify", path)
    assert status == 0 and "twice, grid 1,1,1, block 3,1,1, machine article" in out and "as recorded (--source" in out
    assert "each what the layers write" in out
    status, out, _ = qgpu_command("verify", path, "--source", source)
    assert status == 0 and f"derived again from {source}" in out
    status, out, _ = qgpu_command("verify", path, "--source", source, "--json")
    told = json.loads(out)
    assert status == 0 and told["valid"] and told["derived"] and told["positions"] > told["generated"] > 5
    assert qgpu_command("verify", path, "--setup-sha256", told["setup_sha256"])[0] == 0
    status, _, err = qgpu_command("verify", path, "--setup-sha256", "0" * 64)
    assert status == 1 and "not the expected one" in err


def test_a_forged_value(qgpu_command, trace):
    _, path = trace
    at = forge(path)
    status, out, err = qgpu_command("verify", path)
    assert status == 1 and not out
    assert f"token {at} (number " in err and "the trace holds SVAL 11, the layers write SVAL 10" in err
    assert "expected: store data of lane 0 (thread 0) = 10" in err and "found: store data of lane 0 (thread 0) = 11" in err
    status, out, err = qgpu_command("verify", path, "--json")
    told = json.loads(out)
    assert status == 1 and told["valid"] is False and told["position"] == at and "SVAL 10" in told["what"]


def test_another_launch(qgpu_command, trace, tmp_path):
    source, path = trace
    launch = tmp_path / "launch.json"
    launch.write_text('{"block": [3], "args": [{"data": [5, 6, 8]}, {"zeros": 3}]}')
    status, _, err = qgpu_command("verify", path, "--source", source, "--launch", launch)
    assert status == 1 and "(the host's)" in err and "global word 2" in err
    source.write_text(KERNEL.replace("2 * a", "3 * a"))
    assert qgpu_command("verify", path, "--source", source)[0] == 1


def test_wrong_options(qgpu_command, trace, tmp_path):
    _, path = trace
    for words, says in (([tmp_path / "none"], "cannot read"), ([path, "--launch", "x"], "need --source"),
                        ([path, "--source", "none.cu"], "no such file"), ([path, "--setup-sha256", "12"], "64 hexadecimal digits"), ([tmp_path], "cannot read"), ([], "TRACE")):
        status, out, err = qgpu_command("verify", *words)
        assert status == 2 and says in err and not out, words
    status, _, err = qgpu_command("verify", path, "--model", tmp_path)
    assert status == 1 and "not a checkpoint folder" in err
