"""The lowering's own program form: 32-bit values in static single assignment, in basic blocks.

A value is an int (a 32-bit constant), a `Special`, or an `Op`. Kinds of `Op`:

- what the machine does: add sub mul(a,b,c) mulhi and or xor shl shr sar set minmax sel(a,b,c) popc clz brev ld(a,b) st(a,b,c)
  shfl(a), and `ballot()`, the warp's ballot
- phi, with one argument for each predecessor, in their order
- `fence`: memory operations keep their order across it
- `ldparam(a)`: a word of the parameter space
- what `expand` removes: signed mulhi, what the machine at hand lacks, div and rem by constants
- what `control` removes, because it takes blocks of its own: `bar`, `vote(p)` (the ballot), `atom(address, value, compare)`,
  `atom64(address, value, compare)` of pairs, with `atomhi(it)` for its high word, `narrow(address, mask, bits)` (keeps the mask of a
  word and puts the bits into it), div and rem, and divlo divhi remlo remhi of pairs
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Iterator, Union

from ..machine.encoding import NOWHERE, Origin

MASK = 0xFFFFFFFF


class Special(Enum):
    """Operand sources of their own: the thread's number, the thread block's indices, the warp's ballot."""

    TID = "tid"
    CTAX = "ctax"
    CTAY = "ctay"
    CTAZ = "ctaz"
    BALLOT = "ballot"

    def __repr__(self) -> str:
        return self.value

    __str__ = __repr__


TID = Special.TID
CTA = (Special.CTAX, Special.CTAY, Special.CTAZ)

Value = Union[int, Special, "Op"]

LT, EQ, GT = frozenset({"lt"}), frozenset({"eq"}), frozenset({"gt"})
LE, GE, NE = LT | EQ, GT | EQ, LT | GT

COMMUTATIVE = frozenset({"add", "and", "or", "xor", "mul", "mulhi"})
EFFECTS = frozenset({"st", "fence", "bar", "atom", "atom64", "narrow"})
UNREPEATABLE = EFFECTS | {"ld", "shfl", "phi", "ldparam", "atomhi", "vote", "ballot"}


@dataclass(eq=False)
class Op:
    """One operation and the value it makes.

    relation, signed: of set, minmax, mulhi, div, rem. pattern: source lane of each lane, for shfl.
    name: the PTX register that it was written to, for messages. space: state space of a memory access, "" where it is not known;
    "scratch" and "spill" are the lowering's own. atomic: which atomic operation `atom` is. root: in a copy of a program, the
    operation of the program that was copied first.
    """

    kind: str
    args: list[Value] = field(default_factory=list)
    relation: frozenset[str] = frozenset()
    signed: bool = False
    pattern: tuple[int, ...] = ()
    origin: Origin = NOWHERE
    name: str = ""
    space: str = ""
    atomic: str = ""
    root: "Op | None" = None

    def key(self) -> tuple:
        """Equal for two pure operations that give the same value."""
        return (self.kind, tuple(id(a) if isinstance(a, Op) else a for a in self.args), self.relation, self.signed, self.pattern)

    def copy(self) -> "Op":
        return Op(self.kind, list(self.args), self.relation, self.signed, self.pattern, self.origin, self.name, self.space, self.atomic)


@dataclass(eq=False)
class Block:
    """A basic block. taken is where the lanes go whose condition is 1; without a condition all go to fall.

    fall None is the end of the thread. predecessors: in the order of the phis' arguments.
    barrier: the warp stops at its end. votes: the condition goes into the ballot instead of choosing a way. whole: it must stay one
    machine block, because what it does to memory is one step.
    """

    label: str
    phis: list[Op] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    condition: Value | None = None
    taken: "Block | None" = None
    fall: "Block | None" = None
    predecessors: list["Block"] = field(default_factory=list)
    origin: Origin = NOWHERE
    barrier: bool = False
    votes: bool = False
    whole: bool = False

    @property
    def branches(self) -> bool:
        return self.condition is not None and not self.votes

    def successors(self) -> list["Block"]:
        targets = [self.taken, self.fall] if self.branches else [self.fall]
        return [t for t in targets if t is not None]


@dataclass
class Function:
    """A kernel's basic blocks, entry first."""

    name: str
    blocks: list[Block] = field(default_factory=list)

    def ops(self) -> Iterator[Op]:
        for block in self.blocks:
            yield from block.phis
            yield from block.ops


def clone(function: Function) -> tuple[Function, dict[Op, Op]]:
    """An independent copy of a program, and operation -> its copy."""
    ops = {op: op.copy() for op in function.ops()}
    blocks = {b: Block(b.label, origin=b.origin, barrier=b.barrier, votes=b.votes, whole=b.whole) for b in function.blocks}

    def value(v: Value | None) -> Value | None:
        return ops[v] if isinstance(v, Op) else v
    for op, twin in ops.items():
        twin.args, twin.root = [value(a) for a in op.args], op.root or op
    for block, twin in blocks.items():
        twin.phis, twin.ops = [ops[p] for p in block.phis], [ops[o] for o in block.ops]
        twin.condition = value(block.condition)
        twin.taken, twin.fall = blocks.get(block.taken), blocks.get(block.fall)
        twin.predecessors = [blocks[p] for p in block.predecessors]
    return Function(function.name, [blocks[b] for b in function.blocks]), ops


# ---- uses -------------------------------------------------------------------------------------------------------------


def use_counts(function: Function) -> dict[Op, int]:
    """How often each operation's value is read, by operations and by branches."""
    counts: dict[Op, int] = {}
    for op in function.ops():
        for a in op.args:
            if isinstance(a, Op):
                counts[a] = counts.get(a, 0) + 1
    for block in function.blocks:
        if isinstance(block.condition, Op):
            counts[block.condition] = counts.get(block.condition, 0) + 1
    return counts


def substitute(function: Function, replaced: dict[Op, Value]) -> None:
    """Replace values everywhere, following chains, and drop the replaced operations."""
    if not replaced:
        return

    def final(v: Value) -> Value:
        while isinstance(v, Op) and v in replaced:
            v = replaced[v]
        return v
    for block in function.blocks:
        block.phis = [p for p in block.phis if p not in replaced]
        block.ops = [o for o in block.ops if o not in replaced]
        for op in block.phis + block.ops:
            op.args = [final(a) for a in op.args]
        if block.condition is not None:
            block.condition = final(block.condition)


def drop_edge(source: Block, target: Block) -> None:
    """Forget one edge source -> target: its place among the predecessors and in every phi."""
    at = target.predecessors.index(source)
    del target.predecessors[at]
    for phi in target.phis:
        del phi.args[at]


# ---- order and dominance ----------------------------------------------------------------------------------------------


def reverse_postorder(entry: Block) -> list[Block]:
    """Blocks that can be reached, each before its successors except along back edges."""
    seen: set[Block] = {entry}
    out: list[Block] = []
    stack = [(entry, iter(reversed(entry.successors())))]
    while stack:
        block, rest = stack[-1]
        for nxt in rest:
            if nxt not in seen:
                seen.add(nxt)
                stack.append((nxt, iter(reversed(nxt.successors()))))
                break
        else:
            out.append(block)
            stack.pop()
    return out[::-1]


def immediate_dominators(entry: Block) -> dict[Block, Block]:
    """block -> its immediate dominator; the entry maps to itself."""
    order = reverse_postorder(entry)
    number = {b: i for i, b in enumerate(order)}
    idom = {entry: entry}
    changed = True
    while changed:
        changed = False
        for b in order[1:]:
            new: Block | None = None
            for p in b.predecessors:
                if p not in idom:
                    continue
                if new is None:
                    new = p
                    continue
                x, y = p, new
                while x is not y:
                    while number[x] > number[y]:
                        x = idom[x]
                    while number[y] > number[x]:
                        y = idom[y]
                new = x
            if idom.get(b) is not new:
                idom[b] = new
                changed = True
    return idom


def dominates(idom: dict[Block, Block], a: Block, b: Block) -> bool:
    while b is not a and idom[b] is not b:
        b = idom[b]
    return b is a


def natural_loops(entry: Block) -> dict[Block, set[Block]]:
    """header -> the blocks of its loop, header included."""
    idom = immediate_dominators(entry)
    loops: dict[Block, set[Block]] = {}
    for b in idom:
        for header in b.successors():
            if dominates(idom, header, b):
                body = loops.setdefault(header, {header})
                stack = [b]
                while stack:
                    x = stack.pop()
                    if x not in body:
                        body.add(x)
                        stack += [p for p in x.predecessors if p in idom]
    return loops


def loop_depths(entry: Block) -> dict[Block, int]:
    """How many loops each block is in."""
    loops = natural_loops(entry)
    return {b: sum(b in body for body in loops.values()) for b in reverse_postorder(entry)}


# ---- printing ---------------------------------------------------------------------------------------------------------


def print_function(function: Function) -> str:
    """The program as text, for dumps after a pass."""
    names: dict[Op, str] = {}
    for k, op in enumerate(function.ops()):
        names[op] = f"v{k}"

    def show(v: Value | None) -> str:
        if isinstance(v, int):
            return f"#{v - (1 << 32) if v >> 31 else v}"
        return names.get(v, "?") if isinstance(v, Op) else str(v)
    lines = []
    for block in function.blocks:
        lines.append(f"{block.label}:" + ("  ; from " + " ".join(p.label for p in block.predecessors) if block.predecessors else ""))
        for op in block.phis + block.ops:
            kind = op.kind
            if op.relation:
                kind += "." + "".join(r for r in ("lt", "eq", "gt") if r in op.relation) + (".s" if op.signed else ".u")
            extra = f" lanes {op.pattern}" if op.pattern else ""
            left = "" if op.kind in EFFECTS else f"{names[op]} = "
            lines.append(f"    {left}{kind} {', '.join(map(show, op.args))}{extra}"
                         + (f"   ; {op.name} {op.origin}" if op.name or op.origin.ptx_line else ""))
        where = block.fall.label if block.fall else "exit"
        if block.votes or block.barrier or block.whole:
            lines.append("    " + " ".join(w for w in ("barrier", "votes", "whole") if getattr(block, w)))
        if block.condition is not None:
            lines.append(f"    if {show(block.condition)} -> {block.taken.label if block.taken else 'exit'} else {where}")
        else:
            lines.append(f"    -> {where}")
    return "\n".join(lines) + "\n"
