"""Runs a circuit token by token in exact numbers (dyadic, as floats), memory heads and conv taps included: what its weights must do, without weights."""

from __future__ import annotations

import numpy as np

from qgpu.circuit.core import Form, MemoryHead, Signal, Unit
from qgpu.circuit.machine import MachineCircuit, build_machine
from qgpu.circuit.records import code_of, code_table
from qgpu.machine.description import Machine
from qgpu.machine.tokens import Vocabulary
from qgpu_reference.machine import MachineInterpreter

SMALL = Machine("small", lanes=2, registers=3, stages=2, blocks=5, global_words=9, warps=2, chunk_bits=8, stage_load=(1, 2),
                stage_mul=(2,), stage_shift=(1,))
"""One group a warp, a register port for each operand, memory in one head; quickly built."""
GROUPED = Machine("grouped", lanes=2, groups=4, registers=5, register_classes=3, stages=3, blocks=6, global_words=130, shared_words=5,
                  warps=2, chunk_bits=8, stage_load=(1,), stage_mul=(2,), stage_shift=(1,), stage_bits=(2,), stage_mulhi=(3,))
"""Several groups a warp, register ports of classes, shared memory, memory in two heads, every kind of unit."""
MACHINES = {m.name: m for m in (SMALL, GROUPED)}
TAPS = 4


class Forms:
    """Many forms at once, each with its conv tap, over the values of the last tokens."""

    def __init__(self, index: dict[Signal, int], forms: list[Form], taps: list[int]) -> None:
        n = len(index)
        terms = [(r, tap * n + index[s], float(k)) for r, (f, tap) in enumerate(zip(forms, taps)) for s, k in f.coef.items()]
        self.row, self.col = (np.array([t[i] for t in terms], np.intp) for i in (0, 1))
        self.k = np.array([t[2] for t in terms], float)
        self.const = np.array([float(f.const) for f in forms])
        self.tap = np.array(taps, int)

    def __call__(self, x: np.ndarray, seen: int) -> np.ndarray:
        """Values (n,). x (taps * signals,): this token's, the one before's ...; seen: tokens before this one. 0 before the first."""
        found = self.const + np.bincount(self.row, self.k * x[self.col], len(self.const))
        return np.where(self.tap <= seen, found, 0)


class Adds:
    """Amounts to signals: column -> weight * amount."""

    def __init__(self, index: dict[Signal, int], outs: list) -> None:
        terms = [(i, index[s], float(w)) for i, part in enumerate(outs) for s, w in part]
        self.item, self.col = (np.array([t[k] for t in terms], np.intp) for k in (0, 1))
        self.weight = np.array([t[2] for t in terms], float)

    def __call__(self, x: np.ndarray, amount: np.ndarray) -> None:
        np.add.at(x, self.col, self.weight * amount[self.item])


class Memories:
    """The memory heads of one level."""

    def __init__(self, index: dict[Signal, int], heads: list[MemoryHead]) -> None:
        def rows(which):
            spots = [(h, r, f, head.key_tap) for h, head in enumerate(heads) for r, f in getattr(head, which).items()]
            forms = Forms(index, [s[2] for s in spots], [s[3] if which == "key" else 0 for s in spots])
            return forms, [s[:2] for s in spots]

        self.heads = heads
        self.key, self.key_at = rows("key")
        self.query, self.query_at = rows("query")
        self.first = np.cumsum([0, *(len(h.value) for h in heads)])
        self.value = Forms(index, [f for h in heads for f in h.value], [h.tap_of(j) for h in heads for j in range(len(h.value))])
        self.gate = Forms(index, [f for h in heads for f in h.gate], [0] * self.first[-1])
        self.adds = Adds(index, [o for h in heads for o in h.outs])
        self.halve = [(h, Forms(index, [head.halve], [0])) for h, head in enumerate(heads) if head.halve is not None]
        self.state: list[dict[int, np.ndarray]] = [{} for _ in heads]

    def __call__(self, x: np.ndarray, seen: int) -> None:
        for h, form in self.halve:
            if form(x, seen)[0] == 1:
                self.state[h] = {r: v / 2 for r, v in self.state[h].items()}
        value = np.maximum(self.value(x, seen), 0)
        part = lambda h: slice(self.first[h], self.first[h + 1])
        key, written = self.key(x, seen), set()
        for i in np.flatnonzero(key > 0):
            h, r = self.key_at[i]
            assert key[i] == 1 and h not in written, (self.heads[h].name, r, key[i])
            written.add(h)
            self.state[h][r] = value[part(h)].copy()
        read = np.zeros(self.first[-1])
        for i in np.flatnonzero(self.query(x, seen) > 0):
            h, r = self.query_at[i]
            if r in self.state[h]:
                read[part(h)] += self.state[h][r]
        self.adds(x, read * np.maximum(self.gate(x, seen), 0))


class Values:
    """signal -> its value at the last token fed."""

    def __init__(self, index: dict[Signal, int], x: np.ndarray) -> None:
        self.index, self.x = index, x

    def __getitem__(self, s: Signal) -> float:
        return float(self.x[self.index[s]])


class CircuitRunner:
    """value: signal -> its value at the last token fed. Every value must stay within its declared range."""

    def __init__(self, m: Machine) -> None:
        self.machine = m
        self.mc: MachineCircuit = build_machine(m)
        self.vocabulary = Vocabulary(m)
        c = self.mc.circuit
        self.signals = list(c.signals.values())
        index = {s: i for i, s in enumerate(self.signals)}
        n = len(index)
        self.x = np.zeros(TAPS * n)
        self.value = Values(index, self.x)
        self.low, self.high = (np.array([float(getattr(s, k)) for s in self.signals]) for k in ("lo", "hi"))
        self.seen = 0
        self.code = np.array([index[s] for s in self.mc.records.code])
        self.next_code = np.array([index[s] for s in self.mc.next_code])
        self.ids = {tuple(code): i for i, code in enumerate(code_table(m))}
        self.levels = []
        ops, ready, last = _levels(c)
        for level in range(1, last + 1):
            units = [op for op in ops.get(level, ()) if isinstance(op, Unit)]
            heads = [op for op in ops.get(level, ()) if isinstance(op, MemoryHead)]
            continued = [s for s in ready.get(level - 1, ())]
            self.levels.append((np.array([index[s] for s in continued], np.intp), np.array([index[s.base] for s in continued], np.intp),
                                Forms(index, [u.f for u in units], [u.tap for u in units]),
                                Forms(index, [u.g for u in units], [0] * len(units)), Adds(index, [u.outs for u in units]),
                                Memories(index, heads)))

    def feed(self, token_id: int) -> Values:
        """All signals at this token."""
        x, n = self.x, len(self.signals)
        x[n:] = x[:-n].copy()
        x[:n] = 0
        x[self.code] = code_of(self.machine, self.vocabulary.token(token_id))
        for continued, bases, f, g, adds, memories in self.levels:
            x[continued] += x[bases]
            adds(x, np.maximum(f(x, self.seen), 0) * np.maximum(g(x, self.seen), 0))
            memories(x, self.seen)
        now = x[:n]
        for i in np.flatnonzero((now < self.low) | (now > self.high)):
            raise AssertionError(f"{self.signals[i].name} is {now[i]}, its range {self.low[i]}..{self.high[i]}")
        self.seen += 1
        return self.value

    # ---- looking ----------------------------------------------------------------------------------------------------
    def form(self, f: Form) -> float:
        """A form's value at the last token fed."""
        return float(f.const) + sum(float(k) * self.value[s] for s, k in f.coef.items())

    def number(self, bits) -> int:
        """The number that signals or forms spell."""
        values = [self.form(b) if isinstance(b, Form) else self.value[b] for b in bits]
        assert all(v in (0, 1) for v in values), values
        return sum(int(v) << k for k, v in enumerate(values))

    def next_token(self) -> int | None:
        """Id whose code the outputs carry."""
        return self.ids.get(tuple(np.where(self.x[self.next_code] > 0, 1, -1)))


def _levels(c) -> tuple[dict, dict, int]:
    """(level -> ops, level -> continuing signals whose base is complete there, highest level): an op comes after all that it reads."""
    writers: dict[Signal, list] = {}
    for op in [*c.units, *c.heads]:
        outs = op.outs if isinstance(op, Unit) else [o for part in op.outs for o in part]
        for s in dict.fromkeys(s for s, _ in outs):
            writers.setdefault(s, []).append(op)
    level_of: dict[Signal, int] = {}
    op_level = lambda op: 1 + max((level_of[s] for s in op.reads()), default=0)
    for root in c.signals.values():
        stack = [root]
        while stack:
            s = stack[-1]
            needs = {s.base} - {None}
            for op in writers.get(s, ()):
                needs |= op.reads()
            missing = [t for t in needs if t not in level_of]
            assert len(stack) < 10_000, f"a cycle through {s.name}"
            if missing and s not in level_of:
                stack += missing
                continue
            stack.pop()
            if s not in level_of:
                base = [level_of[s.base] + 1] if s.base is not None else []
                level_of[s] = max([*base, *(op_level(op) for op in writers.get(s, ()))], default=0)
    ops: dict[int, list] = {}
    for op in [*c.units, *c.heads]:
        ops.setdefault(op_level(op), []).append(op)
    ready: dict[int, list] = {}
    for s in c.signals.values():
        if s.base is not None:
            ready.setdefault(level_of[s.base], []).append(s)
    return ops, ready, max([*ops, *(k + 1 for k in ready)])


def follow(ids, limit=60, runner=None, machine=SMALL):
    """Runner and interpreter side by side; yields (runner, interpreter, token) after every token."""
    r = runner or CircuitRunner(machine)
    judge = MachineInterpreter(r.machine)
    for i in ids:
        judge.feed(i)
        r.feed(i)
        yield r, judge, r.vocabulary.token(i)
    while judge.running and limit:
        limit -= 1
        i = judge.expected
        judge.feed(i)
        r.feed(i)
        yield r, judge, r.vocabulary.token(i)
