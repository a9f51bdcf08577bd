"""Rules O of docs/certificate.md: the next token's code comes out as +-2^e, and its own row wins over every other row."""

from __future__ import annotations

import numpy as np

from ..bf16 import round_bf16
from .numbers import LARGEST, RESIDUAL_CONSTANT
from .prover import Between, Prover
from .world import World


def check_output(world: World, prover: Prover, codes: np.ndarray, hidden: int) -> tuple[list[str], dict]:
    """Problems; facts about the output: `exponent`, `code_dims`, `proved_dims` (shown to be +-2^e at every token), `margin`."""
    claims, problems = world.claims, []
    exponent, layers = claims.residual.exponent, len(claims.layers)
    unit = 2.0 ** exponent
    outputs = [i for i, s in enumerate(claims.signals) if s.kind == "output"]
    if [claims.signals[i].dim for i in outputs] != list(claims.residual.code):
        problems.append("the map's outputs are not the code dims")
    proved = 0
    for s in outputs:
        name, life = claims.signals[s].name, world.lives[s]
        terms = world.writes[s].get(layers, [])
        if life.first != layers or life.last != layers:
            problems.append(f"{name} is not written by the last layer alone")
        start = [w for w, f, g in terms if not f[1] and not g[1] and f[0] == g[0] == 1]
        rest = [(w / (2 * unit), f, g) for w, f, g in terms if f[1] or g[1] or f[0] != 1 or g[0] != 1]
        if len(start) != 1 or abs(start[0]) != unit or any(w != int(w) for w, _, _ in rest):
            problems.append(f"{name} is not an odd multiple of 2^{exponent}")
            continue
        reach = sum(abs(w) * min(max(world.facts.most(f), 0) * max(world.facts.most(g), 0), LARGEST) for w, f, g in rest)
        if 2 * reach + 1 > LARGEST:
            problems.append(f"{name} may need more than 8 bits")
        goal = Between(0, 1) if start[0] < 0 else Between(0, 0)
        proved += prover.prove(goal, rest)
    n = codes.shape[1]
    distinct = len(np.unique(codes, axis=0)) == len(codes)
    if not distinct:
        problems.append("two tokens have one code")
    facts = {"exponent": exponent, "code_dims": n, "proved_dims": proved, "margin": margin(world, n, hidden, unit), "assumptions": []}
    if facts["margin"] <= 0:
        problems.append("the next token's logit may not be the largest")
    if proved < len(outputs):
        facts["assumptions"].append(f"At every token at most one of the last layer's rules for a code dim applies ({proved} of "
                                    f"{len(outputs)} dims are proved to be +-2^{exponent}, the others to be an odd multiple of it).")
    facts["assumptions"].append("The code that the last layer writes is some token's code.")
    return problems, facts


def margin(world: World, n: int, hidden: int, unit: float) -> float:
    """How far the right row's logit lies above every other's, less all roundings, where the code dims hold +-unit.

    Codes differ in a dim or more; the constants' part is the same for every row.
    """
    claims = world.claims
    rest = [max(abs(low), abs(high)) for s, low, high in claims.boundaries[-1].values() if claims.signals[s].kind != "output"]
    constants = len(claims.residual.constants)
    square = n * unit ** 2
    more = sum(x * x for x in rest) + constants * RESIDUAL_CONSTANT ** 2
    large, small = (unit * (hidden / s) ** 0.5 for s in (square, square + more))
    code = float(round_bf16(np.float32(small * (1 - 2.0 ** -20))))
    most = float(round_bf16(np.float32(large * (1 + 2.0 ** -20))))
    steady = constants * RESIDUAL_CONSTANT ** 2 * (hidden / square) ** 0.5 * (1 + 2.0 ** -7)
    total = n * most + steady
    return 2 * code - (n - 1) * (most - code) * 2 - 2 * total * 2.0 ** -8
