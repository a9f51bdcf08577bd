"""Which layer each unit and memory head goes to.

A unit may run once every signal it reads is complete in a lower layer; it may add to a revised signal only once
every reader of the earlier version runs in the same layer or below (a layer reads its input before it adds). List scheduling by
latest start, a layer at a time, within the budget of heads; work that could wait is not started more than `window`
layers before its latest start, since every early result occupies a residual dim.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ..circuit.core import Circuit, MemoryHead, Signal, Unit
from ..errors import CompileError
from ..machine.description import Machine

Op = Unit | MemoryHead


@dataclass
class Schedule:
    """layer_units[i], layer_heads[i]: contents of layer i + 1. layer_of: id(op) -> layer from 1."""

    layer_units: list[list[Unit]]
    layer_heads: list[list[MemoryHead]]
    layer_of: dict[int, int]
    critical: int = 0
    notes: dict = field(default_factory=dict)

    @property
    def layers(self) -> int:
        return len(self.layer_units)


def outputs_of(op: Op) -> set[Signal]:
    """Signals that an op adds to."""
    if isinstance(op, Unit):
        return {s for s, _ in op.outs}
    return {s for outs in op.outs for s, _ in outs}


def live_ops(c: Circuit, keep: set[Signal]) -> list[Op]:
    """Ops whose outputs are read by somebody, or are in keep; repeated until nothing dead is left."""
    ops: list[Op] = [*c.units, *c.heads]
    while True:
        read: set[Signal] = set(keep)
        for op in ops:
            read |= op.reads()
        for s in c.signals.values():
            if s.base is not None and s in read:
                read.add(s.base)
        for s in list(read):
            b = s.base
            while b is not None:
                read.add(b)
                b = b.base
        alive = [op for op in ops if outputs_of(op) & read]
        if len(alive) == len(ops):
            return ops
        ops = alive


class _Graph:
    """Dependences between ops through signals."""

    def __init__(self, c: Circuit, ops: list[Op], keep: set[Signal]) -> None:
        self.ops, self.keep = ops, keep
        self.reads = [op.reads() | set(getattr(op, "after", ())) for op in ops]
        self.outs = [outputs_of(op) for op in ops]
        self.contributors: dict[Signal, list[int]] = defaultdict(list)
        self.readers: dict[Signal, list[int]] = defaultdict(list)
        for i in range(len(ops)):
            for s in self.outs[i]:
                self.contributors[s].append(i)
            for s in self.reads[i]:
                self.readers[s].append(i)
        self.revised: dict[Signal, Signal] = {}
        for s in c.signals.values():
            if s.base is not None:
                if s.base in self.revised:
                    raise CompileError(f"signal {s.base.name} is revised twice: {self.revised[s.base].name}, {s.name}")
                self.revised[s.base] = s
        self.order = self._topological()

    def _successors(self, i: int):
        """(op, distance): op must come at least `distance` layers after op i."""
        for s in self.outs[i]:
            t: Signal | None = s
            while t is not None:                       # later versions need this contribution too
                for r in self.readers.get(t, ()):
                    yield r, 1
                t = self.revised.get(t)
        for s in self.reads[i]:
            t = self.revised.get(s)
            while t is not None:
                for r in self.contributors.get(t, ()):
                    if r != i:
                        yield r, 0
                t = self.revised.get(t)

    def _topological(self) -> list[int]:
        n = len(self.ops)
        edges: list[dict[int, int]] = []
        for i in range(n):
            best: dict[int, int] = {}
            for j, d in self._successors(i):
                best[j] = max(best.get(j, 0), d)
            edges.append(dict(sorted(best.items())))
        # outputs are far larger than any signal: all are written together, in the last layer
        last = sorted({i for s in self.keep for i in self.contributors.get(s, ())})
        for i, j in zip(last, last[1:] + last[:1]):
            if i != j:
                edges[i].setdefault(j, 0)
        # ops that must not come after one another share a layer: they move as one bundle
        level = [[j for j, d in e.items() if d == 0] for e in edges]
        tied: dict[int, int] = {}                # units whose partial sums only make sense together
        for i, op in enumerate(self.ops):
            if tie := getattr(op, "tie", 0):
                if tie in tied:
                    level[tied[tie]].append(i)
                    level[i].append(tied[tie])
                tied[tie] = i
        bundle_of = components(level)
        self.bundles: list[list[int]] = [[] for _ in range(max(bundle_of) + 1)] if n else []
        for i, b in enumerate(bundle_of):
            self.bundles[b].append(i)
        merged: list[dict[int, int]] = [{} for _ in self.bundles]
        for i in range(n):
            for j, d in edges[i].items():
                p, q = bundle_of[i], bundle_of[j]
                if p != q or d > 0:
                    merged[p][q] = max(merged[p].get(q, 0), d)
        self.succ = [list(e.items()) for e in merged]
        indegree = [0] * len(self.bundles)
        for e in self.succ:
            for j, _ in e:
                indegree[j] += 1
        self.indegree = list(indegree)
        ready = [i for i, k in enumerate(indegree) if k == 0]
        order = []
        while ready:
            i = ready.pop()
            order.append(i)
            for j, _ in self.succ[i]:
                indegree[j] -= 1
                if indegree[j] == 0:
                    ready.append(j)
        if len(order) < len(self.bundles):
            stuck = next(i for i, k in enumerate(indegree) if k > 0)
            raise CompileError(f"the circuit has a cycle through {describe(self.ops[self.bundles[stuck][0]])}")
        return order


def components(succ: list[list[int]]) -> list[int]:
    """Number of the strongly connected component of each node (Tarjan, without recursion)."""
    n = len(succ)
    index, low, comp = [-1] * n, [0] * n, [-1] * n
    stack: list[int] = []
    counter = found = 0
    for root in range(n):
        if index[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            v, at = work.pop()
            if at == 0:
                index[v] = low[v] = counter
                counter += 1
                stack.append(v)
            descend = False
            for k in range(at, len(succ[v])):
                w = succ[v][k]
                if index[w] < 0:
                    work += [(v, k + 1), (w, 0)]
                    descend = True
                    break
                if comp[w] < 0:
                    low[v] = min(low[v], low[w])
            if descend:
                continue
            if low[v] == index[v]:
                while True:
                    w = stack.pop()
                    comp[w] = found
                    if w == v:
                        break
                found += 1
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[v])
    return comp


def describe(op: Op) -> str:
    """A short name for messages."""
    if isinstance(op, MemoryHead):
        return f"memory head {op.name}"
    return f"unit '{op.note}' of {op.group or 'the circuit'}"


def schedule(c: Circuit, m: Machine, keep: set[Signal], *, window: int = 1, spare_units: int = 0) -> Schedule:
    """Assign every live op of c to a layer. Raises CompileError on a cycle.

    keep: signals that are outputs. spare_units: unit slots left free in every layer (for clearing dims).
    """
    ops = live_ops(c, keep)
    g = _Graph(c, ops, keep)
    n = len(g.bundles)
    asap = [1] * n
    for i in g.order:
        for j, d in g.succ[i]:
            asap[j] = max(asap[j], asap[i] + d)
    depth = max(asap)
    room = _Room(m, spare_units, [sum(isinstance(ops[i], Unit) for i in b) for b in g.bundles],
                 [sum(isinstance(ops[i], MemoryHead) for i in b) for b in g.bundles])
    # from the end backwards, everything as late as the heads allow: results then wait least for their readers
    backwards: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for i in range(n):
        for j, d in g.succ[i]:
            backwards[j].append((i, d))
    from_end = _place(backwards, [len(e) for e in g.succ], [depth + 1 - a for a in asap], room, depth)
    last = max(from_end)
    # then forwards, no op more than `window` layers before that
    late = [last + 1 - k for k in from_end]
    eager = [any(ops[i].eager for i in b) for b in g.bundles]
    release = [1 if e else max(1, k - window) for e, k in zip(eager, late)]
    layer_of = _place(g.succ, list(g.indegree), late, room, depth, release)
    layers = max(layer_of)
    units: list[list[Unit]] = [[] for _ in range(layers)]
    heads: list[list[MemoryHead]] = [[] for _ in range(layers)]
    placed: dict[int, int] = {}
    for b, members in enumerate(g.bundles):
        for k in members:
            op = ops[k]
            (units if isinstance(op, Unit) else heads)[layer_of[b] - 1].append(op)
            placed[id(op)] = layer_of[b]
    return Schedule(units, heads, placed, depth)


@dataclass
class _Room:
    """What a layer holds, and how much of it each bundle takes."""

    m: Machine
    spare_units: int
    units_in: list[int]
    heads_in: list[int]

    def fits(self, n_units: int, n_heads: int) -> bool:
        """Whether one layer holds this many units and memory heads, and the spare units."""
        return n_heads + -(-(n_units + self.spare_units) // (self.m.head_dim - 2)) <= self.m.heads


def _place(succ: list[list[tuple[int, int]]], indegree: list[int], late: list[int], room: _Room, depth: int,
           release: list[int] | None = None) -> list[int]:
    """Layer (from 1) of every bundle, by list scheduling: most urgent (smallest `late`) first, none below its `release`."""
    n = len(succ)
    waiting, earliest, layer_of = list(indegree), [1] * n, [0] * n
    release = release or [1] * n
    heap: dict[int, list[int]] = defaultdict(list)     # layer -> bundles that become possible there
    for i in range(n):
        if waiting[i] == 0:
            heap[release[i]].append(i)
    possible: list[int] = []
    placed, layer = 0, 0
    while placed < n:
        layer += 1
        if layer > 8 * depth + 400:
            raise CompileError("the layer schedule does not end", why=f"{n - placed} ops are left at layer {layer}: "
                               "some must share a layer and need more heads than one has")
        possible += heap.pop(layer, [])
        n_units = n_heads = 0
        progress = True
        while progress:
            progress = False
            possible.sort(key=lambda i: (late[i], -room.heads_in[i], i))
            batch, possible = possible, []
            for i in batch:
                if not room.fits(n_units + room.units_in[i], n_heads + room.heads_in[i]):
                    possible.append(i)
                    continue
                n_units, n_heads = n_units + room.units_in[i], n_heads + room.heads_in[i]
                layer_of[i] = layer
                placed += 1
                for j, d in succ[i]:
                    waiting[j] -= 1
                    earliest[j] = max(earliest[j], layer + d)
                    if waiting[j] == 0:
                        start = max(earliest[j], release[j])
                        if start <= layer:
                            possible.append(j)
                            progress = True
                        else:
                            heap[start].append(j)
    return layer_of
