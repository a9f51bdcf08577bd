"""What a panel looks at: a recorded stream, or a folder in which launches appear. Keeps cursor, speed and notices; draws nothing."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import QgpuError, UsageError
from .live import StreamReader
from .replay import Player, Replay
from .signals import StageSignals
from .state import State
from .traces import Trace

RATE_SECONDS = 2.0
"""Tokens a second of a live launch are counted over so long."""

HOW_IT_ENDED = {"TRAP": "TRAP: an active lane used a bad address", "FOREIGN": "the model wrote a token that only the host may write",
                "": "no END: the stream stops here"}


class View:
    """Give it a trace, or the folder of a StreamWriter. `tick` now and then; then read it. notice: what a panel should say, or ""."""

    def __init__(self, trace: Trace | None = None, folder: str | Path | None = None, title: str = "",
                 clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock, self.notice, self.hexadecimal = clock, "", False
        self.reader = StreamReader(folder) if folder is not None else None
        self.player: Player | None = None
        self._then, self._counts, self._rate = clock(), deque(), 0.0
        self.values = False  # whether stage results are read from the layers
        self._signals: tuple[Replay, StageSignals] | None = None
        self._wanted, self._reader_thread = -1, None
        if trace is not None:
            self.player = Player(Replay(trace.machine, trace.setup, trace.places, trace.ids, title))
            self.player.tick(0.0)
            if trace.cut:
                self.notice = f"the file breaks off after token {len(trace.ids) - 1:,}"

    @property
    def state(self) -> State | None:
        """The machine at the cursor; None before there is a stream."""
        return self.player.replay.state if self.player else None

    @property
    def closing(self) -> bool:
        """Whether the launch's side asks the panel to close."""
        return self.reader is not None and self.reader.closing

    def tick(self) -> None:
        """Take in what has come, and move on by the time that has passed."""
        now = self.clock()
        passed, self._then = now - self._then, now
        if self.reader is not None:
            try:
                began = self.reader.poll()
            except UsageError as error:
                self.notice = str(error).split("\n")[0]
                began = False
            if began:
                self.player, self.notice = Player(self.reader.replay, live=True, done=False), ""
                self._counts.clear()
            if self.player is not None:
                self._count(now)
                if self.reader.ended is not None and not self.player.done:
                    self._over(self.reader.ended.error)
        if self.player is not None:
            self.player.tick(passed)
            if self.values and not self.player.live:
                self._want_values()

    # ---- stage results from the layers ----------------------------------------------------------------------------
    def stage_values(self) -> Mapping[tuple[int, int], int]:
        """(stage, lane) -> result of the pass at the cursor, as far as it has been read from the layers; see qgpu.monitor.signals."""
        if not self.values or self._signals is None or self._signals[0] is not self.player.replay or self.state.running is None:
            return {}
        return self._signals[1].known(self.state.pass_at) or {}

    def read_values(self, wanted: Callable[[], bool] = lambda: True) -> None:
        """Read the results of the pass at the cursor, from the first token on if need be. Raises QgpuError where that is not possible."""
        replay, at = self.player.replay, self.state.pass_at
        if at < 0:
            return
        if self._signals is None or self._signals[0] is not replay:
            self._signals = replay, StageSignals(replay.machine, replay.ids, replay.setup)
        self._signals[1].at(at, wanted)

    def _want_values(self) -> None:
        """Have another thread read them, unless it is at it."""
        self._wanted = at = self.state.pass_at
        if at < 0 or self.stage_values() or (self._reader_thread is not None and self._reader_thread.is_alive()):
            return

        def read() -> None:
            try:
                self.read_values(lambda: self.values and self._wanted == at)
            except QgpuError as error:
                self.values, self.notice = False, str(error).replace("\n ", ";")
        self._reader_thread = threading.Thread(target=read, daemon=True)
        self._reader_thread.start()

    def toggle_values(self) -> str:
        """Read stage results from the layers, or no longer. Returns what to say about it."""
        self.values = not self.values
        return "stage results that the stream does not say are read between the layers, marked ~" if self.values else "the stream alone"

    def _over(self, error: str) -> None:
        """The launch has ended; the panel stays where it is."""
        self.player.done = True
        if self.player.live:
            self.player.cursor, self.player.live = self.player.end, False
        self.notice = error.split("\n")[0] if error else ""

    def _count(self, now: float) -> None:
        counts = self._counts
        counts.append((now, self.player.end))
        while now - counts[0][0] > RATE_SECONDS:
            counts.popleft()
        (first, before), (last, after) = counts[0], counts[-1]
        self._rate = (after - max(before, self.player.replay.setup)) / (last - first) if last > first else 0.0

    @property
    def rate(self) -> float:
        """Tokens a second that the model writes, or wrote on the whole; 0 where that is not known."""
        if self.reader is not None and self.reader.ended is not None:
            return self.reader.ended.speed
        return max(0.0, self._rate)

    @property
    def mode(self) -> str:
        """One word, or two, for what the cursor does."""
        p = self.player
        if p is None:
            return "WAITING"
        if p.live:
            return "LIVE"
        if p.replay.state.position != p.cursor:
            return "SEEKING"
        if p.playing:
            return f"PLAYS {p.speed:,}/s"
        return (p.replay.state.ended or "STOPPED") if p.done and p.cursor == p.end else "PAUSED"

    def headline(self) -> str:
        """Launch, place in the stream, speed: one line."""
        if self.player is None:
            return "waiting for a launch"
        p, s = self.player, self.state
        parts = [f"{p.replay.title} on {s.machine.name}",
                 f"token {max(s.position - 1, 0):,} of {p.end - 1:,}, model's {s.generated:,} of {max(0, p.end - p.replay.setup):,}"]
        if self.rate:
            parts.append(f"{self.rate:,.0f} tokens/s")
        return "  ".join(parts)

    def line(self) -> str:
        """The notice, or how the stream ended where the cursor is at its end, or the current token in words."""
        p, s = self.player, self.state
        if self.notice or p is None:
            return self.notice
        said = f"token {s.said[-1].position}: {s.said[-1].meaning}" if s.said else "no token yet"
        if p.done and p.cursor == p.end == s.position and s.ended != "END":
            return f"{HOW_IT_ENDED[s.ended]}; {said}"
        return said
