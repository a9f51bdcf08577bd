"""`qgpu merge`: a Qwen3.5 checkpoint with the machine in front."""

from __future__ import annotations

import argparse
import sys

from .cli_options import add_machine_option, chosen_machine
from .errors import UsageError


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "merge", allow_abbrev=False, help="put the machine into a Qwen3.5 checkpoint",
        description="Write a checkpoint that is the model BASE, its text unchanged to the bit, and a machine. Nothing of BASE is "
                    "changed; what the merge relies on is checked on every vocabulary row and written to qgpu_report.json.",
        epilog="example: python -m qgpu merge Qwen/Qwen3.5-2B merged")
    parser.add_argument("base", metavar="BASE", help="a checkpoint folder, or a model on the Hugging Face hub")
    parser.add_argument("out", metavar="OUT", help="folder to write; made if it does not exist")
    add_machine_option(parser)
    parser.add_argument("--force", action="store_true", help="replace what a former merge left in OUT")
    parser.set_defaults(action=merge)


def merge(options: argparse.Namespace) -> int:
    """Merge and say what came out. Returns the exit status."""
    machine = chosen_machine(options)
    from .merge.build import merge as build  # slow to import, and no other command needs it
    try:
        result = build(options.base, options.out, machine, force=options.force, progress=lambda text: print(text, file=sys.stderr))
    except OSError as e:
        raise UsageError(f"cannot write the checkpoint: {e}", where=options.out, fix="choose another folder, or make room") from None
    proof = result.report["proof"]
    print(f"machine {machine.name} and {result.report['base']} written to {result.folder}")
    print(f"  {result.layers} circuit layers before {result.report['base_layers']} of the model's own; machine tokens from id {result.first} on")
    print(f"  a machine token's logit is {proof['logit_own']:.3g}; the next one's at most {proof['logit_machine_next']:.3g}, "
          f"text at most {proof['logit_text_next']:.3g}")
    print(f"  {result.report['bytes'] / 1e9:.2f} GB, {result.report['seconds']:.0f} s; bounds and digests in qgpu_report.json")
    return 0
