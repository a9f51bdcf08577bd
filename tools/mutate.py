"""Change single weights of a compiled machine and see whether the certificate finds each change.

    python tools/mutate.py --count 1000 --machine article
"""

from __future__ import annotations

import argparse
import sys
import time

from qgpu.audit.certificate import Checker
from qgpu.audit.claims import parse_claims
from qgpu.audit.mutations import mutate, table
from qgpu.audit.preset import PresetTensors
from qgpu.machine.description import PRESETS


def main() -> int:
    """Exit status 1 where a change was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", choices=list(PRESETS), default="article")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.perf_counter()
    tensors = PresetTensors(PRESETS[options.machine])
    mutations = mutate(Checker(tensors, tensors.config, parse_claims(tensors.signal_map)), options.count, options.seed)
    print(table(mutations))
    missed = [m for m in mutations if not m.found]
    for m in missed:
        print(f"missed: {m.tensor}{list(m.place)} {m.change} {m.before:g} -> {m.after:g}")
    print(f"{len(mutations)} changes, {len(missed)} missed, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
