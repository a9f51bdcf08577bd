"""`qgpu watch`: the machine's panel over a recorded token stream, or over a launch that runs."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
from pathlib import Path

from .cli_options import add_machine_option, chosen_machine
from .errors import UsageError
from .files import whole_file

LOWER_PRIORITY = 10
"""By how much a panel of a running launch is nicer than the launch."""
LEAST, MOST = (40, 12), (400, 200)
PLAIN = str.maketrans("\u256d\u256e\u256f\u2570\u2500\u2502\u2190\u2192", "++++-|<>")
"""Borders and arrows for an output that has ASCII only, or an old code page."""

EXAMPLES = """examples:
  python -m qgpu run kernels/collatz.cu --trace collatz.jsonl
  python -m qgpu watch collatz.jsonl
  python -m qgpu watch collatz.jsonl --at b3 --text
  python -m qgpu run kernels/collatz.cu --watch

Keys: space pauses and goes on, arrows step, n and p go by passes, + and - change the speed, g jumps, ? lists all keys and marks, q closes.
A place is a token's number, b7 (block 7 runs next), w2 (warp 2's next turn), m12 or s12 (next store to
global or shared word 12), start or end."""


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser("watch", allow_abbrev=False, help="watch the machine go through a token stream", epilog=EXAMPLES,
                                 formatter_class=argparse.RawDescriptionHelpFormatter,
                                 description="Show warps, lanes, program, stages, registers, memory and tokens of a recorded launch.")
    parser.add_argument("trace", metavar="TRACE", help="a file that run --trace wrote; or the folder of a running launch")
    parser.add_argument("--at", metavar="PLACE", action="append", help="begin at this place; may be repeated, one after the other")
    parser.add_argument("--values", action="store_true", help="stage results that the stream does not say: read them between the layers")
    parser.add_argument("--text", action="store_true", help="print the panel as text and end")
    parser.add_argument("--svg", metavar="FILE", help="write the panel as a picture and end")
    parser.add_argument("--size", metavar="COLUMNSxROWS", default="100x30", help="size of --text and --svg (default 100x30)")
    add_machine_option(parser, None, "the trace's own")
    parser.set_defaults(action=watch)


def watch(options: argparse.Namespace) -> int:
    """Show the panel. Returns the exit status; raises UsageError."""
    if importlib.util.find_spec("textual") is None:
        raise UsageError("the panel needs the package textual", fix="pip install textual")
    from .monitor.traces import read_trace  # these bring Textual, which other commands need not load
    from .monitor.view import View
    path, machine = Path(options.trace), chosen_machine(options)
    still, size = options.text or options.svg is not None, _size(options.size)
    if path.is_dir():
        if still or options.at:
            raise UsageError("a running launch has no --at, --text or --svg", where=str(path), fix="give a trace file")
        view = View(folder=path)
        view.tick()
        if view.player is None:
            raise UsageError("no launch runs here", where=str(path), why=view.notice, fix="give a file that `qgpu run --trace FILE` wrote")
    else:
        view = View(read_trace(path, machine), title=path.stem)
        for place in options.at or ():
            if wrong := view.player.jump(place):
                raise UsageError(wrong, where="--at")
            view.player.tick(0.0, 1e9)
        if options.values:
            view.toggle_values()
            view.read_values()
    from .monitor.app import picture, run_panel
    if still:
        text, svg = picture(view, size)
        if options.svg is not None:
            _write(Path(options.svg), svg)
        if options.text:
            print(_encodable(text))
        return 0
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("the panel needs a terminal", why="standard input or standard error is none", fix="add --text, or --svg FILE")
    if view.reader is not None and hasattr(os, "nice"):
        os.nice(LOWER_PRIORITY)
    return run_panel(view)


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,4})x([0-9]{1,4})", text)
    size = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(low <= n <= high for low, n, high in zip(LEAST, size, MOST)):
        raise UsageError(f"{text!r} is no size", where="--size", fix="give columns and rows, from {}x{} to {}x{}".format(*LEAST, *MOST))
    return size


def _encodable(text: str) -> str:
    """The panel's text in signs that standard output can write."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return text.translate(PLAIN)
    return text


def _write(path: Path, svg: str) -> None:
    """The picture, whole or not at all. Raises UsageError."""
    try:
        with whole_file(path) as out:
            out.write(svg.encode())
    except OSError as e:
        raise UsageError(f"cannot write the picture: {e}", where=str(path)) from None
