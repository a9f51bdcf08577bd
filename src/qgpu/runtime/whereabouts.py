"""Where a launch is, by its token stream: thread block, warp, group, block of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..machine.description import AXES, Machine
from ..machine.tokens import Vocabulary


@dataclass(frozen=True)
class Whereabouts:
    """index: the thread block's, x, y, z. group, block: None where nothing has run since the warp's last token."""

    index: tuple[int, int, int]
    warp: int
    group: int | None
    block: int | None

    def threads(self, machine: Machine) -> tuple[int, int]:
        """First and last thread, numbered in the thread block, that the current group, or else the warp, has room for."""
        first = self.warp * machine.warp_size + (self.group or 0) * machine.lanes
        return first, first + (machine.warp_size if self.group is None else machine.lanes) - 1


def whereabouts(machine: Machine, ids: Sequence[int]) -> Whereabouts:
    """Read a stream from its end. ids: setup and the tokens generated so far."""
    vocabulary = Vocabulary(machine)

    def kind(name: str) -> range:
        return range(vocabulary.base[name], vocabulary.base[name] + vocabulary.counts[name])
    warps, execs, nexts, blocks = map(kind, ("WARP", "EXEC", "NEXT", "BLOCK"))
    index: dict[int, int] = {}
    warp = group = block = None
    for position in range(len(ids) - 1, 0, -1):
        token = ids[position]
        if token in blocks:  # an index fits one token, which stands just before
            axis = token - blocks.start
            index.setdefault(axis, ids[position - 1] - vocabulary.base["SVAL"])
            if len(index) == len(AXES):
                break
        elif warp is None:
            if token in warps:
                warp = vocabulary.token(token).fields[0]
            elif block is None and token in execs:
                block, group = vocabulary.token(token).fields[0], 0 if group is None else group
            elif group is None and token in nexts:
                group = vocabulary.token(token).fields[0]
    x, y, z = (index.get(axis, 0) for axis in range(len(AXES)))
    return Whereabouts((x, y, z), warp or 0, group, block)
