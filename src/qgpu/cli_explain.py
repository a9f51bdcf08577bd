"""`qgpu explain`: what a layer, unit, head, residual dim or signal of the compiled circuit computes."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from .cli_options import add_machine_option, chosen_machine
from .errors import UsageError

EXAMPLES = """examples:
  python -m qgpu explain --layer 12
  python -m qgpu explain --layer 14 --unit 340
  python -m qgpu explain --layer 12 --head 3
  python -m qgpu explain --layer 12 --dim 700
  python -m qgpu explain --signal front.active0
  python -m qgpu explain --json > map.json

Layers are numbered from 1, as in docs/layers.md; units of a layer, heads and dims from 0."""


def number(text: str) -> int:
    """An argparse type: a whole number, 0 or more."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser("explain", allow_abbrev=False, help="say what a unit, head, dim or signal computes", epilog=EXAMPLES,
                                 formatter_class=argparse.RawDescriptionHelpFormatter,
                                 description="Explain the compiled circuit: formula, inputs, readers, and names under which other tools find it.")
    parser.add_argument("--layer", metavar="N", type=number, help="a layer, from 1")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--unit", metavar="N", type=number, help="with --layer: a unit, from 0")
    which.add_argument("--head", metavar="N", type=number, help="with --layer: a head, from 0")
    which.add_argument("--dim", metavar="N", type=number, help="with --layer: a residual dim, before and after it")
    which.add_argument("--signal", metavar="NAME", help="a signal, such as front.active0")
    parser.add_argument("--json", action="store_true", help="print JSON; without anything selected, all of the circuit")
    parser.add_argument("--model", metavar="DIR", help="explain a checkpoint that qgpu export wrote, by its signal map")
    add_machine_option(parser)
    parser.set_defaults(action=explain)


def explain(options: argparse.Namespace) -> int:
    """Do what the options say. Returns the exit status; raises QgpuError."""
    chosen = [options.unit, options.head, options.dim]
    if options.signal is not None and options.layer is not None:
        raise UsageError("--signal names a signal of all layers", fix="leave --layer out")
    if options.layer is None and any(x is not None for x in chosen):
        raise UsageError("--unit, --head and --dim belong to a layer", fix="add --layer N")
    if options.layer is None and options.signal is None and not options.json:
        raise UsageError("nothing is selected", fix="choose --layer N or --signal NAME, or print everything with --json")
    from .audit import explain_text as text                  # slow to import, and only this command needs it
    from .audit.explain import Explainer
    e = Explainer(_map(options))
    if options.signal is not None:
        return _print(options, e.signal(options.signal), text.signal_text)
    if options.layer is None:
        return _everything(e)
    if options.unit is not None:
        return _print(options, e.unit(options.layer, options.unit), text.unit_text)
    if options.head is not None:
        return _print(options, e.head(options.layer, options.head), text.head_text)
    if options.dim is not None:
        return _print(options, e.dim(options.layer, options.dim), text.dim_text)
    return _print(options, e.layer(options.layer), text.layer_text)


def _map(options: argparse.Namespace):
    from .audit.signals import map_of, read_map
    if options.model:
        return read_map(options.model)
    from .compile.cache import compiled_weights
    return map_of(compiled_weights(chosen_machine(options)))


def _print(options: argparse.Namespace, answer: dict, in_words: Any) -> int:
    print(json.dumps(answer) if options.json else in_words(answer))
    return 0


def _everything(e: Any) -> int:
    """One JSON object, written layer by layer: it is large."""
    from .compile.words import HOOKS
    out = sys.stdout
    out.write('{"machine": ' + json.dumps(e.map.data["machine"]) + ', "hooks": ' + json.dumps(HOOKS) + ', "layers": [\n')
    for k, layer in enumerate(e.everything()):
        out.write((",\n" if k else "") + json.dumps(layer))
    out.write('\n], "signals": [\n')
    for k, signal in enumerate(e.signals()):
        out.write((",\n" if k else "") + json.dumps(signal))
    out.write("\n]}\n")
    return 0
