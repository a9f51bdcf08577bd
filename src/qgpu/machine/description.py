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
              "mul", "shl", "shr", "sar", "shfl", "popc", "clz", "brev", "mulhi")
"""Lines of the operation word, bit 0 first (docs/machine.md section 3)."""

SPECIALS = ("a_tid", "a_ctax", "a_ctay", "a_ctaz", "a_ballot")
"""Operand A's special sources: the lines of the operation word after the operations."""

UNIT_OF = {"mul": "mul", "shl": "shift", "shr": "shift", "sar": "shift", "popc": "bits", "clz": "bits", "brev": "bits",
           "mulhi": "mulhi", "ld": "load"}
"""Which optional unit of a stage an operation needs (field `stage_<unit>`); everything else is in every stage."""

AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Machine:
    """Sizes of a machine. Raises UsageError from `validate` where they make no sense.

    lanes: threads that run in one pass. groups: of `lanes` threads, in a warp. warps: in a thread block.
    registers: per lane, beside register 0. register_classes: 0 (a port for each operand) or 3 (a port for each class).
    stages: instructions in a block. blocks: program ROM. global_words, shared_words: 32-bit words.
    chunk_bits: bits of a value that one token carries. stage_*: stages (from 1) that have that unit; those beyond the last are ignored.
    hidden, heads, head_dim: shape of the Qwen3.5 layers that carry it; max_layers: most of them, the empty attention layer of
    an exported checkpoint included.
    """

    name: str
    lanes: int = 4
    groups: int = 1
    warps: int = 8
    registers: int = 15
    register_classes: int = 0
    stages: int = 4
    blocks: int = 32
    global_words: int = 126
    shared_words: int = 0
    chunk_bits: int = 11
    stage_load: tuple[int, ...] = (1, 2, 3, 4)
    stage_mul: tuple[int, ...] = (2, 4)
    stage_shift: tuple[int, ...] = (1, 3)
    stage_bits: tuple[int, ...] = ()
    stage_mulhi: tuple[int, ...] = ()
    hidden: int = 2048
    heads: int = 16
    head_dim: int = 128
    max_layers: int = 40

    # ---- derived sizes --------------------------------------------------------------------------------------------
    @property
    def warp_size(self) -> int:
        """Threads in a warp."""
        return self.lanes * self.groups

    @property
    def threads(self) -> int:
        """Largest thread block."""
        return self.warp_size * self.warps

    @property
    def group_bits(self) -> int:
        return ceil(log2(self.groups))

    @property
    def words(self) -> int:
        """All words of memory; shared ones are numbered after global ones."""
        return self.global_words + self.shared_words

    @property
    def window_bits(self) -> int:
        """Bits of a byte address within a memory window."""
        return 2 + ceil(log2(max(self.global_words, self.shared_words)))

    @property
    def global_base(self) -> int:
        """Byte address of global word 0."""
        return 1 << self.window_bits

    @property
    def shared_base(self) -> int:
        """Byte address of shared word 0."""
        return 2 << self.window_bits

    @property
    def port_bits(self) -> int:
        """Bits of a register port's field, where ports belong to classes."""
        return (self.registers // 3 + 1).bit_length()

    @property
    def largest_grid(self) -> int:
        """Most thread blocks along an axis: an index fits one token."""
        return 1 << (self.chunk_bits - 1)

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
        """Bits of a word number."""
        return max(1, ceil(log2(self.words)))

    @property
    def chunks(self) -> int:
        """Most tokens that one value takes."""
        return ceil(WORD / self.chunk_bits)

    @property
    def words_per_block(self) -> int:
        return 2 + 3 * self.stages

    def has(self, stage: int, operation: str) -> bool:
        """Whether stage (from 1) has the unit that this operation line needs."""
        unit = UNIT_OF.get(operation)
        return unit is None or stage in getattr(self, f"stage_{unit}")

    # ---- program words --------------------------------------------------------------------------------------------
    @cached_property
    def header_fields(self) -> dict[str, tuple[int, int, int]]:
        """name -> (header word, lowest bit, width)."""
        out: dict[str, tuple[int, int, int]] = {}
        for s in range(1, self.stages + 1):
            out[f"dest{s}"] = (0, (s - 1) * self.register_bits, self.register_bits)
        bit = 0
        for name, width in (("fall", self.target_bits), ("taken", self.target_bits), ("live", self.stages),
                            ("branch", 1), ("store", 1), ("barrier", 1), ("vote", 1), ("clear", 1)):
            out[name] = (1, bit, width)
            bit += width
        return out

    def operand_fields(self) -> dict[str, tuple[int, int]]:
        """Operand word of every stage: name -> (lowest bit, width)."""
        out: dict[str, tuple[int, int]] = {}
        bit = 0
        ports = ("p0", "p1", "p2") if self.register_classes else ("ra", "rb", "rc")
        for name in ports:
            out[name] = (bit, self.port_bits if self.register_classes else self.register_bits)
            bit += out[name][1]
        lines = [f"{o}_{p}" for o in "abc" for p in ports] if self.register_classes else []
        results = [f"r{s}" for s in range(1, self.stages)]
        lines += [f"a_{r}" for r in results] + ["a_imm"] + [f"b_{r}" for r in results] + ["b_imm"]
        for name in lines + [f"c_{r}" for r in results]:
            out[name] = (bit, 1)
            bit += 1
        return out

    def operation_fields(self) -> dict[str, tuple[int, int]]:
        """Operation word: line -> (bit, 1)."""
        return {name: (k, 1) for k, name in enumerate(OPERATIONS + SPECIALS)}

    # ---- checks ---------------------------------------------------------------------------------------------------
    def validate(self) -> "Machine":
        """Return self, or raise UsageError naming the field that does not fit."""
        def need(ok: bool, field: str, why: str) -> None:
            if not ok:
                raise UsageError(f"machine {self.name!r} cannot be built: {field} = {getattr(self, field)}", why=why)
        rows = self.head_dim - 2
        need(self.lanes in (1, 2, 4), "lanes", "1, 2 or 4 lanes are supported: a shuffle's table of lanes x lanes bits is one immediate")
        need(1 <= self.groups <= 8 and self.groups & (self.groups - 1) == 0, "groups", "1, 2, 4 or 8 groups are supported")
        need(self.warp_size <= 32, "groups", "a warp has at most 32 lanes")
        need(1 <= self.warps <= 8, "warps", "1 to 8 warps are supported")
        need(1 <= self.stages <= 6, "stages", "1 to 6 stages are supported")
        need(1 <= self.registers <= 31, "registers", "1 to 31 registers a lane are supported")
        need(self.register_classes in (0, 3), "register_classes", "registers have no classes (0) or three")
        need(1 <= self.blocks <= rows, "blocks", f"a memory head holds at most {rows} blocks")
        need(1 <= self.global_words <= 1 << 14, "global_words", "1 to 16384 words are supported")
        need(0 <= self.shared_words <= 1 << 14, "shared_words", "0 to 16384 words are supported")
        for unit in ("load", "mul", "shift", "bits", "mulhi"):
            need(all(1 <= s <= 6 for s in getattr(self, f"stage_{unit}")), f"stage_{unit}", "stages are numbered from 1")
        need(any(s <= self.stages for s in self.stage_load), "stage_load", "some stage must load")
        need(4 <= self.chunk_bits <= 16 and self.chunks <= 4, "chunk_bits", "a value must fit four tokens")
        need(max(b + w for b, w in self.operand_fields().values()) <= WORD, "stages", "operand word exceeds 32 bits")
        need(all(b + w <= WORD for _, b, w in self.header_fields.values()), "stages", "header words exceed 32 bits")
        need(self.stages * self.register_bits <= WORD, "registers", "destinations exceed one header word")
        return self


ARTICLE = Machine("article")
DEFAULT = Machine("default", groups=8, registers=31, register_classes=3, blocks=126, global_words=4096, shared_words=1024,
                  stage_load=(1,), stage_bits=(2,), stage_mulhi=(4,), max_layers=80)
PRESETS = {m.name: m for m in (ARTICLE, DEFAULT)}
"""Smallest first: `run` takes the first that fits."""


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
