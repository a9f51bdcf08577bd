"""The one family of errors a user can meet.

Every error says *what* went wrong, *where* (``file:line``, a PTX line, an argument), *why*, and what to *do*.
The command line prints ``str(error)`` and exits with ``error.exit_code``; nobody sees a traceback for bad input.
"""

from __future__ import annotations


class QgpuError(Exception):
    """Base of all errors that qgpu raises for bad input or a failed launch.

    what:  one sentence, without a full stop.
    where: place in the user's material, such as ``dot.cu:7`` or ``argument 3``.
    why:   the reason, if it is not plain from ``what``.
    fix:   what the user can change.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        self.what, self.where, self.why, self.fix = what, where, why, fix
        super().__init__(self.render())

    def render(self) -> str:
        """The message as the command line prints it: at most a few lines."""
        head = f"{self.where}: {self.what}" if self.where else self.what
        lines = [head]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.fix:
            lines.append(f"  try: {self.fix}")
        return "\n".join(lines)


class UsageError(QgpuError):
    """A wrong option, launch file or argument."""

    exit_code = 2


class FrontEndError(QgpuError):
    """The CUDA compiler is missing, failed, or took too long."""


class PtxError(QgpuError):
    """PTX that does not parse."""


class UnsupportedError(QgpuError):
    """Valid PTX that this machine cannot run; lists every offending place at once."""


class LoweringError(QgpuError):
    """A kernel that does not fit the machine (registers, blocks, words)."""


class CompileError(QgpuError):
    """The circuit compiler refuses a layer: ranges that break exactness, or a budget that does not suffice."""


class FaultError(QgpuError):
    """A launch went wrong while running: out of bounds, uninitialised, deadlock, step limit."""


class CheckError(QgpuError):
    """The token stream differs from the reference interpreter's."""


class CheckpointError(QgpuError):
    """A checkpoint, config or tensor file that cannot be used."""
