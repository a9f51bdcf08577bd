"""The command line: `python -m qgpu COMMAND ...`. Each command lives in a module `cli_*.py` with one `register` function.

Exit status: 0; 1 for a failed launch, check or compilation; 2 for a wrong option, file or argument; 130 when interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from . import (__version__, cli_audit, cli_calc, cli_chat, cli_explain, cli_export, cli_generate, cli_kernels, cli_kl, cli_merge, cli_run,
               cli_verify, cli_watch)
from .errors import QgpuError

COMMANDS = (cli_run, cli_watch, cli_kernels, cli_explain, cli_export, cli_merge, cli_kl, cli_generate, cli_calc, cli_chat, cli_verify,
            cli_audit)
INTERRUPTED = 130


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each sets `action`, a function from the parsed options to an exit status."""
    parser = argparse.ArgumentParser(
        prog="qgpu", allow_abbrev=False,
        description="A small SIMT GPU whose every weight is computed: CUDA kernels run inside the forward pass of Qwen3.5 layers.",
        epilog="example: python -m qgpu run kernels/dot.cu --check")
    parser.add_argument("--version", action="version", version=f"qgpu {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.register(commands)
    for one in commands.choices.values():
        one.set_defaults(parser=one)
    return parser


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of one command. An option that it does not have is refused beside its own usage; exits with status 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options, unknown = build_parser().parse_known_args(words)
    if unknown:
        early = f"; options stand behind the command: qgpu {options.command} ..." if words[0].startswith("-") else ""
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{early}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Bad input ends in a message on standard error, never in a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to stop
    try:
        options = parse(arguments)
        status = options.action(options)
        sys.stdout.flush()
        return status
    except QgpuError as error:
        print(f"qgpu: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("qgpu: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read standard output is gone; keep the interpreter from complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
