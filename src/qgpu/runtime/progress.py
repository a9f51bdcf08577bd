"""A line on standard error while a launch takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

FIRST = 1.0
"""Seconds before anything is shown."""
BETWEEN_TTY, BETWEEN_PLAIN = 0.5, 10.0
"""Seconds between updates: a line rewritten in place on a terminal, a fresh line elsewhere."""


class Progress:
    """Counts generated tokens and shows them with their speed. Call `begin`, then `step` after each token, and `close` at the end."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.perf_counter, first: float = FIRST) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.clock, self.first = clock, first
        self.terminal = self.stream.isatty()
        self.tokens, self.shown = 0, False
        self.start = self.next_at = 0.0

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Say what is being done, if it takes longer than a second."""
        def show() -> None:
            self.stream.write(text + "\n")
            self.stream.flush()
        timer = threading.Timer(self.first, show)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def begin(self) -> None:
        """The model starts to write."""
        self.tokens, self.start = 0, self.clock()
        self.next_at = self.start + self.first

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
