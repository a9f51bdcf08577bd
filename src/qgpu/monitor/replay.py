"""A token stream to walk through: a cursor that plays, steps and jumps, over a stream that may still grow. No terminal in here."""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from ..machine.description import Machine
from .state import State

EVERY = 8192
"""Tokens between two kept states."""

SPEEDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""Tokens a second when playing."""

JUMPS = ("a token's number, +N, -N, b7 (block 7 runs next), w2 (warp 2's next turn), m12, s12 (next store to global, shared word 12), "
         "start, end")
"""What `Player.jump` takes, in words."""


class Replay:
    """The stream as ids, and the state at any place of it. machine, setup, places: as for State. title: what is shown as its name."""

    def __init__(self, machine: Machine, setup: int, places: Mapping[int, str] | None = None, ids: Iterable[int] = (),
                 title: str = "") -> None:
        self.machine, self.setup, self.title = machine, setup, title
        self.ids = array("I")
        self.state = State(machine, setup, places)
        self.vocabulary = self.state.vocabulary
        self._kept = [self.state.copy()]
        self.extend(ids)

    def extend(self, ids: Iterable[int]) -> None:
        """The stream goes on. Raises ValueError for an id outside the machine's vocabulary."""
        more = array("I", ids)
        if more and max(more) >= self.vocabulary.size:
            raise ValueError(f"token id {max(more)} is outside the vocabulary of machine {self.machine.name}, {self.vocabulary.size} tokens")
        self.ids += more

    def go(self, cursor: int, seconds: float = 1e9) -> bool:
        """Bring `state` to the place after `cursor` tokens, or as far as so much processor time allows. Returns whether it is there."""
        cursor = max(0, min(cursor, len(self.ids)))
        kept = self._kept[bisect_right(self._kept, cursor, key=lambda s: s.position) - 1]
        if not kept.position <= self.state.position <= cursor:
            self.state = kept.copy()
        state, until = self.state, time.thread_time() + seconds
        while state.position < cursor:
            state.feed(self.ids[state.position])
            if state.position % EVERY == 0 and state.position > self._kept[-1].position:
                self._kept.append(state.copy())
            if state.position % 64 == 0 and time.thread_time() >= until:
                break
        return state.position == cursor

    def find(self, kind: str, first: int = 0, count: int | None = None, after: int = 0, back: bool = False) -> int | None:
        """Position of the next token, from `after` on, whose payload is first .. first + count - 1; with back, of the last one before."""
        low = self.vocabulary.base[kind] + first
        high = low + (self.vocabulary.counts[kind] if count is None else count)
        places = range(min(after, len(self.ids)) - 1, -1, -1) if back else range(after, len(self.ids))
        return next((p for p in places if low <= self.ids[p] < high), None)


class Player:
    """The cursor and how it moves. cursor: tokens that have been taken in. live: it stays at the stream's end.
    playing: it moves by `speed` tokens a second. done: the stream does not grow any more."""

    def __init__(self, replay: Replay, live: bool = False, speed: int = 10, done: bool = True) -> None:
        self.replay, self.live, self.playing, self.speed, self.done = replay, live, False, speed, done
        self.cursor = len(replay.ids) if live else min(replay.setup, len(replay.ids))
        self._rest = 0.0

    @property
    def end(self) -> int:
        return len(self.replay.ids)

    def tick(self, seconds: float, budget: float = 0.05) -> bool:
        """Time passes. budget: processor seconds that may go into following the stream. Returns whether the state is at the cursor."""
        if self.live:
            self.cursor = self.end
        elif self.playing:
            self._rest += seconds * self.speed
            whole = int(self._rest)
            self._rest -= whole
            self.cursor = min(self.cursor + whole, self.end)
            if self.cursor == self.end and self.done:
                self.playing = False
        return self.replay.go(self.cursor, budget)

    def toggle(self) -> None:
        """Pause; or go on: to the end of the stream again from its end, else at `speed`."""
        if self.live or self.playing:
            self.live = self.playing = False
        elif self.cursor < self.end:
            self.playing, self._rest = True, 0.0
        elif not self.done:
            self.live = True
        else:
            self.start()
            self.playing, self._rest = True, 0.0

    def move(self, cursor: int) -> None:
        """Stop at a place, after so many tokens."""
        self.live = self.playing = False
        self.cursor = max(0, min(cursor, self.end))

    def step(self, tokens: int = 1) -> None:
        """One token on, or back."""
        self.move(self.cursor + tokens)

    def step_pass(self, back: bool = False) -> str:
        """To the next pass (EXEC, NEXT, PARK), or the one before. Returns what is wrong, or ""."""
        found = [self.replay.find(kind, after=self.cursor - 1 if back else self.cursor, back=back) for kind in ("EXEC", "NEXT", "PARK")]
        places = [p for p in found if p is not None]
        if not places:
            return "no pass before this one" if back else "no further pass"
        self.move((max(places) if back else min(places)) + 1)
        return ""

    def start(self) -> None:
        """To where the model takes over."""
        self.move(self.replay.setup)

    def to_end(self) -> None:
        """To the end of the stream, and along with it while it grows."""
        self.move(self.end)
        self.live = not self.done

    def faster(self, steps: int = 1) -> None:
        """The next of SPEEDS, or (-1) the one before."""
        at = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.speed))
        self.speed = SPEEDS[max(0, min(at + steps, len(SPEEDS) - 1))]

    def jump(self, text: str) -> str:
        """Go where the text says (JUMPS). Returns what is wrong, or ""."""
        text = text.strip().lower()
        if text in ("end", "e"):
            self.to_end()
            return ""
        if text in ("start", "s"):
            self.start()
            return ""
        found = re.fullmatch(r"([+-]|[bwms]|)([0-9]{1,9})", text)
        if not found:
            return f"{text[:20]!r} is no place: {JUMPS}"
        sign, number = found[1], int(found[2])
        if sign in ("+", "-"):
            self.step(number if sign == "+" else -number)
            return ""
        if not sign:
            if number >= self.end:
                return f"no token {number}: the stream has {self.end:,}"
            self.move(number + 1)
            return ""
        return self._next_of(sign, number)

    def _next_of(self, sign: str, number: int) -> str:
        m = self.replay.machine
        kind, base, most, each, name = {"b": ("EXEC", 0, m.blocks, 3 ** m.lanes, "block"), "w": ("WARP", 0, m.warps, 4, "warp"),
                                        "m": ("MEM", 0, m.global_words, 1, "global word"),
                                        "s": ("MEM", m.global_words, m.shared_words, 1, "shared word")}[sign]
        if number >= most:
            return f"no {name} {number}: machine {m.name} has {most}"
        at = self.replay.find(kind, (base + number) * each, each, after=self.cursor)
        if at is None:
            return f"{name} {number} does not come again after token {self.cursor - 1}"
        self.move(at + 1)
        return ""
