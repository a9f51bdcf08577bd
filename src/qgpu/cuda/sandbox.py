"""Run a compiler on untrusted input: an argument list, a private folder, limits on time, memory and output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

MAX_MESSAGE_BYTES = 64 * 1024
MAX_OUTPUT_BYTES = 16 << 20
MAX_MEMORY_BYTES = 6 << 30

# The only variables a compiler sees: enough to start it, nothing that adds include paths or options.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "COMSPEC", "PATHEXT")


class TimedOut(Exception):
    """The command ran past its time limit and was ended, with all its children."""


def run_limited(argv: list[str], folder: Path, timeout: float) -> tuple[int, str]:
    """Run `argv` in `folder`; returns (exit status, what it printed). Raises TimedOut, or OSError if it cannot start."""
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    env.update(HOME=str(folder), TMPDIR=str(folder), TMP=str(folder), TEMP=str(folder), LC_ALL="C")
    printed = folder / "messages.txt"
    own_group = {"start_new_session": True} if os.name == "posix" else {}
    with open(printed, "wb") as out:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **own_group)
    try:
        _limit(process.pid)
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise TimedOut from None
    finally:
        _end(process)
    with open(printed, "rb") as text:
        return status, text.read(MAX_MESSAGE_BYTES).decode("utf-8", "replace")


def _limit(pid: int) -> None:
    """Bound memory and file size of the process and all it starts (Linux; elsewhere only time is bounded)."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    for limit, value in ((resource.RLIMIT_AS, MAX_MEMORY_BYTES), (resource.RLIMIT_FSIZE, 4 * MAX_OUTPUT_BYTES), (resource.RLIMIT_CORE, 0)):
        try:
            resource.prlimit(pid, limit, (value, value))
        except (OSError, ValueError):
            pass  # already ended, or a tighter limit is in force


def _end(process: subprocess.Popen) -> None:
    """End the process and whatever it started."""
    if os.name == "posix":
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    elif process.poll() is None:
        process.kill()
    process.wait()
