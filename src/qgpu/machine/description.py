"""The one description of the machine: every size, and everything that follows from the sizes.

docs/machine.md says what the machine does; nothing else in the package hard-codes a lane, register or word count.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from math import ceil, log2
from pathlib import Path

from ..errors import UsageError

WORD = 32
"""Bits in a register, a memory word and a program word."""

OPERATIONS = ("add", "sub", "xor", "and", "lt", "eq", "gt", "signed", "set", "minmax", "sel", "ld", "st",
              "mul", "shl", "shr", "sar", "shfl")
"""Lines of the operation word, bit 0 first (docs/machine.md section 3)."""

UNIT_OF = {"mul": "mul", "shl": "shift", "shr": "shift", "sar": "shift"}
"""Which optional unit of a stage an operation needs; everything else is in every stage ('alu')."""


@dataclass(frozen=True)
class Machine:
    """Sizes of a machine. Raises UsageError from `validate` where they make no sense.

    lanes: threads in a warp. registers: per lane, beside register 0. stages: instructions in a block.
    blocks: program ROM. global_words: 32-bit words. warps: of `lanes` threads each, in a thread block.
    chunk_bits: bits of a value that one token carries. stage_mul / stage_shift: stages (from 1) with those units.
    hidden, heads, head_dim: shape of the Qwen3.5 layers that carry it.
    """

    name: str
    lanes: int = 4
    registers: int = 15
    stages: int = 4
    blocks: int = 32
    global_words: int = 126
    warps: int = 8
    chunk_bits: int = 11
    stage_mul: tuple[int, ...] = (2, 4)
    stage_shift: tuple[int, ...] = (1, 3)
    hidden: int = 2048
    heads: int = 16
    head_dim: int = 128
    global_base: int = 1 << 16

    # ---- derived sizes --------------------------------------------------------------------------------------------
    @property
    def threads(self) -> int:
        """Largest thread block."""
        return self.lanes * self.warps

    @property
    def register_bits(self) -> int:
        return self.registers.bit_length()

    @property
    def block_bits(self) -> int:
        return max(1, ceil(log2(self.blocks)))

    @property
    def target_bits(self) -> int:
        """Bits of a branch target: a block number and, on top, the EXIT flag."""
        return self.block_bits + 1

    @property
    def exit_target(self) -> int:
        return 1 << self.block_bits

    @property
    def warp_bits(self) -> int:
        return max(1, ceil(log2(self.warps)))

    @property
    def lane_bits(self) -> int:
        return ceil(log2(self.lanes))

    @property
    def address_bits(self) -> int:
        """Bits of a global word number."""
        return ceil(log2(self.global_words))

    @property
    def chunks(self) -> int:
        """Most tokens that one value takes."""
        return ceil(WORD / self.chunk_bits)

    @property
    def words_per_block(self) -> int:
        return 2 + 3 * self.stages

    def has(self, stage: int, operation: str) -> bool:
        """Whether stage (from 1) has the unit that this operation line needs."""
        unit = UNIT_OF.get(operation, "alu")
        return unit == "alu" or stage in (self.stage_mul if unit == "mul" else self.stage_shift)

    # ---- program words --------------------------------------------------------------------------------------------
    @cached_property
    def header_fields(self) -> dict[str, tuple[int, int, int]]:
        """name -> (header word, lowest bit, width)."""
        out: dict[str, tuple[int, int, int]] = {}
        for s in range(1, self.stages + 1):
            out[f"dest{s}"] = (0, (s - 1) * self.register_bits, self.register_bits)
        bit = 0
        for name, width in (("fall", self.target_bits), ("taken", self.target_bits), ("live", self.stages),
                            ("branch", 1), ("store", 1)):
            out[name] = (1, bit, width)
            bit += width
        return out

    def operand_fields(self) -> dict[str, tuple[int, int]]:
        """Operand word of every stage: name -> (lowest bit, width)."""
        out: dict[str, tuple[int, int]] = {}
        bit = 0
        for name in ("ra", "rb", "rc"):
            out[name] = (bit, self.register_bits)
            bit += self.register_bits
        results = [f"r{s}" for s in range(1, self.stages)]
        for name in ([f"a_{r}" for r in results] + ["a_imm", "a_tid"] + [f"b_{r}" for r in results] + ["b_imm"]
                     + [f"c_{r}" for r in results]):
            out[name] = (bit, 1)
            bit += 1
        return out

    def operation_fields(self) -> dict[str, tuple[int, int]]:
        """Operation word: line -> (bit, 1)."""
        return {name: (k, 1) for k, name in enumerate(OPERATIONS)}

    # ---- checks ---------------------------------------------------------------------------------------------------
    def validate(self) -> "Machine":
        """Return self, or raise UsageError naming the field that does not fit."""
        def need(ok: bool, field: str, why: str) -> None:
            if not ok:
                raise UsageError(f"machine {self.name!r} cannot be built: {field} = {getattr(self, field)}", why=why)
        rows = self.head_dim - 2
        need(1 <= self.lanes <= 4 and self.lanes & (self.lanes - 1) == 0, "lanes", "1, 2 or 4 lanes are supported")
        need(1 <= self.stages <= 6, "stages", "1 to 6 stages are supported")
        need(1 <= self.registers <= 31, "registers", "1 to 31 registers a lane are supported")
        need(self.warps * self.registers <= rows, "registers",
             f"warps x registers must be at most {rows}, the rows of one memory head")
        need(1 <= self.blocks <= rows, "blocks", f"a memory head holds at most {rows} blocks")
        need(1 <= self.global_words <= rows, "global_words", f"a memory head holds at most {rows} words")
        need(4 <= self.chunk_bits <= 16 and self.chunks <= 4, "chunk_bits", "a value must fit four tokens")
        need(max(b + w for b, w in self.operand_fields().values()) <= WORD, "stages", "operand word exceeds 32 bits")
        need(all(b + w <= WORD for _, b, w in self.header_fields.values()), "stages", "header words exceed 32 bits")
        need(self.stages * self.register_bits <= WORD, "registers", "destinations exceed one header word")
        return self


ARTICLE = Machine("article")
PRESETS = {"article": ARTICLE}


def load_machine(path: str | Path) -> Machine:
    """Read a description from a TOML file whose keys are Machine's fields. Raises UsageError naming the bad key."""
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise UsageError(f"cannot read machine description: {e}", where=str(path)) from None
    known = {f.name: f for f in fields(Machine)}
    for key, value in data.items():
        if key not in known:
            raise UsageError(f"unknown machine field {key!r}", where=str(path), fix="fields: " + ", ".join(known))
        default = getattr(ARTICLE, key)
        if isinstance(default, tuple):
            if not isinstance(value, list) or not all(isinstance(v, int) for v in value):
                raise UsageError(f"{key} must be a list of stage numbers", where=str(path))
            data[key] = tuple(value)
        elif type(value) is not type(default):
            raise UsageError(f"{key} must be of type {type(default).__name__}", where=str(path))
    data.setdefault("name", path.stem)
    return Machine(**data).validate()


def as_dict(m: Machine) -> dict:
    """Plain fields, for config files and reports."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(m).items()}
