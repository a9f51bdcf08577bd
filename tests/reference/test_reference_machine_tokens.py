"""Machine sizes and token ids as the judge reads them, against tables counted by hand and against the package's vocabulary."""

from __future__ import annotations

import pytest
from machine_assembly import ARTICLE, DEFAULT, KINDS, MIDDLE, words

from qgpu.machine.description import PRESETS, Machine
from qgpu.machine.tokens import Vocabulary
from qgpu_reference.machine import MachineInterpreter
from qgpu_reference.tokens import Record, Sizes, decode, encode, value_ids

MIDDLE_MACHINE = Machine("middle", **MIDDLE.sizes)


@pytest.mark.parametrize("hand, machine", [(ARTICLE, PRESETS["article"]), (DEFAULT, PRESETS["default"]), (MIDDLE, MIDDLE_MACHINE)])
def test_every_token_id_means_the_same_by_hand_and_to_the_package(hand, machine):
    vocabulary, sizes = Vocabulary(machine), Sizes.of(machine)
    assert sizes == Sizes.of(hand.sizes)
    assert {kind: first for kind, (first, _) in sizes.ranges.items()} | {"size": vocabulary.size} == hand.first
    assert list(sizes.ranges) == KINDS
    block_words = sizes.blocks
    for token_id in range(vocabulary.size):
        theirs, mine = vocabulary.token(token_id), decode(sizes, token_id)
        assert encode(sizes, mine) == token_id
        payload, outcome = mine.payload, mine.outcome
        fields = {"EXEC": (payload, outcome), "NEXT": (payload, outcome), "PARK": (outcome,), "PROG": divmod(payload, block_words),
                  "CONFIG": (payload // sizes.warp_size + 1, payload % sizes.warp_size + 1),
                  "WARP": (payload // 4, payload // 2 % 2, payload % 2), "NOP": (), "END": (), "TRAP": ()}
        assert (theirs.kind, tuple(theirs.fields)) == (mine.kind, fields.get(mine.kind, (payload,)))


@pytest.mark.parametrize("hand", [ARTICLE, DEFAULT, MIDDLE])
def test_descriptions_read_like_records(hand):
    machine = MachineInterpreter(hand.sizes)
    for text, described in [("EXEC 3 .FT.", "EXEC(3, .FT.)"), ("NEXT 0 TF..", "NEXT(0, TF..)"), ("PARK ...T", "PARK(...T)"),
                            ("WARP 2 1 0", "WARP(2, 1, 0)"), ("INIT 0", "INIT(0)"), ("GRID y", "GRID(y)"),
                            ("BLOCK z", "BLOCK(z)"), ("VAL 7", "VAL(7)"), ("END", "END"), ("NOP", "NOP")]:
        assert machine.describe(hand.ids(text)[0]) == described


def test_a_record_out_of_range_has_no_id():
    sizes = Sizes.of(ARTICLE.sizes)
    for record in (Record("MEM", 126), Record("INIT", 1), Record("EXEC", 32, (0, 0, 0, 0)), Record("JUMP")):
        with pytest.raises(ValueError):
            encode(sizes, record)


def test_derived_sizes():
    article, default, middle = (Sizes.of(hand.sizes) for hand in (ARTICLE, DEFAULT, MIDDLE))
    assert [(s.exit, s.target_bits, s.register_bits, s.window_bits, s.chunks, s.largest_index)
            for s in (article, default, middle)] == [(32, 6, 4, 9, 3, 1023), (128, 8, 5, 14, 3, 1023), (32, 6, 5, 7, 3, 1023)]
    assert default.port_bits == middle.port_bits == 4


@pytest.mark.parametrize("value", [0, 1023, 1024, -1, -1024, -1025, 2 ** 21, -2 ** 31, 0xDEADBEEF])
def test_values(value):
    assert value_ids(Sizes.of(DEFAULT.sizes), value) == words(value)  # the same ids as in article


def test_quite_other_sizes():
    small = {"lanes": 2, "groups": 1, "warps": 2, "registers": 7, "register_classes": 0, "stages": 2, "blocks": 5,
             "global_words": 10, "shared_words": 0, "chunk_bits": 8, "stage_load": (1, 2), "stage_mul": (2,),
             "stage_shift": (1,), "stage_bits": (), "stage_mulhi": ()}
    sizes = Sizes.of(small)
    assert (sizes.exit, sizes.target_bits, sizes.register_bits, sizes.chunks, sizes.window_bits) == (8, 4, 3, 4, 6)
    first, total = {}, 0
    for kind, count in [("NOP", 1), ("VAL", 256), ("SVAL", 256), ("PROG", 40), ("CONFIG", 4), ("GRID", 3), ("MEM", 10),
                        ("BLOCK", 3), ("WARP", 8), ("INIT", 1), ("EXEC", 45), ("NEXT", 9), ("PARK", 9), ("END", 1), ("TRAP", 1)]:
        first[kind], total = total, total + count
    # Block 0: r3 = tid + 200 (stage 1), r3 is live; falls to EXIT (8). Operand word: ra rb rc (3 bits each), a_r1 a_imm
    # b_r1 b_imm c_r1, so b_imm is bit 12; a_tid is bit 22 of the operation word.
    program = [3, 8 | 1 << 8, 1 << 12, 1 | 1 << 22, 200]
    stream = []
    for word, value in enumerate(program):
        chunks = [value >> shift & 255 for shift in (0, 8, 16)]
        while len(chunks) > 1 and chunks[-1] == 0 and chunks[-2] < 128:
            chunks.pop()
        stream += [first["VAL"] + c for c in chunks[:-1]] + [first["SVAL"] + chunks[-1], first["PROG"] + word * 5]
    stream += [first["CONFIG"] + 1 * 2 + 0, first["WARP"] + 1]
    machine = MachineInterpreter(small)
    out = machine.run(stream)

    def sent(value):
        return [first["VAL"] + value, first["SVAL"]]
    assert out == [first["EXEC"], *sent(200), *sent(201), first["PARK"] + 1 + 3, first["WARP"] + 4 + 1, first["EXEC"], *sent(202),
                   first["PARK"] + 1, first["END"]]
    assert machine.registers[1][0][0][3] == 202 and first["TRAP"] + 1 == total
