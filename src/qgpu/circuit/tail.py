"""What the model writes next: the value of the item whose turn it is, or the record that ends the block.

Results are latched at EXEC, one head for up to three words, and read at every token through gates that let only the
selected item pass; so the first value leaves in the same pass that computed it. Meanwhile the next block is chosen among
three candidates that were ready long before: the smallest target if every active lane falls through, if every one takes the
branch, or if both happen.
"""

from __future__ import annotations

from ..machine.description import WORD, Machine
from ..machine.tokens import KINDS
from .control import Scheduler, latch
from .core import Circuit, Form, MemoryHead, Signal, all_of, binary, not_
from .records import Records, payload_layout
from .stage import StoreBus

OUT_SCALE = 1 << 40
"""Size of the next token's code in the last layer's output; Qwen's own layers cannot reach it."""


def minimum(c: Circuit, x: list, y: list, name: str, bits: int) -> list[Signal]:
    """The smaller of two numbers given as bit lists (signals or forms), in two levels; `bits` bits of it."""
    less = c.signal(f"{name}.less")
    c.at_least(binary(y) - binary(x), 1, less, "first is smaller")
    out = c.bits(f"{name}.", bits)
    for k in range(bits):
        if k < len(x):
            c.all_of([less, x[k]], out[k], "first")
        if k < len(y):
            c.all_of([not_(less), y[k]], out[k], "second")
    return out


def candidates(c: Circuit, m: Machine, sch: Scheduler) -> dict[str, list[Signal]]:
    """Smallest target of the warp if the active lanes all fall, all take the branch, or do both; latched at EXEC."""
    n = m.target_bits
    idle = [[*t, a] for t, a in zip(sch.targets, sch.active)]     # active lanes count as beyond every target
    level = 0
    while len(idle) > 1:
        level += 1
        pairs = [minimum(c, idle[i], idle[i + 1], f"idle{level}_{i // 2}", n + 1) for i in range(0, len(idle) - 1, 2)]
        idle = pairs + ([idle[-1]] if len(idle) % 2 else [])
    fall, taken = sch.header["fall"], sch.header["taken"]
    with_fall = minimum(c, idle[0], fall, "if_fall", n)
    with_taken = minimum(c, idle[0], taken, "if_taken", n)
    with_both = minimum(c, with_fall, taken, "if_both", n)
    return {"fall": with_fall, "taken": with_taken, "both": with_both}


def build_tail(c: Circuit, m: Machine, rec: Records, sch: Scheduler, results: list[list[list[Signal]]],
               bus: StoreBus) -> list[Signal]:
    """Adds the whole tail. Returns the code signals of the next token, in the order of rec.code."""
    with c.scope("tail"):
        next_blocks = candidates(c, m, sch)
        value = c.bits("value", WORD)
        word = c.bits("word", m.address_bits)
        for s, lanes in enumerate(results, 1):
            latched_words(c, m, rec, [(f"s{s}_l{lane}", bits, sch.select_result[s - 1][lane], value)
                                      for lane, bits in enumerate(lanes)])
        latched_words(c, m, rec, [(f"data{lane}", bits, sch.select_data[lane], value)
                                  for lane, bits in enumerate(bus.data)])
        latched_words(c, m, rec, [(f"word{lane}", bits, sch.select_store[lane], word)
                                  for lane, bits in enumerate(bus.word)])
        branch = sch.header["branch"][0]
        took = latch(c, "took", rec.kind["EXEC"],
                     [all_of(branch, sch.active[lane], results[-1][lane][0]) for lane in range(m.lanes)],
                     "lanes that took the branch", names=[f"took{lane}" for lane in range(m.lanes)])
        flat = [b for bits in next_blocks.values() for b in bits]
        held = latch(c, "next", rec.kind["EXEC"], flat, "next block, three cases",
                     names=[f"next_{b.name.split('.', 1)[-1]}" for b in flat])
        n = m.target_bits
        next_blocks = {case: held[i * n:(i + 1) * n] for i, case in enumerate(next_blocks)}
        go, leave = choose_case(c, m, sch, took, next_blocks)
        trapped = c.signal("trapped")
        c.at_least(bus.trap, 1, trapped, "an active lane used a bad address", [rec.kind["EXEC"]])
        return write_code(c, m, rec, sch, value, word, took, next_blocks, go, leave, trapped)


def latched_words(c, m, rec, words) -> None:
    """Latch (name, bits, select, outs) words at EXEC; while select is 1 a word's bits are added to outs. Packs heads."""
    room = m.head_dim - 2
    pack: list = []

    def flush() -> None:
        if pack:
            c.add_head(MemoryHead(
                c._full("latch_" + "_".join(dict.fromkeys(n for n, *_ in pack))), {0: rec.kind["EXEC"]}, {0: Form.of(1)},
                [Form.of(b) for _, b, _, _ in pack], [Form.of(s) for _, _, s, _ in pack],
                [((o, 1),) for *_, o in pack], "results of the last EXEC; only the selected one passes"))
            pack.clear()

    for name, bits, select, outs in words:
        if len(pack) + len(bits) > room:
            flush()
        pack.extend((name, b, select, o) for b, o in zip(bits, outs))
    flush()


def choose_case(c, m, sch, took, next_blocks):
    """go[case]: done and the next block exists; leave: done and every lane of the warp has left (EXIT)."""
    go = {case: c.signal(f"go_{case}", -1, 1) for case in next_blocks}
    leave = c.signal("leave")
    count, ran = Form.total(took), Form.total(sch.ran)
    for stay, into in ((True, go), (False, dict.fromkeys(next_blocks, leave))):
        gate = {case: [sch.done, not_(bits[-1]) if stay else bits[-1]] for case, bits in next_blocks.items()}
        what = "some lane has a next block" if stay else "every lane has left"
        c.equal(count, 0, into["fall"], f"all fell through; {what}", gate["fall"])
        c.equal(ran - count, 0, into["taken"], f"all took the branch; {what}", gate["taken"])
        c.all_of(gate["both"], into["both"], f"done; {what} if both")
        c.equal(count, 0, {into["both"]: -1}, "not both: all fell through", gate["both"])
        c.equal(ran - count, 0, {into["both"]: -1}, "not both: all took the branch", gate["both"])
    return go, leave


def write_code(c, m, rec, sch, value, word, took, next_blocks, go, leave, trapped) -> list[Signal]:
    """Add OUT_SCALE times the next token's code to the code dims: minus everywhere, twice plus where a bit is 1."""
    out = [c.revise(s, f"next.{s.name.split('.', 1)[1]}", -2 * OUT_SCALE, 2 * OUT_SCALE) for s in rec.code]
    kind_out = dict(zip(KINDS, out))
    payload_out = out[len(KINDS):-1]
    c.unit(1, 1, {s: -OUT_SCALE if s is not out[-1] else OUT_SCALE for s in out}, "every code dim starts at -1")
    on = 2 * OUT_SCALE
    at = {}
    for k, fields in payload_layout(m).items():
        shift = 0
        for name, width in fields:
            at[k, name] = payload_out[shift:shift + width]
            shift += width
    alive = not_(trapped)

    def emit(literals, outs, note) -> None:
        c.unit(all_of(*literals, alive), 1, {s: w * on for s, w in outs.items()}, note)

    sending = Form.total([*(s for row in sch.select_result for s in row), *sch.select_data])
    val, sval = kind_out["VAL"], kind_out["SVAL"]
    for i in range(m.chunks):
        top = min(m.chunk_bits * (i + 1), WORD) - 1
        for j in range(m.chunk_bits):
            k = min(m.chunk_bits * i + j, WORD - 1)
            emit([rec.chunk[i], value[k]], {at["VAL", "chunk"][j]: 1}, f"bit {k} of the value")
        if top == WORD - 1:
            emit([sending, rec.chunk[i]], {sval: 1}, "the last chunk completes the value")
        else:
            rest = value[top:]
            emit([sending, rec.chunk[i]], {val: 1}, "a value goes on")
            for literals, what in (([not_(v) for v in rest], "0"), (rest, "1")):
                emit([sending, rec.chunk[i], *literals], {val: -1, sval: 1}, f"all higher bits are {what}: complete")
    emit([Form.total(sch.select_store)], {kind_out["MEM"]: 1}, "a store's word number")
    for k, bit in enumerate(word):
        emit([bit], {at["MEM", "word"][k]: 1}, "word number")
    going = Form.total(go.values())
    emit([going + rec.kind["WARP"]], {kind_out["EXEC"]: 1}, "run the next block, or block 0 of a new warp")
    for case, bits in next_blocks.items():
        for k in range(m.block_bits):
            emit([go[case], bits[k]], {at["EXEC", "block"][k]: 1}, f"next block if {case}")
    for lane in range(m.lanes):
        emit([going, sch.ran[lane]], {at["EXEC", "touched"][lane]: 1}, f"lane {lane} ran")
        emit([going, took[lane]], {at["EXEC", "taken"][lane]: 1}, f"lane {lane} took the branch")
    emit([leave, not_(sch.is_last_warp)], {kind_out["WARP"]: 1}, "the next warp starts")
    for k, bit in enumerate(sch.next_warp):
        emit([leave, not_(sch.is_last_warp), bit], {at["WARP", "warp"][k]: 1}, "next warp's number")
    emit([leave, sch.is_last_warp], {kind_out["END"]: 1}, "the launch ends")
    c.unit(trapped, 1, {kind_out["TRAP"]: on}, "a bad address stops the launch")
    return out
