"""Program words: docs/machine.md section 3, by hand and both ways."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qgpu.errors import LoweringError
from qgpu.machine.description import ARTICLE, DEFAULT, OPERATIONS
from qgpu.machine.encoding import (Block, Instruction, Origin, Register, Result, Source, check_block, decode, encode, print_block,
                                   shuffle_pattern)
from qgpu_reference.block import read_block
from qgpu_reference.tokens import Sizes

EXIT = ARTICLE.exit_target


def ins(lines: str, *operands, immediate: int = 0) -> Instruction:
    return Instruction(frozenset(lines.split()), *operands, immediate=immediate)


def test_words_by_hand() -> None:
    block = Block((ins("shl", Source.TID, Source.IMMEDIATE, immediate=2), ins("mul", Register(3), Result(1), Register(15)), None,
                   ins("set lt eq signed", Result(2), Register(1))), (0, 5, 0, 0), fall=7, taken=EXIT, branch=True)
    words = encode(ARTICLE, block)
    assert len(words) == 14
    assert words[0] == 5 << 4
    assert words[1] == 7 | 32 << 6 | 0b0010 << 12 | 1 << 16
    assert words[2] == 1 << 19  # b_imm
    assert words[3] == 1 << 14 | 1 << 22 and words[4] == 2  # shl, a_tid
    assert words[5] == 3 | 15 << 8 | 1 << 16  # ra, rc, b_r1
    assert words[6] == 1 << 13 and words[7] == 0
    assert words[8:11] == [0, 0, 0]
    assert words[11] == 1 << 4 | 1 << 13  # rb, a_r2
    assert words[12] == 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8


def test_store_flag_and_reference_reading() -> None:
    block = Block((ins("add st", Register(1), Source.IMMEDIATE, Register(2), immediate=65536),), (0,), fall=EXIT)
    words = encode(ARTICLE, block)
    assert words[1] == EXIT | 1 << 17
    seen = read_block(Sizes.of(ARTICLE), words, 0)
    assert seen.store_stage == 0 and seen.fall == EXIT


OPERAND_A = st.sampled_from([Source.ZERO, Source.TID, Register(1), Register(15), Register(8)])
LINES = st.sampled_from(["add", "sub", "xor", "and", "xor and", "sel", "mul", "shl", "shr", "sar", "add ld", "set lt", "set lt gt signed",
                         "minmax gt", "minmax lt signed"])


@st.composite
def blocks(draw) -> Block:
    stages, dest, free = [], [], list(range(1, 16))
    for s in range(1, draw(st.integers(1, 4)) + 1):
        lines = draw(LINES)
        if not all(ARTICLE.has(s, line) for line in lines.split()) or draw(st.integers(0, 4)) == 0:
            stages.append(None)
            dest.append(0)
            continue
        results = [Result(k) for k in range(1, s) if stages[k - 1] is not None]
        a, b, c = draw(OPERAND_A), draw(st.sampled_from([Source.ZERO, Register(2)] + results)), draw(
            st.sampled_from([Source.ZERO, Register(3)] + results))
        immediate = 0
        if draw(st.booleans()):
            b, immediate = Source.IMMEDIATE, draw(st.integers(0, 2**32 - 1))
        stages.append(ins(lines, a, b, c, immediate=immediate))
        dest.append(free.pop(draw(st.integers(0, len(free) - 1))) if draw(st.booleans()) else 0)
    target = st.sampled_from([0, 1, 31, EXIT])
    return Block(tuple(stages), tuple(dest), draw(target), draw(target), draw(st.booleans()))


@settings(max_examples=150, deadline=None)
@given(blocks())
def test_round_trip(block: Block) -> None:
    back = decode(ARTICLE, encode(ARTICLE, block))
    n = len(block.stages)
    assert back.stages[:n] == block.stages and all(i is None for i in back.stages[n:])
    assert back.dest[:n] == block.dest and not any(back.dest[n:])
    assert (back.fall, back.taken, back.branch) == (block.fall, block.taken, block.branch)


def test_words_of_register_classes_by_hand() -> None:
    m = DEFAULT
    block = Block((ins("add ld", Register(7), Source.IMMEDIATE, immediate=12), ins("popc", Result(1)), ins("add", Register(3), Register(5)),
                   ins("sel", Source.CTAY, Register(31), Register(31))), (8, 0, 0, 31), 5, barrier=True, vote=False, clear=True)
    words = encode(m, block)
    assert words[0] == 8 | 31 << 15
    assert words[1] == 5 | 0b1001 << 16 | 1 << 22 | 1 << 24
    assert words[2] == 3 << 4 | 1 << 13 | 1 << 28  # port 1 reads 1 + 3 * 2; a_p1, b_imm
    assert words[6] == 1 << 18
    assert words[8] == 2 | 2 << 8 | 1 << 12 | 1 << 17  # port 0 reads 3, port 2 reads 5; a_p0, b_p2
    assert words[11] == 11 << 4 | 1 << 16 | 1 << 19  # port 1 reads 31 for both
    assert words[12] == 1 << 10 | 1 << 24
    back = decode(m, words)
    assert back == Block(block.stages, block.dest, 5, 0, barrier=True, clear=True)


def test_registers_of_one_class_do_not_meet() -> None:
    with pytest.raises(LoweringError, match="operand B: another register of the same class"):
        check_block(DEFAULT, Block((ins("add", Register(1), Register(4)),), (1,), EXIT))
    check_block(DEFAULT, Block((ins("add", Register(1), Register(1)),), (1,), EXIT))
    with pytest.raises(LoweringError, match="vote with a branch"):
        check_block(DEFAULT, Block((ins("add"),), (1,), 1, 1, True, vote=True))


def test_a_vote_has_one_target() -> None:
    back = decode(DEFAULT, encode(DEFAULT, Block((None, None, None, ins("set eq", Register(1), Register(2))), (), 3, vote=True, clear=True)))
    assert (back.fall, back.taken, back.vote, back.clear, back.branch, back.barrier) == (3, 3, True, True, False, False)


BAD = [
    ("no unit", Block((ins("mul", Register(1), Register(2)),), (1,), EXIT)),
    ("no unit", Block((None, ins("shl", Register(1), Register(2))), (0, 1), EXIT)),
    ("immediate is used twice", Block((ins("sel", Source.IMMEDIATE, Source.IMMEDIATE, Register(1), immediate=3),), (1,), EXIT)),
    ("immediate is used twice", Block((ins("shfl", Source.IMMEDIATE, immediate=shuffle_pattern(ARTICLE, [0, 0, 0, 0])),), (1,), EXIT)),
    ("nothing reads", Block((ins("add", Register(1), immediate=4),), (1,), EXIT)),
    ("not earlier", Block((ins("add", Result(1)),), (1,), EXIT)),
    ("not earlier", Block((ins("add", Result(2)), ins("add")), (1, 0), EXIT)),
    ("which is empty", Block((None, ins("add", Result(1))), (0, 1), EXIT)),
    ("more than one store", Block((ins("add st"), ins("add st")), (0, 0), EXIT)),
    ("same register", Block((ins("add"), ins("add")), (4, 4), EXIT)),
    ("mean nothing", Block((ins("add sub"),), (1,), EXIT)),
    ("mean nothing", Block((ins("set"),), (1,), EXIT)),
    ("mean nothing", Block((ins("ld"),), (1,), EXIT)),
    ("operand C", Block((ins("mul"), ins("mul", Register(1), Register(2), Source.IMMEDIATE, immediate=1)), (0, 1), EXIT)),
    ("only operand A", Block((ins("add", Register(1), Source.TID),), (1,), EXIT)),
    ("not one source a lane", Block((ins("shfl", Register(1), immediate=3),), (1,), EXIT)),
    ("without an instruction", Block((None,), (1,), EXIT)),
    ("target", Block((), (), 33)),
    ("stages", Block((None,) * 5, (), EXIT)),
    ("reads register", Block((ins("add", Register(16)),), (1,), EXIT)),
    ("destination register", Block((ins("add"),), (16,), EXIT)),
    ("unknown", Block((ins("fma"),), (1,), EXIT)),
]


@pytest.mark.parametrize("message, block", BAD, ids=[f"{k}-{m}" for k, (m, _) in enumerate(BAD)])
def test_refusals(message: str, block: Block) -> None:
    if block.stages and block.stages[0] == ins("mul"):
        block = Block((None, block.stages[1]), block.dest, EXIT)
    with pytest.raises(LoweringError, match=message):
        check_block(ARTICLE, block)


def test_decode_refuses_what_encode_never_makes() -> None:
    good = encode(ARTICLE, Block((ins("add", Register(1), Register(2)),), (3,), EXIT))
    two_sources = list(good)
    two_sources[2] |= 1 << 16
    with pytest.raises(LoweringError, match="two sources"):
        decode(ARTICLE, two_sources)
    live = list(good)
    live[1] &= ~(0b1111 << 12)
    with pytest.raises(LoweringError, match="live"):
        decode(ARTICLE, live)
    store = list(good)
    store[1] |= 1 << 17
    with pytest.raises(LoweringError, match="store"):
        decode(ARTICLE, store)
    with pytest.raises(LoweringError, match="14 words"):
        decode(ARTICLE, good[:-1])


def test_printing() -> None:
    block = Block((ins("add ld", Source.TID, Source.IMMEDIATE, immediate=0xFFFFFFFC),
                   Instruction(frozenset({"mul"}), Register(1), Source.IMMEDIATE, Result(1), 12, Origin(30, "dot.cu", 7)),
                   ins("shfl", Result(2), immediate=shuffle_pattern(ARTICLE, [1, 2, 3, 3])),
                   ins("set lt gt", Result(3), Source.ZERO)), (0, 5, 0, 0), 1, EXIT, True, "$L__BB0_1")
    lines = print_block(ARTICLE, 4, block).splitlines()
    assert lines[0] == "b4:  ; $L__BB0_1"
    assert lines[1].split() == "s1 - = ld [tid + #-4]".split()
    assert lines[2].split() == "s2 r5 = mad r1, #12, s1 ; dot.cu:7".split()
    assert lines[3].split() == "s3 - = shfl s2, lanes 1 2 3 3".split()
    assert lines[4].split() == "s4 - = set.ne s3, 0".split()
    assert lines[5].split() == "s4 ? exit : b1".split()


def test_every_line_has_a_place() -> None:
    fields = ARTICLE.operation_fields()
    assert [fields[name][0] for name in OPERATIONS] == list(range(22))
