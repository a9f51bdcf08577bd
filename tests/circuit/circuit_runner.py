"""Runs a circuit token by token in exact numbers (dyadic, as floats), memory heads and conv taps included: what its weights must do, without weights."""

from __future__ import annotations

from qgpu.circuit.core import Form, MemoryHead, Unit
from qgpu.circuit.machine import MachineCircuit, build_machine
from qgpu.circuit.records import code_of
from qgpu.machine.description import Machine
from qgpu.machine.tokens import Vocabulary
from qgpu_reference.machine import MachineInterpreter

SMALL = Machine("small", lanes=2, registers=3, stages=2, blocks=5, global_words=9, warps=2, chunk_bits=8, stage_mul=(2,),
                stage_shift=(1,))
"""A machine with every kind of part, quickly built."""


class CircuitRunner:
    """value: signal -> its value at the last token fed. Every value must stay within its declared range."""

    def __init__(self, m: Machine) -> None:
        self.machine = m
        self.mc: MachineCircuit = build_machine(m)
        self.vocabulary = Vocabulary(m)
        c = self.mc.circuit
        self.rows: dict[int, dict[int, list[float]]] = {id(h): {} for h in c.heads}
        self.past: list[dict] = []
        self.value: dict = {}
        self.writers: dict = {}
        for op in [*c.units, *c.heads]:
            outs = op.outs if isinstance(op, Unit) else [o for part in op.outs for o in part]
            for s in dict.fromkeys(s for s, _ in outs):
                self.writers.setdefault(s, []).append(op)
        self.order = self._order()
        self.terms: dict[int, tuple] = {}         # id(form) -> form (kept alive), constant, [(signal, coefficient)]

    def _order(self) -> list:
        """Signals, each after all that it depends on within a token."""
        needs = {s: {s.base} - {None} for s in self.mc.circuit.signals.values()}
        for s, ops in self.writers.items():
            for op in ops:
                needs[s] |= op.reads()
        out, done = [], set()
        for root in needs:
            stack = [root]
            while stack:
                s = stack[-1]
                missing = [t for t in needs[s] if t not in done]
                if missing and s not in done:
                    stack += missing
                else:
                    stack.pop()
                    if s not in done:
                        done.add(s)
                        out.append(s)
        return out

    def feed(self, token_id: int) -> dict:
        """All signals at this token."""
        code = code_of(self.machine, self.vocabulary.token(token_id))
        self.value = dict(zip(self.mc.records.code, map(float, code)))
        self.done: dict[int, object] = {}
        for s in self.order:
            if s in self.value:
                continue
            total = self.value[s.base] if s.base is not None else 0
            for op in self.writers.get(s, ()):
                total += sum(w * x for t, w, x in self._contributions(op) if t is s)
            assert s.lo <= total <= s.hi, (s.name, total)
            self.value[s] = total
        self.past = [self.value, *self.past[:2]]
        return self.value

    def form(self, f: Form, tap: int = 0):
        """A form's value `tap` tokens ago; 0 before the first token."""
        if tap > len(self.past):
            return 0
        value = self.value if tap == 0 else self.past[tap - 1]
        found = self.terms.get(id(f))
        if found is None:
            found = self.terms[id(f)] = (f, float(f.const), [(s, float(k)) for s, k in f.coef.items()])
        _, total, terms = found
        for s, k in terms:
            total += k * value[s]
        return total

    def _contributions(self, op: Unit | MemoryHead) -> list:
        """(signal, weight, amount) of an op at this token."""
        if id(op) not in self.done:
            if isinstance(op, Unit):
                f = self.form(op.f, op.tap)
                amount = f * max(self.form(op.g), 0) if f > 0 else 0
                self.done[id(op)] = [(s, float(w), amount) for s, w in op.outs] if amount else []
            else:
                self.done[id(op)] = self._memory(op)
        return self.done[id(op)]

    def _memory(self, head: MemoryHead) -> list:
        rows = self.rows[id(head)]
        if head.halve is not None and self.form(head.halve) == 1:
            for row in rows.values():
                row[:] = [v / 2 for v in row]
        written = [r for r, f in head.key.items() if self.form(f, head.key_tap) > 0]
        assert len(written) <= 1, (head.name, written)
        for r in written:
            assert self.form(head.key[r], head.key_tap) == 1
            rows[r] = [max(self.form(f, head.tap_of(j)), 0) for j, f in enumerate(head.value)]
        read = [r for r, f in head.query.items() if self.form(f) > 0]
        out = []
        for j, outs in enumerate(head.outs):
            got = sum(rows[r][j] for r in read if r in rows)
            gate = self.form(head.gate[j]) if got else 0
            if gate > 0:
                out += [(s, float(w), got * gate) for s, w in outs]
        return out

    # ---- looking ----------------------------------------------------------------------------------------------------
    def number(self, bits) -> int:
        """The number that signals or forms spell."""
        values = [self.form(b) if isinstance(b, Form) else self.value[b] for b in bits]
        assert all(v in (0, 1) for v in values), values
        return sum(int(v) << k for k, v in enumerate(values))

    def next_token(self) -> int | None:
        """Id whose code the outputs carry."""
        code = [1 if self.value[s] > 0 else -1 for s in self.mc.next_code]
        return next((i for i in range(self.vocabulary.size) if code_of(self.machine, self.vocabulary.token(i)) == code), None)


def follow(ids, limit=60, runner=None):
    """Runner and interpreter side by side; yields (runner, interpreter, token) after every token."""
    r, judge = runner or CircuitRunner(SMALL), MachineInterpreter(SMALL)
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
