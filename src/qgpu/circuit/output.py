"""The last layer: the next token's code, far above everything else in the residual stream."""

from __future__ import annotations

from ..machine.description import AXES, WORD, Machine
from ..machine.tokens import KINDS
from .control import Front
from .core import Circuit, Form, Signal, all_of, not_
from .follow import Following
from .records import Records, payload_layout

OUT_SCALE = 1 << 40
"""Size of the next token's code in the last layer's output; Qwen's own layers cannot reach it."""


class Writer:
    """Adds bits of the next token's code: every code dim starts at -OUT_SCALE, a bit that is 1 adds twice that."""

    def __init__(self, c: Circuit, m: Machine, rec: Records, trapped: Signal) -> None:
        self.c, self.alive = c, not_(trapped)
        self.out = [c.revise(s, f"next.{s.name.split('.', 1)[1]}", -2 * OUT_SCALE, 2 * OUT_SCALE) for s in rec.code]
        self.kind = dict(zip(KINDS, self.out))
        payload = self.out[len(KINDS):-1]
        c.unit(1, 1, {s: -OUT_SCALE if s is not self.out[-1] else OUT_SCALE for s in self.out}, "every code dim starts at -1")
        self.field: dict[tuple[str, str], list[Signal]] = {}
        for k, fields in payload_layout(m).items():
            at = 0
            for name, width in fields:
                self.field[k, name] = payload[at:at + width]
                at += width
        c.unit(trapped, 1, {self.kind["TRAP"]: 2 * OUT_SCALE}, "a bad address stops the launch")

    def add(self, literals, outs: dict[Signal, int], note: str) -> None:
        """Where every literal is 1 (and the launch has not trapped), each output's bit changes by its weight."""
        self.c.unit(all_of(*literals, self.alive), 1, {s: w * 2 * OUT_SCALE for s, w in outs.items()}, note)

    def record(self, kind: str, literals, note: str, **fields) -> None:
        """Where the literals hold, write a record: its kind, and fields given as bit lists (signals, forms or 0/1)."""
        outs = {self.kind[kind]: 1}
        for name, bits in fields.items():
            for k, bit in enumerate(bits):
                target = self.field[kind, name][k]
                if isinstance(bit, int):
                    if bit:
                        outs[target] = 1
                else:
                    self.add([*literals, bit], {target: 1}, f"{note}: {name} bit {k}")
        self.add(literals, outs, note)


def write_code(c: Circuit, m: Machine, rec: Records, front: Front, following: Following, value: list[Signal],
               word: list[Signal], took: list[Signal], go: dict[str, Signal], trapped: Signal) -> list[Signal]:
    """Everything that the model can write next. Returns the code signals, in the order of rec.code."""
    w = Writer(c, m, rec, trapped)
    write_items(w, m, rec, front, value, word)
    write_outcome(w, m, front, following, took, go)
    write_control(w, m, rec, front, following)
    write_thread_block(w, m, rec, front, following)
    return w.out


def write_items(w: Writer, m: Machine, rec: Records, front: Front, value, word) -> None:
    """The next chunk of a value, or the word number of a store."""
    sending = Form.total([*(s for row in front.select_result for s in row), *front.select_data])
    val, sval = w.kind["VAL"], w.kind["SVAL"]
    for i in range(m.chunks):
        top = min(m.chunk_bits * (i + 1), WORD) - 1
        for j in range(m.chunk_bits):
            k = min(m.chunk_bits * i + j, WORD - 1)
            w.add([rec.chunk[i], value[k]], {w.field["VAL", "chunk"][j]: 1}, f"bit {k} of the value")
        if top == WORD - 1:
            w.add([sending, rec.chunk[i]], {sval: 1}, "the last chunk completes the value")
        else:
            rest = value[top:]
            w.add([sending, rec.chunk[i]], {val: 1}, "a value goes on")
            for literals, what in (([not_(v) for v in rest], "0"), (rest, "1")):
                w.add([sending, rec.chunk[i], *literals], {val: -1, sval: 1}, f"all higher bits are {what}: complete")
    w.add([Form.total(front.select_store)], {w.kind["MEM"]: 1}, "a store's word number")
    for bit, target in zip(word, [*w.field["MEM", "index"], *w.field["MEM", "shared"]]):
        w.add([bit], {target: 1}, "word number")


def write_outcome(w: Writer, m: Machine, front: Front, following: Following, took, go) -> None:
    """After the items: the outcome, and the warp's next group or block, or PARK."""
    for lane in range(m.lanes):
        w.add([front.done, front.ran[lane]], {w.field["EXEC", "touched"][lane]: 1}, f"lane {lane} ran")
        w.add([front.done, took[lane]], {w.field["EXEC", "taken"][lane]: 1}, f"lane {lane} took the branch")
    going = Form.total(go.values())
    w.add([going], {w.kind["EXEC"]: 1}, "run the warp's next block")
    for case, bits in following.blocks.items():
        for k in range(m.block_bits):
            w.add([go[case], bits[k]], {w.field["EXEC", "block"][k]: 1}, f"next block if {case}")
    if m.groups > 1:
        w.record("NEXT", [front.done, following.has_next], "the next group runs this block", group=following.next_group)
        w.add([front.done, not_(going), not_(following.has_next)], {w.kind["PARK"]: 1}, "the warp stops")
    else:
        w.add([front.done, not_(going)], {w.kind["PARK"]: 1}, "the warp stops")


def write_control(w: Writer, m: Machine, rec: Records, front: Front, f: Following) -> None:
    """After PARK, WARP and INIT."""
    place = front.place
    w.add([f.start], {w.kind["EXEC"]: 1}, "a warp begins at block 0")
    w.record("EXEC", [f.resume], "a warp goes on where it stopped", block=f.smallest[:m.block_bits])
    if m.groups > 1:
        w.record("INIT", [f.next_init], "the next group starts", group=f.init_group)
    w.record("WARP", [f.to_warp], "the next warp", warp=place.next_warp, parked=[f.parked], first=[place.first])
    w.record("WARP", [f.to_round], "a new round over the warps")
    w.add([f.to_end], {w.kind["END"]: 1}, "the launch ends")


def write_thread_block(w: Writer, m: Machine, rec: Records, front: Front, f: Following) -> None:
    """Next thread block: its index along x, and along the others where the one before wraps; then its first warp."""
    place, kind, axis = front.place, rec.kind, rec.field["BLOCK", "axis"]
    chunk = w.field["SVAL", "chunk"]

    def index(literals, a: int) -> None:
        w.add(literals, {w.kind["SVAL"]: 1}, f"next index along {AXES[a]}")
        for k, bit in enumerate(place.next_index[a]):
            w.add([*literals, bit], {chunk[k]: 1}, f"next index along {AXES[a]}, bit {k}")

    index([f.to_block], 0)
    sent = [kind["SVAL"], not_(place.running)]
    for a, before in enumerate([place.after_control, *place.after_block[:2]]):
        w.record("BLOCK", [*sent, before], f"that was the index along {AXES[a]}", axis=[int(k == a) for k in range(3)])
    for a in range(2):
        here, at = [kind["BLOCK"], axis[a]], place.index[a]
        wraps = [not_(bit) for bit in at]
        index([*here, *wraps], a + 1)
        w.add(here, {w.kind["WARP"]: 1, w.field["WARP", "first"][0]: 1}, "the thread block's first warp")
        w.add([*here, *wraps], {w.kind["WARP"]: -1, w.field["WARP", "first"][0]: -1}, "unless the next axis moves too")
    w.add([kind["BLOCK"], axis[2]], {w.kind["WARP"]: 1, w.field["WARP", "first"][0]: 1}, "the thread block's first warp")
