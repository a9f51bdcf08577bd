"""What the machine's panel shows, derived from the token stream alone: feed it every token, read its fields.

Nothing is executed here. A register, a memory word or a stage's result is known once the stream has said it; what the stream does not
say (results that no later block reads, words that nobody wrote) stays unknown. Program words are decoded, never run.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..errors import LoweringError
from ..machine.description import Machine
from ..machine.encoding import WORD_MASK, Block, decode
from ..machine.tokens import Token, Vocabulary
from ..runtime.trace import VALUES, Narrator

KEPT_TOKENS = 80
"""Tokens that are remembered in words: more than any panel has lines."""

HOST_ONLY = frozenset({"NOP", "PROG", "CONFIG", "GRID"})
CONTROL = frozenset({"EXEC", "NEXT", "PARK"})

RUNS, SAME, WAITS, BARRIER, DONE, ABSENT, FRESH = "#", "+", "o", "=", "x", "-", "."
"""A lane: in the pass that runs; at the running block, its group is not the one that runs; waits at another block; waits at a barrier;
at the exit; no thread; its warp has not started."""


class Said(NamedTuple):
    """A token in words. name: its kind and fields."""

    position: int
    name: str
    meaning: str


def token_name(token: Token) -> str:
    """A token's kind and fields as --emit tokens prints them: "EXEC 2 ...F"."""
    return " ".join([token.kind, *("".join(".FT"[o] for o in f) if isinstance(f, tuple) else str(f) for f in token.fields)])


class State:
    """The machine after the tokens fed so far.

    setup: how many tokens the host writes. position: tokens fed. pass_at: position of the token that began the pass.
    ended: "", "END", "TRAP", or "FOREIGN" where the model wrote a token that only the host may.
    registers: (warps, groups, lanes, registers + 1) uint32; known: the same shape, bool.
    memory: (words,) uint32; stored: (words,) int64, position of the token that wrote it last, -1 before.
    active: lanes of the pass that runs, or ran last. Of it: results: (stage, lane) -> value; data: lane -> value being stored;
    words: lane -> word it went to; lit_registers: (warp, group, lane, register) written. lit_words: what the last storing pass wrote.
    passes: block -> how often it ran. ballots: (warps,) bits by lane.
    warps: each one's state in this thread block, "fresh" (not started), "runs", "barrier" or "ended".
    """

    def __init__(self, machine: Machine, setup: int, places: Mapping[int, str] | None = None) -> None:
        self.machine, self.setup = machine, setup
        self.vocabulary, self._chunks = Vocabulary(machine), machine.chunks
        self._tokens: dict[int, tuple[Token, str]] = {}  # by id, with their names; shared by copies
        self.narrator = Narrator(machine, places)
        m = machine
        self.registers = np.zeros((m.warps, m.groups, m.lanes, m.registers + 1), np.uint32)
        self.known = np.zeros(self.registers.shape, bool)
        self.memory, self.stored = np.zeros(m.words, np.uint32), np.full(m.words, -1, np.int64)
        self.position, self.pass_at, self.ended = 0, -1, ""
        self.results: dict[tuple[int, int], int] = {}
        self.data: dict[int, int] = {}
        self.words: dict[int, int] = {}
        self.lit_registers: set[tuple[int, int, int, int]] = set()
        self.lit_words: set[int] = set()
        self._fresh_words = True
        self.active: list[int] = []
        self.passes: dict[int, int] = {}
        self.ballots = [0] * m.warps
        self.warps = ["fresh"] * m.warps
        self.said: deque[Said] = deque(maxlen=KEPT_TOKENS)
        self._decoded: dict[int, Block | None] = {}

    def copy(self) -> "State":
        """A second state that goes on from here; neither sees the other's tokens."""
        other = copy.copy(self)
        n = other.narrator = copy.copy(self.narrator)
        n.program = {block: list(words) for block, words in n.program.items()}
        n.targets = [[list(lanes) for lanes in groups] for groups in n.targets]
        n.grid, n.index, n.due = list(n.grid), list(n.index), n.due.copy()
        for name in ("registers", "known", "memory", "stored", "results", "data", "words", "lit_registers", "lit_words", "passes",
                     "ballots", "warps", "said", "_decoded"):
            setattr(other, name, getattr(self, name).copy())
        return other

    # ---- the stream -----------------------------------------------------------------------------------------------
    def feed(self, token_id: int) -> None:
        """One more token. Raises ValueError for an id outside the machine's vocabulary."""
        found = self._tokens.get(token_id)
        if found is None:
            token = self.vocabulary.token(token_id)
            found = self._tokens[token_id] = token, token_name(token)
        token, name = found
        n, kind = self.narrator, token.kind
        if n.chunks >= self._chunks:  # more than a value has: such a stream is no launch's
            n.value = n.chunks = 0
        due = n.due[0] if n.running and n.due else None
        if kind == "SVAL":
            self._value(due, token.fields[0])
        elif kind == "MEM":
            self._store(due, token.fields[0])
        elif kind in CONTROL:
            self._outcome(token.fields[-1])
        was_running = n.running
        meaning = n.meaning(token)
        if kind == "PROG":
            self._decoded.pop(token.fields[1], None)
        elif kind in ("EXEC", "NEXT"):
            self._begin(kind)
        elif kind == "WARP":
            if token.fields[0] == 0 and token.fields[2]:  # a new thread block
                self.warps = ["fresh"] * self.machine.warps
            self.warps[n.warp] = "runs" if token.fields[2] or self._smallest() != self.machine.exit_target else "ended"
        elif kind == "PARK":
            self.warps[n.warp] = "ended" if self._smallest() == self.machine.exit_target else "barrier"
        elif kind in ("END", "TRAP"):
            self.ended = kind
        if kind in HOST_ONLY and self.position >= self.setup and was_running:
            self.ended = "FOREIGN"
        self.said.append(Said(self.position, name, meaning))
        self.position += 1

    def _value(self, due, chunk: int) -> None:
        """A value completes: whose it is, its place among what is due says."""
        if due is None or due.kind not in VALUES:
            return
        n, bits = self.narrator, self.machine.chunk_bits
        value = (n.value | (chunk - (chunk >> (bits - 1) << bits)) << (bits * n.chunks)) & WORD_MASK
        if due.kind == "data":
            self.data[due.lane] = value
        elif due.kind == "result":
            self.results[due.number, due.lane] = value
            register = self._header("dest%d" % due.number)
            if 0 < register <= self.machine.registers:
                at = (n.warp, n.group, due.lane, register)
                self.registers[at], self.known[at] = value, True
                self.lit_registers.add(at)

    def _store(self, due, word: int) -> None:
        """The value just completed goes to memory."""
        self.memory[word], self.stored[word] = self.narrator.value & WORD_MASK, self.position
        if self.narrator.running:
            if self._fresh_words:
                self.lit_words.clear()
                self._fresh_words = False
            self.lit_words.add(word)
        if due is not None and due.kind == "mem":
            self.words[due.lane] = word

    def _outcome(self, outcome: tuple[int, ...]) -> None:
        """The group that ran is told where its lanes went; a voting block's lanes change the ballot."""
        n = self.narrator
        if n.block is not None and self._header("vote"):
            for lane, o in enumerate(outcome):
                bit = 1 << (n.group * self.machine.lanes + lane)
                self.ballots[n.warp] = self.ballots[n.warp] & ~bit | (bit if o == 2 else 0)

    def _begin(self, kind: str) -> None:
        """A pass starts."""
        self.results, self.data, self.words, self.lit_registers = {}, {}, {}, set()
        self._fresh_words, self.pass_at = True, self.position
        n = self.narrator
        self.active = [lane for lane, target in enumerate(n.targets[n.warp][n.group]) if target == n.block]
        if n.block is not None:
            self.passes[n.block] = self.passes.get(n.block, 0) + 1
            if kind == "EXEC" and self._header("clear"):
                self.ballots[n.warp] = 0

    def _smallest(self) -> int:
        return min(map(min, self.narrator.targets[self.narrator.warp]))

    def _header(self, name: str) -> int:
        """A header field of the current block; 0 where its words were never sent."""
        words = self.narrator.program.get(-1 if self.narrator.block is None else self.narrator.block)
        word, low, width = self.machine.header_fields[name]
        return words[word] >> low & ((1 << width) - 1) if words else 0

    # ---- what is shown --------------------------------------------------------------------------------------------
    def block(self, number: int) -> Block | None:
        """A program block, or None where its words encode none."""
        if number not in self._decoded:
            words = self.narrator.program.get(number)
            try:
                self._decoded[number] = decode(self.machine, words) if words else None
            except LoweringError:
                self._decoded[number] = None
        return self._decoded[number]

    @property
    def running(self) -> int | None:
        """The block that runs, or None between warps and before the launch."""
        return self.narrator.block

    @property
    def generated(self) -> int:
        """Tokens that the model has written."""
        return max(0, self.position - self.setup)

    def pending(self) -> set[tuple[int, int]]:
        """(stage, lane) of the results that the stream is about to say; stage 0 is a store's data."""
        return {(d.number, d.lane) for d in self.narrator.due if d.kind in ("result", "data")}

    def lane(self, warp: int, group: int, lane: int) -> str:
        """One of the signs RUNS, SAME, WAITS, BARRIER, DONE, ABSENT, FRESH."""
        m, n = self.machine, self.narrator
        if warp * m.warp_size + group * m.lanes + lane >= n.threads:
            return ABSENT
        if self.warps[warp] == "fresh":
            return FRESH
        target = n.targets[warp][group][lane]
        if target == m.exit_target:
            return DONE
        if self.warps[warp] == "barrier":
            return BARRIER
        if warp != n.warp or target != n.block:
            return WAITS
        return RUNS if group == n.group else SAME

    def at(self, warp: int) -> dict[int, list[str]]:
        """Where a warp's lanes want to go: target -> a mask for each group, "#" for the lanes that do, "." for others."""
        m, n = self.machine, self.narrator
        targets = n.targets[warp]
        out = {}
        for target in sorted({t for group in targets for t in group}):
            out[target] = ["".join("#" if t == target and warp * m.warp_size + g * m.lanes + lane < n.threads else "."
                                   for lane, t in enumerate(group)) for g, group in enumerate(targets)]
        return {t: masks for t, masks in out.items() if any("#" in mask for mask in masks)}
