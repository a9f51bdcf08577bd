"""Speed of checking a recorded launch against the speed of writing it, on the compiled layers and on an exported checkpoint.

    python tools/bench_verify.py [--kernel FILE] [--machine NAME] [--seconds S] [--threads N] [--model DIR] [--no-model]

On the nonzeros: positions a second in prefill (with one thread, and with as many as there are processors) against tokens a second that the
sparse engine writes. On a checkpoint (exported to a temporary folder unless --model names one): Qwen's forward pass in prefill against the
same pass token by token. Every token is compared with the recorded one. Rounds alternate, the best of each counts.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from qgpu.audit.verify import model_prediction
from qgpu.compile.cache import compiled_weights
from qgpu.compile.export import export_checkpoint
from qgpu.engine.prefill import PrefillEngine
from qgpu.engine.sparse import SparseEngine
from qgpu.machine.description import PRESETS
from qgpu.runtime.launchfile import find_launch_comments
from qgpu.runtime.model_engine import ModelEngine

DEFAULT_KERNEL = Path(__file__).resolve().parent.parent / "kernels" / "collatz_longest.cu"
SOME = 24
"""Tokens that a dense decode is measured over."""


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """Seconds, and what the work returned."""
    start = time.perf_counter()
    out = work()
    return time.perf_counter() - start, out


def check(name: str, found: np.ndarray, ids: np.ndarray, setup: int) -> None:
    """Raises SystemExit where a predicted token is not the recorded one."""
    if not np.array_equal(found[setup - 1:-1], ids[setup:]):
        raise SystemExit(f"{name}: the tokens are not the recorded ones")


def decode(engine, ids: np.ndarray, setup: int, most: int) -> float:
    """Seconds a token that an engine takes to write up to `most` of the tokens after the setup."""
    engine.reset()
    token, n = engine.feed(ids[:setup].tolist()), min(most, len(ids) - setup - 1)
    start = time.perf_counter()
    for wanted in ids[setup:setup + n].tolist():
        if token != wanted:
            raise SystemExit(f"decoding wrote {token} instead of {wanted}")
        token = engine.feed([token])
    return (time.perf_counter() - start) / n


def report(name: str, seconds: float, against: float | None = None) -> None:
    ratio = "" if against is None else f"   {against / seconds:8.1f} times decoding"
    print(f"{name:<42}{1 / seconds:>12,.1f} a second {1e6 * seconds:>12,.1f} us{ratio}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="verification against decoding")
    parser.add_argument("--kernel", type=Path, default=DEFAULT_KERNEL, help="a .cu file with a launch comment")
    parser.add_argument("--machine", choices=PRESETS, help="default: the smallest that takes the launch")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to measure the nonzeros (default: 5)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of the prefill (default: one a processor)")
    parser.add_argument("--model", type=Path, help="an exported checkpoint of that machine")
    parser.add_argument("--no-model", action="store_true", help="leave the checkpoint out")
    options = parser.parse_args(arguments)
    import qgpu
    spec = find_launch_comments(options.kernel.read_text(encoding="utf-8"), options.kernel.name)[0]
    result = qgpu.launch(options.kernel, spec.kernel, spec.grid, spec.block, spec.args, check=True, machine=PRESETS.get(options.machine or ""))
    ids, setup, machine = np.asarray(result.tokens), result.setup, result.machine
    weights = compiled_weights(machine)
    print(f"{options.kernel.name} on machine {machine.name}: {len(weights.layers)} layers, {setup} + {len(ids) - setup} tokens, "
          f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    sparse, best = SparseEngine(weights), {}
    engines = {n: PrefillEngine(weights, threads=n) for n in sorted({1, options.threads})}
    start = time.perf_counter()
    while not best or time.perf_counter() - start < options.seconds:
        for n, engine in engines.items():
            engine.reset()
            seconds, found = timed(lambda engine=engine: engine.feed(ids))
            check(f"prefill, {n} threads", found, ids, setup)
            best[n] = min(best.get(n, 1e9), seconds / len(ids))
        best["decode"] = min(best.get("decode", 1e9), decode(sparse, ids, setup, 500))
    report("nonzeros, token by token", best["decode"])
    for n in engines:
        report(f"nonzeros, prefill, {n} thread{'s' * (n > 1)}", best[n], best["decode"])
    if options.no_model:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or export_checkpoint(machine, Path(folder) / "model", compiled=weights)
        one = decode(ModelEngine(model, machine), ids, setup, SOME)
        report("checkpoint, token by token", one)
        part = ids[:max(2048, setup + SOME)]
        predict = model_prediction(model, machine)
        seconds, found = timed(lambda: np.concatenate(list(predict(part))))
        check("checkpoint", found, part, setup)
        report("checkpoint, prefill", seconds / len(part), one)
        print(f"nonzeros in prefill, against the checkpoint token by token: {one / min(best[n] for n in engines):,.0f} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
