"""Whether memory accesses can meet: of one thread, and of two threads of a warp."""

from __future__ import annotations

from .evaluate import bounds
from .ir import Op, Value


APART = frozenset({"global", "shared", "local", "const", "scratch", "spill", "reduce"})
"""State spaces that lie apart from each other."""
OWN = frozenset({"scratch", "spill", "reduce"})
"""Those that no generic address leads to."""


def _spaces_apart(x: Op, y: Op) -> bool:
    if "const" in (x.space, y.space):
        return True
    if x.space == y.space:
        return False
    return x.space in OWN or y.space in OWN or x.space in APART and y.space in APART


def _split_address(op: Op) -> tuple[Value, int]:
    """An address as a value and a constant."""
    a, b = op.args[:2]
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int):
        if b == 0 and isinstance(a, Op) and a.kind == "add" and isinstance(a.args[1], int):
            return a.args[0], a.args[1]
        return a, b
    return op, 0


def _same_base(x: Value, y: Value) -> bool:
    if x is y or isinstance(x, int) and isinstance(y, int) and x == y:
        return True
    return isinstance(x, Op) and isinstance(y, Op) and x.kind == y.kind and x.kind not in ("ld", "st", "phi", "shfl", "ballot") \
        and x.key() == y.key()


def may_alias(x: Op, y: Op) -> bool:
    """Whether two accesses of one thread can meet: not if they are the same base plus different constants."""
    if _spaces_apart(x, y):
        return False
    (base_x, off_x), (base_y, off_y) = _split_address(x), _split_address(y)
    return not (_same_base(base_x, base_y) and off_x != off_y)


def may_cross(x: Op, y: Op, threads: int, fenced: bool) -> bool:
    """Whether accesses of two threads of a warp can meet in a way that the order of the two operations decides.

    Groups run a block one after the other, so such a load and store must not share one. The same address in every thread, or one of its
    own, does not count without a fence between: then the program has a race.
    """
    if _spaces_apart(x, y) or x.space in ("local", "spill"):
        return False
    (base_x, off_x), (base_y, off_y) = _split_address(x), _split_address(y)
    if not _same_base(base_x, base_y):
        return True
    if off_x == off_y:
        return fenced
    low, high = bounds(base_x, threads)
    return abs(off_x - off_y) <= high - low
