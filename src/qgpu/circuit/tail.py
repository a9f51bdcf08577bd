"""What the model writes next: the value of the item whose turn it is, or the record that ends the block.

Results are latched at EXEC and NEXT, one head for up to three words, and read at every token through gates that let only the
selected item pass; so the first value leaves in the same pass that computed it. Meanwhile the next block is chosen among
three candidates that were ready long before: the smallest target if every active lane falls through, if every one takes the
branch, or if both happen.
"""

from __future__ import annotations

from ..machine.description import WORD, Machine
from .control import Front
from .core import Circuit, Form, MemoryHead, Signal, all_of, not_
from .follow import Following, build_following
from .latch import latch
from .output import write_code
from .records import Records
from .stage import StoreBus


def build_tail(c: Circuit, m: Machine, rec: Records, front: Front, results: list[list[list[Signal]]],
               bus: StoreBus) -> list[Signal]:
    """Adds the whole tail. Returns the code signals of the next token, in the order of rec.code."""
    run = front.run
    with c.scope("tail"):
        value = c.bits("value", WORD)
        word = c.bits("word", m.window_bits - 1)
        with c.eager():
            for s, lanes in enumerate(results, 1):
                latched_words(c, m, run, [(f"s{s}_l{lane}", bits, front.select_result[s - 1][lane], value)
                                          for lane, bits in enumerate(lanes)])
            latched_words(c, m, run, [(f"data{lane}", bits, front.select_data[lane], value)
                                      for lane, bits in enumerate(bus.data)])
            latched_words(c, m, run, [(f"word{lane}", bits, front.select_store[lane], word)
                                      for lane, bits in enumerate(bus.word)])
        tells = front.header["branch"][0] + front.header["vote"][0]
        took = latch(c, "took", run,
                     [all_of(tells, front.active[lane], results[-1][lane][0]) for lane in range(m.lanes)],
                     "lanes whose predicate is 1, in a block that branches or votes",
                     names=[f"took{lane}" for lane in range(m.lanes)])
        following = build_following(c, m, rec, front)
        go = choose_case(c, m, front, took, following)
        bad = [c.signal(f"bad_stage{s}") for s in range(1, m.stages + 1)]
        for s, count in enumerate(bus.trap):
            c.at_least(count, 1, bad[s], "an active lane used a bad address", [run])
        trapped = c.signal("trapped")
        c.at_least(Form.total(bad), 1, trapped, "some stage used a bad address")
        return write_code(c, m, rec, front, following, value, word, took, go, trapped)


def latched_words(c, m, run, words) -> None:
    """Latch (name, bits, select, outs) words at EXEC and NEXT; while select is 1 a word's bits are added to outs. Packs heads."""
    room = m.head_dim - 2
    pack: list = []

    def flush() -> None:
        if pack:
            c.add_head(MemoryHead(
                c._full("latch_" + "_".join(dict.fromkeys(n for n, *_ in pack))), {0: run.form()}, {0: Form.of(1)},
                [Form.of(b) for _, b, _, _ in pack], [Form.of(s) for _, _, s, _ in pack],
                [((o, 1),) for *_, o in pack], "results of the last run; only the selected one passes"))
            pack.clear()

    for name, bits, select, outs in words:
        if len(pack) + len(bits) > room:
            flush()
        pack.extend((name, b, select, o) for b, o in zip(bits, outs))
    flush()


def choose_case(c: Circuit, m: Machine, front: Front, took: list[Signal], following: Following) -> dict[str, Signal]:
    """go[case]: the warp goes on with the block of that case; none where it parks or a group of it still has to run."""
    go = {case: c.signal(f"go_{case}", -1, 1) for case in following.blocks}
    count, ran = Form.total(took), Form.total(front.ran)
    for case, bits in following.blocks.items():
        gate = [front.done, not_(following.has_next), not_(following.barrier), not_(bits[-1])]
        if case == "fall":
            c.equal(count, 0, go[case], "all fell through", gate)
        elif case == "taken":
            c.equal(ran - count, 0, go[case], "all took the branch", gate)
        else:
            c.all_of(gate, go[case], "done")
            c.equal(count, 0, {go[case]: -1}, "not both: all fell through", gate)
            c.equal(ran - count, 0, {go[case]: -1}, "not both: all took the branch", gate)
    return go
