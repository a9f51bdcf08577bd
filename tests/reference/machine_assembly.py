"""A hand assembler for the `article` machine's tests: bit positions and token ids written out from docs/machine.md."""

from __future__ import annotations

SIZES = {"lanes": 4, "registers": 15, "stages": 4, "blocks": 32, "global_words": 126, "warps": 8, "chunk_bits": 11,
         "stage_mul": (2, 4), "stage_shift": (1, 3), "global_base": 65536}
EXIT = 32
G = 65536

# First id of each kind, counted by hand: 1 + 2048 + 2048 + 448 + 32 + 126 + 8 + 2592 + 1 + 1 ids.
FIRST = {"NOP": 0, "VAL": 1, "SVAL": 2049, "PROG": 4097, "CONFIG": 4545, "MEM": 4577, "WARP": 4703, "EXEC": 4711,
         "END": 7303, "TRAP": 7304}

# Operand word: registers in bits 0..11, then one line a bit.
OPERAND = {"a": {"r1'": 12, "r2'": 13, "r3'": 14, "imm": 15, "tid": 16},
           "b": {"r1'": 17, "r2'": 18, "r3'": 19, "imm": 20}, "c": {"r1'": 21, "r2'": 22, "r3'": 23}}
OPERATION = {name: bit for bit, name in enumerate("add sub xor and lt eq gt signed set minmax sel ld st mul shl shr sar "
                                                  "shfl".split())}


def stage(lines="", a="0", b="0", c="0", imm=0):
    """Three words of an instruction. Operands: "r5" (register), "r2'" (result of stage 2), "imm", "tid" or "0"."""
    word = 0
    for name, low, text in (("a", 0, a), ("b", 4, b), ("c", 8, c)):
        if text in OPERAND[name]:
            word |= 1 << OPERAND[name][text]
        elif text != "0":
            word |= int(text[1:]) << low
    return [word, sum(1 << OPERATION[line] for line in lines.split()), imm & 0xFFFFFFFF]


def block(*stages, fall=EXIT, taken=0, branch=0, store=0, live=(), dest=(0, 0, 0, 0)):
    """Fourteen words of a block. live: stages (from 1) whose result is live."""
    header0 = dest[0] | dest[1] << 4 | dest[2] << 8 | dest[3] << 12
    header1 = fall | taken << 6 | sum(1 << 12 + s - 1 for s in live) | branch << 16 | store << 17
    words = [header0, header1]
    for s in [*stages, *[stage()] * (4 - len(stages))]:
        words += s
    return words


def ids(text):
    """Token ids of records such as "VAL 5; SVAL 0; EXEC 1 .FT.; END"."""
    out = []
    for record in text.replace("\n", ";").split(";"):
        if not record.strip():
            continue
        kind, *rest = record.split()
        payload = int(rest[0]) if rest else 0
        if kind == "EXEC":
            outcome = rest[1].replace("F", "1").replace("T", "2").replace(".", "0")
            payload = payload * 81 + int(outcome[::-1], 3)
        out.append(FIRST[kind] + payload)
    return out


def words(value):
    """VAL and SVAL ids of a value, from comparing ranges (not the judge's way of cutting it)."""
    v = (value + 2 ** 31) % 2 ** 32 - 2 ** 31
    if -2 ** 10 <= v < 2 ** 10:
        return [2049 + v % 2048]
    if -2 ** 21 <= v < 2 ** 21:
        return [1 + v % 2048, 2049 + v // 2048 % 2048]
    return [1 + v % 2048, 1 + v // 2048 % 2048, 2049 + v // 2048 ** 2 % 2048]


def setup(blocks, memory=None, warps=1, last=4):
    """The host's part of a stream: all blocks' words, CONFIG, memory words, WARP 0."""
    out = ids("NOP; NOP; NOP")
    for number, content in enumerate(blocks):
        for word, value in enumerate(content):
            out += [*words(value), FIRST["PROG"] + word * 32 + number]
    out.append(FIRST["CONFIG"] + (warps - 1) * 4 + last - 1)
    for word, value in (memory or {}).items():
        out += [*words(value), FIRST["MEM"] + word]
    return [*out, FIRST["WARP"]]
