"""A hand assembler for the reference machine's tests: bit positions and token ids written out from docs/machine.md."""

from __future__ import annotations

from dataclasses import dataclass

OPERATION = {name: bit for bit, name in enumerate(
    "add sub xor and lt eq gt signed set minmax sel ld st mul shl shr sar shfl popc clz brev mulhi".split())}
SPECIAL = {"tid": 22, "ctax": 23, "ctay": 24, "ctaz": 25, "ballot": 26}
KINDS = "NOP VAL SVAL PROG CONFIG GRID MEM BLOCK WARP INIT EXEC NEXT PARK END TRAP".split()


@dataclass(frozen=True)
class Assembler:
    """One machine of four lanes, four stages and 11-bit chunks. first: the first id of each kind, then the number of ids.

    ports: width of the three fields in front of the operand word. exit: the target EXIT.
    """

    sizes: dict
    first: dict
    classes: bool
    ports: int
    register_bits: int
    exit: int

    def stage(self, lines="", a="0", b="0", c="0", imm=0):
        """Three words of an instruction. Operands: "r5" (register), "r2'" (result of stage 2), "imm", "0", for A also "tid" etc."""
        word, operation, field = 0, sum(1 << OPERATION[line] for line in lines.split()), {}
        line = 3 * self.ports
        for x, text in enumerate((a, b, c)):
            if text[0] == "r" and text[-1] != "'":
                number = int(text[1:])
                port, value = (number % 3, number // 3 + 1) if self.classes else (x, number)
                assert field.setdefault(port, value) == value, f"two registers of class {port}"
                if self.classes:
                    word |= 1 << line + 3 * x + port
        line += 9 if self.classes else 0
        for text, names in ((a, ("r1'", "r2'", "r3'", "imm")), (b, ("r1'", "r2'", "r3'", "imm")), (c, ("r1'", "r2'", "r3'"))):
            if text in names:
                word |= 1 << line + names.index(text)
            line += len(names)
        for port, value in field.items():
            word |= value << port * self.ports
        if a in SPECIAL:
            operation |= 1 << SPECIAL[a]
        return [word, operation, imm & 0xFFFFFFFF]

    def block(self, *stages, fall=None, taken=0, branch=0, store=0, barrier=0, vote=0, clear=0, live=(), dest=(0, 0, 0, 0)):
        """Fourteen words of a block. live: stages (from 1) whose result is live. fall: EXIT where not given."""
        width = self.exit.bit_length()
        header0 = sum(d << self.register_bits * k for k, d in enumerate(dest))
        flags = branch | store << 1 | barrier << 2 | vote << 3 | clear << 4
        header1 = (self.exit if fall is None else fall) | taken << width | flags << 2 * width + 4
        header1 |= sum(1 << 2 * width + s - 1 for s in live)
        words = [header0, header1]
        for s in [*stages, *[self.stage()] * (4 - len(stages))]:
            words += s
        return words

    def ids(self, text):
        """Token ids of records such as "VAL 5; SVAL 0; WARP 1 0 1; INIT 1-7; EXEC 1 .FT.; BLOCK x; END"."""
        out = []
        for record in text.replace("\n", ";").split(";"):
            if not record.strip():
                continue
            kind, *rest = record.split()
            payload = 0
            if kind == "INIT" and "-" in rest[0]:
                low, high = rest[0].split("-")
                out += [self.first[kind] + group for group in range(int(low), int(high) + 1)]
                continue
            if kind in ("EXEC", "NEXT", "PARK"):
                payload = int(rest.pop().replace("F", "1").replace("T", "2").replace(".", "0")[::-1], 3)
                payload += 81 * int(rest[0]) if rest else 0
            elif kind == "WARP":
                payload = int(rest[0]) * 4 + int(rest[1]) * 2 + int(rest[2])
            elif rest:
                payload = "xyz".index(rest[0]) if kind in ("GRID", "BLOCK") else int(rest[0])
            out.append(self.first[kind] + payload)
        return out

    def setup(self, blocks, memory=None, warps=1, last=None, grid=(1, 1, 1)):
        """The host's part of a stream. blocks: contents by number (list or dict)."""
        size = self.sizes["lanes"] * self.sizes["groups"]
        out = self.ids("NOP; NOP; NOP")
        for number, content in blocks.items() if isinstance(blocks, dict) else enumerate(blocks):
            for word, value in enumerate(content):
                out += [*words(value), self.first["PROG"] + word * self.sizes["blocks"] + number]
        out.append(self.first["CONFIG"] + (warps - 1) * size + (size if last is None else last) - 1)
        for axis in range(3):
            out += [*words(grid[axis] - 1), self.first["GRID"] + axis]
        for word, value in (memory or {}).items():
            out += [*words(value), self.first["MEM"] + word]
        for axis in range(3):
            out += [*words(0), self.first["BLOCK"] + axis]
        return [*out, self.first["WARP"] + 1]


def words(value):
    """VAL and SVAL ids of a value, from comparing ranges (not the judge's way of cutting it)."""
    v = (value + 2 ** 31) % 2 ** 32 - 2 ** 31
    if -2 ** 10 <= v < 2 ** 10:
        return [2049 + v % 2048]
    if -2 ** 21 <= v < 2 ** 21:
        return [1 + v % 2048, 2049 + v // 2048 % 2048]
    return [1 + v % 2048, 1 + v // 2048 % 2048, 2049 + v // 2048 ** 2 % 2048]


COMMON = {"lanes": 4, "stages": 4, "chunk_bits": 11}

# 1 + 2048 + 2048 + 448 + 32 + 3 + 126 + 3 + 32 + 1 + 2592 + 81 + 81 + 1 + 1 ids, counted by hand.
ARTICLE = Assembler(
    COMMON | {"groups": 1, "warps": 8, "registers": 15, "register_classes": 0, "blocks": 32, "global_words": 126,
              "shared_words": 0, "stage_load": (1, 2, 3, 4), "stage_mul": (2, 4), "stage_shift": (1, 3), "stage_bits": (),
              "stage_mulhi": ()},
    dict(zip(KINDS + ["size"], (0, 1, 2049, 4097, 4545, 4577, 4580, 4706, 4709, 4741, 4742, 7334, 7415, 7496, 7497, 7498))),
    classes=False, ports=4, register_bits=4, exit=32)

# 1 + 2048 + 2048 + 1764 + 256 + 3 + 5120 + 3 + 32 + 8 + 10206 + 648 + 81 + 1 + 1 ids.
DEFAULT = Assembler(
    COMMON | {"groups": 8, "warps": 8, "registers": 31, "register_classes": 3, "blocks": 126, "global_words": 4096,
              "shared_words": 1024, "stage_load": (1,), "stage_mul": (2, 4), "stage_shift": (1, 3), "stage_bits": (2,),
              "stage_mulhi": (4,)},
    dict(zip(KINDS + ["size"], (0, 1, 2049, 4097, 5861, 6117, 6120, 11240, 11243, 11275, 11283, 21489, 22137, 22218, 22219,
                                22220))),
    classes=True, ports=4, register_bits=5, exit=128)

# Between the two: two groups, three warps, every unit in every stage; 20 global and 8 shared words, windows of 128 bytes.
# 1 + 2048 + 2048 + 448 + 24 + 3 + 28 + 3 + 12 + 2 + 2592 + 162 + 81 + 1 + 1 ids.
MIDDLE = Assembler(
    COMMON | {"groups": 2, "warps": 3, "registers": 31, "register_classes": 3, "blocks": 32, "global_words": 20,
              "shared_words": 8} | {f"stage_{unit}": (1, 2, 3, 4) for unit in ("load", "mul", "shift", "bits", "mulhi")},
    dict(zip(KINDS + ["size"], (0, 1, 2049, 4097, 4545, 4569, 4572, 4600, 4603, 4615, 4617, 7209, 7371, 7452, 7453, 7454))),
    classes=True, ports=4, register_bits=5, exit=32)
