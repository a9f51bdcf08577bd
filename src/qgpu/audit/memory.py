"""Rules M of docs/certificate.md: a memory head writes at most one row, reads at most one, and a row is zero or well formed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .exclusion import Exclusion
from .facts import Facts, Form, add
from .numbers import F_LIMIT, G_LIMIT, H_LIMIT


def literals(facts: Facts, forms: Sequence[Form]) -> np.ndarray | None:
    """Signs (forms, variables) of forms that are conjunctions over bits: 1 the bit, -1 its complement, 0 not there. None if one is not."""
    names = list(dict.fromkeys(v for f in forms for v in f[1]))
    at = {v: i for i, v in enumerate(names)}
    if not names or any(facts.lo[v] != 0 or facts.hi[v] != 1 for v in names):
        return None
    out = np.zeros((len(forms), len(names)), np.int8)
    for i, (c, terms) in enumerate(forms):
        if any(abs(k) != 1 for k in terms.values()) or c != 1 - sum(k > 0 for k in terms.values()):
            return None
        for v, k in terms.items():
            out[i, at[v]] = k
    return out


def exclusive_rows(facts: Facts, exclusion: Exclusion, forms: Sequence[Form]) -> bool:
    """Whether at most one of these forms is at least 1 at a time."""
    if len(forms) < 2:
        return True
    signs = literals(facts, forms)
    if signs is not None:
        full = (signs != 0).all(axis=0)                    # bits that every row asks for
        if len(np.unique(signs[:, full], axis=0)) == len(forms):
            return True                                    # any two rows differ in one of them
        if len(forms) <= 256:
            yes, no = (signs > 0).astype(np.int32), (signs < 0).astype(np.int32)
            against = yes @ no.T + no @ yes.T
            if (against + np.eye(len(forms), dtype=np.int32) > 0).all():
                return True
    if len(forms) > 256:
        return False
    return all(facts.most(add(f, g)) < 2 or exclusion.apart([f, g]) for i, f in enumerate(forms) for g in forms[:i])


def check_rows(facts: Facts, exclusion: Exclusion, rows: dict[int, Form], what: str, room: int) -> list[str]:
    """Rows of keys or of queries: conjunctions at most 1, never two at once, not in the last rows of the head."""
    out = []
    if any(not 0 <= i < room for i in rows):
        out.append(f"a {what} row lies outside the head")
    if any(facts.most(f) > 1 for f in rows.values()):
        out.append(f"a {what} row may exceed 1")
    if not exclusive_rows(facts, exclusion, list(rows.values())):
        out.append(f"two {what} rows may be addressed at once")
    return out


def check_value(facts: Facts, value: Form, gate: Form, outs: Sequence[tuple[int, float]]) -> list[str]:
    """Data of a row through its gate: within the limits, an integer after its weight."""
    v, g = facts.most(value), facts.most(gate)
    out = []
    if v > F_LIMIT or g > G_LIMIT or max(v, 0) * max(g, 0) > H_LIMIT:
        out.append(f"a value up to {v:g} through a gate up to {g:g}")
    if any(w != int(w) for _, w in outs):
        out.append("a read is added with a fraction")
    return out
