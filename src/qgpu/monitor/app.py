"""The panel alone in a terminal: an app around one Monitor, and the process that shows a running launch."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence

from textual.app import App, ComposeResult
from textual.binding import Binding

from .panel import INTERRUPTED
from .view import View
from .widget import Monitor


class WatchApp(App[int]):
    """A Monitor over the whole terminal. Its return value is 0, or INTERRUPTED after Ctrl-C."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "Monitor"
    TITLE = "qgpu"
    BINDINGS = [Binding("q,ctrl+q", "leave(0)", "close"), Binding("ctrl+c", f"leave({INTERRUPTED})", show=False, priority=True)]

    def __init__(self, view: View) -> None:
        # Without colour the terminal's own two are used, and marks say the rest.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.view = view

    def compose(self) -> ComposeResult:
        yield Monitor(self.view, more_keys="q close")

    def on_mount(self) -> None:
        if self.view.reader is not None:
            self.set_interval(0.2, self._look)

    def _look(self) -> None:
        if self.view.closing:
            self.exit(0)

    def action_leave(self, status: int) -> None:
        self.exit(status)


def screen_text(app: App) -> str:
    """What a running app's screen shows, without styles."""
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips())


def picture(view: View, size: tuple[int, int], keys: Sequence[str] = ()) -> tuple[str, str]:
    """The panel of a view at a size (columns, rows), after some keys, without a terminal: (text, SVG)."""
    async def draw() -> tuple[str, str]:
        app = WatchApp(view)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            for key in keys:
                await pilot.press(key)
            await pilot.pause()
            app.query_one(Monitor).tick()
            await pilot.pause()
            svg = app.export_screenshot(title=f"qgpu watch {view.player.replay.title if view.player else ''}", simplify=True)
            return screen_text(app), re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fonts that it would fetch
    return asyncio.run(draw())


def run_panel(view: View) -> int:
    """Show a view until the user closes it, or the launch's side does. Returns 0 or INTERRUPTED."""
    return WatchApp(view).run() or 0
