"""Execution of compiled layers: dense and sparse."""

from __future__ import annotations

from ..errors import UsageError
from ..machine.description import Machine

KINDS = ("sparse", "dense")


def make_engine(machine: Machine, kind: str = "sparse"):
    """An engine (runtime.engine_api.Engine) for machine: compiled now, or taken from the cache.

    kind: "sparse" (only nonzero weights, the default) or "dense" (full tensors through Qwen's forward pass; slow).
    """
    from ..compile.cache import compiled_weights
    if kind not in KINDS:
        raise UsageError(f"unknown engine {kind!r}", fix="use " + " or ".join(KINDS))
    weights = compiled_weights(machine)
    if kind == "dense":
        from .dense import DenseEngine
        return DenseEngine(weights)
    from .sparse import SparseEngine
    return SparseEngine(weights)
