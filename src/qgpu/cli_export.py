"""`qgpu export`: the compiled layers as a Hugging Face checkpoint."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .cli_options import add_machine_option, chosen_machine
from .errors import UsageError

MARK = "qgpu_tokens.json"
"""Every export holds this file; --force replaces no other folder."""


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
    machine, folder = chosen_machine(options), Path(options.folder)
    try:
        _make_room(folder, options.force)
        from .compile.export import export_checkpoint  # slow to import, and no other command needs it
        export_checkpoint(machine, folder, force=options.force, progress=lambda text: print(text, file=sys.stderr))
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot write the checkpoint: {e}", where=options.folder, fix="choose another folder") from None
    print(f"machine {machine.name} written to {options.folder}")
    return 0


def _make_room(folder: Path, force: bool) -> None:
    """Refuse what an export must not replace; an empty folder makes way. Raises UsageError or OSError."""
    if "\0" in str(folder):
        raise ValueError("a name with a null character")
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise UsageError("there is something that is not a folder", where=str(folder), fix="choose another folder")
    if not any(folder.iterdir()):
        folder.rmdir()
    elif not force:
        raise UsageError("this folder is not empty", where=str(folder), fix="choose another folder, or replace a former export with --force")
    elif not (folder / MARK).is_file():
        raise UsageError("this folder holds something else than an export", where=str(folder), why="--force replaces the whole folder",
                         fix="choose another folder, or empty this one")
