"""Instructions and blocks of the machine, and their program words (docs/machine.md section 3).

A block is up to `machine.stages` instructions, one a stage; a stage without one has no operation lines and gives 0.
`encode` checks what the machine cannot: every word that leaves here decodes to a block that means the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Union

from ..errors import LoweringError
from .description import OPERATIONS, SPECIALS, WORD, Machine

WORD_MASK = (1 << WORD) - 1

RELATIONS = frozenset({"lt", "eq", "gt"})


class Register(NamedTuple):
    """A register of the lane, 1 to `machine.registers`, as it was before the block."""

    number: int

    def __str__(self) -> str:
        return f"r{self.number}"


class Result(NamedTuple):
    """The result of an earlier stage of the same block, counted from 1."""

    stage: int

    def __str__(self) -> str:
        return f"s{self.stage}"


class Source(Enum):
    """Operand sources without a number."""

    ZERO = "0"
    IMMEDIATE = "#"
    TID = "tid"
    CTAX = "ctax"
    CTAY = "ctay"
    CTAZ = "ctaz"
    BALLOT = "ballot"


Operand = Union[Register, Result, Source]

SPECIAL_LINE = {Source(line[2:]): line for line in SPECIALS}
"""Sources that only operand A has, and their lines in the operation word."""


class Origin(NamedTuple):
    """Where an instruction comes from: a PTX line, and the CUDA file and line that `.loc` names for it (or "" and 0)."""

    ptx_line: int = 0
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        if self.file:
            return f"{self.file}:{self.line}"
        return f"PTX line {self.ptx_line}" if self.ptx_line else ""


NOWHERE = Origin()


@dataclass(frozen=True)
class Instruction:
    """One stage's work.

    lines: operation lines that are set. a, b, c: operand sources. immediate: 32 bits, read by an operand whose source is
    IMMEDIATE, or by `shfl` as its lane pattern.
    """

    lines: frozenset[str]
    a: Operand = Source.ZERO
    b: Operand = Source.ZERO
    c: Operand = Source.ZERO
    immediate: int = 0
    origin: Origin = field(default=NOWHERE, compare=False)

    def operands(self) -> tuple[Operand, Operand, Operand]:
        return self.a, self.b, self.c


@dataclass(frozen=True)
class Block:
    """A program block.

    stages: instruction of stage 1, 2, ... or None; shorter tuples mean empty later stages.
    dest:   destination register by stage, 0 where the result is not live: a result is live exactly where dest is not 0.
    fall, taken: a block number, or `machine.exit_target`. branch: bit 0 of the last stage's result chooses `taken`.
    barrier: the warp stops after it. vote: bit 0 of the last stage's result goes into the ballot. clear: the ballot is emptied before.
    """

    stages: tuple[Instruction | None, ...]
    dest: tuple[int, ...]
    fall: int
    taken: int = 0
    branch: bool = False
    label: str = field(default="", compare=False)
    barrier: bool = False
    vote: bool = False
    clear: bool = False

    @property
    def has_store(self) -> bool:
        return any(i is not None and "st" in i.lines for i in self.stages)


# ---- checks -----------------------------------------------------------------------------------------------------------

_LEGAL = (
    {frozenset(s) for s in ({"add"}, {"sub"}, {"xor"}, {"and"}, {"xor", "and"}, {"sel"}, {"mul"}, {"shl"}, {"shr"}, {"sar"},
                            {"shfl"}, {"popc"}, {"clz"}, {"brev"}, {"mulhi"}, {"add", "ld"}, {"add", "st"})}
)


def _legal_lines(lines: frozenset[str]) -> bool:
    """Whether section 4 of docs/machine.md gives this set of operation lines a meaning."""
    if lines in _LEGAL:
        return True
    if len(lines & {"set", "minmax"}) != 1:
        return False
    return bool(lines & RELATIONS) and lines <= RELATIONS | {"set", "minmax", "signed"}


def check_block(machine: Machine, block: Block, where: str = "") -> None:
    """Raise LoweringError where a block asks for something that the machine does not have."""
    def need(ok: bool, what: str, stage: int = 0) -> None:
        if not ok:
            place = " ".join(filter(None, (where or block.label, f"stage {stage}" if stage else "")))
            raise LoweringError(f"not a block of machine {machine.name!r}: {what}", where=place)

    need(len(block.stages) <= machine.stages, f"{len(block.stages)} stages, the machine has {machine.stages}")
    need(len(block.dest) <= machine.stages, "more destinations than stages")
    stores = 0
    for s, ins in enumerate(block.stages, 1):
        dest = block.dest[s - 1] if s <= len(block.dest) else 0
        need(0 <= dest <= machine.registers, f"destination register {dest}", s)
        if ins is None:
            need(dest == 0, "a destination without an instruction", s)
            continue
        need(ins.lines <= frozenset(OPERATIONS), f"unknown operation lines {sorted(ins.lines)}", s)
        need(_legal_lines(ins.lines), f"operation lines {sorted(ins.lines)} mean nothing together", s)
        for line in ins.lines:
            need(machine.has(s, line), f"this stage has no unit for {line!r}", s)
        stores += "st" in ins.lines
        need(0 <= ins.immediate <= WORD_MASK, f"immediate {ins.immediate} is not a 32-bit word", s)
        uses = [o for o in ins.operands() if o is Source.IMMEDIATE]
        need(len(uses) + ("shfl" in ins.lines) <= 1, "the one immediate is used twice", s)
        need(bool(uses) or "shfl" in ins.lines or ins.immediate == 0, "an immediate that nothing reads", s)
        need(ins.c is not Source.IMMEDIATE, "operand C cannot be the immediate", s)
        need(ins.b not in SPECIAL_LINE and ins.c not in SPECIAL_LINE, "only operand A can be tid or another special source", s)
        for o in ins.operands():
            if isinstance(o, Result):
                need(1 <= o.stage < s, f"reads the result of stage {o.stage}, which is not earlier", s)
                need(block.stages[o.stage - 1] is not None, f"reads the result of stage {o.stage}, which is empty", s)
            elif isinstance(o, Register):
                need(1 <= o.number <= machine.registers, f"reads register {o.number}", s)
        if machine.register_classes:
            for letter, port in zip("abc", _clash(machine, ins)):
                need(not port, f"operand {letter.upper()}: another register of the same class is read", s)
        if "shfl" in ins.lines:
            need(_pattern_ok(machine, ins.immediate), f"shuffle pattern {ins.immediate:#x} is not one source a lane", s)
    live = [d for d in block.dest if d]
    need(len(live) == len(set(live)), "two results go to the same register")
    need(stores <= 1, "more than one store")
    need(not block.vote or not block.branch, "a vote with a branch")
    for name, target in (("fall", block.fall), ("taken", block.taken)):
        need(0 <= target < machine.blocks or target == machine.exit_target, f"{name} target {target}")


def _clash(machine: Machine, ins: Instruction) -> list[bool]:
    """For each operand, whether it is a register whose port another register before it uses."""
    ports: dict[int, int] = {}
    out = []
    for o in ins.operands():
        out.append(isinstance(o, Register) and ports.setdefault(o.number % machine.register_classes, o.number) != o.number)
    return out


def shuffle_pattern(machine: Machine, sources: list[int]) -> int:
    """Immediate of `shfl` where lane d takes A of lane sources[d]: bit lanes*d + s."""
    return sum(1 << (machine.lanes * d + s) for d, s in enumerate(sources))


def _pattern_ok(machine: Machine, pattern: int) -> bool:
    n = machine.lanes
    rows = [(pattern >> (n * d)) & ((1 << n) - 1) for d in range(n)]
    return pattern >> (n * n) == 0 and all(row and row & (row - 1) == 0 for row in rows)


# ---- words ------------------------------------------------------------------------------------------------------------


def encode(machine: Machine, block: Block) -> list[int]:
    """The `words_per_block` program words of a block. Raises LoweringError from `check_block`."""
    check_block(machine, block)
    words = [0] * machine.words_per_block
    values = {f"dest{s}": d for s, d in enumerate(block.dest, 1)}
    values |= {"fall": block.fall, "taken": block.fall if block.vote else block.taken,
               "branch": int(block.branch), "store": int(block.has_store),
               "barrier": int(block.barrier), "vote": int(block.vote), "clear": int(block.clear),
               "live": sum(1 << i for i, d in enumerate(block.dest) if d)}
    for name, (word, bit, _) in machine.header_fields.items():
        words[word] |= values.get(name, 0) << bit
    operand_fields, operation_fields = machine.operand_fields(), machine.operation_fields()
    for s, ins in enumerate(block.stages):
        if ins is None:
            continue
        base = 2 + 3 * s
        operation = sum(1 << operation_fields[line][0] for line in ins.lines)
        for letter, operand in zip("abc", ins.operands()):
            match operand:
                case Register(number) if machine.register_classes:
                    port, row = number % machine.register_classes, number // machine.register_classes
                    words[base] |= (row + 1) << operand_fields[f"p{port}"][0]  # the same again if two operands read it
                    words[base] |= 1 << operand_fields[f"{letter}_p{port}"][0]
                case Register(number):
                    words[base] |= number << operand_fields["r" + letter][0]
                case Result(stage):
                    words[base] |= 1 << operand_fields[f"{letter}_r{stage}"][0]
                case Source.IMMEDIATE:
                    words[base] |= 1 << operand_fields[f"{letter}_imm"][0]
                case Source() if operand in SPECIAL_LINE:
                    operation |= 1 << operation_fields[SPECIAL_LINE[operand]][0]
        words[base + 1] = operation
        words[base + 2] = ins.immediate
    return words


def decode(machine: Machine, words: list[int]) -> Block:
    """The block that these words encode. Raises LoweringError where they encode none."""
    if len(words) != machine.words_per_block:
        raise LoweringError(f"a block has {machine.words_per_block} words, not {len(words)}")
    header = {name: (words[w] >> bit) & ((1 << width) - 1) for name, (w, bit, width) in machine.header_fields.items()}
    stages: list[Instruction | None] = []
    dest: list[int] = []
    for s in range(1, machine.stages + 1):
        operand_word, operation_word, immediate = words[2 + 3 * (s - 1): 5 + 3 * (s - 1)]
        live = bool(header["live"] >> (s - 1) & 1)
        number = header[f"dest{s}"]
        if live != (number != 0):
            raise LoweringError(f"stage {s}: live flag and destination register {number} disagree")
        dest.append(number)
        lines = frozenset(name for name, (bit, _) in machine.operation_fields().items() if operation_word >> bit & 1)
        if not lines and operand_word == 0 and immediate == 0:
            stages.append(None)
            continue
        specials = [source for source, line in SPECIAL_LINE.items() if line in lines]
        lines -= frozenset(SPECIALS)
        a, b, c = (_decode_operand(machine, letter, operand_word, s, specials if letter == "a" else []) for letter in "abc")
        stages.append(Instruction(lines, a, b, c, immediate))
    block = Block(tuple(stages), tuple(dest), header["fall"], header["taken"],
                  bool(header["branch"]), barrier=bool(header["barrier"]), vote=bool(header["vote"]), clear=bool(header["clear"]))
    check_block(machine, block)
    if block.has_store != bool(header["store"]):
        raise LoweringError("store flag and instructions disagree")
    return block


def _decode_operand(machine: Machine, letter: str, word: int, stage: int, specials: list[Source]) -> Operand:
    sources: list[Operand] = list(specials)
    fields = {name: (word >> bit) & ((1 << width) - 1) for name, (bit, width) in machine.operand_fields().items()}
    for name, value in fields.items():
        if not value or not name.startswith((letter + "_", "r" + letter)):
            continue
        if name == "r" + letter:
            sources.append(Register(value))
        elif name == letter + "_imm":
            sources.append(Source.IMMEDIATE)
        elif name.startswith(letter + "_r"):
            sources.append(Result(int(name[3:])))
        elif fields[name[2:]]:
            sources.append(Register(int(name[3:]) + machine.register_classes * (fields[name[2:]] - 1)))
        else:
            raise LoweringError(f"stage {stage}: operand {letter.upper()} names a port that reads nothing")
    if len(sources) > 1:
        raise LoweringError(f"stage {stage}: operand {letter.upper()} has two sources")
    return sources[0] if sources else Source.ZERO


# ---- printing ---------------------------------------------------------------------------------------------------------

_RELATION_NAME = {frozenset({"lt"}): "lt", frozenset({"lt", "eq"}): "le", frozenset({"eq"}): "eq",
                  frozenset({"gt", "eq"}): "ge", frozenset({"gt"}): "gt", frozenset({"lt", "gt"}): "ne",
                  frozenset({"lt", "eq", "gt"}): "any"}


def mnemonic(lines: frozenset[str]) -> str:
    """A readable name for a set of operation lines: `mad`, `or`, `set.lt.s`, `min.u`, `ld`."""
    relation = frozenset(lines & RELATIONS)
    suffix = ".s" if "signed" in lines else ".u"
    if "set" in lines:
        name = _RELATION_NAME[relation]
        return f"set.{name}" + (suffix if name not in ("eq", "ne", "any") else "")
    if "minmax" in lines:
        return {"lt": "min", "le": "min", "gt": "max", "ge": "max"}.get(_RELATION_NAME[relation], "pick") + suffix
    if lines == {"xor", "and"}:
        return "or"
    for name in ("ld", "st", "sel", "shfl", "popc", "clz", "brev", "mulhi", "mul", "shl", "shr", "sar", "add", "sub", "xor", "and"):
        if name in lines:
            return "mad" if name == "mul" else name
    return "nop"


def print_instruction(machine: Machine, stage: int, ins: Instruction, dest: int) -> str:
    """One line: `s2  r5 = mad r1, #12, s1   ; dot.cu:7`. A result that is not live is printed as `-`."""
    value = ins.immediate - (1 << WORD) if ins.immediate >> (WORD - 1) else ins.immediate
    a, b, c = ("#" + str(value) if o is Source.IMMEDIATE else o.value if isinstance(o, Source) else str(o)
               for o in ins.operands())
    name = mnemonic(ins.lines)
    if name == "ld":
        body = f"ld [{a} + {b}]"
    elif name == "st":
        body = f"st [{a} + {b}], {c}"
    elif name == "shfl":
        n = machine.lanes
        rows = [(ins.immediate >> (n * d)) & ((1 << n) - 1) for d in range(n)]
        body = f"shfl {a}, lanes {' '.join(str(row.bit_length() - 1) for row in rows)}"
    elif name in ("mad", "sel"):
        body = f"{name} {a}, {b}, {c}"
    elif name in ("popc", "clz", "brev"):
        body = f"{name} {a}"
    else:
        body = f"{name} {a}, {b}"
    left = f"r{dest} = " if dest else "" if name == "st" else "- = "
    line = f"s{stage}  {left}{body}"
    return f"{line:<44}; {ins.origin}" if str(ins.origin) else line


def print_block(machine: Machine, number: int, block: Block) -> str:
    """A block as text: a head line, one line an instruction, a line for where it goes."""
    def target(t: int) -> str:
        return "exit" if t == machine.exit_target else f"b{t}"
    lines = [f"b{number}:" + (f"  ; {block.label}" if block.label else "")]
    for s, ins in enumerate(block.stages, 1):
        if ins is not None:
            lines.append("    " + print_instruction(machine, s, ins, block.dest[s - 1] if s <= len(block.dest) else 0))
    if block.branch:
        lines.append(f"    s{machine.stages} ? {target(block.taken)} : {target(block.fall)}")
    else:
        lines.append(f"    -> {target(block.fall)}" + "".join(" " + w for w in ("barrier", "vote", "clear") if getattr(block, w)))
    return "\n".join(lines)
