"""Write docs/kernels.md, the table of kernels/, from the kernels' own comments.

    python tools/kernel_table.py            write the table
    python tools/kernel_table.py NAME ...   print what the launch comments of these kernels should expect
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "kernels"))

import manifest  # noqa: E402

HEAD = """# Kernels

{count} integer CUDA kernels, each with a launch in a comment (`python -m qgpu run kernels/NAME.cu`). What memory must hold
afterwards is derived in plain Python, from the inputs alone, by the rule of the same name in `kernels/manifest/`; tests hold
every kernel to it. The first group keeps to the machine `article`; the others have up to 128 threads a block, warps of 32 and
grids of blocks, as `default` has. A structure passed by value is given as an array of its bytes.

This page is written by `tools/kernel_table.py`.
"""


def shape(launch: dict) -> str:
    """Grid and block such as "2 x 32" or "(2, 3, 2) x (4, 2, 2)"."""
    def short(size: list[int]) -> str:
        while len(size) > 1 and size[-1] == 1:
            size = size[:-1]
        return str(size[0]) if len(size) == 1 else str(tuple(size))
    return f"{short(launch['grid'])} x {short(launch['block'])}"


def table() -> str:
    """The text of docs/kernels.md."""
    kernels = manifest.KERNELS
    groups = list(dict.fromkeys(k.group for g in manifest.GROUPS for k in kernels if k.name in g.rules.functions))
    parts = [HEAD.format(count=len(kernels))]
    for group in groups:
        parts.append(f"\n## {group}\n\n| kernel | blocks x threads | what it does |\n|---|---|---|\n")
        parts += [f"| [{k.name}](../kernels/{k.path.name}) | {shape(k.launch)} | {k.summary} |\n"
                  for k in kernels if k.group == group]
    return "".join(parts)


def expectation(kernel: manifest.Kernel) -> list[list[int] | None]:
    """The "expect" entry: arrays that change, null for everything else."""
    return [None if after == before else after for before, after in zip(kernel.arguments(), kernel.expected())]


def main(names: list[str]) -> int:
    known = {k.name: k for k in manifest.KERNELS}
    for name in names:
        if name not in known:
            print(f"no kernel is called {name}", file=sys.stderr)
            return 2
        print(name, json.dumps(expectation(known[name])))
    if not names:
        (ROOT / "docs" / "kernels.md").write_text(table(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
