"""Registers for the values that live from one machine block to the next, by colouring their interference graph.

Where register ports belong to classes, values that one instruction reads should get registers of different classes. That is a
wish: what it cannot have is left for `emit` to mend with copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import LoweringError
from ..machine.description import Machine
from .ir import Function, Op
from .leave_ssa import Classes
from .liveness import Liveness
from .packing import Packed


@dataclass(eq=False)
class Node:
    """A machine block with the registers it reads and writes, as classes."""

    packed: Packed
    successors: list["Node"] = field(default_factory=list)
    reads: set[Op] = field(default_factory=set)
    writes: set[Op] = field(default_factory=set)
    into: set[Op] = field(default_factory=set)
    out: set[Op] = field(default_factory=set)


class TooFewRegisters(LoweringError):
    """More values live at once than there are registers. classes: the values of each, where they are most."""

    classes: list[list[Op]] = []
    excess: int = 0


def run(machine: Machine, nodes: list[Node], classes: Classes, kernel: str) -> dict[Op, int]:
    """Class -> register number from 1. Raises TooFewRegisters, naming the values where they are most."""
    for node in nodes:
        ops = [op for op in node.packed.stages if op is not None]
        node.writes = {classes.of(op) for op in node.packed.live}
        node.reads = {classes.of(a) for op in ops for a in op.args if isinstance(a, Op) and a not in ops}
    changed = True
    while changed:
        changed = False
        for node in reversed(nodes):
            out = set().union(*(s.into for s in node.successors)) if node.successors else set()
            into = node.reads | (out - node.writes)
            if out != node.out or into != node.into:
                node.out, node.into, changed = out, into, True
    rank: dict[Op, int] = {}
    for node in nodes:
        for op in node.packed.stages:
            for v in ([op, *op.args] if op is not None else []):
                if isinstance(v, Op):
                    rank.setdefault(classes.of(v), len(rank))
    graph: dict[Op, set[Op]] = {}
    for node in nodes:
        for w in node.writes:
            graph.setdefault(w, set()).update((node.out | node.writes) - {w})
        for r in node.into:
            graph.setdefault(r, set())
    if nodes:
        for r in nodes[0].into:  # read before any write: 0 from the start, so it must not be anyone else's register
            graph[r] |= nodes[0].into - {r}
    for v, others in list(graph.items()):
        for o in others:
            graph.setdefault(o, set()).add(v)
    apart: dict[Op, set[Op]] = {v: set() for v in graph}
    if machine.register_classes:
        for node in nodes:
            for op in node.packed.stages:
                read = {classes.of(a) for a in node.packed.registers_of(op)}
                for v in read:
                    apart[v] |= read - {v}
    return _colour(machine, graph, apart, rank, nodes, classes, kernel)


def _colour(machine: Machine, graph: dict[Op, set[Op]], apart: dict[Op, set[Op]], rank: dict[Op, int], nodes: list[Node],
            classes: Classes, kernel: str) -> dict[Op, int]:
    """Chaitin's and Briggs's order: take away the node of least degree, colour in the opposite order.

    apart: values that should not be in the same class of registers.
    """
    left = {v: set(o) for v, o in graph.items()}
    stack: list[Op] = []
    while left:
        v = min(left, key=lambda v: (len(left[v]), len(apart[v]), rank[v]))
        stack.append(v)
        for o in left.pop(v):
            left[o].discard(v)
    colours: dict[Op, int] = {}
    for v in reversed(stack):
        used = {colours[o] for o in graph[v] if o in colours}
        free = [r for r in range(1, machine.registers + 1) if r not in used]
        if not free:
            worst = max(nodes, key=lambda n: len(n.out | n.writes))
            raise too_few(machine, sorted(worst.out | worst.writes, key=rank.__getitem__), classes, kernel)
        taken = [colours[o] % machine.register_classes for o in apart[v] if o in colours]
        colours[v] = min(free, key=lambda r: taken.count(r % machine.register_classes)) if taken else free[0]
    return colours


def check_pressure(machine: Machine, function: Function, live: Liveness, classes: Classes, kernel: str) -> None:
    """Raise TooFewRegisters at once where more values live from one basic block to the next than there are registers."""
    for block in function.blocks:
        out = live.out[block]
        if len(out) > machine.registers:
            values = dict.fromkeys(classes.of(op) for op in function.ops() if op in out)  # in the order of the program
            if len(values) > machine.registers:
                raise too_few(machine, list(values), classes, kernel)


def too_few(machine: Machine, values: list[Op], classes: Classes, kernel: str) -> TooFewRegisters:
    """The error that names values which live at once, one for each register that they want."""
    lines = []
    for v in values:
        origin = next((m.origin for m in classes.all(v) if m.origin.ptx_line), v.origin)
        names = dict.fromkeys(m.name for m in classes.all(v) if m.name)
        lines.append(f"    {'/'.join(names) or v.kind} from {origin}" + (f" (PTX line {origin.ptx_line})" if origin.file else ""))
    error = TooFewRegisters(f"kernel {kernel} needs more than the {machine.registers} registers of machine {machine.name!r}",
                            why=f"{len(values)} values are live at once:\n" + "\n".join(lines),
                            fix="keep fewer values across loops and branches, or compute them again where they are used")
    error.classes, error.excess = [classes.all(v) for v in values], max(1, len(values) - machine.registers)
    return error
