"""Random programs of machine blocks, and the setup stream of a program.

Unlike compiled kernels they use every operand source, empty stages, dead results and shuffles of inactive lanes. They may loop
for ever or trap: follow one for as long as wanted.
"""

from __future__ import annotations

import random

from qgpu.machine.description import Machine
from qgpu.machine.encoding import Block, Instruction, Register, Result, Source, encode, shuffle_pattern
from qgpu.machine.tokens import Token, Vocabulary

EDGES = (0, 1, 2, 3, 5, 31, 32, 33, 63, 255, 256, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x55555555, 0x10000)
RELATIONS = (("lt",), ("eq",), ("gt",), ("lt", "eq"), ("gt", "eq"), ("lt", "gt"), ("lt", "eq", "gt"))


def word(rng: random.Random) -> int:
    """An edge value or a random word."""
    return rng.choice(EDGES) if rng.random() < 0.6 else rng.getrandbits(32)


def setup_ids(m: Machine, blocks: list[Block], threads: int, memory: dict[int, int] | None = None, nops: int = 3,
              grid: tuple[int, int, int] = (1, 1, 1)) -> list[int]:
    """Token ids of a setup: NOPs, program, CONFIG, GRID, memory words, BLOCK, WARP(0, 0, 1)."""
    v = Vocabulary(m)
    out = [Token("NOP")] * nops
    for number, block in enumerate(blocks):
        for k, x in enumerate(encode(m, block)):
            out += [*v.value_tokens(x), Token("PROG", (k, number))]
    warps = -(-threads // m.warp_size)
    out.append(Token("CONFIG", (warps, threads - m.warp_size * (warps - 1))))
    for axis, size in enumerate(grid):
        out += [*v.value_tokens(size - 1), Token("GRID", (axis,))]
    for k, x in (memory or {}).items():
        out += [*v.value_tokens(x), Token("MEM", (k,))]
    for axis in range(3):
        out += [*v.value_tokens(0), Token("BLOCK", (axis,))]
    return [v.id_of(t) for t in [*out, Token("WARP", (0, 0, 1))]]


def random_instruction(rng: random.Random, m: Machine, stage: int, earlier: list[int], store: bool) -> Instruction:
    """A legal instruction of a stage. earlier: stages whose result may be read. store: whether it may store."""
    options = ["add", "sub", "xor", "and", "or", "sel", "set", "minmax", "shfl"] + ["ld"] * m.has(stage, "ld")
    options += ["popc", "clz", "brev"] * m.has(stage, "popc") + ["mulhi"] * 3 * m.has(stage, "mulhi")
    options += ["mul"] * 3 * m.has(stage, "mul") + ["shl", "shr", "sar"] * m.has(stage, "shl") + ["st"] * 2 * store
    kind = rng.choice(options)
    free = [True]
    ports: dict[int, int] = {}

    def register() -> Register:
        number = rng.randint(1, m.registers)
        return Register(ports.get(number % m.register_classes, number) if m.register_classes else number)

    def source(letter: str):
        pick = [register() for _ in range(3)] + [Result(s) for s in earlier] + [Source.ZERO]
        if letter == "a":
            pick += [Source.TID, rng.choice((Source.CTAX, Source.CTAY, Source.CTAZ, Source.BALLOT))]
        if letter != "c" and free[0]:
            pick += [Source.IMMEDIATE] * 2
        chosen = rng.choice(pick)
        if chosen is Source.IMMEDIATE:
            free[0] = False
        if isinstance(chosen, Register) and m.register_classes:
            ports[chosen.number % m.register_classes] = chosen.number
        return chosen

    if kind == "shfl":
        lanes = [rng.randrange(m.lanes) for _ in range(m.lanes)]
        free[0] = False
        return Instruction(frozenset({"shfl"}), source("a"), source("b"), source("c"), shuffle_pattern(m, lanes))
    if kind in ("ld", "st"):
        address = m.global_base + 4 * rng.randrange(m.global_words)
        if m.shared_words and rng.random() < 0.4:
            address = m.shared_base + 4 * rng.randrange(m.shared_words)
        a = Source.ZERO
        if rng.random() < 0.05:                       # most likely a bad address
            a, address = rng.choice((Source.TID, register())), rng.choice((address, word(rng)))
        free[0] = False
        if isinstance(a, Register) and m.register_classes:
            ports[a.number % m.register_classes] = a.number
        return Instruction(frozenset({"add", kind}), a, Source.IMMEDIATE, source("c"), address)
    if kind in ("set", "minmax"):
        lines = {kind, *rng.choice(RELATIONS), *(["signed"] if rng.random() < 0.5 else [])}
    else:
        lines = {"xor", "and"} if kind == "or" else {kind}
    a, b, c = source("a"), source("b"), source("c")
    imm = 0
    if not free[0]:
        imm = rng.randrange(40) if kind in ("shl", "shr", "sar") and rng.random() < 0.7 else word(rng)
    return Instruction(frozenset(lines), a, b, c, imm)


def random_block(rng: random.Random, m: Machine, number: int, count: int) -> Block:
    """Block `number` of a program of `count` blocks."""
    stages: list[Instruction | None] = []
    stored = False
    for stage in range(1, m.stages + 1):
        if rng.random() < 0.12:
            stages.append(None)
            continue
        earlier = [s for s, i in enumerate(stages, 1) if i is not None]
        stages.append(random_instruction(rng, m, stage, earlier, not stored))
        stored |= "st" in stages[-1].lines
    registers = rng.sample(range(1, m.registers + 1), min(m.registers, m.stages))
    registers += [0] * (m.stages - len(registers))
    dest = tuple(r if i is not None and rng.random() < 0.7 else 0 for r, i in zip(registers, stages))
    after = number + 1 if number + 1 < count else m.exit_target
    targets = [*range(count), m.exit_target]
    fall = after if rng.random() < 0.9 else rng.choice(targets)
    if rng.random() < 0.15:  # a vote has one target
        return Block(tuple(stages), dest, fall, fall, vote=True, clear=rng.random() < 0.7)
    barrier = rng.random() < 0.1
    return Block(tuple(stages), dest, fall, rng.choice(targets), not barrier and rng.random() < 0.5, barrier=barrier,
                 clear=rng.random() < 0.05)


def random_blocks(rng: random.Random, m: Machine, count: int) -> list[Block]:
    """A program."""
    return [random_block(rng, m, k, count) for k in range(count)]


def random_setup(seed: int, m: Machine, count: int, nops: int = 3) -> list[int]:
    """Setup of a random program with random inputs, thread count and grid; the same for the same seed."""
    rng = random.Random(seed)
    blocks = random_blocks(rng, m, count)
    memory = {w: word(rng) for w in rng.sample(range(m.global_words), min(m.global_words, 10))}
    return setup_ids(m, blocks, rng.randint(1, m.threads), memory, nops, (rng.randint(1, 2), 1, rng.randint(1, 2)))
