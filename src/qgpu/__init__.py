"""qgpu: a small SIMT GPU whose every weight is computed, inside the forward pass of Qwen3.5 layers.

`qgpu.launch(source, kernel, grid, block, args)` runs a CUDA kernel; `qgpu.LaunchResult` is what it returns. Both, and the
subpackages (`qgpu.qwen`, `qgpu.machine`, ...), are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_FROM_RUNTIME = ("launch", "LaunchResult")
_SUBPACKAGES = ("circuit", "compile", "cuda", "engine", "errors", "lower", "machine", "merge", "ptx", "qwen", "runtime")

__all__ = ["__version__", *_FROM_RUNTIME]


def __getattr__(name: str) -> Any:
    if name in _FROM_RUNTIME:
        return getattr(import_module(".runtime.launch", __name__), name)
    if name in _SUBPACKAGES:
        return import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBPACKAGES])
