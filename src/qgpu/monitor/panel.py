"""A panel that shows the launches of this process: its own process, in this terminal or in a pane of tmux beside it.

    with Panel() as panel:                # the terminal is the panel's from the first launch on; at the end, until the user closes it
        qgpu.launch(..., tap=panel.tap)
    with Panel(beside=True) as panel:     # in tmux: half of the window, while this process goes on with its own half
        qgpu.launch(..., tap=panel.tap)   # any number of launches; the panel follows the newest
        panel.end()                       # each one's end, with an error's text if it failed

The launch writes its tokens to a folder and never waits for the panel, which looks at them ten times a second at a lower priority.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import QgpuError, UsageError
from ..runtime.engine_api import Engine
from ..runtime.prepare import Prepared
from ..runtime.progress import Progress
from .live import StreamWriter

INTERRUPTED = 130
"""The panel's exit status where the user asks the launch to stop."""
GOODBYE_SECONDS = 3.0
"""How long a panel may take to close."""


class Panel:
    """Opens with the first launch that is tapped. Use it in a `with`, or call `close`.

    progress: falls silent while the panel has the terminal. beside: in a pane of tmux beside this one.
    Raises UsageError where there is no terminal, no tmux, or no Textual.
    """

    def __init__(self, progress: Progress | None = None, beside: bool = False) -> None:
        if importlib.util.find_spec("textual") is None:
            raise UsageError("the panel needs the package textual", fix="pip install textual")
        if beside and not (os.environ.get("TMUX") and shutil.which("tmux")):
            raise UsageError("a panel beside this one needs tmux", why="this terminal is no pane of tmux", fix="start tmux, and this in it")
        if not beside and not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("the panel needs a terminal", why="standard input or standard error is none",
                             fix="run it in a terminal, or record with --trace FILE and look at it with qgpu watch FILE")
        self.progress, self.beside = progress, beside
        self.folder = Path(tempfile.mkdtemp(prefix="qgpu-panel-"))
        self.writer = StreamWriter(self.folder, self._look)
        self.process: subprocess.Popen | None = None
        self.opened = False

    @property
    def command(self) -> list[str]:
        """What shows the panel, in any terminal of this machine."""
        return [sys.executable, "-m", "qgpu", "watch", str(self.folder)]

    def __enter__(self) -> "Panel":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if not self.beside and (error is None or isinstance(error, QgpuError)):
            self.end("" if error is None else str(error))
            self.wait()
        self.close()

    def tap(self, ready: Prepared, engine: Engine) -> Engine:
        """For `qgpu.launch(..., tap=panel.tap)`: opens the panel if it is not open, and lets it see this launch."""
        tapped = self.writer.tap(ready, engine)
        self.open()
        return tapped

    def open(self) -> None:
        """Show the panel; without effect where it has been opened before."""
        if self.opened:
            return
        self.opened = True
        try:
            if self.beside:
                subprocess.run(["tmux", "split-window", "-h", "-d", "-t", os.environ.get("TMUX_PANE", ""), *self.command], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            else:
                self.process = subprocess.Popen(self.command)
                if self.progress is not None:
                    self.progress.first = 1e6  # seconds, longer than any launch
        except (OSError, subprocess.CalledProcessError) as e:
            raise UsageError(f"the panel does not start: {e}") from None

    def _look(self) -> None:
        """Between two tokens: whether the user wants the launch to stop."""
        if self.process is not None and self.process.poll() == INTERRUPTED:
            raise KeyboardInterrupt

    def end(self, error: str = "") -> None:
        """The launch is over; the panel says how it ended, and stays."""
        self.writer.end(error)

    def wait(self) -> None:
        """Until the user closes the panel, where it has taken this terminal."""
        if self.process is not None:
            self.process.wait()

    def close(self) -> None:
        """Take the panel and its folder away; a panel beside this one closes when it finds its folder gone."""
        self.writer.end()
        if self.process is not None:
            self.writer.close_readers()
            try:
                self.process.wait(GOODBYE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
