"""Races, judged by barrier epochs: two accesses to one byte that nothing orders.

Every thread counts epochs of its own and keeps a clock: for other threads, the last epoch that it knows to be over. Threads that
meet at a barrier (`bar`, `barrier`, `bar.warp.sync`) learn each other's clocks. So does a thread that reads atomically, and then has a
fence, from one that had a fence before it wrote there atomically (PTX ISA 8, memory consistency model: fence synchronisation).
Volatile, relaxed, acquire and release accesses count as atomic. Threads of different blocks meet at no barrier. The
order in which the interpreter happens to run threads plays no part.

Not reported: plain writes of one value by several threads, and what an instruction of one thread does to itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from qgpu.ptx.model import Instruction

from .ptx_memory import WINDOW_BYTES, WINDOWS

if TYPE_CHECKING:
    from .ptx_thread import Thread

STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "sc"})
Clock = dict[int, int]


class Access(NamedTuple):
    """What one thread did last to a byte. value: of a plain write, else None."""

    thread: "Thread"
    epoch: int
    atomic: bool
    value: int | None
    where: str


@dataclass
class Known:
    """One thread: its number in the launch, its epoch, and the clocks that it has, that its last fence had, and that its atomic
    reads found since."""

    number: int
    epoch: int = 1
    clock: Clock = field(default_factory=dict)
    fenced: Clock = field(default_factory=dict)
    found: Clock = field(default_factory=dict)

    def now(self) -> Clock:
        return self.clock | {self.number: self.epoch}


@dataclass
class Byte:
    """Accesses to one byte that may still race: by thread number."""

    writes: dict[int, Access] = field(default_factory=dict)
    reads: dict[int, Access] = field(default_factory=dict)


class Race(Exception):
    """what and why are parts of the message of a FaultError."""

    def __init__(self, what: str, why: str) -> None:
        self.what, self.why = what, why
        super().__init__(what)


def _join(into: Clock, other: Clock) -> None:
    for number, epoch in other.items():
        if into.get(number, 0) < epoch:
            into[number] = epoch


class RaceWatch:
    """The accesses of one launch. The interpreter reports every access, fence and meeting, in the order in which it runs them."""

    def __init__(self) -> None:
        self.known: dict[Thread, Known] = {}
        self.bytes: dict[tuple, Byte] = {}
        self.released: dict[tuple, Clock] = {}  # first byte of an atomic access -> what its writers had at their fences

    def _of(self, thread: "Thread") -> Known:
        if thread not in self.known:
            self.known[thread] = Known(len(self.known))
        return self.known[thread]

    def meet(self, come: Iterable["Thread"], leave: Iterable["Thread"] | None = None) -> None:
        """A barrier opens. come: threads whose accesses are over; leave: those that go on knowing it (default: the same)."""
        threads = [self._of(t) for t in come]
        clock: Clock = {}
        for one in threads:
            _join(clock, one.now())
        for one in threads if leave is None else [self._of(t) for t in leave]:
            one.clock = clock
        for one in threads:
            one.epoch += 1

    def fence(self, thread: "Thread") -> None:
        """`membar`, `fence`: what was found by atomic reads is over, and what comes before is told by atomic writes from now on."""
        one = self._of(thread)
        if one.found:
            one.clock = dict(one.clock)
            _join(one.clock, one.found)
            one.found = {}
        one.fenced = one.now()
        one.epoch += 1

    def access(self, thread: "Thread", i: Instruction, space: str | None, address: int, size: int, *, write: bool, atomic: bool = False,
               data: bytes = b"") -> None:
        """One access that went well. data: the bytes of a plain write. Raises Race."""
        if space is None:
            space = "global"
            for window, base in WINDOWS.items():
                if base <= address < base + WINDOW_BYTES:
                    space, address = window, address - base
        if space not in ("global", "shared"):
            return
        home = (space, thread.warp.block.index if space == "shared" else None)
        one, both = self._of(thread), atomic
        atomic = atomic or not STRONG.isdisjoint(i.modifiers)
        for k in range(size):
            byte = self.bytes.setdefault((home, address + k), Byte())
            value = data[k] if write and not atomic and k < len(data) else None
            self._compare(byte.writes, one, thread, atomic, value, f"{size}-byte {'store' if write else 'load'}", "writes", space, address)
            mine = Access(thread, one.epoch, atomic, value, i.where)
            if write:
                self._compare(byte.reads, one, thread, atomic, None, f"{size}-byte store", "reads", space, address)
                if not atomic:
                    byte.writes, byte.reads = {}, {}
                byte.writes[one.number] = mine
            else:
                byte.reads[one.number] = mine
        if atomic:
            self._told(one, (home, address), read=both or not write, write=both or write, i=i)

    def _told(self, one: Known, place: tuple, *, read: bool, write: bool, i: Instruction) -> None:
        released = self.released.setdefault(place, {})
        if read:
            if "acquire" in i.modifiers or "acq_rel" in i.modifiers:
                one.clock = dict(one.clock)
                _join(one.clock, released)
            _join(one.found, released)
        if write:
            _join(released, one.fenced)
            if "release" in i.modifiers or "acq_rel" in i.modifiers:
                _join(released, one.now())
                one.epoch += 1

    def _compare(self, others: dict[int, Access], one: Known, thread: "Thread", atomic: bool, value: int | None, what: str, does: str,
                 space: str, address: int) -> None:
        for number, other in others.items():
            ordered = number == one.number or one.clock.get(number, 0) >= other.epoch
            if ordered or atomic and other.atomic or does == "writes" and value is not None and value == other.value:
                continue
            who = f"thread {other.thread.index} of block {other.thread.warp.block.index}"
            same = other.thread.warp.block is thread.warp.block
            raise Race(f"race: {space} {what} at {address:#x} without an order",
                       f"{who} {does} there at {other.where}, and " +
                       ("no barrier lies between" if same else "thread blocks run in any order"))
