"""A line on standard error while a launch takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

FIRST = 1.0
"""Seconds before anything is shown."""
BETWEEN_TTY, BETWEEN_PLAIN = 0.5, 10.0
"""Seconds between updates: a line rewritten in place on a terminal, a fresh line elsewhere."""


class Progress:
    """Counts generated tokens and shows them with their speed. Call `begin`, then `step` after each token, and `close` at the end."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.terminal = self.stream.isatty()
        self.tokens, self.shown = 0, False
        self.start = self.next_at = 0.0

    def begin(self) -> None:
        """The model starts to write."""
        self.tokens, self.start = 0, self.clock()
        self.next_at = self.start + FIRST

    def step(self) -> None:
        """One more token was generated."""
        self.tokens += 1
        if self.clock() >= self.next_at:
            self._show()

    def _show(self) -> None:
        now = self.clock()
        self.next_at = now + (BETWEEN_TTY if self.terminal else BETWEEN_PLAIN)
        text = f"{self.tokens:,} tokens, {self.tokens / (now - self.start):,.0f} tokens/s"
        self.stream.write(f"\r{text}\x1b[K" if self.terminal else text + "\n")
        self.stream.flush()
        self.shown = True

    def close(self) -> None:
        """Take the line off a terminal again."""
        if self.shown and self.terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
        self.shown = False
