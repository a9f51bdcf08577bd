"""`qgpu kernels`: which kernels a file has, and what they take."""

from __future__ import annotations

import argparse

from .runtime.launchfile import find_launch_comments
from .runtime.parameters import describe
from .runtime.source import open_source, to_module, to_ptx


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "kernels", allow_abbrev=False, help="list the kernels of a file", description="List the kernels of a .cu or .ptx file.",
        epilog="example: python -m qgpu kernels kernels/dot.cu")
    parser.add_argument("file", metavar="FILE", help="a .cu or .ptx file")
    parser.add_argument("--frontend", metavar="NAME", help="CUDA compiler: zig, clang, nvcc or nvrtc (default: the first that is there)")
    parser.set_defaults(action=kernels)


def kernels(options: argparse.Namespace) -> int:
    """Print one line a kernel. Returns the exit status."""
    source = open_source(options.file)
    module = to_module(source, to_ptx(source, options.frontend))
    launches = {spec.kernel for spec in find_launch_comments(source.text, source.name)}
    for kernel in module.kernels.values():
        has = ", with a launch comment" if kernel.short_name in launches or kernel.name in launches else ""
        print(f"{kernel.short_name}({', '.join(describe(kernel))}){has}")
    if not module.kernels:
        print("no kernels")
    return 0
