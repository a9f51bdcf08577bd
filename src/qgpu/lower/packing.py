"""One basic block's operations, packed into machine blocks.

A machine block is a set of at most `stages` operations. What its instructions read is either the result of an earlier stage or
a register as it was before the block. A result that a later block reads costs tokens for every lane, a block costs one token, so the
search is for the cheapest sequence of sets: dynamic programming over the sets of operations done so far, with a beam.

Operations that are cheap to make out of tid and constants are not packed themselves: each set brings along those that its
members read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from ..machine.description import Machine
from .alias import may_alias, may_cross
from .evaluate import bounds
from .ir import Block, Op
from .leave_ssa import Classes
from .rematerialise import MOST_STEPS, steps

BEAM = 16
CANDIDATES = 250
WIDE = 24
"""Operations of a basic block beyond which the search narrows: fewer states, fewer sets, and only the next WINDOW operations."""
WINDOW = 14
NEAR = 5
"""The window where the order matters most."""


@dataclass
class Packed:
    """A machine block in the making: operation of each stage (or None), and for a branch its condition's place is the last."""

    stages: list[Op | None]
    live: set[Op] = field(default_factory=set)

    def stage_of(self, op: Op) -> int | None:
        return self.stages.index(op) + 1 if op in self.stages else None

    def registers_of(self, op: Op | None) -> list[Op]:
        """The operands that an operation of this block reads from registers."""
        if op is None:
            return []
        at = self.stages.index(op)
        return [a for a in op.args if isinstance(a, Op) and a not in self.stages[:at]]


def pack(machine: Machine, threads: int, block: Block, must_live: set[Op], classes: Classes, inline: bool, dense: bool,
         near: bool) -> list[Packed]:
    """The cheaper of packing with and without making cheap values again. near: operations stay close to their order, which keeps
    few values alive. Raises CannotPack."""
    found: list[tuple[int, list[Packed]]] = []
    for again in (True, False) if inline else (False,):
        packer = Packer(machine, threads, block, must_live, classes, again, dense)
        if near:
            packer.window = NEAR
        try:
            packed = packer.run()
            found.append((packer.cost, packed))
        except CannotPack:
            pass
        if not packer.inlined:
            break
    if not found:
        raise CannotPack(block.label)
    return min(found, key=lambda f: f[0])[1]


class CannotPack(Exception):
    """The constraints of this block admit no packing in the mode that was tried."""


class Packer:
    """Packs one basic block.

    must_live: values that must be in their register when the block ends. inline: make cheap values again beside each reader.
    dense: as few machine blocks as possible, whatever it costs in live results.
    """

    def __init__(self, machine: Machine, threads: int, block: Block, must_live: set[Op], classes: Classes, inline: bool,
                 dense: bool = False) -> None:
        self.machine, self.threads, self.classes = machine, threads, classes
        self.block_cost = 1000 if dense else 1
        self.window: int | None = None
        self.block, self.must_live = block, must_live
        self.branch = self._branch_op()
        ops = [op for op in block.ops if op.kind != "fence"]
        if self.branch is not None and self.branch not in ops:
            ops.append(self.branch)
        self.rank = {op: k for k, op in enumerate(ops)}
        kept: set[Op] = set()  # cheap, but too much for a machine block together with a reader
        while True:
            self.inlined = self._inlinable(ops, kept) if inline else set()
            self.real = [op for op in ops if op not in self.inlined]
            tight = [op for op in self.real if self._assign({op}) is None and self._brings(op)]
            if not tight:
                break
            kept.add(max(self._brings(tight[0]), key=lambda o: (steps(o), self.rank[o])))
        self.index = {op: k for k, op in enumerate(self.real)}
        self.full = (1 << len(self.real)) - 1
        self._constraints()
        self._known: dict[int, list[Op | None] | None] = {}

    # ---- what must come before what -------------------------------------------------------------------------------
    def _branch_op(self) -> Op | None:
        """The operation that must be in the last stage of the last machine block."""
        c = self.block.condition
        if c is None:
            return None
        if isinstance(c, Op) and c in self.block.ops and self._fits(self.machine.stages, c) \
                and not any(c in op.args for op in self.block.ops):
            return c
        return Op("or", [c, 0], origin=self.block.origin)

    def _inlinable(self, ops: list[Op], kept: set[Op]) -> set[Op]:
        """Operations to make again beside each reader: from tid, constants and each other, not from registers that may change."""
        out: set[Op] = set()
        for op in ops:
            if op in self.must_live or op in kept or op is self.branch or steps(op) > MOST_STEPS:
                continue
            if all(a in out for a in op.args if isinstance(a, Op)):
                out.add(op)
        return out

    def _brings(self, op: Op) -> set[Op]:
        """Inlined operations that op needs beside it."""
        out: set[Op] = set()
        for a in op.args:
            if a in self.inlined:
                out |= {a} | self._brings(a)
        return out

    def _constraints(self) -> None:
        n = len(self.real)
        self.data, self.strict, self.soft = [0] * n, [0] * n, [0] * n
        self.readers: list[int] = [0] * n
        for k, op in enumerate(self.real):
            for a in op.args:
                if a in self.index:
                    self.data[k] |= 1 << self.index[a]
                    self.readers[self.index[a]] |= 1 << k
        self._memory_order()
        if self.block.votes:  # the last machine block empties the ballot before it runs
            for op in self.real:
                if op.kind == "ballot":
                    self.strict[self.index[self.branch]] |= 1 << self.index[op]
        for w in self.must_live:
            if w not in self.index:
                continue
            for k, reader in enumerate(self.real):
                for a in reader.args:
                    if isinstance(a, Op) and a is not w and reader is not w and self.classes.of(a) is self.classes.of(w):
                        self.soft[self.index[w]] |= 1 << k
        self.weight = [0 if op in self.must_live else self._weight(op) for op in self.real]

    def _memory_order(self) -> None:
        """Loads after stores that they may see wait for a later block; stores keep their order; fences end all freedom."""
        epoch = 0
        earlier: list[tuple[Op, int]] = []
        for op in self.block.ops:
            if op.kind == "fence":
                epoch += 1
            if op.kind not in ("ld", "st"):
                continue
            k = self.index[op]
            for other, e in earlier:
                j = self.index[other]
                if self.block.whole:
                    self.soft[k] |= 1 << j
                elif op.kind == "st" and other.kind == "st":
                    self.strict[k] |= 1 << j
                elif "st" not in (op.kind, other.kind):
                    continue
                elif other.kind == "st" and (e != epoch or may_alias(other, op)) or may_cross(other, op, self.threads, e != epoch):
                    self.strict[k] |= 1 << j
                elif other.kind == "ld":
                    self.soft[k] |= 1 << j
            earlier.append((op, epoch))

    def _weight(self, op: Op) -> int:
        """Tokens that one live result is expected to take: a chunk for each lane if it is sure to be small, two for an address, and
        little more than one for a value without bounds, because most values are small."""
        low, high = bounds(op, self.threads)
        least = len(range(0, low.bit_length() + 1, self.machine.chunk_bits))
        return self.machine.lanes * least + (high.bit_length() >= least * self.machine.chunk_bits)

    # ---- one machine block ----------------------------------------------------------------------------------------
    def _assign(self, ops: set[Op]) -> list[Op | None] | None:
        """A stage for each operation and what it brings along, or None."""
        wanted = set(ops)
        for op in ops:
            wanted |= self._brings(op)
        n = self.machine.stages
        if len(wanted) > n or sum(op.kind == "st" for op in wanted) > 1:
            return None
        needs = {op: {a for a in op.args if a in wanted} for op in wanted}
        stages: list[Op | None] = [None] * n
        order = sorted(wanted, key=self.rank.__getitem__)

        def fill(stage: int, left: set[Op]) -> bool:
            if not left:
                return True
            if stage > n or len(left) > n - stage + 1:
                return False
            for op in order:
                if op not in left or needs[op] & left or not self._fits(stage, op):
                    continue
                if op is self.branch and stage != n:
                    continue
                stages[stage - 1] = op
                if fill(stage + 1, left - {op}):
                    return True
                stages[stage - 1] = None
            return fill(stage + 1, left)
        return stages if fill(1, wanted) else None

    def _fits(self, stage: int, op: Op) -> bool:
        return self.machine.has(stage, op.kind) or (op.kind == "shl" and isinstance(op.args[1], int) and op.args[1] < 32
                                                    and self.machine.has(stage, "mul"))

    def _stages(self, chosen: int) -> list[Op | None] | None:
        found = self._known.get(chosen, False)
        if found is False:
            found = self._known[chosen] = self._assign({self.real[k] for k in _bits(chosen)})
        return found

    def _cost(self, done: int, chosen: int, members: tuple[int, ...]) -> int:
        cost = self.block_cost
        rest = self.full & ~(done | chosen)
        for k in members:
            if self.readers[k] & rest:
                cost += self.weight[k]
        return cost

    # ---- the sequence ---------------------------------------------------------------------------------------------
    def _choices(self, done: int) -> list[tuple[int, tuple[int, ...]]]:
        """Sets of operations that may be the next machine block, as bits and as numbers."""
        out: list[tuple[int, tuple[int, ...]]] = []
        n = len(self.real)
        last = self.index[self.branch] if self.branch is not None else -1
        nearest = [k for k in range(n) if not done >> k & 1][:self.window or (n if n <= WIDE else WINDOW)]
        nearest = [k for k in nearest if not self.strict[k] & ~done]
        data, soft, most = self.data, self.soft, self.machine.stages
        limit = CANDIDATES if n <= WIDE else CANDIDATES // 3

        def extend(chosen: int, start: int, members: tuple[int, ...], wants: int) -> None:
            """wants: operations that must not come later than these."""
            if len(out) >= limit:
                return
            for at in range(start, len(nearest)):
                k = nearest[at]
                if data[k] & ~(done | chosen):
                    continue
                new = chosen | 1 << k
                if self._stages(new) is None:
                    continue
                now, needed = (*members, k), wants | soft[k]
                if len(now) < most:
                    extend(new, at + 1, now, needed)
                if last >= 0 and new >> last & 1 and done | new != self.full:
                    continue
                if not needed & ~(done | new):
                    out.append((new, now))
        extend(0, 0, (), 0)
        return out

    def run(self) -> list[Packed]:
        """The machine blocks in order; `cost` says afterwards what they are expected to take. Raises CannotPack."""
        self.cost = 0
        if not self.real:
            return []
        n = len(self.real)
        if self.block.whole:
            return self._run_whole()
        beam = BEAM if n <= WIDE else max(3, BEAM * WIDE // n // 2)
        tie = count()
        best: dict[int, tuple[int, int, int, int]] = {0: (0, next(tie), 0, 0)}  # done -> cost, tie, before, chosen
        levels: list[list[int]] = [[] for _ in range(n + 1)]
        levels[0].append(0)
        for level in range(n):
            states = sorted(set(levels[level]), key=lambda d: best[d][:2])[:beam]
            for done in states:
                cost = best[done][0]
                for chosen, members in self._choices(done):
                    new = done | chosen
                    total = cost + self._cost(done, chosen, members)
                    if new not in best or total < best[new][0]:
                        best[new] = (total, next(tie), done, chosen)
                        levels[new.bit_count()].append(new)
        if self.full not in best:
            raise CannotPack(self.block.label)
        self.cost = best[self.full][0]
        out: list[Packed] = []
        at = self.full
        while at:
            _, _, before, chosen = best[at]
            stages = self._stages(chosen)
            rest = self.full & ~(before | chosen)
            live = {self.real[k] for k in _bits(chosen) if self.readers[k] & rest or self.real[k] in self.must_live}
            out.append(Packed(list(stages or []), live))
            at = before
        return out[::-1]

    def _run_whole(self) -> list[Packed]:
        """All of it in one machine block."""
        stages = self._stages(self.full)
        if stages is None:
            raise CannotPack(self.block.label)
        return [Packed(list(stages), {op for op in self.real if op in self.must_live})]


def _bits(mask: int) -> list[int]:
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return out
