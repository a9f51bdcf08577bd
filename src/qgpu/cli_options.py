"""Options that several commands share."""

from __future__ import annotations

import argparse

from .machine.description import ARTICLE, PRESETS, Machine, load_machine
from .errors import UsageError


def add_machine_option(parser: argparse.ArgumentParser) -> None:
    """`--machine NAME|FILE.toml`."""
    parser.add_argument("--machine", metavar="NAME|FILE.toml",
                        help=f"a preset ({', '.join(PRESETS)}) or a description in TOML (default: {ARTICLE.name})")


def chosen_machine(options: argparse.Namespace) -> Machine:
    """The machine that `--machine` names. Raises UsageError."""
    name = ARTICLE.name if options.machine is None else options.machine
    if name in PRESETS:
        return PRESETS[name]
    if name.endswith(".toml"):
        return load_machine(name)
    raise UsageError(f"no machine is called {name!r}", where="--machine",
                     fix=f"use one of {', '.join(PRESETS)}, or a file that ends in .toml")


def count(text: str) -> int:
    """An argparse type: a whole number, at least 1."""
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)
