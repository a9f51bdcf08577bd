"""The monitor beside the chat: in a pane of tmux, or in another terminal that the user opens."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from ..monitor.live import StreamWriter
from ..monitor.panel import Panel
from .device import Device


class Beside:
    """Shows the launches of a device while it is on. Call `close` at the end."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._panel: Panel | None = None
        self._writer: StreamWriter | None = None
        self._folder: Path | None = None

    def set(self, on: bool | None) -> str:
        """Show or hide the panel, or the other one for None; a line that says what happened. Raises UsageError."""
        shown = self._panel is not None or self._writer is not None
        on = not shown if on is None else on
        if not on:
            self.close()
            return "the panel is off"
        if shown:
            return "the panel is on"
        if os.environ.get("TMUX") and shutil.which("tmux"):
            self._panel = Panel(beside=True)
            self.device.tap, self.device.ended = self._panel.tap, self._panel.end
            return "the panel opens beside this one with the next launch"
        self._folder = Path(tempfile.mkdtemp(prefix="qgpu-panel-"))
        self._writer = StreamWriter(self._folder)
        self.device.tap, self.device.ended = self._writer.tap, self._writer.end
        return f"the panel is on; in another terminal of this machine: {sys.executable} -m qgpu watch {self._folder}"

    def close(self) -> None:
        """Take the panel away."""
        self.device.tap = self.device.ended = None
        if self._panel is not None:
            self._panel.close()
        if self._writer is not None:
            self._writer.end()
            shutil.rmtree(self._folder, ignore_errors=True)
        self._panel = self._writer = self._folder = None
