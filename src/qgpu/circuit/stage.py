"""One of the stages: operands from registers, earlier results or the immediate; every operation; memory loads.

Levels, lane by lane: registers are read (R); operands selected (1); first and second level of the arithmetic (2, 3); memory load,
comparison's result, last levels of shifts and multiplication (4, 5). A result's dims hold, in turn, the version
after the first arithmetic level, after the second (a sum is then complete: addresses are read here), and the final one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.description import OPERATIONS, WORD, Machine
from .adder import add
from .compare import compare
from .control import Scheduler, address
from .core import Circuit, Form, MemoryHead, Signal, all_of, binary, not_
from .logic import logic, pick_many, pick_two
from .multiply import multiply_add
from .records import Records
from .shift import shift
from .shuffle import shuffle


@dataclass
class StoreBus:
    """What a block's one store puts out, by lane; trap counts bad addresses."""

    data: list[list[Signal]]
    word: list[list[Signal]]
    trap: Signal


def store_bus(c: Circuit, m: Machine) -> StoreBus:
    """Empty store bus: every stage adds to it."""
    with c.scope("store"):
        return StoreBus([c.bits(f"data{lane}.", WORD) for lane in range(m.lanes)],
                        [c.bits(f"word{lane}.", m.address_bits) for lane in range(m.lanes)],
                        c.signal("bad_addresses", 0, 2 * m.stages * m.lanes))


def build_stage(c: Circuit, m: Machine, rec: Records, sch: Scheduler, number: int,
                earlier: list[list[list[Signal]]], bus: StoreBus) -> list[list[Signal]]:
    """Stage `number` (from 1). earlier[s][lane]: 32 result bits of stages before. Returns result bits by lane."""
    with c.scope(f"s{number}"):
        first = 2 + 3 * (number - 1)
        field = operand_lines(m, number, sch.rom.word(first, operand_names(m)))
        lines = dict(zip(OPERATIONS, sch.rom.word(first + 1, [f"op_{n}" for n in OPERATIONS])))
        imm = sch.rom.word(first + 2, [f"imm{k}" for k in range(WORD)])
        c.one_hot([lines[n] for n in ("add", "sub", "set", "minmax", "sel", "mul", "shl", "shr", "sar", "shfl")])
        operands = [select_operands(c, m, rec, sch, field, lines, imm, lane, [r[lane] for r in earlier])
                    for lane in range(m.lanes)]
        partial = [[c.signal(f"partial{lane}.{k}") for k in range(WORD)] for lane in range(m.lanes)]
        for d in range(m.lanes):
            c.one_hot([imm[m.lanes * d + s] for s in range(m.lanes)], when=lines["shfl"])
        shuffle(c, [ops[0] for ops in operands],
                [[imm[m.lanes * d + s] for s in range(m.lanes)] for d in range(m.lanes)], lines["shfl"], partial)
        return [build_lane(c, m, rec, sch, number, lines, lane, *operands[lane], partial[lane], bus)
                for lane in range(m.lanes)]


def operand_names(m: Machine) -> list[str]:
    """Bits of the operand word, lowest first."""
    names: list[str] = []
    for name, (bit, width) in m.operand_fields().items():
        assert bit == len(names)
        names += [name] if width == 1 else [f"{name}_{k}" for k in range(width)]
    return names


def operand_lines(m: Machine, number: int, bits: list[Signal]) -> dict[str, list[Signal]]:
    """field name -> bits."""
    return {name: bits[bit:bit + width] for name, (bit, width) in m.operand_fields().items()}


def register_port(c: Circuit, m: Machine, rec: Records, sch: Scheduler, lane: int, which: list[Signal],
                  into: list[Signal], name: str) -> None:
    """Add register number `which` (0: nothing) of this lane and warp to the 32 signals `into`."""
    key, query, names = {}, {}, {}
    for w in range(m.warps):
        for r in range(1, m.registers + 1):
            row = w * m.registers + r - 1
            here = address(sch.warp, w)
            key[row] = all_of(sch.write_lane[lane], *here, *address(sch.write_dest, r))
            query[row] = all_of(*here, *address(which, r))
            names[row] = f"warp {w} register {r}"
    c.add_head(MemoryHead(c._full(name), key, query, [v.form() for v in rec.value], [Form.of(1)] * WORD,
                          [((s, 1),) for s in into], f"registers of lane {lane}", row_names=names))


def select_operands(c, m, rec, sch, field, lines, imm, lane, results):
    """Operands A, B (complemented for sub) and C of one lane: 32 bits each."""
    a, b, cc = c.bits(f"a{lane}.", WORD), c.bits(f"b{lane}.", WORD), c.bits(f"c{lane}.", WORD)
    raw = c.bits(f"b_register{lane}.", WORD)
    register_port(c, m, rec, sch, lane, field["ra"], a, f"port_a{lane}")
    register_port(c, m, rec, sch, lane, field["rb"], raw, f"port_b{lane}")
    register_port(c, m, rec, sch, lane, field["rc"], cc, f"port_c{lane}")
    sub = lines["sub"]
    others = [field[n][0] for n in field if n.startswith("b_")]
    c.one_hot(others)
    c.one_hot([field[n][0] for n in field if n.startswith("a_")])
    c.one_hot([field[n][0] for n in field if n.startswith("c_")])
    for k in range(WORD):
        c.unit(raw[k] + sub - 2 * Form.total(others), 2 - raw[k] - sub, b[k], "register, complemented to subtract")
        sources = [(field["b_imm"][0], imm[k], "immediate")]
        sources += [(field[f"b_r{s + 1}"][0], r[k], f"stage {s + 1}") for s, r in enumerate(results)]
        for line, bit, what in sources:
            c.unit(bit + sub - 2 * not_(line), 2 - bit - sub, b[k], f"{what}, complemented to subtract")
        pick_many(c, [(imm[k], field["a_imm"][0])] + [(r[k], field[f"a_r{s + 1}"][0]) for s, r in enumerate(results)],
                  a[k], "immediate or an earlier result")
        if results:
            pick_many(c, [(r[k], field[f"c_r{s + 1}"][0]) for s, r in enumerate(results)], cc[k], "an earlier result")
    tid = field["a_tid"][0]
    in_lane = {a[k]: 1 for k in range(m.lane_bits) if lane >> k & 1}
    if in_lane:
        c.unit(tid, 1, in_lane, "thread number, lane part")
    for k in range(m.warp_bits):
        c.all_of([tid, sch.warp[k]], a[m.lane_bits + k], "thread number, warp part")
    return a, b, cc


def build_lane(c, m, rec, sch, number, lines, lane, a, b, cc, partial, bus) -> list[Signal]:
    """All operations of one lane in one stage; returns the 32 bits of its result."""
    with c.scope(f"l{lane}"):
        total = [c.revise(p, f"sum{k}") for k, p in enumerate(partial)]
        result = [c.revise(t, f"r{k}") for k, t in enumerate(total)]
        adding = lines["add"] + lines["sub"]
        with c.scope("add"):
            add(c, a, b, lines["sub"], adding, partial, total)
        with c.scope("logic"):
            logic(c, a, b, lines["xor"], lines["and"], partial)
        holds = c.signal("holds")
        with c.scope("compare"):
            compare(c, a, b, lines["lt"], lines["eq"], lines["gt"], lines["signed"], holds)
        c.all_of([lines["sel"], cc[0]], holds, "bit 0 of C chooses")
        c.all_of([lines["set"], holds], result[0], "comparison's result")
        choosing = lines["minmax"] + lines["sel"]
        for k in range(WORD):
            pick_two(c, a[k], b[k], holds, not_(holds), result[k], "A if the choice holds, else B", when=choosing)
        if m.has(number, "shl"):
            with c.scope("shift"):
                shift(c, a, b, lines["shl"], lines["shr"], lines["sar"], result)
        if m.has(number, "mul"):
            with c.scope("mul"):
                multiply_add(c, a, b, cc, lines["mul"], result)
        memory(c, m, rec, sch, lines, lane, cc, total, result, bus)
        return result


def memory(c, m, rec, sch, lines, lane, cc, total, result, bus) -> None:
    """Load the addressed word in place of the address; put a store on the bus; count bad addresses."""
    word = [total[2 + k] for k in range(m.address_bits)]
    load, store = lines["ld"], lines["st"]
    key = {w: all_of(rec.kind["MEM"], *address(rec.field["MEM", "word"], w)) for w in range(m.global_words)}
    query = {w: all_of(load, *address(word, w)) for w in range(m.global_words)}
    c.add_head(MemoryHead(c._full("memory"), key, query, [v.form() for v in rec.value], [Form.of(1)] * WORD,
                          [((s, 1),) for s in result], "global memory", value_tap=1,
                          row_names={w: f"word {w}" for w in range(m.global_words)}))
    for k in range(WORD):
        c.all_of([load, total[k]], {result[k]: -1}, "the address gives way to the word loaded")
        c.all_of([store, cc[k]], bus.data[lane][k], "data to store")
    for k, bit in enumerate(word):
        c.all_of([store, bit], bus.word[lane][k], "word number to store at")
    base = m.global_base
    spans = range(2 + m.address_bits, WORD)
    wrong = Form.total([total[0], total[1], *(not_(total[k]) if base >> k & 1 else total[k] for k in spans)])
    c.at_least(wrong, 1, bus.trap, "misaligned or outside the global window", [load + store, sch.active[lane]])
    if m.global_words < 1 << m.address_bits:
        c.at_least(binary(word), m.global_words, bus.trap, "beyond the last word", [load + store, sch.active[lane]])
