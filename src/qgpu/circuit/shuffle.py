"""Words between lanes: every lane receives the word of the lane that it selected. One level.

    r[dst] += sum over src of  en * select[dst][src] * a[src]        bit by bit, at most one src selected,

with one unit for every two source lanes (``logic.pick_two``).
"""

from __future__ import annotations

from collections.abc import Sequence

from .core import Circuit, Signal
from .logic import pick_many


def shuffle(c: Circuit, a_lanes: Sequence[Sequence[Signal]], select: Sequence[Sequence], en,
            r_lanes: Sequence[Sequence[Signal]]) -> None:
    """Add to each lane the word of the lane it selects, where en is 1.

    a_lanes: a word of bits for each lane. select[dst][src]: a bit (signal or form); at most one src a dst while en
    is 1 (declare it: ``c.one_hot(select[dst], when=en)``), anything while en is 0; none selected adds 0. en: a bit, or one for each destination lane.
    """
    for dst, out in enumerate(r_lanes):
        on = en[dst] if isinstance(en, (list, tuple)) else en
        for i, r in enumerate(out):
            choices = [(a[i], select[dst][src]) for src, a in enumerate(a_lanes)]
            pick_many(c, choices, r, f"lane {dst} bit {i} from another lane", when=on)


def shuffle_value(a_lanes, source, en):
    """What shuffle adds to each lane: a_lanes[source[dst]] if en (source None: 0)."""
    return [en * a_lanes[s] if s is not None else 0 for s in source]
