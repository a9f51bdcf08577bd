"""Building blocks of a program: making operations at a block's end, cutting a block in two."""

from __future__ import annotations

from dataclasses import dataclass

from .ir import EQ, LT, Block, Function, Op, Value


@dataclass
class Maker:
    """Appends operations to a block. like: the operation that they stand for, in messages."""

    block: Block
    like: Op

    def __call__(self, kind: str, *args: Value, relation: frozenset[str] = frozenset(), signed: bool = False) -> Op:
        op = Op(kind, list(args), relation, signed, (), self.like.origin, self.like.name)
        self.block.ops.append(op)
        return op

    op = __call__

    def less(self, a: Value, b: Value, signed: bool = False) -> Op:
        return self("set", a, b, relation=LT, signed=signed)

    def equal(self, a: Value, b: Value) -> Op:
        return self("set", a, b, relation=EQ)


def split(function: Function, block: Block, at: int) -> Block:
    """Cut a block before its operation number `at`; returns the second part, which the first one falls into."""
    tail = Block(f"{block.label}+", ops=block.ops[at:], condition=block.condition, taken=block.taken, fall=block.fall,
                 predecessors=[block], origin=block.origin, barrier=block.barrier, votes=block.votes, whole=block.whole)
    for target in set(tail.successors()):
        target.predecessors = [tail if p is block else p for p in target.predecessors]
    block.ops = block.ops[:at]
    block.condition, block.taken, block.fall = None, None, tail
    block.barrier = block.votes = block.whole = False
    function.blocks.insert(function.blocks.index(block) + 1, tail)
    return tail
