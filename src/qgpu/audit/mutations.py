"""Single changed weights, and whether the certificate finds them: what `tools/mutate.py` and the tests run.

Digests are left out: they would find everything. A change is judged by the rules alone, and only in the tensor that it touches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .certificate import Checker
from .expected import Matrix

CHANGES = ("flip", "double", "zero", "ulp", "move")


@dataclass
class Mutation:
    """One changed weight. found: what the certificate says of it; empty: nothing."""

    tensor: str
    kind: str
    change: str
    place: tuple[int, ...]
    before: float
    after: float
    found: str = ""


def number(bits: int) -> float:
    """The value of bf16 bits."""
    return float(np.array([bits], np.uint16).astype(np.uint32).__lshift__(16).view(np.float32)[0])


def changed(rng: np.random.Generator, tensor: NDArray[np.uint16], change: str) -> tuple[int, NDArray[np.uint16]] | None:
    """(flat place, the tensor with one weight changed); None where this change cannot be made of the weight that was drawn.

    Half of all places are drawn among the weights that are not 0.
    """
    flat = np.ascontiguousarray(tensor).reshape(-1).copy()
    some = np.flatnonzero(flat)
    at = int(rng.choice(some)) if len(some) and (change in ("move", "zero") or rng.random() < 0.5) else int(rng.integers(flat.size))
    bits = int(flat[at])
    match change:
        case "flip":
            flat[at] = bits ^ 0x8000
        case "double":
            if not bits & 0x7F80 or bits & 0x7F80 >= 0x7F00:
                return None
            flat[at] = bits + 0x80
        case "zero":
            flat[at] = 0
        case "ulp":
            flat[at] = bits + 1 if rng.random() < 0.5 or not bits & 0x7FFF else bits - 1
        case "move":
            width = tensor.shape[-1]
            to = at - at % width + int(rng.integers(width))
            if flat[to] == bits:
                return None
            flat[at], flat[to] = flat[to], bits
    return None if flat[at] == bits and change != "move" else (at, flat.reshape(tensor.shape))


def kind_of(name: str) -> str:
    """A tensor's name without its layer."""
    return name.rpartition("layers.")[2].partition(".")[2] if "layers." in name else name


def mutate(checker: Checker, count: int, seed: int = 1) -> list[Mutation]:
    """`count` changes spread evenly over the kinds of tensors, layer by layer so that each layer's tensors are made once."""
    rng = np.random.default_rng(seed)
    layers = len(checker.claims.layers)
    by_kind: dict[str, list[tuple[int, str]]] = {}
    for layer_ in (1, layers + 1):
        for name in checker.layer_expectations(layer_):
            kind = ("attention layer: " if layer_ > layers else "") + kind_of(name)
            places = range(1, layers + 1) if layer_ == 1 else [layer_]
            by_kind[kind] = [(i, name.replace(f"layers.{layer_ - 1}.", f"layers.{i - 1}.")) for i in places]
    for name in checker.top_expectations():
        by_kind[kind_of(name).removeprefix(checker.prefix)] = [(0, name)]
    kinds = list(by_kind)
    drawn = []
    for i in range(count):
        kind = kinds[i % len(kinds)]
        layer, name = by_kind[kind][int(rng.integers(len(by_kind[kind])))]
        drawn.append((layer, name, kind, CHANGES[(i // len(kinds)) % len(CHANGES)]))
    out, expected, of = [], {}, -1
    for layer, name, kind, change in sorted(drawn):
        if layer != of:
            expected, of = (checker.layer_expectations(layer) if layer else checker.top_expectations()), layer
        out.append(one(checker, rng, name, kind, change, expected[name]))
    return out


def one(checker: Checker, rng: np.random.Generator, name: str, kind: str, change: str, matrix: Matrix) -> Mutation:
    """Make one change and look for it. A change that cannot be made of the drawn weight gives way to the next kind of change."""
    tensor = checker.tensors.get(name)
    for step in range(len(CHANGES) * 4):
        change = CHANGES[(CHANGES.index(change) + (step > 0)) % len(CHANGES)]
        made = changed(rng, tensor, change)
        if made is not None:
            break
    else:
        raise ValueError(f"no change of {name} can be made")
    at, mutant = made
    before, after = int(tensor.reshape(-1)[at]), int(mutant.reshape(-1)[at])
    found = matrix.differences(mutant, name)
    return Mutation(name, kind, change, tuple(int(x) for x in np.unravel_index(at, tensor.shape)), number(before), number(after),
                    found[0] if found else "")


def table(mutations: list[Mutation]) -> str:
    """Markdown: changes by kind of tensor, found of made."""
    kinds = sorted({m.kind for m in mutations})
    lines = ["| tensor | " + " | ".join(CHANGES) + " | all |", "|---" * (len(CHANGES) + 2) + "|"]
    def cell(of: list[Mutation]) -> str:
        return f"{sum(bool(m.found) for m in of)}/{len(of)}" if of else "-"
    for kind in [*kinds, None]:
        mine = [m for m in mutations if kind in (None, m.kind)]
        cells = [cell([m for m in mine if m.change == c]) for c in CHANGES] + [cell(mine)]
        lines.append(f"| {kind or 'all'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
