"""The stream of a launch in a folder: the launch appends to it and never waits, a panel in another process reads along.

For launch N (1, 2, ...) of a folder: `launch-N.json` says what the stream is of, `tokens-N.bin` has its ids (32 bits each, little-endian),
`end-N.json` appears when it is over. JSON files appear complete; the panel follows the newest launch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import QgpuError, UsageError
from ..files import whole_file
from ..machine.description import Machine, as_dict
from ..runtime.engine_api import Engine
from ..runtime.prepare import Prepared, block_places
from .replay import Replay
from .traces import machine_of

FLUSH_SECONDS = 0.05
"""Between two writes of a stream that goes fast."""
MOST_SETUP = 1 << 22
CLOSE = "close"
"""Name of the file that asks readers to go."""


def _write_json(path: Path, data: dict) -> None:
    with whole_file(path) as out:
        out.write(json.dumps(data).encode())


def _little(ids: Sequence[int]) -> bytes:
    words = array("I", ids)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


class StreamWriter:
    """Writes launches to a folder, which must exist and belong to this writer. `qgpu.launch(..., tap=writer.tap)` is all it takes:
    the launch's engine is wrapped, and every token that passes goes to the folder. on_flush is called now and then, between two tokens;
    what it raises stops the launch. Raises UsageError where the folder cannot be written."""

    def __init__(self, folder: str | Path, on_flush: Callable[[], None] | None = None,
                 clock: Callable[[], float] = time.perf_counter) -> None:
        self.folder, self.on_flush, self.clock = Path(folder), on_flush, clock
        self.number, self._out, self._held, self.running = 0, None, array("I"), False
        self._next = self.first_at = self.last_at = 0.0
        self.generated = 0

    def tap(self, ready: Prepared, engine: Engine) -> Engine:
        """The engine for this launch: the one given, with every token written down."""
        self.begin(ready.machine, ready.setup, block_places(ready.program.blocks), ready.kernel.short_name)
        return TappedEngine(engine, self)

    def begin(self, machine: Machine, setup: Sequence[int], places: dict[int, str], title: str) -> None:
        """A launch starts; the host wrote `setup`."""
        self.end()
        self.number += 1
        try:
            self._out = open(self.folder / f"tokens-{self.number}.bin", "xb", buffering=0)
            self._out.write(_little(setup))
            _write_json(self.folder / f"launch-{self.number}.json", {
                "machine": as_dict(machine), "setup": len(setup), "places": {str(b): p for b, p in places.items()}, "title": title,
                "pid": os.getpid()})
        except OSError as e:
            raise UsageError(f"cannot write the stream for the panel: {e}", where=str(self.folder)) from None
        self.generated, self._next, self.running = 0, self.clock() + FLUSH_SECONDS, True
        self.first_at = self.last_at = 0.0

    def token(self, token_id: int) -> None:
        """The model wrote one more token."""
        self._held.append(token_id)
        self.generated += 1
        now = self.last_at = self.clock()
        if self.generated == 1:
            self.first_at = now
        if now >= self._next:
            self.flush()
            self._next = now + FLUSH_SECONDS

    def flush(self) -> None:
        """What is held back goes to the folder. A full disk costs the panel its view, never the launch."""
        if self._out is not None and self._held:
            try:
                self._out.write(_little(self._held))
            except OSError:
                self._out.close()
                self._out = None
        self._held = array("I")
        if self.on_flush is not None:
            self.on_flush()

    def end(self, error: str = "") -> None:
        """The launch is over. error: what went wrong, in the words of its message."""
        if not self.running:
            return
        self.running = False
        on_flush, self.on_flush = self.on_flush, None
        self.flush()
        self.on_flush = on_flush
        if self._out is not None:
            self._out.close()
            self._out = None
        seconds = self.last_at - self.first_at
        try:
            _write_json(self.folder / f"end-{self.number}.json",
                        {"error": error, "speed": (self.generated - 1) / seconds if seconds > 0 else 0.0})
        except OSError:  # the same full disk, or the folder is gone
            pass

    def close_readers(self) -> None:
        """Ask panels that read along to close."""
        (self.folder / CLOSE).touch()


class TappedEngine:
    """An engine whose tokens a writer takes down. Implements runtime.engine_api.Engine."""

    def __init__(self, engine: Engine, writer: StreamWriter) -> None:
        self.engine, self.writer, self.machine = engine, writer, engine.machine

    def feed(self, ids: Sequence[int]) -> int:
        """As the engine's own; the token that it writes is taken down."""
        token = self.engine.feed(ids)
        if 0 <= token < 1 << 32:
            self.writer.token(token)
        return token

    def read_global(self, words: int) -> list[int]:
        """The first words of global memory."""
        return self.engine.read_global(words)

    def fork(self) -> Engine:
        """A second stream, which nobody takes down."""
        return self.engine.fork()

    def reset(self) -> None:
        """Back to the empty state."""
        self.engine.reset()


@dataclass
class Ended:
    """How a launch ended: its error message, or "", and generated tokens a second."""

    error: str
    speed: float


class StreamReader:
    """Follows a folder that a StreamWriter writes to. `poll` now and then; `replay` is the newest launch's, None before the first."""

    def __init__(self, folder: str | Path) -> None:
        self.folder, self.number = Path(folder), 0
        self.replay: Replay | None = None
        self.ended: Ended | None = None
        self._in, self._rest, self._pid = None, b"", 0

    def poll(self) -> bool:
        """Take in what has come. Returns whether a new launch began. Raises UsageError for a folder that holds no streams."""
        began = False
        while (self.folder / f"launch-{self.number + 1}.json").exists():
            self._open(self.number + 1)
            began = True
        if self._in is not None and self.ended is None:
            over = self.folder / f"end-{self.number}.json"
            is_over = over.exists()  # looked at before the tokens: what came before it is there
            self._read()
            if is_over:
                data = _read_json(over)
                self.ended = Ended(str(data.get("error", "")), float(data.get("speed", 0.0)))
            elif not _alive(self._pid):
                self.ended = Ended("the process of this launch is gone", 0.0)
        return began

    @property
    def closing(self) -> bool:
        """Whether the writer asks readers to go, or has taken the folder away."""
        return (self.folder / CLOSE).exists() or not self.folder.exists()

    def _open(self, number: int) -> None:
        head = self.folder / f"launch-{number}.json"
        data = _read_json(head)
        try:
            machine = machine_of(data["machine"])
            setup, title, pid = int(data["setup"]), str(data["title"]), int(data["pid"])
            places = {int(b): str(p) for b, p in data["places"].items()}
            if not 0 <= setup <= MOST_SETUP:
                raise ValueError(f"a setup of {setup} tokens")
        except (KeyError, TypeError, ValueError, AttributeError, QgpuError) as e:
            raise UsageError(f"this says nothing about a launch: {e}", where=str(head)) from None
        self.close()
        try:
            self._in = open(self.folder / f"tokens-{number}.bin", "rb", buffering=0)
        except OSError as e:
            raise UsageError(f"cannot read the stream: {e}", where=str(self.folder)) from None
        self.number, self._rest, self._pid, self.ended = number, b"", pid, None
        self.replay = Replay(machine, setup, places, title=title)

    def _read(self) -> None:
        data = self._rest + (self._in.read(1 << 22) or b"")
        whole = len(data) // 4 * 4
        self._rest = data[whole:]
        words = array("I", data[:whole])
        if sys.byteorder == "big":
            words.byteswap()
        try:
            self.replay.extend(words)
        except ValueError as e:
            self.ended = Ended(str(e), 0.0)

    def close(self) -> None:
        """Let go of the files."""
        if self._in is not None:
            self._in.close()
            self._in = None


def _read_json(path: Path) -> dict:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read it: {e}", where=str(path)) from None
    return data if isinstance(data, dict) else {}


def _alive(pid: int) -> bool:
    """Whether that process exists; True where this cannot be told."""
    if os.name != "posix" or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
