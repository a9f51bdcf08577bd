"""`qgpu calc`: an expression, every operation of it a launch on the circuit."""

from __future__ import annotations

import argparse
import json
import sys

from .cli_options import add_machine_option, chosen_machine
from .errors import QgpuError

EXAMPLES = """examples:
  python -m qgpu calc "[1, 2, 3] @ [4, 5, 6]"
  python -m qgpu calc "mean([3, 8, 1, 9])" --json
  python -m qgpu calc "pow(7, 100, 1000) == 1" --no-check
  echo "sum(range(1, 101))" | python -m qgpu calc -

Integers of 32 bits, lists, matrices; + - * // % ** @, comparisons, and functions: docs/chat.md has the grammar.
A result beyond 32 bits is an error, and so is everything that is no integer. Behind --, EXPR may begin with a minus sign."""


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser("calc", allow_abbrev=False, help="compute an integer expression on the GPU in the weights",
                                 epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
                                 description="Compute EXPR; every operation is a launch of a ready-made kernel on the compiled layers.")
    parser.add_argument("expression", metavar="EXPR", help="the expression, or - to read it from standard input")
    parser.add_argument("--check", action=argparse.BooleanOptionalAction, default=True,
                        help="compare every token and the memory with the reference interpreters (default: yes)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else on standard output")
    add_machine_option(parser)
    parser.set_defaults(action=calc)


def calc(options: argparse.Namespace) -> int:
    """Compute and print. Returns the exit status; raises QgpuError."""
    from . import engine as engines
    from .chat.calculate import calculate
    from .chat.device import Device
    from .chat.syntax import MOST_CHARACTERS
    from .runtime.progress import Progress
    machine = chosen_machine(options)
    text = sys.stdin.read(MOST_CHARACTERS + 1) if options.expression == "-" else options.expression
    device = Device(lambda: engines.make_engine(machine), options.check, Progress())
    try:
        answer = calculate(text, device)
    except QgpuError as error:
        if options.json:
            print(json.dumps({"expression": text.strip()[:1000], "machine": machine.name,
                              "error": {"what": error.what, "where": error.where, "why": error.why, "fix": error.fix}}))
        raise
    if options.json:
        print(json.dumps({**answer.as_dict(), "machine": machine.name}))
        return 0
    print(answer.text() + (f"    {answer.note}" if answer.note else ""))
    generated, setup = (sum(getattr(one, name) for one in answer.launches) for name in ("generated", "setup"))
    kernels = list(dict.fromkeys(one.kernel for one in answer.launches))
    if kernels:
        count = len(answer.launches)
        print(f"  {count} launch{'es' * (count > 1)} ({', '.join(kernels)}) on {machine.name}: {setup:,} tokens written by the host, "
              f"{generated:,} by the model, {answer.seconds:.2f} s in all" + (", every one of the model's checked" if options.check else ""))
    return 0
