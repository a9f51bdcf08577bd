"""`compile_cuda`: check the source, pick a front-end, look in the cache, compile in a private folder."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from qgpu.cuda import cache as ptx_cache
from qgpu.cuda import frontends
from qgpu.cuda.frontends import FrontEnd
from qgpu.cuda.sandbox import MAX_OUTPUT_BYTES, TimedOut, run_limited
from qgpu.cuda.source import check_source
from qgpu.errors import FrontEndError, UsageError

_DEFINE = re.compile(r"[A-Za-z_]\w*(=[^\n\r\0]*)?")
_MESSAGE_LINES = 24
_INSTALL = "pip install 'qgpu[cuda]' (clang from PyPI; needs neither a GPU nor a CUDA toolkit), or give qgpu a .ptx file"


@dataclass(frozen=True)
class CudaResult:
    """PTX text, with the name of the front-end that wrote it and that front-end's version."""

    ptx: str
    frontend: str
    version: str


def compile_cuda(source: str, *, filename: str = "kernel.cu", frontend: str | None = None, defines: Iterable[str] = (),
                 timeout: float = 60.0, cache: bool = True) -> CudaResult:
    """Compile CUDA C++ to PTX without a GPU. The source is not trusted.

    source:   text of one .cu file; host code in it is dropped (zig, clang, nvcc).
    filename: used in messages and in the PTX's line table; no file of that name is read.
    frontend: "zig", "clang", "nvcc" or "nvrtc"; by default the first of these that is installed.
    defines:  macros, "NAME" or "NAME=VALUE".
    timeout:  seconds the compiler may take; it is ended with all its children after that.
    cache:    reuse PTX for the same source, options and compiler version (see `qgpu.cuda.cache`).

    Raises UsageError for a front-end that is unknown; FrontEndError: no compiler, the compiler's own message with
    file:line, out of time, or output too large.
    """
    label = _label(filename)
    defines = tuple(defines)
    for define in defines:
        if not _DEFINE.fullmatch(define):
            raise FrontEndError(f"not a macro definition: {define!r}", where=label, fix="write NAME or NAME=VALUE")
    source = check_source(source, label)
    chosen = _choose(frontend)
    name = f"qgpu_source_{hashlib.sha256(source.encode()).hexdigest()[:16]}.cu"
    entry = ptx_cache.key(chosen.name, chosen.version, *chosen.program, *chosen.flags(source), "defines", *defines, chosen.headers(), source)
    text = ptx_cache.load(entry) if cache else None
    if text is None:
        text = _compile(chosen, source, name, label, defines, timeout)
        if cache:
            ptx_cache.store(entry, text)
    return CudaResult(text.replace(name, label), chosen.name, chosen.version)


def _choose(name: str | None) -> FrontEnd:
    if name is None:
        for candidate in frontends.ORDER:
            if (found := frontends.find(candidate)) is not None:
                return found
        raise FrontEndError("no CUDA compiler found", why="looked for " + ", ".join(frontends.ORDER), fix=_INSTALL)
    if name not in frontends.ORDER:
        raise UsageError(f"no front-end is called {name!r}", fix="one of " + ", ".join(frontends.ORDER))
    if (found := frontends.find(name)) is None:
        there = ", ".join(f.name for f in frontends.available())
        raise FrontEndError(f"front-end {name} is not installed", fix=f"use one of those that are: {there}" if there else _INSTALL)
    return found


def _compile(chosen: FrontEnd, source: str, name: str, label: str, defines: tuple[str, ...], timeout: float) -> str:
    """Run the compiler; returns PTX in which the source is called `name`, whatever the folder was."""
    with tempfile.TemporaryDirectory(prefix="qgpu-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        (folder / name).write_text(source, "utf-8", newline="\n")
        chosen.prepare(folder, name)
        try:
            status, printed = run_limited(chosen.command(name, "out.ptx", source, defines), folder, timeout)
        except TimedOut:
            raise FrontEndError(f"{chosen.name} did not finish within {timeout:g} seconds", where=label,
                                fix="simplify templates and constant expressions, or allow more time") from None
        except OSError as error:
            raise FrontEndError(f"{chosen.name} does not start", why=str(error), fix=_INSTALL) from None
        output = folder / "out.ptx"
        if status != 0 or not output.is_file():
            raise _rejected(chosen, _without_folder(printed, folder).replace(name, label), status, label)
        if output.stat().st_size > MAX_OUTPUT_BYTES:
            raise FrontEndError("the compiled PTX is too large", where=label, why=f"the limit is {MAX_OUTPUT_BYTES} bytes")
        return _without_folder(output.read_bytes().decode("utf-8", "replace"), folder)


def _rejected(chosen: FrontEnd, printed: str, status: int, label: str) -> FrontEndError:
    """The compiler's own message, shortened, with the first error's place in front."""
    lines = [line for line in printed.splitlines() if line.strip()]
    place = re.search(re.escape(label) + r"(?::(\d+)(?::\d+)?: (?:fatal )?error|\((\d+)\): (?:catastrophic )?error)", printed)
    where = f"{label}:{place.group(1) or place.group(2)}" if place else label
    if len(lines) > _MESSAGE_LINES:
        lines = [*lines[:_MESSAGE_LINES], f"({len(lines) - _MESSAGE_LINES} more lines)"]
    if not lines:
        lines = [f"exit status {status}"]
    return FrontEndError(f"{chosen.name} cannot compile this file", where=where, why="\n       ".join(lines))


def _without_folder(text: str, folder: Path) -> str:
    return text.replace(f"{folder}/", "").replace(f"{folder}\\", "").replace(str(folder).replace("\\", "\\\\") + "\\\\", "")


def _label(filename: str) -> str:
    """The file name as it may stand in messages and PTX: printable, no quotation marks or line breaks."""
    return "".join(c if c.isprintable() and c not in '"\\' else "?" for c in filename) or "kernel.cu"
