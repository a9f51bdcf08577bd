"""Who runs: program headers, lane targets, active lanes, ballots, the items to send, and where a value is written.

Layer by layer (docs/layers.md prints the schedule): this block's header from ROM; the header before it, whose targets the
outcome in an EXEC, NEXT or PARK refers to; targets by lane; active = target equals block; items = live results and stores of
active lanes; the item whose turn it is = the n-th of them, n counted in the first layer by halving.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..machine.description import Machine
from .core import Circuit, Form, MemoryHead, Signal, all_of, binary, not_
from .latch import address, banks, latch
from .place import Place, build_place
from .records import Records


@dataclass
class Front:
    """Signals before the stages.

    run: 1 at EXEC and NEXT. header: this block's fields, 0 at other tokens. active: lanes of the current group that
    run now; ran: those of the last run. targets: next block of every lane of the current group; written_targets: of the
    group whose targets this token may change. select_*: the item whose turn it is; done: none is left.
    write_dest, write_lane: register number and lane that the value completed by this token belongs to.
    """

    place: Place
    run: Signal
    rom: "Rom"
    header: dict[str, list[Signal]]
    targets: list[list[Signal]]
    written_targets: list[list[Signal]]
    active: list[Signal]
    ballot: list[Signal]
    ran: list[Signal]
    select_result: list[list[Signal]]
    select_data: list[Signal]
    select_store: list[Signal]
    done: Signal
    write_dest: list[Signal]
    write_lane: list[Signal]


@dataclass
class Rom:
    """Reads words of the current block's program."""

    c: Circuit
    m: Machine
    rec: Records
    place: Place
    run: Signal

    def word(self, index: int, names: list[str]) -> list[Signal]:
        """Bits of word `index` (only as many as names) of this block at EXEC and NEXT, all 0 at other tokens."""
        c, rec = self.c, self.rec
        outs = [c.signal(n) for n in names]
        block_p, word_p = rec.field["PROG", "block"], rec.field["PROG", "word"]
        banks(c, self.m, f"rom{index}.", list(range(self.m.blocks)),
              lambda b: all_of(rec.kind["PROG"], *address(word_p, index), *address(block_p, b)),
              lambda b: all_of(self.run, *address(self.place.block, b)), rec.value[:len(names)], outs,
              f"program word {index} of every block", lambda b: f"block {b}", value_tap=1)
        return outs


def build_front(c: Circuit, m: Machine, rec: Records) -> Front:
    """Everything before the stages."""
    kind = rec.kind
    with c.scope("front"):
        run = c.signal("run")
        c.unit(kind["EXEC"] + kind["NEXT"], 1, run, "a block runs")
        place = build_place(c, m, rec, run)
        count = item_counter(c, m, rec, kind["EXEC"] + kind["NEXT"])
        rom = Rom(c, m, rec, place, run)
        header = read_header(c, m, rom)
        before = previous_header(c, header, run)
        targets, written = lane_targets(c, m, rec, place, before)
        active = [c.signal(f"active{lane}") for lane in range(m.lanes)]
        for lane in range(m.lanes):
            c.equal(binary(targets[lane]) - binary(place.block), 0, active[lane], f"lane {lane}'s target is this block", [run])
        ballot = ballots(c, m, rec, place, header, before)
        ran, *items = build_items(c, m, rec, place, run, header, active, count, before)
    return Front(place, run, rom, header, targets, written, active, ballot, ran, *items)


def item_counter(c: Circuit, m: Machine, rec: Records, run: Form) -> Form:
    """Number of items completed since the last EXEC or NEXT, as a form over a one-hot code.

    Row 0 of a head holds 1 at EXEC and NEXT and is halved by every SVAL and MEM; row 1 keeps the norm's constants fresh.
    The read is 128 * 2^-n; [n = j] is relu(4y - 2) relu(2 - y) / 2 with y = 2^(j-n).
    """
    counts = rec.kind["SVAL"] + rec.kind["MEM"]
    most = m.stages * m.lanes + 2 * m.lanes
    power = c.signal("count_power", 0, 128)
    power.fractional = True
    c.add_head(MemoryHead(c._full("counter"), {0: run, 1: not_(run)}, {0: Form.of(1), 1: Form.of(1)}, [run],
                          [Form.of(1)], [((power, 128),)], "2^-n, n items sent since the last EXEC or NEXT",
                          halve=counts, const_form=not_(run), row_names={0: "2^-n", 1: "constants"}))
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


def previous_header(c: Circuit, header: dict[str, list[Signal]], run: Signal) -> dict[str, list[Signal]]:
    """Header of the last EXEC or NEXT before this token: targets, destinations, vote flag."""
    kept = {n: bits for n, bits in header.items() if n in ("fall", "taken", "vote") or n.startswith("dest")}
    flat = [b for bits in kept.values() for b in bits]
    held = latch(c, "held", run, flat, "header of the last EXEC or NEXT before this token", tap=1,
                 names=[f"held.{b.name.split('.')[-1]}" for b in flat])
    before, at = {}, 0
    for name, bits in kept.items():
        before[name] = held[at:at + len(bits)]
        at += len(bits)
    return before


def outcome(rec: Records) -> Form:
    """1 at the tokens that carry an outcome."""
    return Form.total(rec.kind[k] for k in ("EXEC", "NEXT", "PARK"))


def lane_targets(c, m, rec, place: Place, before) -> tuple[list[list[Signal]], list[list[Signal]]]:
    """Targets after this token, by lane: of the current group, and of the group that this token may change."""
    kind, told = rec.kind, outcome(rec)
    touched, taken = rec.field["EXEC", "touched"], rec.field["EXEC", "taken"]
    starts = c.signal("starts")
    c.all_of([kind["WARP"], *rec.field["WARP", "first"]], starts, "a warp starts")
    c.unit(kind["INIT"], 1, starts, "a group starts")
    numbers = [(w, g) for w in range(m.warps) for g in range(m.groups)]
    now, written = [], []
    for lane in range(m.lanes):
        write = c.signal(f"retarget{lane}")
        c.all_of([told, touched[lane]], write, f"lane {lane} was active")
        c.unit(starts, 1, write, "its group starts")
        new = c.bits(f"new_target{lane}.", m.target_bits)
        for k in range(m.target_bits):
            c.all_of([told, taken[lane], before["taken"][k]], new[k], "branch taken")
            c.all_of([told, touched[lane], not_(taken[lane]), before["fall"][k]], new[k], "fell through")
        absent = [starts, place.is_last_warp]
        c.all_of([*absent, place.beyond], new[-1], f"lane {lane} has no thread: its group has none")
        c.all_of([*absent, place.at_last, place.missing[lane]], new[-1], f"lane {lane} has no thread")
        key = lambda wg: all_of(write, *address(place.warp, wg[0]), *address(place.written_group, wg[1]))
        for name, group, out in (("target", place.group, now), ("written", place.written_group, written)):
            if m.groups == 1 and name == "written":
                written.append(now[-1])
                continue
            read = c.bits(f"{name}{lane}.", m.target_bits)
            banks(c, m, f"{name}s{lane}.", numbers, key,
                  lambda wg, group=group: all_of(*address(place.warp, wg[0]), *address(group, wg[1])), new, read,
                  f"next block of lane {lane}, a row a group", lambda wg: f"warp {wg[0]} group {wg[1]}")
            out.append(read)
    return now, written


def ballots(c, m, rec, place: Place, header, before) -> list[Signal]:
    """The current warp's ballot: a head a group, a row a warp; voted bits arrive with the outcome."""
    told, vote = outcome(rec), before["vote"][0]
    taken = rec.field["EXEC", "taken"]
    clears = c.signal("clears")
    c.all_of([rec.kind["EXEC"], header["clear"][0]], clears, "this block clears the ballot")
    bits = []
    for g in range(m.groups):
        write = c.signal(f"ballot_write{g}")
        c.unit(clears, 1, write, "cleared")
        c.all_of([told, vote, not_(clears), *address(place.written_group, g)], write, f"group {g} has voted")
        out = [c.signal(f"ballot{g * m.lanes + lane}") for lane in range(m.lanes)]
        c.add_head(MemoryHead(
            c._full(f"ballots{g}"), {w: all_of(write, *address(place.warp, w)) for w in range(m.warps)},
            {w: all_of(*address(place.warp, w)) for w in range(m.warps)},
            [all_of(taken[lane], not_(clears)) for lane in range(m.lanes)], [Form.of(1)] * m.lanes,
            [((s, 1),) for s in out], f"ballot bits of group {g}", row_names={w: f"warp {w}" for w in range(m.warps)}))
        bits += out
    return bits


def build_items(c, m, rec, place: Place, run: Signal, header, active, count, before):
    """Items of the last run, the one to send next, and where a value that completes now goes."""
    wanted = [[c.signal(f"item_s{s + 1}_l{lane}") for lane in range(m.lanes)] for s in range(m.stages)]
    storing = [c.signal(f"storing{lane}") for lane in range(m.lanes)]
    for lane in range(m.lanes):
        for s in range(m.stages):
            c.all_of([header["live"][s], active[lane]], wanted[s][lane], f"send stage {s + 1} of lane {lane}")
        c.all_of([header["store"][0], active[lane]], storing[lane], f"lane {lane} stores")
    flat = [w for row in wanted for w in row]
    held = latch(c, "items", run, [*flat, *storing, *active], "items and active lanes of the last run",
                 names=[f"has_{s.name.split('.')[-1]}" for s in flat] + [f"has_store{lane}" for lane in range(m.lanes)]
                 + [f"ran{lane}" for lane in range(m.lanes)])
    n = len(flat)
    has, stores, ran = held[:n], held[n:n + m.lanes], held[n + m.lanes:]
    big = 4 * (n + 2 * m.lanes)
    off = big * not_(place.running)
    select, finished = [], []
    for i, h in enumerate(has):
        rank = Form.total(has[:i]) - count
        s = c.signal(f"select_s{i // m.lanes + 1}_l{i % m.lanes}")
        c.unit(1 + rank - big * not_(h) - off, 1 - rank, s, "its turn")
        select.append(s)
        f = c.signal(f"finished_s{i // m.lanes + 1}_l{i % m.lanes}")
        c.unit(2 + rank - big * not_(h) - big * not_(rec.kind["SVAL"]) - off, -rank, f, "its value is complete at this token")
        finished.append(f)
    data, store = [], []
    for lane in range(m.lanes):
        rank = Form.total([*has, *(2 * s for s in stores[:lane])]) - count
        for what, add, into in (("data", 0, data), ("store", 1, store)):
            s = c.signal(f"select_{what}{lane}")
            r = rank + add
            c.unit(1 + r - big * not_(stores[lane]) - off, 1 - r, s, "its turn")
            into.append(s)
    done = c.signal("done")
    rank = Form.total([*has, *(2 * s for s in stores)]) - count
    c.unit(1 + rank - off, 1 - rank, done, "every item is sent")
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
    return ran, [select[s * m.lanes:(s + 1) * m.lanes] for s in range(m.stages)], data, store, done, dest, lanes
