"""`run --watch` from start to end in a terminal that is one, on the compiled layers: tmux shows what a person would see."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")]

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
ENDLESS = """// qgpu: {"block": [4], "args": [{"type": "i32", "data": [1]}]}
__global__ void endless(volatile int *a) { while (a[0]) a[0] = a[0] + 1; }
"""


class Tmux:
    """A tmux server of its own with one window."""

    def __init__(self, folder, columns=100, rows=30):
        self.command = ["tmux", "-S", str(folder / "socket"), "-f", os.devnull]
        environment = {k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR")}
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(folder), "bash", "--norc", "--noprofile", env=environment)

    def tmux(self, *words, **more):
        return subprocess.run([*self.command, *words], check=True, capture_output=True, text=True, timeout=20, **more).stdout

    def type(self, text):
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    def key(self, *keys):
        self.tmux("send-keys", *keys)

    def panes(self):
        return self.tmux("list-panes", "-F", "#{pane_id}").split()

    def wait(self, *texts, seconds=240.0, pane=0):
        """What a pane shows, once it shows all these."""
        until, screen = time.monotonic() + seconds, ""
        while time.monotonic() < until:
            panes = self.panes()
            screen = self.tmux("capture-pane", "-p", "-t", panes[pane]) if pane < len(panes) else ""
            if all(text in screen for text in texts):
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{texts} never came; the screen:\n{screen}")


@pytest.fixture
def terminal(tmp_path):
    made = Tmux(tmp_path)
    yield made
    made.tmux("kill-server")


def qgpu_words(*words):
    return " ".join([sys.executable, "-m", "qgpu", *map(str, words)])


def test_a_launch_from_start_to_end(terminal):
    terminal.type(qgpu_words("run", KERNELS / "collatz.cu", "--check", "--watch") + "; echo status=$?")
    terminal.wait("[END]  collatz on article", "the launch ends", "tokens/s", "16* 19*  9* 20*", "space pause", "q close")
    terminal.key("Home")
    terminal.wait("[PAUSED]", "warp 0 starts")
    terminal.key("n")
    screen = terminal.wait(">b0")
    assert "#### " in screen
    terminal.key("g", "b", "3", "Enter")
    terminal.wait(">b3", "block 3 runs for")
    terminal.key("Space")
    terminal.wait("[PLAYS 10/s]")
    terminal.key("q")
    screen = terminal.wait("status=0")
    assert "argument 2 (i32): [0, 1, 7, 8, 16, 19, 9, 20]" in screen and "no mismatch" in screen


def test_ctrl_c_stops_an_endless_launch(terminal, tmp_path):
    (tmp_path / "endless.cu").write_text(ENDLESS)
    terminal.type(qgpu_words("run", "endless.cu", "--watch") + "; echo status=$?")
    terminal.wait("[LIVE]", "endless on article")
    time.sleep(1.0)
    terminal.key("C-c")
    screen = terminal.wait("status=130")
    assert "interrupted" in screen and "Traceback" not in screen


def test_closing_the_panel_leaves_the_launch_alone(terminal, tmp_path):
    (tmp_path / "endless.cu").write_text(ENDLESS)
    terminal.type(qgpu_words("run", "endless.cu", "--watch", "--max-tokens", "20000") + "; echo status=$?")
    terminal.wait("[LIVE]", "endless on article")
    terminal.key("q")
    screen = terminal.wait("status=1")
    assert "did not end within 20,000 generated tokens" in screen and "Traceback" not in screen


def test_a_fault_is_shown_and_then_told(terminal, tmp_path):
    (tmp_path / "bad.cu").write_text('// qgpu: {"block": [4], "args": [{"type": "i32", "zeros": 4}]}\n'
                                     "__global__ void bad(int *a) { a[threadIdx.x + 9999] = 1; }\n")
    terminal.type(qgpu_words("run", "bad.cu", "--watch") + "; echo status=$?")
    terminal.wait("[TRAP]", "bad.cu:2")
    terminal.key("q")
    screen = terminal.wait("status=1")
    assert "bad.cu:2" in screen and "Traceback" not in screen


BESIDE = """
import numpy as np, qgpu
from qgpu.monitor.panel import Panel
with Panel(beside=True) as panel:
    for name in ("first", "second"):
        out = np.zeros(4, np.int32)
        qgpu.launch(f"__global__ void {name}(int *a) {{ a[threadIdx.x] = 5; }}", None, 1, 4, [out], tap=panel.tap)
        panel.end()
        input(f"after {name} ")
print("over")
"""


def test_a_panel_beside(tmp_path):
    (tmp_path / "beside.py").write_text(BESIDE)
    terminal = Tmux(tmp_path, 200, 40)
    try:
        terminal.type(f"{sys.executable} beside.py")
        terminal.wait("after first")
        terminal.wait("[END]  first on article", pane=1)
        terminal.key("Enter")
        terminal.wait("after second")
        terminal.wait("[END]  second on article", pane=1)
        terminal.key("Enter")
        terminal.wait("over")
        until = time.monotonic() + 20
        while len(terminal.panes()) > 1 and time.monotonic() < until:
            time.sleep(0.1)
        assert len(terminal.panes()) == 1
    finally:
        terminal.tmux("kill-server")
