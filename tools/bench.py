"""Speeds of the forward passes, each measured here and now.

    python tools/bench.py circuit [--machine NAME ...] [--seconds S] [--kernel FILE] [--threads N] [--numpy] [--no-torch]

circuit: generated tokens a second of a kernel on each preset's compiled machine: sparse engine, dense engine (Numba; NumPy with
--numpy), and, where transformers is installed, its dense forward of the same checkpoint in the same run, with ratios. The peak
memory printed after the sparse engine is that of the whole process so far.
Every measured token is compared with the sparse engine's. Another subcommand NAME is the script
bench_NAME.py beside this file, with its own options:

    python tools/bench.py qwen [options of bench_qwen.py]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from qgpu.machine.description import PRESETS, Machine

HERE = Path(__file__).resolve().parent
DEFAULT_KERNEL = HERE.parent / "kernels" / "collatz.cu"


# ---- the circuit ----------------------------------------------------------------------------------------------------
def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `circuit`."""
    parser.add_argument("--kernel", type=Path, default=DEFAULT_KERNEL, help="a .cu file with a launch comment (default: collatz)")
    parser.add_argument("--machine", nargs="+", choices=PRESETS, default=list(PRESETS), help="presets to measure (default: all)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to measure each engine (default: 5)")
    parser.add_argument("--threads", type=int, help="threads of Numba and torch (default: their own)")
    parser.add_argument("--numpy", action="store_true", help="the plain NumPy dense engine, too")
    parser.add_argument("--no-torch", action="store_true", help="leave transformers out")


def stream(kernel: Path, machine: Machine) -> tuple[list[int], list[int]]:
    """Setup and generated ids of a kernel's own launch, on the sparse engine, checked against the interpreters."""
    import qgpu
    from qgpu.runtime.launchfile import find_launch_comments
    spec = find_launch_comments(kernel.read_text(encoding="utf-8"), kernel.name)[0]
    result = qgpu.launch(kernel, spec.kernel, spec.grid, spec.block, spec.args, check=True, machine=machine)
    return result.tokens[:result.setup], result.tokens[result.setup:]


def measure(name: str, feed: Callable[[list[int]], int], reset: Callable[[], None], setup: list[int], generated: list[int],
            seconds: float) -> float:
    """Generated tokens a second after the setup; prints them. The launch is repeated until `seconds` have passed.

    Raises SystemExit where a token differs.
    """
    reset()
    feed(setup)                                            # what is compiled at first use, is now
    done, spent, prefill = 0, 0.0, 0.0
    while spent < seconds:
        reset()
        start = time.perf_counter()
        token = feed(setup)
        prefill = time.perf_counter() - start
        for wanted in generated[:-1]:
            if token != wanted:
                raise SystemExit(f"{name}: token {token} instead of {wanted}")
            start = time.perf_counter()
            token = feed([token])
            spent += time.perf_counter() - start
            done += 1
            if spent >= seconds:
                break
    speed = done / spent
    print(f"{name:<24}{speed:>12,.1f} tokens/s {1e3 / speed:>10.2f} ms a token   ({done} tokens; setup of {len(setup)} in {prefill:.2f} s)")
    return speed


class TorchStream:
    """transformers' dense forward of the exported checkpoint: bf16 on the CPU, token by token onto its cache."""

    def __init__(self, folder: str, threads: int | None = None) -> None:
        import torch
        import transformers
        self.torch = torch
        if threads:
            torch.set_num_threads(threads)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self.reset()

    def reset(self) -> None:
        self.cache = None

    def feed(self, ids: list[int]) -> int:
        with self.torch.no_grad():
            out = self.model(self.torch.tensor([ids]), cache=self.cache, use_cache=True, logits_to_keep=1)
        self.cache = out.cache
        return int(out.logits[0, -1].argmax())


def peak_memory() -> str:
    """The process's largest resident size so far, in words."""
    try:
        import resource
    except ImportError:                                    # Windows
        return "peak memory unknown"
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return f"peak memory {most / 2 ** 30:.2f} GiB"


def run(options: argparse.Namespace) -> int:
    """Measure and print, machine by machine."""
    if options.threads:
        import numba
        numba.set_num_threads(options.threads)
    for name in options.machine:
        run_machine(PRESETS[name], options)
    return 0


def run_machine(machine: Machine, options: argparse.Namespace) -> None:
    """Measure one machine's engines and print."""
    from qgpu.compile.cache import compiled_weights
    from qgpu.compile.export import export_checkpoint
    from qgpu.engine.dense import DenseEngine
    from qgpu.engine.sparse import SparseEngine
    setup, generated = stream(options.kernel, machine)
    weights = compiled_weights(machine)
    print(f"{options.kernel.name} on machine {machine.name}: {len(weights.layers)} layers, {os.cpu_count()} processors, "
          f"load {os.getloadavg()[0]:.1f}")
    speeds = {}

    def one(name: str, engine) -> None:
        speeds[name] = measure(name, engine.feed, engine.reset, setup, generated, options.seconds)
    one("sparse", SparseEngine(weights))
    print(peak_memory())
    one("dense (Numba)", DenseEngine(weights))
    if options.numpy:
        one("dense (NumPy)", DenseEngine(weights, compiled=False))
    if not options.no_torch and all(importlib.util.find_spec(n) for n in ("torch", "transformers")):
        with tempfile.TemporaryDirectory() as folder:
            one("transformers (dense)", TorchStream(str(export_checkpoint(machine, Path(folder) / machine.name)), options.threads))
        for name, speed in speeds.items():
            print(f"{name} is {speed / speeds['transformers (dense)']:,.2f} times transformers")
    else:
        print(f"sparse is {speeds['sparse'] / speeds['dense (Numba)']:,.2f} times dense (Numba)")


# ---- subcommands ----------------------------------------------------------------------------------------------------
def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand: `circuit` here, NAME by the script bench_NAME.py beside this file."""
    arguments = sys.argv[1:] if arguments is None else arguments
    others = {p.stem.removeprefix("bench_"): p for p in sorted(HERE.glob("bench_*.py"))}
    if arguments and arguments[0] in others:
        return subprocess.run([sys.executable, str(others[arguments[0]]), *arguments[1:]]).returncode
    parser = argparse.ArgumentParser(description="measure speeds")
    commands = parser.add_subparsers(dest="command", required=True)
    add_arguments(commands.add_parser("circuit", help="the compiled machine: sparse, dense, transformers"))
    for name in others:
        commands.add_parser(name, help=f"see {others[name].name} --help")
    return run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
