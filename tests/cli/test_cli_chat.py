"""`qgpu chat`: from the command line to the end, commands, what happens without a model; the keyboard in a terminal of its own."""

import io
import json
import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("chat", "merge")]

from reference_engine import ReferenceEngine  # noqa: E402
from scripted import Script, calc, merged_tiny  # noqa: E402

from qgpu.chat import open as opening  # noqa: E402
from qgpu.chat.commands import Commands  # noqa: E402
from qgpu.chat.device import Device  # noqa: E402
from qgpu.chat.terminal import Lines, Terminal, printable  # noqa: E402
from qgpu.cli import main  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402
from qgpu.qwen.text import Text  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return merged_tiny(tmp_path_factory)


@pytest.fixture
def chat(model, monkeypatch, capsys):
    """Runs `qgpu chat MODEL` on lines of standard input, with a script: (status, output)."""
    real = opening.open_session

    def run(lines, answers, *options):
        def script(folder, screen, **more):
            session = real(folder, screen, chooser=Script(Text(folder), answers), **more)
            check, progress = session.toolbox.device.check, session.toolbox.device.progress
            session.toolbox.device = Device(lambda: ReferenceEngine(ARTICLE), check, progress)
            return session
        monkeypatch.setattr(opening, "open_session", script)
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        status = main(["chat", str(model), *options])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return status, out
    return run


def test_a_conversation_from_standard_input(chat, tmp_path):
    save, trace = tmp_path / "chat.json", tmp_path / "trace.jsonl"
    status, out = chat(["/trace", "what is 6 times 7?", "/kernels", "/trace", f"/trace {trace}", f"/save {save}", "/check off", "and 8 times 9?", "/reset", "/quit", "never"],
                       [calc("6 * 7"), "It is 42.", calc("8 * 9"), "72."])
    assert status == 1 and "nothing was launched yet" in out
    assert "> calc: 6 * 7\n  6 * 7 = 42\nIt is 42.\n" in out and "  8 * 9 = 72\n72.\n" in out and "a new conversation" in out
    assert "multiply" in out and "written by the host" in out and "EXEC" in out and "launches are not checked" in out
    data = json.loads(save.read_text())
    assert data["turns"][0]["calls"][0]["text"] == "6 * 7 = 42" and data["mode"] == "normal" and len(data["messages"]) == 5
    assert json.loads(trace.read_text().splitlines()[-1])["kind"] == "END" or '"END"' in trace.read_text()


def test_commands(chat):
    status, out = chat(["/help", "/mode", "/mode advanced", "/mode other", "/nothing", "/c off", "/check maybe", "/kernels add", "/kernels none", "/save", "/save /nowhere/at/all.json"], [])
    assert status == 1
    for text in ("/panel", "mode normal: expressions", "mode advanced: the model writes", "no mode 'other'", "no command /nothing", "launches are not checked",
                 "'maybe' is neither", "__global__ void add", "no kernel 'none'", "no file is named", "cannot be written"):
        assert text in out, text


def test_longer_messages():
    lines = Lines(lambda line: [], io.StringIO('one \\\ntwo\n"""three\nfour\n"""\n"""five"""\n'))
    assert [lines.read("") for _ in range(3)] == ["one \ntwo", "three\nfour", "five"]
    with pytest.raises(EOFError):
        lines.read("")


def test_completion():
    commands = Commands(None, None)
    assert commands.complete("/m") == ["/mode"] and commands.complete("/mode a") == ["advanced"] and commands.complete("hello") == []
    assert "/quit" in commands.complete("/") and commands.complete("/kernels floor") == ["floor_divide"] and commands.complete("/save /nowhere/x") == []


def test_the_terminal_is_not_ruled_by_the_model():
    out = io.StringIO()
    terminal = Terminal(out, colour=False)
    terminal.piece("a\x1b[2Jb\r\x07c\N{RIGHT-TO-LEFT OVERRIDE}d\ud800")
    terminal.end()
    assert out.getvalue() == "a\\x1b[2Jb\\x0d\\x07c\\u202ed\\ud800\n" and printable("\N{EURO SIGN}\ufffd\n") == "\N{EURO SIGN}\ufffd\n"


@pytest.mark.parametrize("words", [[], ["/nowhere/at/all"], ["a\0b"]])
def test_without_a_model(words, qgpu_command):
    status, out, err = qgpu_command("chat", *words)
    assert status == 2 and out == ""
    for text in ("python -m qgpu merge Qwen/Qwen3.5-2B", "GB", "Apache-2.0", "python -m qgpu calc"):
        assert text in err


def test_a_folder_without_a_machine(tmp_path, qgpu_command):
    status, _, err = qgpu_command("chat", tmp_path)
    assert status == 2 and "holds no model with a machine" in err and f"qgpu merge {tmp_path}" in err


def test_the_offer_to_build(monkeypatch, capsys):
    class Tty(io.StringIO):
        def isatty(self):
            return True
    built = []
    monkeypatch.setattr("sys.stdin", Tty())
    monkeypatch.setattr("sys.stdout", Tty())
    monkeypatch.setattr("builtins.input", lambda prompt: built.append(prompt) or "n")
    assert main(["chat"]) == 2 and "Download Qwen/Qwen3.5-2B and build qwen3.5-2b-gpu now?" in built[0]


DRIVER = """
import sys
sys.path[:0] = {paths!r}
from reference_engine import ReferenceEngine
from scripted import Script, calc
import itertools
from qgpu.chat import open as opening
from qgpu.chat.device import Device
from qgpu.cli import main
from qgpu.machine.description import ARTICLE
from qgpu.qwen.text import Text
real = opening.open_session
def script(folder, screen, **more):
    text = Text(folder)
    session = real(folder, screen, chooser=Script(text, [itertools.cycle(text.encode("again ")), "Good.", calc("factorial(12)"), "479001600."]), **more)
    class Slow(ReferenceEngine):
        def feed(self, ids):
            import time
            time.sleep(0.02)
            return super().feed(ids)
    made = []
    session.toolbox.device = Device(lambda: made.append(1) or (Slow if len(made) == 1 else ReferenceEngine)(ARTICLE), False, session.toolbox.device.progress)
    return session
opening.open_session = script
sys.exit(main(["chat", {model!r}, "--max-new-tokens", "100000"]))
"""


class Keyboard:
    """A process on a terminal of its own."""

    def __init__(self, code):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["NO_COLOR"], os.environ["TERM"] = "1", "dumb"
            os.execv(sys.executable, [sys.executable, "-c", code])
        self.seen = ""

    def until(self, pattern, seconds=400):
        """Read on until the pattern is in what came since the last call."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"no {pattern!r} in {self.seen[-600:]!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:
                    assert re.search(pattern, self.seen), f"ended without {pattern!r}: {self.seen[-600:]!r}"
        self.seen = self.seen[found.end():]

    def interrupt_until(self, pattern):
        """Ctrl-C until the pattern comes: one pressed just as Python's readline begins to wait is only seen with the next key."""
        for _ in range(40):
            self.type("\x03")
            try:
                return self.until(pattern, 5)
            except AssertionError as error:
                last = error
        raise last

    def type(self, text):
        os.write(self.fd, text.encode())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a pseudo-terminal")
def test_ctrl_c_stops_an_answer_and_a_launch_and_keeps_the_session(model):
    root = Path(__file__).resolve().parents[1]
    keyboard = Keyboard(DRIVER.format(paths=[str(root / n) for n in ("chat", "merge", "runtime")], model=str(model)))
    try:
        keyboard.until("you> ")
        keyboard.type("go on for ever\r")
        keyboard.until("again again again")
        keyboard.type("\x03")
        keyboard.until(r"\(stopped\)")
        keyboard.until("you> ")
        keyboard.type("still there?\r")
        keyboard.until(r"Good\.")
        keyboard.until("you> ")
        keyboard.type("factorial?\r")
        keyboard.until(r"> calc: factorial\(12\)")
        time.sleep(0.5)
        keyboard.type("\x03")
        keyboard.until(r"\(stopped\)")
        keyboard.until("you> ")
        keyboard.interrupt_until("Ctrl-D or /quit leaves")
        keyboard.type("/he\t\r")
        keyboard.until("/panel")
        keyboard.until("you> ")
        keyboard.type("\x04")
        assert os.waitstatus_to_exitcode(os.waitpid(keyboard.pid, 0)[1]) == 0
        keyboard.pid = None
    finally:
        if keyboard.pid:
            os.kill(keyboard.pid, signal.SIGKILL)
            os.waitpid(keyboard.pid, 0)
        os.close(keyboard.fd)


def test_help_has_examples(qgpu_command):
    status, out, _ = qgpu_command("chat", "--help")
    assert status == 0 and "examples:" in out and "--mode" in out
