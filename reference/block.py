"""Blocks of the machine as the judge reads them: program words to instructions, and what a pass over a group gives.

docs/machine.md sections 3 and 4. A word that the page gives no meaning raises FaultError instead of running as something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from qgpu.errors import FaultError

from .operations import LINES, check_lines, operation
from .tokens import MASK, Sizes

SPECIALS = ("tid", "ctax", "ctay", "ctaz", "ballot")


class BitReader:
    """Takes fields off a word, low bits first."""

    def __init__(self, word: int) -> None:
        self.rest = word

    def take(self, width: int) -> int:
        """The next `width` bits."""
        value = self.rest & (1 << width) - 1
        self.rest >>= width
        return value


@dataclass(frozen=True)
class Source:
    """Where an operand comes from. kind: "zero", "register", "result" (of stage `number`), "imm" or one of SPECIALS."""

    kind: str
    number: int = 0


@dataclass(frozen=True)
class Instruction:
    """One stage's instruction: operand sources, operation lines that are on, immediate, shuffle source of each lane.

    apply: the result from operands A, B, C, where those are enough (not for ld and shfl).
    """

    a: Source
    b: Source
    c: Source
    lines: frozenset[str]
    immediate: int
    shuffle: tuple[int, ...] = ()
    apply: Callable[[int, int, int], int] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Block:
    """A decoded block. dest, live and instructions by stage, from 0; store_stage is the stage of the store, or None."""

    dest: tuple[int, ...]
    live: tuple[bool, ...]
    fall: int
    taken: int
    branch: bool
    store_stage: int | None
    barrier: bool
    vote: bool
    clear: bool
    instructions: tuple[Instruction, ...]


@dataclass
class StageTrace:
    """What one stage saw and gave, for each lane of the group (active or not)."""

    a: list[int]
    b: list[int]
    c: list[int]
    result: list[int]


def read_block(sizes: Sizes, words: list[int], block: int) -> Block:
    """Decode the words of a block. Raises FaultError where docs/machine.md gives them no meaning."""
    def wrong(what: str) -> FaultError:
        return FaultError(f"block {block} is not a program of this machine: {what}")

    head = BitReader(words[0])
    dest = tuple(head.take(sizes.register_bits) for _ in range(sizes.stages))
    if head.rest:
        raise wrong(f"header word 0 has bits beyond its fields ({words[0]:#x})")
    if any(d > sizes.registers for d in dest):
        raise wrong(f"it writes a register beyond r{sizes.registers}")
    head = BitReader(words[1])
    fall, taken = head.take(sizes.target_bits), head.take(sizes.target_bits)
    live = tuple(bool(head.take(1)) for _ in range(sizes.stages))
    branch, store, barrier, vote, clear = (bool(head.take(1)) for _ in range(5))
    if head.rest:
        raise wrong(f"header word 1 has bits beyond its fields ({words[1]:#x})")
    for name, target in (("fall-through", fall), ("taken", taken)):
        if target >= sizes.blocks and target != sizes.exit:
            raise wrong(f"its {name} target {target} is neither a block nor EXIT")
    if vote and (branch or fall != taken):
        raise wrong("it votes and " + ("branches" if branch else "its targets differ"))
    instructions = tuple(_read_instruction(sizes, words[2 + 3 * s:5 + 3 * s], s + 1, wrong) for s in range(sizes.stages))
    stores = [s for s, i in enumerate(instructions) if "st" in i.lines]
    if len(stores) > 1:
        raise wrong("it has more than one store")
    if store != bool(stores):
        raise wrong(f"its store flag is {int(store)} but it has {len(stores)} store instructions")
    return Block(dest, live, fall, taken, branch, stores[0] if stores else None, barrier, vote, clear, instructions)


def _read_instruction(sizes: Sizes, words: list[int], stage: int, wrong) -> Instruction:
    operand_word, operation_word, immediate = words
    bits = BitReader(operand_word)
    found = _read_ports(sizes, bits, stage, wrong)
    for x in "abc":
        lines = [Source("result", r) for r in range(1, sizes.stages)] + [Source("imm")] * (x != "c")
        found[x] += [source for source in lines if bits.take(1)]
    if bits.rest:
        raise wrong(f"stage {stage}'s operand word has bits beyond its fields ({operand_word:#x})")
    bits = BitReader(operation_word)
    lines = frozenset(name for name in LINES if bits.take(1))
    found["a"] += [Source(name) for name in SPECIALS if bits.take(1)]
    if bits.rest:
        raise wrong(f"stage {stage}'s operation word has bits beyond its lines ({operation_word:#x})")
    for x, sources in found.items():
        if len(sources) > 1:
            raise wrong(f"stage {stage} selects {len(sources)} sources for operand {x.upper()}")
        for source in sources:
            if source.kind == "result" and source.number >= stage:
                raise wrong(f"stage {stage} uses the result of stage {source.number}, which is not earlier")
    why = check_lines(sizes, lines, stage)
    if why:
        raise wrong(f"stage {stage} {why}")
    shuffle = _shuffle(sizes, immediate, stage, wrong) if "shfl" in lines else ()
    a, b, c = (found[x][0] if found[x] else Source("zero") for x in "abc")
    return Instruction(a, b, c, lines, immediate, shuffle, operation(lines))


def _read_ports(sizes: Sizes, bits: BitReader, stage: int, wrong) -> dict[str, list[Source]]:
    """Registers that the front of the operand word selects for each operand."""
    classes = sizes.register_classes
    if classes:
        ports = [bits.take(sizes.port_bits) for _ in range(classes)]
        numbers = [k + classes * (p - 1) if p else 0 for k, p in enumerate(ports)]  # register 0 reads as nothing does
        found = {x: [Source("register", n) for n in numbers if bits.take(1)] for x in "abc"}
    else:
        numbers = [bits.take(sizes.register_bits) for _ in "abc"]
        found = {x: [Source("register", n)] if n else [] for x, n in zip("abc", numbers)}
    if any(n > sizes.registers for n in numbers):
        raise wrong(f"stage {stage} reads a register beyond r{sizes.registers}")
    return found


def _shuffle(sizes: Sizes, immediate: int, stage: int, wrong) -> tuple[int, ...]:
    """Source lane of each lane: bit lanes*d + s says that lane d takes A of lane s."""
    bits, sources = BitReader(immediate), []
    for lane in range(sizes.lanes):
        row = bits.take(sizes.lanes)
        if row.bit_count() != 1:
            raise wrong(f"stage {stage}'s shuffle gives lane {lane} {row.bit_count()} source lanes")
        sources.append(row.bit_length() - 1)
    if bits.rest:
        raise wrong(f"stage {stage}'s shuffle has bits beyond the lanes ({immediate:#x})")
    return tuple(sources)


def run_stages(sizes: Sizes, block: Block, registers: list[list[int]], specials: dict[str, list[int]],
               memory: list[int]) -> list[StageTrace]:
    """Run a block's stages for every lane of a group. registers: [lane][register]; specials: SPECIALS by lane.

    memory: global words, then shared words. Returns one trace a stage.
    """
    zeros = [0] * sizes.lanes
    traces: list[StageTrace] = []

    def operand(source: Source, immediate: int) -> list[int]:
        if source.kind == "zero":
            return zeros
        if source.kind == "register":
            return [lane[source.number] for lane in registers]
        if source.kind == "result":
            return traces[source.number - 1].result
        return [immediate] * sizes.lanes if source.kind == "imm" else specials[source.kind]

    for i in block.instructions:
        a, b, c = operand(i.a, i.immediate), operand(i.b, i.immediate), operand(i.c, i.immediate)
        if i.shuffle:
            result = [a[lane] for lane in i.shuffle]
        elif "ld" in i.lines:
            result = [_load(sizes, x + y & MASK, memory) for x, y in zip(a, b)]
        elif i.lines:
            result = list(map(i.apply, a, b, c))
        else:
            result = zeros
        traces.append(StageTrace(a, b, c, result))
    return traces


def _load(sizes: Sizes, address: int, memory: list[int]) -> int:
    """What a load of any address reads: the window's number is address bits window_bits and window_bits + 1."""
    word = word_of(sizes, address & (4 << sizes.window_bits) - 4)
    return 0 if word is None else memory[word]


def word_of(sizes: Sizes, address: int) -> int | None:
    """Number of the memory word at a good byte address, None for a bad address (section 4, Addresses)."""
    window, offset = address >> sizes.window_bits, address & (1 << sizes.window_bits) - 1
    word = offset // 4
    if offset % 4 == 0 and window == 1 and word < sizes.global_words:
        return word
    if offset % 4 == 0 and window == 2 and word < sizes.shared_words:
        return sizes.global_words + word
    return None
