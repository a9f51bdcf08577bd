"""Blocks of the machine as the judge reads them: program words to instructions, and what each operation gives.

docs/machine.md sections 3 and 4. A word that the page gives no meaning raises FaultError instead of running as something.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from qgpu.errors import FaultError

from .tokens import MASK, Sizes

LINES = ("add", "sub", "xor", "and", "lt", "eq", "gt", "signed", "set", "minmax", "sel", "ld", "st", "mul", "shl", "shr",
         "sar", "shfl")
RELATIONS = frozenset(("lt", "eq", "gt"))
SHIFTS = frozenset(("shl", "shr", "sar"))


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
    """Where an operand comes from. kind: "zero", "register", "result" (of stage `number`), "imm" or "tid"."""

    kind: str
    number: int = 0


@dataclass(frozen=True)
class Instruction:
    """One stage's instruction: operand sources, operation lines that are on, immediate, shuffle source of each lane."""

    a: Source
    b: Source
    c: Source
    lines: frozenset[str]
    immediate: int
    shuffle: tuple[int, ...] = ()


@dataclass(frozen=True)
class Block:
    """A decoded block. dest, live and instructions by stage, from 0; store_stage is the stage of the store, or None."""

    dest: tuple[int, ...]
    live: tuple[bool, ...]
    fall: int
    taken: int
    branch: bool
    store_stage: int | None
    instructions: tuple[Instruction, ...]


@dataclass
class StageTrace:
    """What one stage saw and gave, for each lane (active or not)."""

    a: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)
    c: list[int] = field(default_factory=list)
    result: list[int] = field(default_factory=list)


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
    branch, store = bool(head.take(1)), bool(head.take(1))
    if head.rest:
        raise wrong(f"header word 1 has bits beyond its fields ({words[1]:#x})")
    for name, target in (("fall-through", fall), ("taken", taken)):
        if target >= sizes.blocks and target != sizes.exit:
            raise wrong(f"its {name} target {target} is neither a block nor EXIT")
    instructions = tuple(_read_instruction(sizes, words[2 + 3 * s:5 + 3 * s], s + 1, wrong) for s in range(sizes.stages))
    stores = [s for s, i in enumerate(instructions) if "st" in i.lines]
    if len(stores) > 1:
        raise wrong("it has more than one store")
    if store != bool(stores):
        raise wrong(f"its store flag is {int(store)} but it has {len(stores)} store instructions")
    return Block(dest, live, fall, taken, branch, stores[0] if stores else None, instructions)


def _read_instruction(sizes: Sizes, words: list[int], stage: int, wrong) -> Instruction:
    operand_word, operation_word, immediate = words
    bits = BitReader(operand_word)
    registers = {x: bits.take(sizes.register_bits) for x in "abc"}
    found: dict[str, list[Source]] = {x: [Source("register", n)] if n else [] for x, n in registers.items()}
    if any(n > sizes.registers for n in registers.values()):
        raise wrong(f"stage {stage} reads a register beyond r{sizes.registers}")
    earlier = range(1, sizes.stages)
    for x in "abc":
        lines = [Source("result", r) for r in earlier]
        lines += {"a": [Source("imm"), Source("tid")], "b": [Source("imm")], "c": []}[x]
        found[x] += [source for source in lines if bits.take(1)]
    if bits.rest:
        raise wrong(f"stage {stage}'s operand word has bits beyond its fields ({operand_word:#x})")
    for x, sources in found.items():
        if len(sources) > 1:
            raise wrong(f"stage {stage} selects {len(sources)} sources for operand {x.upper()}")
        if sources and sources[0].kind == "result" and sources[0].number >= stage:
            raise wrong(f"stage {stage} uses the result of stage {sources[0].number}, which is not earlier")
    if operation_word >> len(LINES):
        raise wrong(f"stage {stage}'s operation word has bits beyond its lines ({operation_word:#x})")
    lines = frozenset(name for i, name in enumerate(LINES) if operation_word >> i & 1)
    _check_lines(sizes, lines, stage, wrong)
    shuffle = _shuffle(sizes, immediate, stage, wrong) if "shfl" in lines else ()
    a, b, c = (found[x][0] if found[x] else Source("zero") for x in "abc")
    return Instruction(a, b, c, lines, immediate, shuffle)


def _check_lines(sizes: Sizes, lines: frozenset[str], stage: int, wrong) -> None:
    """Only the combinations of section 4's table, in a stage that has the unit."""
    rest = lines - RELATIONS - {"signed"}
    if rest & {"set", "minmax"}:
        meant = len(rest) == 1 and bool(lines & RELATIONS)
    else:
        meant = rest == lines and (len(lines) <= 1 and lines <= {"add", "sub", "xor", "and", "sel", "mul", "shl", "shr",
                                                                 "sar", "shfl"}
                                   or lines in ({"xor", "and"}, {"add", "ld"}, {"add", "st"}))
    if not meant:
        raise wrong(f"stage {stage} has the operation lines {' '.join(sorted(lines))}")
    if "mul" in lines and stage not in sizes.stage_mul:
        raise wrong(f"stage {stage} cannot multiply")
    if lines & SHIFTS and stage not in sizes.stage_shift:
        raise wrong(f"stage {stage} cannot shift")


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


def signed(word: int) -> int:
    """A 32-bit word as a two's-complement number."""
    return word - (1 << 32) if word & 0x80000000 else word


def relation_holds(lines: frozenset[str], a: int, b: int) -> bool:
    """Whether A < B (lt), A = B (eq) or A > B (gt) for the relations that are on."""
    if "signed" in lines:
        a, b = signed(a), signed(b)
    return "lt" in lines and a < b or "eq" in lines and a == b or "gt" in lines and a > b


def operate(lines: frozenset[str], a: int, b: int, c: int) -> int:
    """The result of one lane for everything but ld, shfl (which need more than their own operands)."""
    if "set" in lines:
        return int(relation_holds(lines, a, b))
    if "minmax" in lines:
        return a if relation_holds(lines, a, b) else b
    if "add" in lines:
        return a + b & MASK
    if "sub" in lines:
        return a - b & MASK
    if lines == {"xor", "and"}:
        return a | b
    if "xor" in lines:
        return a ^ b
    if "and" in lines:
        return a & b
    if "sel" in lines:
        return a if c & 1 else b
    if "mul" in lines:
        return a * b + c & MASK
    if "shl" in lines:
        return a << b & MASK if b < 32 else 0
    if "shr" in lines:
        return a >> b if b < 32 else 0
    if "sar" in lines:
        return signed(a) >> min(b, 31) & MASK
    if not lines:
        return 0
    raise AssertionError(f"operation lines {sorted(lines)} passed the check without a meaning")


def run_stages(sizes: Sizes, block: Block, registers: list[list[int]], warp: int, memory: list[int]) -> list[StageTrace]:
    """Run a block's stages for every lane of a warp. registers: [lane][register]. Returns one trace a stage."""
    traces: list[StageTrace] = []
    for instruction in block.instructions:
        trace = StageTrace()
        for lane in range(sizes.lanes):
            for source, operand in ((instruction.a, trace.a), (instruction.b, trace.b), (instruction.c, trace.c)):
                match source.kind:
                    case "register":
                        value = registers[lane][source.number]
                    case "result":
                        value = traces[source.number - 1].result[lane]
                    case "imm":
                        value = instruction.immediate
                    case "tid":
                        value = warp * sizes.lanes + lane
                    case _:
                        value = 0
                operand.append(value)
        for lane in range(sizes.lanes):
            if instruction.shuffle:
                result = trace.a[instruction.shuffle[lane]]
            elif "ld" in instruction.lines:
                word = (trace.a[lane] + trace.b[lane] & MASK) >> 2 & sizes.word_number_mask
                result = memory[word] if word < sizes.global_words else 0
            else:
                result = operate(instruction.lines, trace.a[lane], trace.b[lane], trace.c[lane])
            trace.result.append(result)
        traces.append(trace)
    return traces


def good_address(sizes: Sizes, address: int) -> bool:
    """Whether a byte address is an aligned word of global memory."""
    return address % 4 == 0 and sizes.global_base <= address < sizes.global_base + 4 * sizes.global_words
