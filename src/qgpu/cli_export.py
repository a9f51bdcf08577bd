"""`qgpu export`: the compiled layers as a Hugging Face checkpoint."""

from __future__ import annotations

import argparse

from .cli_options import add_machine_option, chosen_machine


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "export", allow_abbrev=False, help="write the compiled layers as a checkpoint",
        description="Write the machine's layers alone as a Hugging Face checkpoint: config, safetensors, token map.",
        epilog="example: python -m qgpu export checkpoint")
    parser.add_argument("folder", metavar="DIR", help="folder to write; made if it does not exist")
    add_machine_option(parser)
    parser.add_argument("--force", action="store_true", help="replace what a former export left in DIR")
    parser.set_defaults(action=export)


def export(options: argparse.Namespace) -> int:
    """Compile the machine and write it. Returns the exit status."""
    machine = chosen_machine(options)
    from .compile.export import export_checkpoint
    export_checkpoint(machine, options.folder, force=options.force)
    print(f"machine {machine.name} written to {options.folder}")
    return 0
