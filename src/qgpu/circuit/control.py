"""Who runs: program headers, lane targets, active lanes, the list of items to send, and register destinations.

Layer by layer (docs/layers.md prints the schedule): this block's header from ROM; the header before it, whose targets the
outcome in the EXEC token refers to; targets by lane; active = target equals block; items = live results and stores of
active lanes; the item whose turn it is = the n-th of them, n counted in the first layer by halving.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..machine.description import Machine
from .core import Circuit, Form, MemoryHead, Signal, all_of, binary, not_
from .records import Records


def address(bits: list, number: int) -> list[Form]:
    """Literals that hold exactly where `bits` (least significant first) spell `number`."""
    return [Form.of(b) if number >> k & 1 else not_(b) for k, b in enumerate(bits)]


def latch(c: Circuit, name: str, write: Form, bits: list, note: str, *, tap: int = 0, names=None) -> list[Signal]:
    """A one-row store: rewritten with `bits` where `write` is 1, read at every token. Returns the signals read."""
    outs = [c.signal(n) for n in (names or [f"{name}.{k}" for k in range(len(bits))])]
    c.add_head(MemoryHead(c._full(name), {0: Form.of(write)}, {0: Form.of(1)}, [Form.of(b) for b in bits],
                          [Form.of(1)] * len(bits), [((s, 1),) for s in outs], note, key_tap=tap, value_tap=tap))
    return outs


@dataclass
class Scheduler:
    """Signals of the sequencer's front that the stages and the tail read."""

    warp: list[Signal]
    next_warp: list[Signal]
    is_last_warp: Signal
    header: dict[str, list[Signal]]
    active: list[Signal]
    write_dest: list[Signal]
    write_lane: list[Form]
    select_result: list[list[Signal]]   # [stage][lane]
    select_data: list[Signal]           # [lane]
    select_store: list[Signal]          # [lane]
    done: Signal
    ran: list[Signal]                   # lanes active in the last EXEC
    targets: list[list[Signal]]
    rom: "Rom"


@dataclass
class Rom:
    """Reads words of the current block's program."""

    c: Circuit
    m: Machine
    rec: Records

    def word(self, index: int, names: list[str]) -> list[Signal]:
        """Bits of word `index` (only as many as names) of this block at EXEC, all 0 at other tokens."""
        c, m, rec = self.c, self.m, self.rec
        outs = [c.signal(n) for n in names]
        block_p, word_p = rec.field["PROG", "block"], rec.field["PROG", "word"]
        block_e = rec.field["EXEC", "block"]
        key = {b: all_of(rec.kind["PROG"], *address(word_p, index), *address(block_p, b)) for b in range(m.blocks)}
        query = {b: all_of(rec.kind["EXEC"], *address(block_e, b)) for b in range(m.blocks)}
        value = [Form.of(v) for v in rec.value[:len(names)]]
        c.add_head(MemoryHead(c._full(f"rom{index}"), key, query, value, [Form.of(1)] * len(names),
                              [((s, 1),) for s in outs], f"program word {index} of every block", value_tap=1,
                              row_names={b: f"block {b}" for b in range(m.blocks)}))
        return outs


def build_front(c: Circuit, m: Machine, rec: Records) -> Scheduler:
    """Everything before the stages."""
    kind, field = rec.kind, rec.field
    rom = Rom(c, m, rec)
    with c.scope("front"):
        warp = latch(c, "warp", kind["WARP"], field["WARP", "warp"], "current warp")
        config = latch(c, "config", kind["CONFIG"], field["CONFIG", "last_warp"] + field["CONFIG", "missing"],
                       "last warp's number; its missing lanes")
        last_warp, missing = config[:m.warp_bits], config[m.warp_bits:]
        is_last = c.signal("is_last_warp")
        c.equal(binary(warp) - binary(last_warp), 0, is_last, "current warp is the last")
        next_warp = increment(c, warp, "next_warp")
        count = item_counter(c, m, rec)

        header = read_header(c, m, rom)
        previous = {name: bits for name, bits in header.items() if name in ("fall", "taken") or name.startswith("dest")}
        flat = [b for bits in previous.values() for b in bits]
        held = latch(c, "held", kind["EXEC"], flat, "header of the last EXEC before this token", tap=1,
                     names=[f"held.{b.name.split('.')[-1]}" for b in flat])
        before, at = {}, 0
        for name, bits in previous.items():
            before[name] = held[at:at + len(bits)]
            at += len(bits)

        targets = lane_targets(c, m, rec, warp, is_last, missing, before)
        block = binary(field["EXEC", "block"])
        active = [c.signal(f"active{lane}") for lane in range(m.lanes)]
        for lane in range(m.lanes):
            c.equal(binary(targets[lane]) - block, 0, active[lane], f"lane {lane}'s target is this block", [kind["EXEC"]])

        items = build_items(c, m, rec, header, active, count, before)
    return Scheduler(warp, next_warp, is_last, header, active, *items, targets, rom)


def increment(c: Circuit, bits: list[Signal], name: str) -> list[Signal]:
    """bits + 1 (modulo 2^n): bit k flips where all lower bits are 1."""
    out = c.bits(f"{name}", len(bits))
    for k, b in enumerate(bits):
        c.unit(b, 1, out[k], f"bit {k} stays")
        c.unit(all_of(b, *bits[:k]), 1, {out[k]: -1}, f"bit {k} flips to 0")
        c.unit(all_of(not_(b), *bits[:k]), 1, out[k], f"bit {k} flips to 1")
    return out


def item_counter(c: Circuit, m: Machine, rec: Records) -> Form:
    """Number of items completed since the last EXEC or WARP, as a form over a one-hot code.

    Row 0 of a head holds 1 at EXEC and WARP and is halved by every SVAL and MEM; row 1 keeps the norm's constants fresh.
    The read is 128 * 2^-n; [n = j] is relu(4y - 2) relu(2 - y) / 2 with y = 2^(j-n).
    """
    kind = rec.kind
    reset, counts = kind["EXEC"] + kind["WARP"], kind["SVAL"] + kind["MEM"]
    most = m.stages * m.lanes + 2 * m.lanes
    power = c.signal("count_power", 0, 128)
    power.fractional = True
    c.add_head(MemoryHead(c._full("counter"), {0: reset, 1: not_(reset)}, {0: Form.of(1), 1: Form.of(1)}, [reset],
                          [Form.of(1)], [((power, 128),)], "2^-n, n items sent since the last EXEC or WARP",
                          halve=counts, const_form=not_(reset), row_names={0: "2^-n", 1: "constants"}))
    hot = []
    for j in range(1, most + 1):
        s = c.signal(f"count{j}")
        y = power * Fraction(2 ** j, 128)
        c.unit(2 - y, 4 * y - 2, {s: Fraction(1, 2)}, f"{j} items sent")
        hot.append(s)
    c.one_hot(hot)
    return Form.total(s * j for j, s in enumerate(hot, 1))


def read_header(c: Circuit, m: Machine, rom: Rom) -> dict[str, list[Signal]]:
    """Header fields of the current block: name -> bits."""
    names: dict[int, list[tuple[int, str]]] = {0: [], 1: []}
    layout = m.header_fields
    for name, (word, bit, width) in layout.items():
        names[word] += [(bit + k, f"{name}_{k}") for k in range(width)]
    bits: dict[str, Signal] = {}
    for word, entries in names.items():
        entries.sort()
        assert [b for b, _ in entries] == list(range(len(entries)))
        for (_, n), s in zip(entries, rom.word(word, [n for _, n in entries])):
            bits[n] = s
    return {name: [bits[f"{name}_{k}"] for k in range(width)] for name, (_, _, width) in layout.items()}


def lane_targets(c, m, rec, warp, is_last, missing, before) -> list[list[Signal]]:
    """Each lane's target after this token's outcome: written for touched lanes at EXEC, for all lanes at WARP."""
    kind = rec.kind
    touched, taken = rec.field["EXEC", "touched"], rec.field["EXEC", "taken"]
    out = []
    for lane in range(m.lanes):
        write = c.signal(f"retarget{lane}")
        c.all_of([kind["EXEC"], touched[lane]], write, f"lane {lane} was active")
        c.unit(kind["WARP"], 1, write, "a warp starts")
        new = c.bits(f"new_target{lane}.", m.target_bits)
        for k in range(m.target_bits):
            c.all_of([kind["EXEC"], taken[lane], before["taken"][k]], new[k], "branch taken")
            c.all_of([kind["EXEC"], touched[lane], not_(taken[lane]), before["fall"][k]], new[k], "fell through")
        c.all_of([kind["WARP"], is_last, missing[lane]], new[-1], f"lane {lane} is beyond the last thread")
        now = c.bits(f"target{lane}.", m.target_bits)
        rows = {w: all_of(write, *address(warp, w)) for w in range(m.warps)}
        reads = {w: all_of(*address(warp, w)) for w in range(m.warps)}
        c.add_head(MemoryHead(c._full(f"targets{lane}"), rows, reads, [b.form() for b in new], [Form.of(1)] * len(new),
                              [((s, 1),) for s in now], f"next block of lane {lane}, a row a warp",
                              row_names={w: f"warp {w}" for w in range(m.warps)}))
        out.append(now)
    return out


def build_items(c, m, rec, header, active, count, before):
    """Items of the last EXEC, the one to send next, and where a value that completes now goes."""
    kind = rec.kind
    wanted = [[c.signal(f"item_s{s + 1}_l{lane}") for lane in range(m.lanes)] for s in range(m.stages)]
    storing = [c.signal(f"storing{lane}") for lane in range(m.lanes)]
    for lane in range(m.lanes):
        for s in range(m.stages):
            c.all_of([header["live"][s], active[lane]], wanted[s][lane], f"send stage {s + 1} of lane {lane}")
        c.all_of([header["store"][0], active[lane]], storing[lane], f"lane {lane} stores")
    flat = [w for row in wanted for w in row]
    held = latch(c, "items", kind["EXEC"], [*flat, *storing, *active, 1], "items and active lanes of the last EXEC",
                 names=[f"has_{s.name.split('.')[-1]}" for s in flat] + [f"has_store{lane}" for lane in range(m.lanes)]
                 + [f"ran{lane}" for lane in range(m.lanes)] + ["started"])
    n = len(flat)
    has, stores, ran, started = held[:n], held[n:n + m.lanes], held[n + m.lanes:-1], held[-1]
    big = 4 * (n + 2 * m.lanes)
    select, finished = [], []
    for i, h in enumerate(has):
        rank = Form.total(has[:i]) - count
        s = c.signal(f"select_s{i // m.lanes + 1}_l{i % m.lanes}")
        c.unit(1 + rank - big * not_(h) - big * kind["WARP"], 1 - rank, s, "its turn")
        select.append(s)
        f = c.signal(f"finished_s{i // m.lanes + 1}_l{i % m.lanes}")
        c.unit(2 + rank - big * not_(h) - big * not_(kind["SVAL"]), -rank, f, "its value is complete at this token")
        finished.append(f)
    data, store = [], []
    for lane in range(m.lanes):
        rank = Form.total([*has, *(2 * s for s in stores[:lane])]) - count
        for kindname, add, into in (("data", 0, data), ("store", 1, store)):
            s = c.signal(f"select_{kindname}{lane}")
            r = rank + add
            c.unit(1 + r - big * not_(stores[lane]) - big * kind["WARP"], 1 - r, s, "its turn")
            into.append(s)
    done = c.signal("done")
    rank = Form.total([*has, *(2 * s for s in stores)]) - count
    c.unit(1 + rank - big * kind["WARP"] - big * not_(started), 1 - rank, done, "every item is sent")
    c.one_hot([*select, *data, *store, done])
    c.one_hot(finished)
    dest = c.bits("write_dest", m.register_bits)
    by_stage = [finished[s * m.lanes:(s + 1) * m.lanes] for s in range(m.stages)]
    for s in range(m.stages):
        for k in range(m.register_bits):
            c.all_of([Form.total(by_stage[s]), before[f"dest{s + 1}"][k]], dest[k], f"destination of stage {s + 1}")
    lanes = [c.signal(f"write_lane{lane}") for lane in range(m.lanes)]
    for lane in range(m.lanes):
        c.unit(Form.total(row[lane] for row in by_stage), 1, lanes[lane], f"a register of lane {lane} is written")
    return dest, [s.form() for s in lanes], [select[s * m.lanes:(s + 1) * m.lanes] for s in range(m.stages)], data, store, done, ran
