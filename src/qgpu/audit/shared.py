"""Rule M6 of docs/certificate.md: a memory head of which several rows are read at once.

One row holds the head's two norm constants and nothing else; it is written where `constant` is 1, and read always. The other rows
hold bits and no constants. A query of n rows is n equal numbers, all off alike, so what is read is every addressed row times one
factor, about (128 n)^-1/2, which the head's norm takes out again: `check_factor` tries bits with every n up to the most. Of the rows
that can hold a value dim's bit, at most one is addressed at a time, so that no two bits add up.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..bf16 import round_bf16
from .claims import Head
from .exclusion import Exclusion
from .facts import Facts, Form, add
from .memory import exclusive_rows
from .numbers import CONSTANT_DIMS, HEAD_CONSTANT, LOOSE, NORM_WEIGHT, OUT_SCALE, SCALE

ALWAYS: Form = (1, {})


def check_factor(rows: int) -> bool:
    """Whether a bit and the constants, both read with the weight of one of `rows` rows, come out as the bit."""
    scale = (128 * rows) ** -0.5
    ends = (1 - LOOSE, 1 + LOOSE)
    for a in ends:
        read = float(round_bf16(np.float32(SCALE * scale * a)))
        for b in ends:
            constant = float(round_bf16(np.float32(HEAD_CONSTANT * scale * b)))
            root = (CONSTANT_DIMS * constant ** 2 / 128) ** -0.5
            for rms in ((1 - 2.0 ** -11) * (1 - LOOSE), 1 + LOOSE):
                value = round_bf16(np.float32(NORM_WEIGHT) * round_bf16(np.float32(read * root * rms)))
                if float(round_bf16(np.float32(value * np.float32(SCALE)))) * OUT_SCALE != 1:
                    return False
    return True


def check_shared(head: Head, facts: Facts, exclusion: Exclusion, keys: dict[int, Form], queries: dict[int, Form], constant: Form,
                 values: list[Form], first: dict[int, int]) -> tuple[list[str], list[list[Form]]]:
    """Problems, and for each value dim the queries of the rows that can hold its bit. first: a stream's first token, its code's bits."""
    out: list[str] = []
    apart = lambda f, g: facts.most(add(f, g)) < 2 or exclusion.apart([f, g])
    last = [i for i, q in queries.items() if q == ALWAYS]
    if len(last) != 1 or keys.get(last[0]) != constant or keys.keys() != queries.keys() or head.key_tap or any(head.value_tap):
        return ["the row of the constants is not of the known form"], [[] for _ in values]
    if not all(v in first for v in constant[1]) or constant[0] + sum(k * first[v] for v, k in constant[1].items()) != 1:
        out.append("a stream's first token does not write the constants")
    if any(facts.most(f) > 1 for f in (constant, *queries.values(), *values)) or any(g != (1, ()) for g in head.gate):
        out.append("constants, queries or values may exceed 1")
    rows = [i for i in keys if i != last[0]]
    alike = Counter(_frozen(queries[i]) for i in rows)                      # rows that are read together
    different = [(c, dict(terms)) for c, terms in alike]
    most = 1 + (max(alike.values(), default=0) if exclusive_rows(facts, exclusion, different) else len(rows))
    if not all(check_factor(n) for n in range(1, most + 1)):
        out.append(f"a read of up to {most} rows is not exact")
    if not all(apart(constant, keys[i]) for i in rows):
        out.append("constants may be written to another row")
    found = []
    for value in values:
        if not apart(value, constant):
            out.append("data may be written to the row of the constants")
        found.append([queries[i] for i in rows if not apart(value, keys[i])])
    if not all(exclusive_rows(facts, exclusion, list(qs)) for qs in {tuple(map(_frozen, qs)): qs for qs in found}.values()):
        out.append("bits of two rows may be read at once")
    return list(dict.fromkeys(out)), found


def _frozen(f: Form) -> tuple:
    return f[0], tuple(sorted(f[1].items()))
