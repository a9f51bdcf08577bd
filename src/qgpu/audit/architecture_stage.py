"""What the stages' signals must hold, from the reference interpreter's pass: program words, registers, operands, carries, results, stores."""

from __future__ import annotations

from qgpu_reference.block import word_of
from qgpu_reference.operations import signed
from qgpu_reference.tokens import MASK

from ..machine.description import OPERATIONS, SPECIALS, WORD, Machine
from .columns import Columns

CHUNK = 8
"""Bits that the adder and the comparison take at once."""


def numbered(name: str, n: int) -> list[str]:
    """name0, name1, ..."""
    return [f"{name}{k}" for k in range(n)]


def operand_names(m: Machine) -> list[str]:
    """Signals of the operand word, lowest bit first."""
    return [name if width == 1 else f"{name}_{k}" for name, (_, width) in m.operand_fields().items() for k in range(width)]


def declare_stages(columns: Columns, m: Machine) -> None:
    """Fields of every stage. They are 0 at tokens at which no block runs, the comparison's orders apart: 0 equals 0."""
    for s in range(1, m.stages + 1):
        columns.bits(f"s{s} operand", [f"s{s}.{n}" for n in operand_names(m)])
        columns.bits(f"s{s} operation", [f"s{s}.{n}" for n in [*(f"op_{o}" for o in OPERATIONS), *SPECIALS]])
        columns.bits(f"s{s} imm", numbered(f"s{s}.imm", WORD))
        for lane in range(m.lanes):
            at = f"s{s}.l{lane}"
            for field, name in (("a", f"s{s}.a{lane}."), ("b", f"s{s}.b{lane}."), ("c", f"s{s}.c{lane}."),
                                ("b_register", f"s{s}.b_register{lane}."), ("sum", f"{at}.sum"), ("r", f"{at}.r"),
                                ("loaded", f"{at}.loaded")):
                columns.bits(f"{at} {field}", numbered(name, WORD))
            for k in range(m.register_classes or 3):
                columns.bits(f"{at} port{k}", numbered(f"s{s}.port{k}_{lane}.", WORD))
            columns.plain(f"{at}.holds")
            columns.bits(f"{at} carry", [f"{at}.add.add.carry{e}" for e in range(CHUNK, WORD, CHUNK)])
            for p in range(0, WORD, CHUNK):
                columns.plain(f"{at}.compare.compare.order{p}", 1)
    for lane in range(m.lanes):
        columns.bits(f"store.data{lane}", numbered(f"store.data{lane}.", WORD))
        columns.bits(f"store.word{lane}", numbered(f"store.word{lane}.", m.window_bits - 1))


def ports(m: Machine, word: int) -> list[int]:
    """Register that each port of an operand word reads, 0 for none."""
    fields = list(m.operand_fields().items())[:3]
    numbers = [word >> low & (1 << width) - 1 for _, (low, width) in fields]
    classes = m.register_classes
    return [k + classes * (p - 1) if p else 0 for k, p in enumerate(numbers)] if classes else numbers


def stage_row(row: dict, at) -> None:
    """Add every stage's values at an EXEC or NEXT. at: the `Architecture`."""
    m, judge, run = at.m, at.judge, at.last
    words = judge.program[judge.block]
    registers = judge.registers[judge.warp][judge.group]
    for s in range(1, m.stages + 1):
        operand, operation, imm = words[3 * s - 1:3 * s + 2]
        row |= {f"s{s} operand": operand, f"s{s} operation": operation, f"s{s} imm": imm}
        trace, lines = run.stages[s - 1], run.program.instructions[s - 1].lines
        reads = ports(m, operand)
        for lane in range(m.lanes):
            name = f"s{s}.l{lane}"
            for k, r in enumerate(reads):
                row[f"{name} port{k}"] = registers[lane][r]
            row[f"{name} b_register"] = 0 if m.register_classes else registers[lane][reads[1]]
            _lane(row, name, m, lines, judge, trace.a[lane], trace.b[lane], trace.c[lane], trace.result[lane])
    if run.program.store_stage is not None:
        store = run.stages[run.program.store_stage]
        for lane in range(m.lanes):
            row[f"store.data{lane}"] = store.c[lane]
            row[f"store.word{lane}"] = at.word_bits(store.result[lane])


def _lane(row: dict, name: str, m: Machine, lines: frozenset[str], judge, a: int, b: int, c: int, result: int) -> None:
    """One lane of one stage. The circuit's B is complemented where it subtracts."""
    subtracts = "sub" in lines
    b = b ^ MASK if subtracts else b
    row |= {f"{name} a": a, f"{name} b": b, f"{name} c": c, f"{name} r": result}
    adds = subtracts or "add" in lines
    total = a + b + subtracts & MASK
    level2 = lines & {"xor", "and", "shfl"} and not lines & {"set", "minmax"}
    row[f"{name} sum"] = total if adds else result if level2 else 0
    if "ld" in lines:
        row[f"{name} loaded"] = result
    if adds:
        chunk = (1 << CHUNK) - 1
        row[f"{name} carry"] = sum(1 << k for k, p in enumerate(range(0, WORD - CHUNK, CHUNK))
                                   if (a >> p & chunk) + (b >> p & chunk) + (subtracts and p == 0) > chunk)
    x, y = (signed(a), signed(b)) if "signed" in lines else (a, b)
    row[f"{name}.holds"] = int("lt" in lines and x < y or "eq" in lines and x == y or "gt" in lines and x > y or "sel" in lines and c & 1)
    flip = 1 << WORD - 1 if "signed" in lines else 0
    for p in range(0, WORD, CHUNK):
        u, v = ((w ^ flip) >> p & (1 << CHUNK) - 1 for w in (a, b))
        row[f"{name}.compare.compare.order{p}"] = 1 + (u > v) - (u < v)


def loaded_word(judge, address: int) -> int | None:
    """Number of the word that a load of any address reads, or None (machine.md section 4, Addresses)."""
    return word_of(judge.sizes, address & (4 << judge.sizes.window_bits) - 4)
