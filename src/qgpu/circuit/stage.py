"""One of the stages: operands from registers, earlier results or the immediate; every operation; memory loads.

Levels, lane by lane: registers are read (R); operands selected (1); first and second level of the arithmetic (2, 3); memory load,
comparison's result, last levels of shifts and multiplication (4, 5). A result's dims hold, in turn, the version
after the first arithmetic level, after the second (a sum is then complete: addresses are read here), and the final one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.description import OPERATIONS, SPECIALS, WORD, Machine
from .adder import add
from .compare import compare
from .control import Front
from .core import Circuit, Form, Signal, all_of, not_
from .latch import address, banks
from .logic import logic, pick_many, pick_two
from .bitcount import bit_counts
from .high import multiply_high
from .multiply import multiply_add
from .records import Records
from .shift import shift
from .shuffle import shuffle


@dataclass
class StoreBus:
    """What a block's one store puts out, by lane: data, word number in its window and whether that is shared memory; trap
    counts what is wrong with addresses, by stage."""

    data: list[list[Signal]]
    word: list[list[Signal]]
    trap: list[Signal]


def store_bus(c: Circuit, m: Machine) -> StoreBus:
    """Empty store bus: every stage adds to it."""
    with c.scope("store"):
        return StoreBus([c.bits(f"data{lane}.", WORD) for lane in range(m.lanes)],
                        [c.bits(f"word{lane}.", m.window_bits - 1) for lane in range(m.lanes)],
                        [c.signal(f"bad_addresses{s}", 0, 128) for s in range(1, m.stages + 1)])


def build_stage(c: Circuit, m: Machine, rec: Records, front: Front, number: int,
                earlier: list[list[list[Signal]]], bus: StoreBus,
                after: tuple[Signal, ...] = ()) -> tuple[list[list[Signal]], tuple[Signal, ...]]:
    """Stage `number` (from 1). earlier[s][lane]: 32 result bits of stages before. Returns result bits by lane, and operands.

    after: operands of the stage before. Where registers take many heads, they are read only once those are selected: ports of
    two stages side by side would fill the residual stream.
    """
    with c.scope(f"s{number}"):
        first = 2 + 3 * (number - 1)
        field = operand_lines(m, number, front.rom.word(first, operand_names(m)))
        lines = dict(zip(OPERATIONS + SPECIALS,
                         front.rom.word(first + 1, [f"op_{n}" for n in OPERATIONS] + list(SPECIALS))))
        imm = front.rom.word(first + 2, [f"imm{k}" for k in range(WORD)])
        c.one_hot([lines[n] for n in ("add", "sub", "set", "minmax", "sel", "mul", "mulhi", "shl", "shr", "sar", "shfl",
                                      "popc", "clz", "brev")])
        with c.eager():                              # ports and operands hold dims until the stage is done with them
            operands = [select_operands(c, m, rec, front, field, lines, imm, lane, [r[lane] for r in earlier], after)
                        for lane in range(m.lanes)]
            partial = [[c.signal(f"partial{lane}.{k}") for k in range(WORD)] for lane in range(m.lanes)]
            for d in range(m.lanes):
                c.one_hot([imm[m.lanes * d + s] for s in range(m.lanes)], when=lines["shfl"])
            shuffle(c, [ops[0] for ops in operands],
                    [[imm[m.lanes * d + s] for s in range(m.lanes)] for d in range(m.lanes)], lines["shfl"], partial)
            results = [build_lane(c, m, rec, front, number, lines, lane, *operands[lane], partial[lane], bus)
                       for lane in range(m.lanes)]
        return results, tuple(s.base for bits in results for s in bits)


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


def register_port(c: Circuit, m: Machine, rec: Records, front: Front, lane: int, numbers: list[int], which: list[Signal],
                  field_of, into: list[Signal], name: str, after: tuple = ()) -> None:
    """Add one of the registers `numbers` of this lane, group and warp to the 32 signals `into`.

    which: bits of the program's field; field_of(r): its value where it means register r (0 means none).
    """
    place = front.place
    rows = [(w, g, r) for w in range(m.warps) for g in range(m.groups) for r in numbers]
    here = lambda w, g: (*address(place.warp, w), *address(place.group, g))
    banks(c, m, name, rows, lambda x: all_of(front.write_lane[lane], *here(x[0], x[1]), *address(front.write_dest, x[2])),
          lambda x: all_of(*here(x[0], x[1]), *address(which, field_of(x[2]))), rec.value, into,
          f"registers of lane {lane}", lambda x: f"warp {x[0]} group {x[1]} register {x[2]}", after=after)


def read_registers(c, m, rec, front, field, lane, a, raw_b, cc, after) -> dict[str, list[Signal]]:
    """Read this lane's registers. Ports of operands add to a, raw_b and cc; ports of classes are returned by name."""
    every = list(range(1, m.registers + 1))
    if not m.register_classes:
        for name, into in (("ra", a), ("rb", raw_b), ("rc", cc)):
            register_port(c, m, rec, front, lane, every, field[name], lambda r: r, into, f"port_{name}_{lane}.")
        return {}
    ports = {}
    for k in range(m.register_classes):
        ports[f"p{k}"] = c.bits(f"port{k}_{lane}.", WORD)
        register_port(c, m, rec, front, lane, [r for r in every if r % m.register_classes == k], field[f"p{k}"],
                      lambda r: r // m.register_classes + 1, ports[f"p{k}"], f"class{k}_{lane}.", after)
    return ports


def select_operands(c, m, rec, front, field, lines, imm, lane, results, after):
    """Operands A, B (complemented for sub) and C of one lane: 32 bits each."""
    a, b, cc = c.bits(f"a{lane}.", WORD), c.bits(f"b{lane}.", WORD), c.bits(f"c{lane}.", WORD)
    raw = c.bits(f"b_register{lane}.", WORD)
    with c.eager(False):
        ports = read_registers(c, m, rec, front, field, lane, a, raw, cc, after)
    sub = lines["sub"]
    lines_of = lambda o: [bits[0] for n, bits in field.items() if n.startswith(f"{o}_")]
    c.one_hot(lines_of("b"))
    c.one_hot([*lines_of("a"), *(lines[n] for n in SPECIALS)])
    c.one_hot(lines_of("c"))
    for k in range(WORD):
        sources = {"imm": imm[k]} | {name: bits[k] for name, bits in ports.items()}
        sources |= {f"r{s + 1}": r[k] for s, r in enumerate(results)}
        special = {"a_ballot": front.ballot, **dict(zip(("a_ctax", "a_ctay", "a_ctaz"), front.place.index))}
        more = [(bits[k], lines[n]) for n, bits in special.items() if k < len(bits)]
        chosen = lambda o, names: [(bit, field[f"{o}_{n}"][0]) for n, bit in sources.items() if n in names]
        pick_many(c, chosen("a", sources) + more, a[k], "the selected source")
        if picks := chosen("c", [n for n in sources if n != "imm"]):
            pick_many(c, picks, cc[k], "the selected source")
        if m.register_classes:                       # nothing selected is 0: complemented, it is all ones
            c.unit(sub - Form.total(lines_of("b")), 1, b[k], "complement of nothing")
        else:
            c.unit(raw[k] + sub - 2 * Form.total(lines_of("b")), 2 - raw[k] - sub, b[k], "register, complemented to subtract")
        for bit, line in chosen("b", sources):
            c.unit(bit + sub - 2 * not_(line), 2 - bit - sub, b[k], "the selected source, complemented to subtract")
    tid, place = lines["a_tid"], front.place
    in_lane = {a[k]: 1 for k in range(m.lane_bits) if lane >> k & 1}
    if in_lane:
        c.unit(tid, 1, in_lane, "thread number, lane part")
    for k, bit in enumerate([*place.group, *place.warp], m.lane_bits):
        c.all_of([tid, bit], a[k], "thread number, group and warp part")
    return a, b, cc


def build_lane(c, m, rec, front, number, lines, lane, a, b, cc, partial, bus) -> list[Signal]:
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
        if m.has(number, "popc"):
            with c.scope("bits"):
                bit_counts(c, a, lines["popc"], lines["clz"], lines["brev"], result)
        if m.has(number, "mulhi"):
            with c.scope("mulhi"):
                multiply_high(c, a, b, lines["mulhi"], result)
        memory(c, m, rec, front, number, lines, lane, cc, total, result, bus)
        return result


def memory(c, m, rec, front, number, lines, lane, cc, total, result, bus) -> None:
    """Load the addressed word in place of the address; put a store on the bus; count bad addresses."""
    w = m.window_bits
    in_global, in_shared = total[w], total[w + 1]
    load, store = lines["ld"], lines["st"]
    if m.has(number, "ld"):
        field = rec.field
        window = lambda word: (word - m.global_words, 1) if word >= m.global_words else (word, 0)

        def key(word):
            index, shared = window(word)
            return all_of(rec.kind["MEM"], *address(field["MEM", "index"], index), *address(field["MEM", "shared"], shared))

        def query(word):
            index, shared = window(word)
            return all_of(load, *address(total[2:w], index), *address([in_global, in_shared], 2 if shared else 1))

        name = lambda word: f"{('global', 'shared')[window(word)[1]]} word {window(word)[0]}"
        loaded = result if m.words <= m.head_dim - 2 else c.bits("loaded", WORD)
        banks(c, m, "memory", list(range(m.words)), key, query, rec.value, loaded, "memory", name, value_tap=1)
        for k in range(WORD):                        # many heads cannot all end in one layer: they need dims of their own
            if loaded is not result:
                c.unit(loaded[k], 1, result[k], "the word loaded")
            c.all_of([load, total[k]], {result[k]: -1}, "the address gives way to the word loaded")
    for k in range(WORD):
        c.all_of([store, cc[k]], bus.data[lane][k], "data to store")
    for k, bit in enumerate([*total[2:w], in_shared]):
        c.all_of([store, bit], bus.word[lane][k], "word number to store at")
    used = load + store if m.has(number, "ld") else store.form()
    check_address(c, m, [used, front.active[lane]], total, bus.trap[number - 1])


def check_address(c, m, when, total, trap) -> None:
    """Count what is wrong with an address where every literal of `when` is 1."""
    w = m.window_bits
    in_global, in_shared = total[w], total[w + 1]
    c.at_least(Form.total([total[0], total[1], *total[w + 2:]]), 1, trap, "misaligned or outside the windows", when)
    c.all_of([*when, not_(in_global), not_(in_shared)], trap, "in no window")
    c.all_of([*when, in_global, in_shared], trap, "in no window")
    for window, words in ((in_global, m.global_words), (in_shared, m.shared_words)):
        index = total[2:w]
        if words == 0:
            c.all_of([*when, window], trap, "there is no such memory")
        elif words < 1 << len(index):            # index >= words: a bit above a 0 of `words`, or all its ones
            ones = lambda low: [index[k] for k in range(low, len(index)) if words >> k & 1]
            for j in range(len(index)):
                if not words >> j & 1:
                    c.all_of([*when, window, index[j], *ones(j + 1)], trap, "beyond the last word")
            c.all_of([*when, window, *ones(0)], trap, "beyond the last word")
