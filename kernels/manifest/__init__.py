"""Every kernel of this folder: its launch, and what memory must hold afterwards, derived in Python from the inputs alone.

    sys.path.insert(0, "kernels")
    from manifest import KERNELS

A kernel NAME is the file NAME.cu, whose first comment says what it does and whose second line says how to launch it
(docs/usage.md, launch comments). Its rule, in one of the modules here, is a function NAME from the arguments before the launch to
those that change. Rules take another way to the result than the kernel does where there is one (a library, a definition,
Python's long integers); nothing here compiles or runs a kernel.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import first, graphs, hashes, images, matrices, numbers, sorting, text, types, warps
from .registry import Values

FOLDER = Path(__file__).resolve().parent.parent
GROUPS = (first, warps, matrices, images, graphs, sorting, text, hashes, numbers, types)
"""The modules of rules, in the order of docs/kernels.md; each one's first line is a heading there."""

RANGE = {"i8": (-(1 << 7), 1 << 7), "u8": (0, 1 << 8), "i16": (-(1 << 15), 1 << 15), "u16": (0, 1 << 16),
         "i32": (-(1 << 31), 1 << 31), "u32": (0, 1 << 32), "i64": (-(1 << 63), 1 << 63), "u64": (0, 1 << 64)}
"""Array type -> smallest value, and one more than the largest."""


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    summary: its first comment. launch: its launch comment. group: what its rule's module is about. machine: "article" for
    those written for that machine, "default" for the others, some of which fit `article` too.
    """

    name: str
    path: Path
    summary: str
    launch: dict[str, Any]
    group: str
    machine: str

    def arguments(self) -> list[Values]:
        """The arguments before the launch: a list for an array, an int for a scalar."""
        return [a if isinstance(a, int) else list(a["data"]) if "data" in a else [0] * a["zeros"] for a in self.launch["args"]]

    def expected(self) -> list[list[int] | None]:
        """The arguments after the launch: every array's elements, None for a scalar or a structure passed by value."""
        arguments = self.arguments()
        changed = _RULES[self.name](*arguments)
        return [None if isinstance(a, int) else changed.get(i, a) for i, a in enumerate(arguments)]


def _read(path: Path) -> Kernel:
    text = path.read_text(encoding="utf-8")
    summary = re.match(r"// (.*)\n", text)
    launches = re.findall(r"^// qgpu: (\{.*\})$", text, re.MULTILINE)
    if summary is None or len(launches) != 1:
        raise ValueError(f"{path}: a kernel file starts with a comment and has one launch comment on one line")
    group = next(module for module in GROUPS if path.stem in module.rules.functions)
    return Kernel(path.stem, path, summary.group(1), json.loads(launches[0]), (group.__doc__ or "").splitlines()[0].rstrip("."),
                  "article" if group is first else "default")


_RULES = {name: function for module in GROUPS for name, function in module.rules.functions.items()}
FILES = sorted(FOLDER.glob("*.cu"))
WITHOUT_RULE = [path.name for path in FILES if path.stem not in _RULES]
WITHOUT_FILE = sorted(set(_RULES) - {path.stem for path in FILES})
KERNELS = [_read(path) for path in FILES if path.stem in _RULES]
"""All kernels, by name."""
