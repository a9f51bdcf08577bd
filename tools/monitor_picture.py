"""The picture of the panel in the README: docs/monitor.svg, of a launch that is run for it on the compiled layers, and checked.

    python tools/monitor_picture.py [OUT.svg]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from qgpu.cli import main as qgpu

HERE = Path(__file__).resolve().parent.parent
KERNEL = HERE / "kernels" / "collatz.cu"
PLACES = ("b2", "b1", "b2", "b1", "+2")
"""From the model's first token to the loop's third round, which two lanes no longer run."""


def main(arguments: list[str]) -> int:
    out = Path(arguments[0]) if arguments else HERE / "docs" / "monitor.svg"
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / f"{KERNEL.stem}.jsonl"
        places = [word for place in PLACES for word in ("--at", place)]
        return qgpu(["run", str(KERNEL), "--check", "--trace", str(trace)]) or \
            qgpu(["watch", str(trace), *places, "--values", "--size", "100x30", "--svg", str(out)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
