"""The audits of `qgpu audit` that run a launch: `--against-interpreter` and `--trace`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from .cli_options import chosen_machine, count
from .errors import CheckError, QgpuError, UsageError
from .machine.description import Machine

if TYPE_CHECKING:
    from .audit.against import Against, Comparison
    from .audit.roundings import Roundings
    from .runtime.prepare import Prepared

MAX_TOKENS = 20_000
"""Generated tokens of a launch, unless told otherwise: an audit looks at every value of every layer."""

EXAMPLES = """  python -m qgpu audit --against-interpreter kernels/dot.cu
  python -m qgpu audit checkpoint --against-interpreter kernels/dot.cu
  python -m qgpu audit --against-interpreter kernels/*.cu --json
  python -m qgpu audit --trace kernels/dot.cu --machine article"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options, for the command `audit`. Files carry their launches in comments, `// qgpu: {...}`."""
    parser.add_argument("--against-interpreter", metavar="FILE", nargs="+",
                        help="run each file's launches and compare every signal of every layer, at every token, with the interpreter")
    parser.add_argument("--trace", metavar="FILE", help="run a file's launch through the dense layers and count the roundings that change bits; slow")
    parser.add_argument("--kernel", metavar="NAME", help="with these two: only this kernel's launch")
    parser.add_argument("--max-tokens", metavar="N", type=count, default=MAX_TOKENS,
                        help=f"with these two: stop a launch after so many generated tokens (default {MAX_TOKENS})")


def asked(options: argparse.Namespace) -> bool:
    """Whether one of these audits is asked for."""
    return bool(options.against_interpreter or options.trace)


def run(options: argparse.Namespace) -> int:
    """Do it. Returns the exit status: 1 where a value differs. Raises QgpuError."""
    if options.against_interpreter and options.trace:
        raise UsageError("--against-interpreter and --trace do not go together", fix="run one after the other")
    if options.folder and options.machine:
        raise UsageError("a folder has its own machine", where="--machine", fix="leave --machine out")
    if options.folder and options.trace:
        raise UsageError("--trace runs the compiled layers, not a folder's", fix="leave DIR out, or choose a machine with --machine")
    machine = chosen_machine(options)
    return _trace(options, machine) if options.trace else _against(options, machine)


# ---- against the interpreter ----------------------------------------------------------------------------------------
class Auditors:
    """One comparison a machine, made when the first launch needs it."""

    def __init__(self) -> None:
        self.made: dict[Machine, Against] = {}

    def of(self, machine: Machine) -> Against:
        """The machine's, compiled or from the cache."""
        from .audit.against import Against
        from .compile.cache import compiled_weights
        from .engine.sparse import SparseEngine
        if machine not in self.made:
            _say(f"preparing the layers of machine {machine.name}")
            self.made[machine] = Against(SparseEngine(compiled_weights(machine)))
        return self.made[machine]

    def of_folder(self, folder: str) -> Machine:
        """Take a checkpoint's own tensors. Returns its machine."""
        from .audit.against import Against
        from .audit.folder import weights_of
        from .engine.sparse import SparseEngine
        _say(f"reading the layers of {folder}")
        weights, signals = weights_of(folder)
        self.made[signals.machine] = Against(SparseEngine(weights), signals)
        return signals.machine


def _against(options: argparse.Namespace, machine: Machine | None) -> int:
    from .audit.against import compare_launch
    from .audit.launches import launches_of
    auditors, found, failed, start = Auditors(), [], 0, time.perf_counter()
    if options.folder:
        machine = auditors.of_folder(options.folder)
    many = len(options.against_interpreter) > 1
    if many and not options.json:
        print(HEAD)
    for path in options.against_interpreter:
        try:
            for ready in launches_of(path, machine, options.kernel):
                result = compare_launch(auditors.of(ready.machine), ready, options.max_tokens)
                found.append((path, ready, result))
                failed += result.first is not None
                if not options.json:
                    print(row(ready, result) if many else report(ready, result), flush=True)
        except QgpuError as error:
            if not many:
                raise
            failed += 1
            print(f"{path}: {error}", file=sys.stderr)
    if options.json:
        print(json.dumps([{"file": path, "kernel": ready.kernel.short_name, "machine": ready.machine.name, **result.as_dict()}
                          for path, ready, result in found]))
    elif many:
        print(total([result for *_, result in found], time.perf_counter() - start))
    return 1 if failed else 0


COLUMNS = ("as interpreter", "in integers", "empty dims", "memory rows")
HEAD = f"{'kernel':24} {'machine':8} {'tokens':>7} " + " ".join(f"{name:>15}" for name in COLUMNS) + "  differences"


def row(ready: Prepared, r: Comparison) -> str:
    """A line of the table over several launches."""
    line = counts(ready.kernel.short_name, ready.machine.name, [r])
    return line if r.first is None else f"{line}\n  first: {r.first}"


def total(results: list[Comparison], seconds: float) -> str:
    """The table's last line."""
    return counts(f"{len(results)} launch{'es' * (len(results) != 1)}", "", results) + f"   ({seconds:,.0f} s)"


def counts(name: str, machine: str, results: list[Comparison]) -> str:
    """Name, machine and the sums of all counts."""
    add = lambda field: sum(getattr(r, field) for r in results)
    values = " ".join(f"{add(field):15,}" for field in ("by_interpreter", "by_integers", "empty", "rows"))
    return f"{name[:24]:24} {machine:8} {add('tokens'):7,} {values}  {add('different'):,}"


def report(ready: Prepared, r: Comparison) -> str:
    """One launch in words."""
    mirrored, wires = r.signals["interpreter"], r.signals["integers"] - r.signals["interpreter"]
    lines = [f"{ready.kernel.short_name}, machine {ready.machine.name}: {r.tokens:,} tokens, every layer boundary",
             f"  {r.by_interpreter:,} values of {len(mirrored):,} signals that mirror the machine's state, with the interpreter's",
             f"  {r.by_integers:,} values of internal wires ({len(wires):,} signals) and of unfinished sums, with integers that start from its state",
             f"  {r.rows:,} values of memory rows, {r.empty:,} of dims without a signal"]
    lines.append("  no difference" if r.first is None else f"  {r.different:,} differ, the first: {r.first}")
    return "\n".join(lines)


# ---- roundings ------------------------------------------------------------------------------------------------------
def _trace(options: argparse.Namespace, machine: Machine | None) -> int:
    from .audit.launches import launches_of, stream_of
    from .audit.roundings import refuse, watch
    from .compile.cache import compiled_weights
    from .engine.sparse import SparseEngine
    ready = next(launches_of(options.trace, machine, options.kernel))
    _say(f"preparing the layers of machine {ready.machine.name}")
    weights = compiled_weights(ready.machine)
    ids = stream_of(SparseEngine(weights), ready, options.max_tokens)
    result = watch(weights, ids, len(ready.setup), progress=_say)
    print(json.dumps({"kernel": ready.kernel.short_name, "machine": ready.machine.name, **result.as_dict()}) if options.json
          else table(ready, result))
    try:
        refuse(result)
    except CheckError as error:
        print(f"qgpu: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def table(ready: Prepared, r: Roundings) -> str:
    """Roundings by operation, over all layers, and the margins."""
    from .audit.roundings import NORM_ALLOWED, SUM_BITS
    lines = [f"{ready.kernel.short_name}, machine {ready.machine.name}: {r.tokens:,} tokens ({len(ready.setup):,} in chunks, the others one by one), "
             f"{len(r.layers)} layer{'s' * (len(r.layers) != 1)}",
             f"  {'operation':18} {'values':>15} {'bits change':>12} {'harmful':>8} {'sums inexact':>13} {'bits of sums':>13} {'farthest':>9}"]
    for name, op in r.total().items():
        far = f"{op.farthest:9.1e}" if op.changed else f"{'':>9}"
        lines.append(f"  {name:18} {op.values:15,} {op.changed:12,} {op.harmful:8,} {op.sums:13,} {op.bits or '':>13} {far}")
    lines += [f"  squares beside a norm's constants: {r.stream_norm:.1e} of the stream's, {r.head_norm:.1e} of a head's; "
              f"{NORM_ALLOWED:.1e} is allowed",
              f"  partial sums need at most {max(op.bits for op in r.total().values())} bits of {SUM_BITS}",
              f"  smallest positive pre-activation: {r.smallest:g}; lead of the chosen token's logit: {100 * r.gap:.1f} %"]
    return "\n".join(lines)


def _say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)
