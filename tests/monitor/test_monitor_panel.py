"""The panel in Textual's own harness: what it shows at two sizes (kept as text in snapshots/), and what its keys do.

QGPU_WRITE_SNAPSHOTS=1 writes the snapshots anew; look at what changed before you keep it.
"""

import asyncio
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from monitor_streams import ids_of, trace_of
from textual.app import App
from textual.widgets import Static

from qgpu.monitor.app import WatchApp, picture, screen_text
from qgpu.monitor.live import StreamWriter
from qgpu.monitor.panel import INTERRUPTED
from qgpu.monitor.view import View
from qgpu.monitor.widget import Monitor
from qgpu.runtime.trace import write_trace

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = ((100, 30), (200, 60))

SCENES = {  # stream, jumps to the moment
    "divergent_loop": ("loop", ("b1", "b1", "+3")),         # lanes 0 and 1 have left, 2 and 3 go round
    "barrier": ("barrier", ("w1", "b0", "+40")),            # warp 0 waits, warp 1 stores to shared memory
    "store": ("loop", ("b2", "m10")),                       # three of four lanes have stored
}


def view_at(scene):
    name, jumps = SCENES[scene]
    view = View(trace_of(name), title=name)
    for jump in jumps:
        assert view.player.jump(jump) == ""
        view.player.tick(0.0)
    return view


def run(view, use, size=(100, 30)):
    """Run the panel's app without a terminal; `use` is given it and its pilot."""
    async def body():
        app = WatchApp(view)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await use(app, pilot)
        return app.return_value
    return asyncio.run(body())


def snapshot(scene, size):
    return SNAPSHOTS / "{}-{}x{}.txt".format(scene, *size)


@pytest.mark.parametrize("size", SIZES, ids=lambda s: "{}x{}".format(*s))
@pytest.mark.parametrize("scene", SCENES)
def test_snapshots(scene, size):
    text, _ = picture(view_at(scene), size)
    path = snapshot(scene, size)
    if os.environ.get("QGPU_WRITE_SNAPSHOTS"):
        path.write_text(text + "\n", encoding="utf-8")
    lines = text.split("\n")
    assert len(lines) == size[1] and max(map(len, lines)) <= size[0]
    assert text + "\n" == path.read_text(encoding="utf-8")


def pane(text, title):
    """The lines inside a pane, by its title."""
    lines = text.split("\n")
    top = next(i for i, line in enumerate(lines) if f"─ {title}" in line)
    left = lines[top].index(f"─ {title}") - 1
    right = lines[top].index("╮", left)
    inside = []
    for line in lines[top + 1:]:
        if line[left] == "╰":
            return inside
        inside.append(line[left + 1:right].rstrip())
    raise AssertionError("a pane without an end")


@pytest.mark.parametrize("size", SIZES, ids=lambda s: "{}x{}".format(*s))
def test_the_scenes_show_what_happens(size):
    """The facts that the snapshots are there for, said in words; test_snapshots holds the panel to these files."""
    text = snapshot("divergent_loop", size).read_text(encoding="utf-8")
    assert pane(text, "scheduler")[0] == ">w0 runs    b1   oo##" and pane(text, "scheduler")[1].startswith(" w1 fresh        ..--")
    assert any(line.startswith(">b1       x2") for line in pane(text, "program"))
    text = snapshot("barrier", size).read_text(encoding="utf-8")
    scheduler = [line.replace(" ", "") for line in pane(text, "scheduler")]
    assert scheduler[0] == "w0barrier" + "=" * 32 and re.fullmatch(r">w1runsb0o{16}#{4}\+{12}", scheduler[1])
    assert "s[" in "".join(pane(text, "stages"))
    text = snapshot("store", size).read_text(encoding="utf-8")
    stages = pane(text, "stages")
    assert stages[2].split()[-4:] == ["g[8]*", "g[9]*", "g[10]*", "_"] and stages[5].split()[-4:] == ["0*", "1*", "3*", "_"]
    assert [word for line in pane(text, "memory") for word in line.split() if "*" in word] == ["0*", "1*", "3*"]
    assert pane(text, "token stream")[-1].split()[2:4] == ["MEM", "10"]


def test_without_colour(monkeypatch):
    """The same text: marks say everything."""
    coloured, _ = picture(view_at("store"), (100, 30))
    monkeypatch.setenv("NO_COLOR", "1")

    async def use(app, pilot):
        await pilot.pause(0.15)
        assert app.no_color and app.native_ansi_color
        assert screen_text(app) == coloured
    run(view_at("store"), use)


def drawn_on_a_terminal(path, environment):
    """What `qgpu watch` sends to a terminal of 100 by 30 until it is told to close."""
    import fcntl
    import pty
    import struct
    import termios
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen([sys.executable, "-m", "qgpu", "watch", str(path)], stdin=slave, stdout=slave, stderr=slave,
                               env=os.environ | {"TERM": "xterm-256color"} | environment, start_new_session=True)
    os.close(slave)
    data, until = b"", time.monotonic() + 30
    try:
        while b"close" not in data and time.monotonic() < until:  # the last word of the bottom line
            if select.select([master], [], [], 0.2)[0]:
                data += os.read(master, 1 << 16)
        os.write(master, b"q")
        while process.poll() is None and time.monotonic() < until:
            if select.select([master], [], [], 0.2)[0]:
                try:
                    data += os.read(master, 1 << 16)
                except OSError:  # closed
                    break
        assert process.wait(10) == 0
    finally:
        process.kill()
        os.close(master)
    return data.decode(errors="replace")


@pytest.mark.skipif(os.name != "posix", reason="needs pseudo-terminals")
def test_no_colour_on_a_terminal(tmp_path):
    trace = trace_of("loop")
    path = tmp_path / "loop.jsonl"
    write_trace(path, trace.machine, trace.ids, trace.setup, trace.places)
    colour = re.compile(r"\x1b\[[0-9;]*(?:[34]8;|\b(?:3[0-7]|4[0-7]|9[0-7]|10[0-7])(?=[;m]))[0-9;]*m")
    assert colour.search("\x1b[1;38;5;114m") and colour.search("\x1b[31m") and not colour.search("\x1b[0m\x1b[39m\x1b[1;49m")
    data = drawn_on_a_terminal(path, {"NO_COLOR": "1"})
    assert "token stream" in data and not colour.search(data)


def test_keys_walk_through():
    view = View(trace_of("loop"), title="loop")
    setup = view.player.replay.setup

    async def use(app, pilot):
        await pilot.press("right", "right", "right", "left")
        assert view.player.cursor == setup + 2 and view.mode == "PAUSED"
        await pilot.press("pagedown")
        assert view.player.cursor == min(setup + 102, view.player.end)
        await pilot.press("home")
        assert view.player.cursor == setup
        await pilot.press("n", "n")
        assert view.state.said[-1].name.startswith("EXEC 1")
        await pilot.press("p")
        assert view.state.said[-1].name.startswith("EXEC 0")
        await pilot.press("end")
        assert view.mode == "END" and "[END]" in screen_text(app)
        await pilot.press("plus")
        assert "plays 20 tokens a second" in screen_text(app)
        await pilot.press("home", "space")
        assert view.mode == "PLAYS 20/s"
        await pilot.pause(0.4)
        await pilot.press("space")
        assert setup < view.player.cursor < view.player.end and view.mode == "PAUSED"
        await pilot.press("x")
        assert view.hexadecimal
    run(view, use)


def test_jumping():
    view = View(trace_of("loop"), title="loop")

    async def use(app, pilot):
        await pilot.press("g", *"b2", "enter")
        assert view.state.said[-1].name.startswith("EXEC 2")
        await pilot.press("g", *"b99", "enter")
        await pilot.pause()
        assert "no block 99" in screen_text(app)
        at = view.player.cursor
        await pilot.press("g", "x", "q", "4", "backspace")
        assert "jump to: xq_" in screen_text(app) and not view.hexadecimal
        await pilot.press("escape")
        assert "jump to" not in screen_text(app) and view.player.cursor == at
        await pilot.press("right")
        assert view.player.cursor == at + 1 and "no block 99" not in screen_text(app)
    run(view, use)


def test_help_says_keys_and_marks():
    async def use(app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        assert "keys and marks" in screen_text(app) and "waits at a barrier" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "keys and marks" not in screen_text(app)
    run(View(trace_of("loop")), use)


@pytest.mark.parametrize("key, status", [("q", 0), ("ctrl+c", INTERRUPTED)])
def test_leaving(key, status):
    async def use(app, pilot):
        await pilot.press(key)
    assert run(View(trace_of("loop")), use) == status


def test_any_size():
    async def use(app, pilot):
        for columns, rows in ((60, 20), (1, 1), (300, 100), (20, 6), (100, 30)):
            await pilot.resize_terminal(columns, rows)
            await pilot.press("n")
            text = screen_text(app)
            if columns >= 60:
                assert "scheduler" in text and "stages" in text and "token stream" in text
            assert ("program" in text) == ("memory" in text) == (columns >= 90)
    run(View(trace_of("barrier")), use)


def test_a_running_launch(tmp_path):
    machine, ids, setup = ids_of("loop")
    writer = StreamWriter(tmp_path)
    view = View(folder=tmp_path)

    async def use(app, pilot):
        assert "waiting for a launch" in screen_text(app)
        writer.begin(machine, ids[:setup], {}, "live")
        for token in ids[setup:setup + 20]:
            writer.token(token)
        writer.flush()
        await pilot.pause(0.3)
        assert "[LIVE]  live on article" in screen_text(app) and "model's 20 of 20" in screen_text(app)
        await pilot.press("left")
        for token in ids[setup + 20:]:
            writer.token(token)
        writer.end("dot.cu:7: it went wrong\n  why: a reason")
        await pilot.pause(0.3)
        assert f"model's 19 of {len(ids) - setup}" in screen_text(app) and "dot.cu:7: it went wrong" in screen_text(app)
        await pilot.press("end")
        await pilot.pause()
        assert "[END]" in screen_text(app)
        writer.close_readers()
        await pilot.pause(0.5)
        assert not app.is_running
    run(view, use)
    view.reader.close()


def test_beside_other_things():
    """The widget in an app of somebody else's."""
    class Other(App):
        def compose(self):
            yield Static("a chat")
            yield Monitor(View(trace_of("loop"), title="loop"))

    async def body():
        app = Other()
        async with app.run_test(size=(100, 34)) as pilot:
            await pilot.pause()
            await pilot.press("tab", "n")
            await pilot.pause()
            assert "a chat" in screen_text(app) and ">b0" in screen_text(app)
    asyncio.run(body())
