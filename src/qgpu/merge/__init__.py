"""A Qwen3.5 checkpoint with the machine's layers in front of its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {"merge": "build", "MergeResult": "build", "load": "model", "Merged": "model", "Conversation": "model",
          "compare": "kl", "Comparison": "kl"}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
