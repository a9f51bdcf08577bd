"""Static single assignment while translating: who defines a register here? (Braun and others, 2013.)

Blocks are filled in reverse postorder. A block asks its single predecessor; with several, or with one not filled yet, it
makes a phi whose arguments are found when all blocks are filled. A register that was never written reads 0.
"""

from __future__ import annotations

from .ir import Block, Op, Value


class Registers:
    """The current value of each PTX register at the end of each block filled so far."""

    def __init__(self) -> None:
        self.current: dict[Block, dict[str, Value]] = {}
        self.filled: set[Block] = set()
        self.open_phis: list[tuple[Block, str, Op]] = []

    def write(self, block: Block, register: str, value: Value) -> None:
        self.current.setdefault(block, {})[register] = value

    def read(self, block: Block, register: str) -> Value:
        chain = []
        while register not in self.current.setdefault(block, {}):
            chain.append(block)
            if not block.predecessors:
                value: Value = 0
                break
            if len(block.predecessors) == 1 and block.predecessors[0] in self.filled:
                block = block.predecessors[0]
                continue
            phi = Op("phi", name=register)
            block.phis.append(phi)
            self.open_phis.append((block, register, phi))
            value = phi
            break
        else:
            value = self.current[block][register]
        for b in chain:
            self.current[b][register] = value
        return value

    def finish(self) -> None:
        """Give every phi its arguments; reading them may make more phis."""
        while self.open_phis:
            block, register, phi = self.open_phis.pop()
            phi.args = [self.read(p, register) for p in block.predecessors]
