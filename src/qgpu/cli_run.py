"""`qgpu run`: launch a kernel on the model."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from .cli_options import add_machine_option, chosen_machine, count
from .errors import CheckError, FaultError, UsageError
from .machine.encoding import print_block
from .monitor.panel import Panel
from .runtime import trace
from .runtime.arguments import from_text, to_json, type_name
from .runtime.generate import MAX_TOKENS
from .runtime.launch import LaunchResult, launch
from .runtime.launchfile import LaunchSpec, find_launch_comments, parse_dimensions, read_launch_file
from .runtime.prepare import block_places, prepare
from .runtime.progress import Progress
from .runtime.source import Source, open_source, to_ptx

SHOWN_ELEMENTS = 32

EXAMPLES = """examples:
  python -m qgpu run kernels/dot.cu --check
  python -m qgpu run kernels/vector_add.cu --block 4 --arg "[1,2,3,4]" --arg "[5,6,7,8]" --arg "zeros(4)" --arg 4
  python -m qgpu run add.cu --launch launch.json --json
  python -m qgpu run kernels/dot.cu --emit blocks
  python -m qgpu run kernels/dot.cu --trace tokens.jsonl
  python -m qgpu run kernels/collatz.cu --watch

A launch comes from --launch, or from a comment `// qgpu: {...}` in FILE, or from options alone; options win.
An argument is [1,2,3], zeros(16), 3 or @file.npy. Arrays are i32 unless a type stands in front, such as u8:[1,2].
Shells read brackets and parentheses themselves: put quotes around them."""


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser("run", allow_abbrev=False, help="run a CUDA or PTX kernel", epilog=EXAMPLES,
                                 formatter_class=argparse.RawDescriptionHelpFormatter,
                                 description="Run a kernel inside the forward pass of the compiled layers.")
    parser.add_argument("file", metavar="FILE", help="a .cu or .ptx file")
    parser.add_argument("--launch", metavar="FILE.json", help="launch description: kernel, grid, block, args")
    parser.add_argument("--kernel", metavar="NAME", help="kernel to launch, where the file has several")
    parser.add_argument("--grid", metavar="X,Y,Z", help="blocks in the grid (default 1)")
    parser.add_argument("--block", metavar="X,Y,Z", help="threads in a block")
    parser.add_argument("--shared-bytes", metavar="N", type=count, help="bytes of dynamic shared memory")
    parser.add_argument("--arg", metavar="VALUE", action="append", help="one argument, in parameter order; may be repeated")
    parser.add_argument("--check", action="store_true", help="compare every token and the memory with the reference interpreters")
    parser.add_argument("--race-check", action="store_true", help="first look for races on the reference interpreter, by barrier epochs")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else on standard output")
    parser.add_argument("--engine", choices=("sparse", "dense"), default="sparse", help="how the layers are computed; same bits")
    parser.add_argument("--model", metavar="DIR", help="run a checkpoint that qgpu export wrote, through Qwen's own forward pass; slow; or one that qgpu merge wrote")
    parser.add_argument("--full", action="store_true", help="with a merged model, run its own layers too; the same tokens, slowly")
    parser.add_argument("--watch", action="store_true", help="show the machine at work in this terminal, while the launch runs")
    parser.add_argument("--trace", metavar="OUT", help="write one JSON line a token, with its meaning")
    parser.add_argument("--emit", choices=("ptx", "blocks", "tokens"), help="print the compiled PTX, the machine's blocks, or every token")
    parser.add_argument("--frontend", metavar="NAME", help="CUDA compiler: zig, clang, nvcc or nvrtc (default: the first that is there)")
    parser.add_argument("--max-tokens", metavar="N", type=count, default=MAX_TOKENS,
                        help=f"stop a launch after so many generated tokens (default {MAX_TOKENS})")
    parser.add_argument("--steps", metavar="N", type=count, help="with --check or --race-check: PTX instructions that the reference interpreter may run")
    add_machine_option(parser, None, "the model's, or the smallest preset that takes the launch")
    parser.set_defaults(action=run)


def run(options: argparse.Namespace) -> int:
    """Do what the options say. Returns the exit status; raises QgpuError."""
    if options.full and not options.model:
        raise UsageError("--full is about a merged model, and none is given", fix="add --model DIR, or leave --full out")
    if options.trace and not Path(options.trace).absolute().parent.is_dir():
        raise UsageError("cannot write the trace: there is no such folder", where=options.trace)
    if options.emit:
        _check_emit(options)
    machine = chosen_machine(options)
    if options.model and options.machine is None:
        from .runtime.model_engine import checkpoint_machine  # slow to import, and only models need it
        machine = checkpoint_machine(options.model)
    source = open_source(options.file)
    if options.emit == "ptx":
        sys.stdout.write(to_ptx(source, options.frontend))
        return 0
    spec = launch_of(options, source)
    if options.emit == "blocks":
        ready = prepare(source, spec.kernel, spec.grid, spec.block, spec.args, machine, options.frontend, spec.shared_bytes)
        for number, block in enumerate(ready.program.blocks):
            print(print_block(ready.machine, number, block))
        return 0
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in spec.args]
    progress = Progress()
    failed = None
    try:
        with Panel(progress) if options.watch else nullcontext() as panel:
            result = launch(source, spec.kernel, spec.grid, spec.block, spec.args, check=options.check, model=options.model, full=options.full,
                            engine=options.engine, machine=machine, frontend=options.frontend, max_tokens=options.max_tokens,
                            max_steps=options.steps, progress=progress, shared_bytes=spec.shared_bytes, race_check=options.race_check,
                            tap=panel.tap if panel else None)
    except (CheckError, FaultError) as error:
        failed, result = error, getattr(error, "result", None)
        if result is None:
            raise
    finally:
        progress.close()
    if options.trace:
        from .audit.binding import bind, layers_digest
        bound = bind(source, to_ptx(source, options.frontend), result.kernel, result.grid, result.block, spec.shared_bytes, before,
                     result.tokens[:result.setup], layers_digest(result.machine, options.model))
        trace.write_trace(options.trace, result.machine, result.tokens, result.setup, block_places(result.program.blocks), bound)
    if options.emit == "tokens":
        print_tokens(result)
    elif options.json and not isinstance(failed, FaultError):
        print(json.dumps(summary(result)))
    elif failed is None:
        report(result, before)
    if failed is not None:
        raise failed
    return 0


def _check_emit(options: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go with --emit; ptx and blocks run nothing."""
    if options.json:
        raise UsageError("--emit and --json do not go together", fix="leave one of them out")
    if options.emit == "tokens":
        return
    about_runs = {"--check": options.check, "--race-check": options.race_check, "--trace": options.trace, "--watch": options.watch}
    if given := [name for name, value in about_runs.items() if value]:
        raise UsageError(f"--emit {options.emit} runs nothing, so {' and '.join(given)} cannot be done",
                         fix="use --emit tokens, or leave --emit out")


def launch_of(options: argparse.Namespace, source: Source) -> LaunchSpec:
    """The launch: file or comment, with the options on top. Raises UsageError where something needed is missing."""
    if options.launch:
        spec = read_launch_file(options.launch)
    else:
        found = find_launch_comments(source.text, source.name)
        spec = _comment(found, options.kernel, source)
    if options.kernel:
        spec.kernel = options.kernel
    if options.grid:
        spec.grid = parse_dimensions(options.grid, "--grid")
    if options.block:
        spec.block = parse_dimensions(options.block, "--block")
    if options.arg is not None:
        spec.args = [from_text(text, f"--arg {number}") for number, text in enumerate(options.arg, 1)]
    if options.shared_bytes:
        spec.shared_bytes = options.shared_bytes
    spec.grid = spec.grid or (1, 1, 1)
    spec.args = [] if spec.args is None else spec.args
    if spec.block is None:
        others = [] if options.launch else sorted({other.kernel for other in found if other.kernel})
        raise UsageError("no block size is given", where=spec.where or source.name,
                         why=f"the launch comments are for {', '.join(others)}, not for {options.kernel}" if options.kernel and others else "",
                         fix="add --block 4, or a launch comment such as // qgpu: {\"block\": [4], \"args\": []}")
    return spec


def _comment(found: list[LaunchSpec], kernel: str | None, source: Source) -> LaunchSpec:
    """The launch comment for this kernel; an empty launch where the file has none for it."""
    if kernel is not None:
        found = [spec for spec in found if spec.kernel in (None, kernel)]
    if len(found) > 1:
        names = ", ".join(sorted({spec.kernel or "?" for spec in found}))
        raise UsageError(f"this file has {len(found)} launch comments", where=source.name,
                         fix=f"choose a kernel with --kernel ({names}), or write --launch FILE.json")
    return found[0] if found else LaunchSpec()


def summary(result: LaunchResult) -> dict:
    """What `--json` prints."""
    check = None if result.check is None else {"positions": result.check.positions, "mismatches": result.check.mismatches}
    return {"kernel": result.kernel, "grid": list(result.grid), "block": list(result.block), "machine": result.machine.name,
            "args": [to_json(a) for a in result.args],
            "tokens": {"setup": result.setup, "generated": len(result.tokens) - result.setup},
            "seconds": round(result.seconds, 6), "check": check}


def print_tokens(result: LaunchResult) -> None:
    """Every token of the stream on a line: position, id, record, meaning."""
    width = len(str(len(result.tokens)))
    for record in trace.records(result.machine, result.tokens, result.setup, block_places(result.program.blocks)):
        if record["position"] == result.setup:
            print("-- the model writes from here on --")
        name = " ".join([record["kind"], *("".join(".FT"[o] for o in f) if isinstance(f, list) else str(f) for f in record["fields"])])
        print(f"{record['position']:{width}} {record['id']:6} {name:<14} {record['meaning']}")


def report(result: LaunchResult, before: list) -> None:
    """A short result for people: what changed, tokens and speed, the check."""
    grid, block = (",".join(map(str, size)) for size in (result.grid, result.block))
    print(f"{result.kernel}, grid {grid}, block {block}, machine {result.machine.name}")
    changed = False
    for number, (old, new) in enumerate(zip(before, result.args), 1):
        if isinstance(new, np.ndarray) and not np.array_equal(old, new):
            changed = True
            values = new.reshape(-1).tolist()
            more = f" and {len(values) - SHOWN_ELEMENTS} more" if len(values) > SHOWN_ELEMENTS else ""
            print(f"  argument {number} ({type_name(new)}): {values[:SHOWN_ELEMENTS]}{more}")
    if not changed:
        print("  no array changed")
    generated = len(result.tokens) - result.setup
    print(f"  tokens: {result.setup:,} written by the host, {generated:,} by the model ({result.speed:,.0f} a second), "
          f"{result.seconds:.3f} s in all")
    if result.check is not None:
        print(f"  check: {result.check.positions:,} tokens and {result.check.words} words of memory compared, no mismatch")
