"""Options that several commands share."""

from __future__ import annotations

import argparse

from .machine.description import ARTICLE, PRESETS, Machine, load_machine
from .errors import UsageError


def add_machine_option(parser: argparse.ArgumentParser, default: str | None = ARTICLE.name, otherwise: str = ARTICLE.name) -> None:
    """`--machine NAME|FILE.toml`. otherwise: what the help calls the default."""
    parser.add_argument("--machine", metavar="NAME|FILE.toml", default=default,
                        help=f"a preset ({', '.join(PRESETS)}) or a description in TOML (default: {otherwise})")


def chosen_machine(options: argparse.Namespace) -> Machine | None:
    """The machine that `--machine` names, or None where the option has no default and is not given. Raises UsageError."""
    name = options.machine
    if name is None or name in PRESETS:
        return None if name is None else PRESETS[name]
    if name.endswith(".toml"):
        return load_machine(name)
    raise UsageError(f"no machine is called {name!r}", where="--machine",
                     fix=f"use one of {', '.join(PRESETS)}, or a file that ends in .toml")


def count(text: str) -> int:
    """An argparse type: a whole number, at least 1."""
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)
