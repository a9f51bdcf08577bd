"""Small machines for audit tests, their weights (kept in the cache of compiled weights), and streams of random programs."""

from copy import copy, deepcopy
from dataclasses import replace
from functools import cache

from machine_programs import random_setup
from small_machines import GROUPED, SMALL, continued  # noqa: F401: the machines are for tests to import

from qgpu.compile.cache import compiled_weights
from qgpu.compile.compiler import CircuitWeights
from qgpu.machine.description import Machine


@cache
def weights(machine: Machine) -> CircuitWeights:
    return compiled_weights(machine)


def random_stream(machine: Machine, seed: int, most: int = 80) -> tuple[list[int], int]:
    """(ids of a random program's setup and of at most `most` tokens after it, how many are the setup's)."""
    setup = random_setup(seed, machine, machine.blocks)
    return continued(machine, setup, most)[0], len(setup)


def with_change(w: CircuitWeights, layer: int, matrix: str, row: int, col: int, change) -> CircuitWeights:
    """A copy whose one weight, at (row, col) of a layer's (from 1) matrix, is change(weight)."""
    out, changed = replace(w, layers=list(w.layers), key=""), copy(w.layers[layer - 1])      # no key: nothing is kept of it
    out.layers[layer - 1] = changed
    coo = deepcopy(getattr(changed, matrix))
    at = [k for k, spot in enumerate(zip(coo.rows, coo.cols)) if spot == (row, col)]
    assert at, f"{matrix}[{row}, {col}] of layer {layer} is zero"
    coo.vals[at[0]] = change(coo.vals[at[0]])
    setattr(changed, matrix, coo)
    return out


def spot_of(m, name: str) -> tuple[int, int, int, int]:
    """(layer, head, value dim, residual dim) of the first unit or memory value that adds to signal `name` of a map."""
    signal = m.index[name]
    for number, heads in enumerate(m.layers, 1):
        for h, head in enumerate(heads):
            parts = [u["outs"] for u in head["units"] if u["group"] != "clear"] if head["kind"] == "logic" else head["outs"]
            units = [u["outs"] for u in head["units"]] if head["kind"] == "logic" else head["outs"]
            for outs in parts:
                if signal in (s for s, _ in outs):
                    return number, h, 2 + units.index(outs), m.dim[signal]
    raise AssertionError(name)
