"""Ctrl-C in a chat: it stops what is being done, never the session."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupts:
    """While an answer is written, the first Ctrl-C is remembered for `stopped`, so that no forward pass is cut in two; a second one,
    and any during a launch, raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self.asked = False
        self.at_once = False

    def stopped(self) -> bool:
        """Whether the user wants the answer to end."""
        return self.asked

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """One question. Outside of the main thread nothing is caught."""
        self.asked = self.at_once = False
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def launching(self) -> Iterator[None]:
        """Inside: a launch, which Ctrl-C ends at once."""
        self.at_once = True
        if self.asked:
            raise KeyboardInterrupt
        try:
            yield
        finally:
            self.at_once = False

    def _handle(self, number: int, frame: object) -> None:
        if self.at_once or self.asked:
            raise KeyboardInterrupt
        self.asked = True
