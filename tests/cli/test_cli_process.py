"""The command as a process of its own: closed pipes, interruption, module and script; and any words at all."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
PYTHON_M_QGPU = [sys.executable, "-m", "qgpu"]


def test_help_names_the_commands():
    done = subprocess.run([*PYTHON_M_QGPU, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and all(name in done.stdout for name in ("run", "kernels", "export"))
    done = subprocess.run([*PYTHON_M_QGPU, "run", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "zeros(16)" in done.stdout


def test_a_reader_that_leaves_early():
    command = subprocess.Popen([*PYTHON_M_QGPU, "run", KERNELS / "dot.cu", "--emit", "ptx"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command.stdout.close()
    err = command.stderr.read()
    command.wait(timeout=60)
    assert b"Traceback" not in err and b"BrokenPipe" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupting_a_compilation_leaves_no_traceback(tmp_path):
    program = ("import sys, time, qgpu.engine\n"
               "def slow(machine, **_):\n    print('waiting', flush=True)\n    time.sleep(60)\n"
               "qgpu.engine.make_engine = slow\n"
               "from qgpu.cli import main\nsys.exit(main(sys.argv[1:]))\n")
    command = subprocess.Popen([sys.executable, "-c", program, "run", KERNELS / "dot.cu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    assert command.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=30)
    assert command.returncode == 130 and err == "qgpu: interrupted\n"


def test_nothing_but_json_on_standard_output(qgpu_command):
    status, out, _ = qgpu_command("run", KERNELS / "vector_add.cu", "--json", "--check")
    assert status == 0 and json.loads(out) and out.count("\n") == 1


WORDS = st.sampled_from(["run", "kernels", "--launch", "--kernel", "--grid", "--block", "--arg", "--check", "--json", "--engine",
                         "sparse", "dense", "--emit", "blocks", "tokens", "ptx", "--frontend", "zig", "--max-tokens", "--steps", "--machine",
                         "article", "1", "4", "0", "-1", "4,1,1", "[1,2,3]", "zeros(3)", "u8:[1]", "@x.npy", "dot", "x.json", "",
                         str(KERNELS / "dot.cu"), str(KERNELS / "saxpy.cu")])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORDS | st.text(max_size=6), max_size=6))
def test_any_words(qgpu_command, words):
    status, out, err = qgpu_command("run", KERNELS / "dot.cu", *words)
    assert status in (0, 1, 2) and (status == 0 or err)
    if status == 2:
        assert out == ""


def test_export_refuses_what_it_must_not_replace(qgpu_command, tmp_path):
    (tmp_path / "notes.txt").write_text("keep me")
    status, _, err = qgpu_command("export", tmp_path)
    assert status == 2 and "not empty" in err
    status, _, err = qgpu_command("export", tmp_path, "--force")
    assert status == 2 and "something else" in err and (tmp_path / "notes.txt").read_text() == "keep me"
    status, _, err = qgpu_command("export", tmp_path / "notes.txt", "--force")
    assert status == 2 and "not a folder" in err
    status, _, err = qgpu_command("export", "bad\0name")
    assert status == 2 and err
