"""`qgpu audit`: the static certificate of a checkpoint, and the audits that run a launch (`cli_audit_dynamic`)."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import cli_audit_dynamic
from .cli_options import add_machine_option, chosen_machine
from .errors import UsageError

if TYPE_CHECKING:
    from .audit.certificate import Certificate, Checker

SHOWN = 20


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit", allow_abbrev=False, help="prove that a checkpoint's layers are exact, or compare a launch value by value",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="The static certificate: every tensor is held to the signal map beside it, bit for bit, and every sum and rounding of\n"
                    "the map's units is proved exact, layer by layer (docs/certificate.md). Exit status 1 where it does not hold.",
        epilog="examples:\n  python -m qgpu audit\n  python -m qgpu audit checkpoint --json\n"
               "  python -m qgpu audit --machine default\n" + cli_audit_dynamic.EXAMPLES)
    parser.add_argument("folder", metavar="DIR", nargs="?", help="a folder that `qgpu export` wrote (default: the compiled machine, "
                        "as export would write it)")
    add_machine_option(parser, default=None)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    cli_audit_dynamic.add_options(parser)
    parser.set_defaults(action=audit)


def audit(options: argparse.Namespace) -> int:
    """Certify a folder or a preset. Returns the exit status."""
    if cli_audit_dynamic.asked(options):
        return cli_audit_dynamic.run(options)
    if options.folder and options.machine:
        raise UsageError("a folder has its own machine", where="--machine", fix="leave --machine out")
    certificate = checker_for(options).run(lambda text: print(text, file=sys.stderr))
    print(json.dumps(certificate.as_dict(), indent=1) if options.json else in_words(certificate))
    return 0 if certificate.holds else 1


def checker_for(options: argparse.Namespace) -> Checker:
    """The checker of a folder's tensors, or of a machine's as they would be exported."""
    from .audit.certificate import Checker
    from .audit.checkpoint import FileTensors, read_config
    from .audit.claims import parse_claims, read_claims
    if options.folder:
        folder = Path(options.folder)
        return Checker(FileTensors(folder), read_config(folder), read_claims(folder))
    from .audit.preset import PresetTensors
    from .machine.description import ARTICLE
    tensors = PresetTensors(chosen_machine(options) or ARTICLE)
    return Checker(tensors, tensors.config, parse_claims(tensors.signal_map))


def in_words(c: Certificate) -> str:
    """A certificate as text."""
    if not c.holds:
        more = [f"  and {len(c.problems) - SHOWN} more"] if len(c.problems) > SHOWN else []
        return "\n".join([f"machine {c.machine}: the certificate does not hold", *(f"  {p}" for p in c.problems[:SHOWN]), *more])
    t, o = c.totals, c.output
    return "\n".join([
        f"machine {c.machine}: the certificate holds ({c.seconds:.0f} s)",
        f"  {t['tensors']} tensors are those of the signal map, bit for bit",
        f"  {t['layers']} layers, {t['units']} units, {t['memory_heads']} memory heads: exact; no sum needs more than "
        f"{t['most_bits_of_a_sum']} of 24 bits",
        f"  {t['sums']} sums stay within their ranges, {t['one_hot_groups']} one-hot groups hold",
        f"  output: the right token's logit leads by {o['margin']:.2f} or more",
        "  assumed:", *(f"  - {a}" for a in c.assumptions)])
