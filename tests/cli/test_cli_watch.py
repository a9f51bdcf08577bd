"""`qgpu watch` and `run --watch`: what can be seen without a terminal, and what is said where it cannot be."""

import json
import os
import subprocess
import sys

import pytest

from qgpu.machine.description import DEFAULT
from qgpu.machine.tokens import Token, Vocabulary

KERNEL = """// qgpu: {"block": [4], "args": [{"type": "i32", "zeros": 4}]}
__global__ void k(int *a)
{
    int i = threadIdx.x;
    a[i] = 7 * i;
}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(KERNEL)
    return path


@pytest.fixture
def trace(qgpu_command, source, tmp_path):
    path = tmp_path / "k.jsonl"
    status, _, err = qgpu_command("run", source, "--trace", path)
    assert status == 0, err
    return path


def test_a_trace_as_text(qgpu_command, trace):
    status, out, err = qgpu_command("watch", trace, "--at", "end", "--text")
    assert status == 0 and not err
    lines = out.splitlines()
    assert len(lines) == 30 and max(map(len, lines)) <= 100
    assert lines[0].startswith(" [END]  k on article")
    assert "k.cu:" in out and {"0*", "7*", "14*", "21*"} <= set(out.split()) and "the launch ends" in out


def test_an_output_without_borders_gets_plain_ones(trace):
    for encoding in ("ascii", "cp1252"):
        done = subprocess.run([sys.executable, "-m", "qgpu", "watch", trace, "--text"], capture_output=True, timeout=60,
                              env=os.environ | {"PYTHONIOENCODING": encoding})
        text = done.stdout.decode("ascii")
        lines = text.splitlines()
        assert done.returncode == 0 and "\\u" not in text and len(lines) == 30 and max(map(len, lines)) <= 100
        assert lines[1].startswith("+- scheduler") and lines[2][0] == "|"


def test_places_follow_one_another(qgpu_command, trace):
    status, out, _ = qgpu_command("watch", trace, "--at", "b0", "--at", "+3", "--text", "--size", "160x50")
    assert status == 0 and len(out.splitlines()) == 50 and "[PAUSED]" in out
    status, _, err = qgpu_command("watch", trace, "--at", "b31", "--text")
    assert status == 2 and "block 31 does not come again" in err
    status, _, err = qgpu_command("watch", trace, "--at", "there", "--text")
    assert status == 2 and "is no place" in err


def test_a_picture(qgpu_command, trace, tmp_path):
    path = tmp_path / "k.svg"
    status, out, err = qgpu_command("watch", trace, "--svg", path)
    assert (status, out, err) == (0, "", "")
    assert path.read_text().startswith("<svg") and "scheduler" in path.read_text() and len(list(tmp_path.iterdir())) == 3
    status, _, err = qgpu_command("watch", trace, "--svg", tmp_path / "none" / "k.svg")
    assert status == 2 and "cannot write the picture" in err


def test_a_trap_is_shown(qgpu_command, tmp_path):
    source = tmp_path / "bad.cu"
    source.write_text(KERNEL.replace("a[i]", "a[i + 1000]"))
    status, _, err = qgpu_command("run", source, "--trace", tmp_path / "bad.jsonl", "--machine", "article")
    assert status == 1 and "bad.cu" in err
    status, out, _ = qgpu_command("watch", tmp_path / "bad.jsonl", "--at", "end", "--text")
    assert status == 0 and "[TRAP]" in out and "bad address" in out


def test_a_trace_that_breaks_off(qgpu_command, trace):
    trace.write_bytes(trace.read_bytes()[:-400])
    status, out, _ = qgpu_command("watch", trace, "--at", "end", "--text")
    assert status == 0 and "the file breaks off after token" in out and "[STOPPED]" in out


def test_a_launch_that_was_given_up(qgpu_command, source, tmp_path):
    path = tmp_path / "k.jsonl"
    status, _, err = qgpu_command("run", source, "--trace", path, "--max-tokens", "6")
    assert status == 1 and "did not end within 6" in err
    status, out, _ = qgpu_command("watch", path, "--at", "end", "--text")
    assert status == 0 and "[STOPPED]" in out and "no END: the stream stops here" in out


def test_a_trace_of_another_machine(qgpu_command, trace):
    status, _, err = qgpu_command("watch", trace, "--machine", "default", "--text")
    assert status == 2 and "of machine 'article', not of 'default'" in err and "leave --machine out" in err
    lines = trace.read_text().splitlines()
    first = json.loads(lines[0])
    del first["machine"]
    trace.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
    status, out, _ = qgpu_command("watch", trace, "--text")
    assert status == 0 and "on article" in out
    record = json.loads(lines[-1])
    record |= {"kind": "END", "id": Vocabulary(DEFAULT).id_of(Token("END"))}
    trace.write_text("\n".join([json.dumps(first), *lines[1:-1], json.dumps(record)]) + "\n")
    status, _, err = qgpu_command("watch", trace, "--text")
    assert status == 2 and f"k.jsonl:{len(lines)}: this trace is of another machine than the presets" in err


@pytest.mark.parametrize("data, message", [(b"", "no token"), (b"\0" * 99, "not JSON"), (KERNEL.encode(), "not JSON"), (b"{}\n", "no token's record")])
def test_files_that_are_no_traces(qgpu_command, tmp_path, data, message):
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    status, _, err = qgpu_command("watch", path, "--text")
    assert status == 2 and message in err and "x.jsonl" in err


def test_bad_options(qgpu_command, trace, tmp_path):
    for words, message in ((("--size", "big"), "is no size"), (("--size", "10x5"), "is no size"), (("--size", "9999x9999"), "is no size"),
                           (("--machine", "huge"), "no machine is called")):
        status, _, err = qgpu_command("watch", trace, "--text", *words)
        assert status == 2 and message in err
    status, _, err = qgpu_command("watch", tmp_path / "none.jsonl")
    assert status == 2 and "cannot read the trace" in err
    status, _, err = qgpu_command("watch", tmp_path)
    assert status == 2 and "no launch runs here" in err
    status, _, err = qgpu_command("watch", tmp_path, "--text")
    assert status == 2 and "a running launch has no" in err


def test_without_a_terminal(qgpu_command, source, trace):
    status, out, err = qgpu_command("watch", trace)
    assert status == 2 and "needs a terminal" in err and "--text" in err and not out
    status, out, err = qgpu_command("run", source, "--watch")
    assert status == 2 and "needs a terminal" in err and "--trace" in err and not out


def test_without_textual(qgpu_command, source, trace, monkeypatch):
    import importlib.util
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "textual" else find(name, *more))
    for words in (("watch", trace), ("run", source, "--watch")):
        status, _, err = qgpu_command(*words)
        assert status == 2 and "pip install textual" in err
