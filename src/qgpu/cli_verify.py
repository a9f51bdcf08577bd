"""`qgpu verify`: a recorded launch, checked in prefill."""

from __future__ import annotations

import argparse
import json
import re

from .errors import CheckError

EXAMPLES = """examples:
  python -m qgpu run kernels/collatz.cu --trace collatz.jsonl
  python -m qgpu verify collatz.jsonl
  python -m qgpu verify collatz.jsonl --source kernels/collatz.cu
  python -m qgpu verify collatz.jsonl --model checkpoint --json

Every token that the model wrote must be what the layers write after all tokens before it. The recorded stream is read as a prompt is, many
positions at once; nothing is generated. The layers are those that the trace names by their digest: the compiled machine's, or --model's.
With --source the setup (program, launch, inputs) is derived again; without, it is what the trace says, under the sha256 that is shown."""


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser("verify", allow_abbrev=False, help="check a recorded launch token by token, all positions at once",
                                 epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
                                 description="Check that a trace is what the layers write, without running the launch again.")
    parser.add_argument("trace", metavar="TRACE", help="a file that run --trace wrote")
    parser.add_argument("--model", metavar="DIR", help="check against a checkpoint's own files, through Qwen's forward pass in prefill")
    parser.add_argument("--source", metavar="FILE", help="the kernel (.cu or .ptx): derive the setup from it again")
    parser.add_argument("--launch", metavar="FILE.json", help="with --source: the launch that it must be (default: as recorded)")
    parser.add_argument("--setup-sha256", metavar="HEX", type=_digest, help="the setup's digest, as a verify elsewhere has shown it")
    parser.add_argument("--frontend", metavar="NAME", help="with --source: the CUDA compiler that was used")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else on standard output")
    parser.set_defaults(action=run)


def _digest(text: str) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{64}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no sha256: 64 hexadecimal digits")
    return text


def run(options: argparse.Namespace) -> int:
    """Do what the options say. Returns the exit status; raises QgpuError."""
    from .audit.verify import Verdict, verify  # slow to import
    from .errors import UsageError
    from .runtime.launchfile import read_launch_file
    from .runtime.progress import Progress
    from .runtime.source import open_source
    if options.source is None and (options.launch or options.frontend):
        raise UsageError("--launch and --frontend need --source", fix="name the kernel's file with --source FILE")
    source = open_source(options.source) if options.source is not None else None
    launch = read_launch_file(options.launch) if options.launch else None
    progress = Progress()
    try:
        verdict: Verdict = verify(options.trace, model=options.model, source=source, launch=launch, frontend=options.frontend,
                                  setup_sha256=options.setup_sha256, progress=progress)
    except CheckError as error:
        if options.json:
            print(json.dumps({"valid": False, "position": getattr(error, "position", None), "where": error.where, "what": error.what,
                              "why": error.why}))
        raise
    finally:
        progress.close()
    told, machine = verdict.recorded.launch, verdict.recorded.machine.name
    if options.json:
        print(json.dumps({"valid": True, "kernel": told["kernel"], "grid": told["grid"], "block": told["block"], "machine": machine,
                          "checkpoint": verdict.checkpoint, "setup_sha256": told["setup_sha256"], "derived": verdict.derived,
                          "positions": verdict.positions, "generated": verdict.generated, "seconds": round(verdict.seconds, 6)}))
        return 0
    grid, block = (",".join(map(str, told[key])) for key in ("grid", "block"))
    print(f"{told['kernel']}, grid {grid}, block {block}, machine {machine}")
    print(f"  layers: sha256 {verdict.checkpoint}, as recorded")
    print(f"  setup: {told['setup']:,} tokens, sha256 {told['setup_sha256']}, " +
          (f"derived again from {options.source}" if verdict.derived else "as recorded (--source FILE derives it again)"))
    print(f"  verified: {verdict.generated:,} tokens of the model's, each what the layers write; {verdict.positions:,} positions in "
          f"{verdict.seconds:.3f} s ({verdict.speed:,.0f} a second)")
    return 0
