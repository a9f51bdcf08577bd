"""Run every kernel of kernels/ on the model, each on the smallest machine that takes it, and print a table.

    python tools/run_kernels.py [NAME ...] [--machine NAME|FILE.toml] [--no-check]

A kernel is right if its arrays are what its rule in kernels/manifest derives and, unless --no-check, every token is what the
machine interpreter writes and the memory what the PTX interpreter leaves. Exit status 1 if any kernel is wrong or fits no machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "kernels"))

import manifest  # noqa: E402

import qgpu  # noqa: E402
from qgpu.engine import make_engine  # noqa: E402
from qgpu.errors import QgpuError  # noqa: E402
from qgpu.machine.description import PRESETS, Machine, load_machine  # noqa: E402
from qgpu.runtime.arguments import to_json  # noqa: E402
from qgpu.runtime.launchfile import LaunchSpec, find_launch_comments  # noqa: E402
from qgpu.runtime.prepare import DOES_NOT_FIT, prepare  # noqa: E402
from qgpu.runtime.source import Source, open_source  # noqa: E402


class Engines:
    """One engine a machine, made when the first kernel needs it, and how many layers it runs."""

    def __init__(self) -> None:
        self.made: dict[str, object] = {}

    def ready(self, machine: Machine):
        """The machine's engine with nothing in its memory."""
        if machine.name not in self.made:
            self.made[machine.name] = make_engine(machine)
        engine = self.made[machine.name]
        engine.reset()
        return engine


def read(path: Path) -> tuple[Source, LaunchSpec]:
    """A kernel's source and launch."""
    source = open_source(path)
    (spec,) = find_launch_comments(source.text, path.name)
    return source, spec


def run(kernel: manifest.Kernel, machine: Machine | None, engines: Engines, check: bool) -> tuple[bool, str]:
    """Run one kernel. Returns whether it was right, and its line of the table without the name."""
    source, spec = read(kernel.path)
    try:
        machine = prepare(source, spec.kernel, spec.grid, spec.block, spec.args, machine, shared_bytes=spec.shared_bytes).machine
    except DOES_NOT_FIT as error:
        return False, f"{'':8} {'':>8} {'':>7} {'':>7} {'':>8}  does not fit: {first_line(error)}"
    engine = engines.ready(machine)
    layers = len(engine.weights.layers)
    start = time.perf_counter()
    try:
        result = qgpu.launch(source, spec.kernel, spec.grid, spec.block, spec.args, check=check, machine=machine, engine=engine,
                             shared_bytes=spec.shared_bytes)
    except QgpuError as error:
        return False, f"{machine.name:8} {'':>8} {'':>7} {layers:>7} {time.perf_counter() - start:8.2f}  wrong: {first_line(error)}"
    wrong = [i for i, (found, wanted) in enumerate(zip(result.args, kernel.expected()), 1)
             if wanted is not None and to_json(found) != wanted]
    verdict = "ok" if not wrong else f"wrong: argument {wrong[0]} is not what was expected"
    generated = len(result.tokens) - result.setup
    return not wrong, f"{machine.name:8} {generated:>8} {result.setup:>7} {layers:>7} {result.seconds:8.2f}  {verdict}"


def first_line(error: QgpuError) -> str:
    """A message as one line: what, where, and the reason if there is one."""
    text = "; ".join(part for part in (f"{error.where}: {error.what}" if error.where else error.what, error.why) if part)
    return " ".join(text.split())[:220]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run the kernels of kernels/ on the model.", allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels to run (default: all)")
    parser.add_argument("--machine", help="a preset or a TOML file (default: the smallest preset that takes the kernel)")
    parser.add_argument("--no-check", action="store_true", help="compare the arrays only")
    options = parser.parse_args(arguments)
    known = {k.name: k for k in manifest.KERNELS}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no kernel is called {unknown[0]}")
    try:
        machine = None
        if options.machine:
            machine = PRESETS[options.machine] if options.machine in PRESETS else load_machine(options.machine)
    except QgpuError as error:
        parser.error(str(error))
    engines, right, started = Engines(), 0, time.perf_counter()
    names = options.names or list(known)
    print(f"{'kernel':20} {'machine':8} {'tokens':>8} {'setup':>7} {'layers':>7} {'seconds':>8}")
    for name in names:
        ok, line = run(known[name], machine, engines, not options.no_check)
        right += ok
        print(f"{name:20} {line}", flush=True)
    print(f"{right} of {len(names)} right, {time.perf_counter() - started:.0f} seconds")
    return 0 if right == len(names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
