"""Machine tokens as the judge reads them: docs/machine.md sections 2 and 3, written from the page alone.

Nothing here is shared with qgpu.machine, which says the same things a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from qgpu.errors import FaultError

WORD_BITS = 32
MASK = (1 << WORD_BITS) - 1
UNTOUCHED, FELL, TAKEN = 0, 1, 2


class Record(NamedTuple):
    """A token: its kind, its payload number, and for EXEC the outcome of each lane (else empty)."""

    kind: str
    payload: int = 0
    outcome: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.kind == "EXEC":
            return f"EXEC({self.payload}, {''.join('.FT'[o] for o in self.outcome)})"
        return self.kind if self.kind in ("NOP", "END", "TRAP") else f"{self.kind}({self.payload})"


@dataclass(frozen=True)
class Sizes:
    """The plain sizes of a machine, and what follows from them by docs/machine.md."""

    lanes: int
    registers: int
    stages: int
    blocks: int
    global_words: int
    warps: int
    chunk_bits: int
    stage_mul: tuple[int, ...]
    stage_shift: tuple[int, ...]
    global_base: int

    @classmethod
    def of(cls, source: Any) -> "Sizes":
        """From a dict, or from any object with these attributes. Raises KeyError or AttributeError for a missing size."""
        if isinstance(source, cls):
            return source
        values = {}
        for name in cls.__dataclass_fields__:
            value = source[name] if isinstance(source, dict) else getattr(source, name)
            values[name] = tuple(value) if name.startswith("stage_") else int(value)
        return cls(**values)

    @property
    def exit(self) -> int:
        """The target EXIT: the flag bit above a block number, alone."""
        return 1 << max(1, (self.blocks - 1).bit_length())

    @property
    def target_bits(self) -> int:
        return self.exit.bit_length()

    @property
    def register_bits(self) -> int:
        return self.registers.bit_length()

    @property
    def word_number_mask(self) -> int:
        return (1 << (self.global_words - 1).bit_length()) - 1

    @property
    def chunks(self) -> int:
        """Most tokens of a value."""
        return -(-WORD_BITS // self.chunk_bits)

    @cached_property
    def kinds(self) -> list[tuple[str, int]]:
        """Token kinds in order of their ids, with the number of payloads of each."""
        chunk = 1 << self.chunk_bits
        return [("NOP", 1), ("VAL", chunk), ("SVAL", chunk), ("PROG", (2 + 3 * self.stages) * self.blocks),
                ("CONFIG", self.warps * self.lanes), ("MEM", self.global_words), ("WARP", self.warps),
                ("EXEC", self.blocks * 3 ** self.lanes), ("END", 1), ("TRAP", 1)]


def encode(sizes: Sizes, record: Record) -> int:
    """Token id of a record. For EXEC the payload is the block. Raises ValueError if it has no id."""
    payload = record.payload
    if record.kind == "EXEC":
        payload = payload * 3 ** sizes.lanes + sum(o * 3 ** lane for lane, o in enumerate(record.outcome))
    first = 0
    for kind, count in sizes.kinds:
        if kind == record.kind:
            if not 0 <= payload < count:
                raise ValueError(f"{record} has no token id")
            return first + payload
        first += count
    raise ValueError(f"no token kind {record.kind}")


def decode(sizes: Sizes, token_id: int) -> Record:
    """Record of a token id. Raises FaultError outside the vocabulary."""
    rest = token_id
    if rest >= 0:
        for kind, count in sizes.kinds:
            if rest < count:
                if kind != "EXEC":
                    return Record(kind, rest)
                block, rest = divmod(rest, 3 ** sizes.lanes)
                outcome = []
                for _ in range(sizes.lanes):
                    rest, o = divmod(rest, 3)
                    outcome.append(o)
                return Record(kind, block, tuple(outcome))
            rest -= count
    raise FaultError(f"token id {token_id} is not one of the machine's")


def chunk_of(sizes: Sizes, value: int, index: int) -> Record:
    """Chunk `index` of a 32-bit value: SVAL if every bit above it equals its top bit, else VAL (section 2, Values)."""
    signed = value - (1 << WORD_BITS) if value >> (WORD_BITS - 1) & 1 else value  # bit 31 goes on for ever
    chunk = signed >> (sizes.chunk_bits * index) & (1 << sizes.chunk_bits) - 1
    above = signed >> (sizes.chunk_bits * (index + 1))
    top = chunk >> (sizes.chunk_bits - 1)
    return Record("SVAL" if above == -top else "VAL", chunk)


def value_of(sizes: Sizes, chunks: list[int]) -> int:
    """The 32-bit value that chunks send, low bits first, the last one sign-extended."""
    value = 0
    for i, chunk in enumerate(chunks):
        value |= chunk << (sizes.chunk_bits * i)
    if chunks[-1] >> (sizes.chunk_bits - 1) & 1:
        value -= 1 << (sizes.chunk_bits * len(chunks))
    return value & MASK


def value_ids(sizes: Sizes, value: int) -> list[int]:
    """Token ids that send a value (any int, taken modulo 2^32)."""
    ids, index = [], 0
    while True:
        record = chunk_of(sizes, value & MASK, index)
        ids.append(encode(sizes, record))
        if record.kind == "SVAL":
            return ids
        index += 1
