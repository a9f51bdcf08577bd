"""Machine tokens as the judge reads them: docs/machine.md sections 1 and 2, written from the page alone.

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
WITH_OUTCOME = frozenset(("EXEC", "NEXT", "PARK"))
"""Kinds whose payload number is a number (block, group, or always 0) times 3^lanes, plus an outcome."""


class Record(NamedTuple):
    """A token: its kind, its payload number and the outcome of each lane.

    For EXEC, NEXT and PARK the payload is the block, the group and 0; for the other kinds the outcome is empty.
    """

    kind: str
    payload: int = 0
    outcome: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [str(self.payload)]
        if self.kind in ("NOP", "END", "TRAP"):
            return self.kind
        if self.kind == "WARP":
            parts = [str(self.payload >> 2), str(self.payload >> 1 & 1), str(self.payload & 1)]
        elif self.kind in ("GRID", "BLOCK"):
            parts = ["xyz"[self.payload]]
        elif self.kind in WITH_OUTCOME:
            parts = parts[:self.kind != "PARK"] + ["".join(".FT"[o] for o in self.outcome)]
        return f"{self.kind}({', '.join(parts)})"


@dataclass(frozen=True)
class Sizes:
    """The plain sizes of a machine, and what follows from them by docs/machine.md."""

    lanes: int
    groups: int
    warps: int
    registers: int
    register_classes: int
    stages: int
    blocks: int
    global_words: int
    shared_words: int
    chunk_bits: int
    stage_load: tuple[int, ...]
    stage_mul: tuple[int, ...]
    stage_shift: tuple[int, ...]
    stage_bits: tuple[int, ...]
    stage_mulhi: tuple[int, ...]

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

    @cached_property
    def warp_size(self) -> int:
        return self.groups * self.lanes

    @cached_property
    def words(self) -> int:
        """Words of global and shared memory together."""
        return self.global_words + self.shared_words

    @cached_property
    def exit(self) -> int:
        """The target EXIT: the flag bit above a block number, alone."""
        return 1 << max(1, (self.blocks - 1).bit_length())

    @cached_property
    def target_bits(self) -> int:
        return self.exit.bit_length()

    @cached_property
    def register_bits(self) -> int:
        return self.registers.bit_length()

    @cached_property
    def port_bits(self) -> int:
        """Bits of a class's port number: 0 for nothing, else 1 + the register's place in its class, counted with register 0."""
        return (self.registers // self.register_classes + 1).bit_length()

    @cached_property
    def window_bits(self) -> int:
        """Bits of a byte address within one of the two memory windows."""
        return 2 + (max(self.global_words, self.shared_words) - 1).bit_length()

    @cached_property
    def chunks(self) -> int:
        """Most tokens of a value."""
        return -(-WORD_BITS // self.chunk_bits)

    @cached_property
    def largest_index(self) -> int:
        """Largest index of a thread block along an axis: it is sent in one token."""
        return (1 << (self.chunk_bits - 1)) - 1

    @cached_property
    def kinds(self) -> list[tuple[str, int]]:
        """Token kinds in order of their ids, with the number of payloads of each."""
        chunk, outcomes = 1 << self.chunk_bits, 3 ** self.lanes
        return [("NOP", 1), ("VAL", chunk), ("SVAL", chunk), ("PROG", (2 + 3 * self.stages) * self.blocks),
                ("CONFIG", self.warps * self.warp_size), ("GRID", 3), ("MEM", self.words), ("BLOCK", 3),
                ("WARP", self.warps * 4), ("INIT", self.groups), ("EXEC", self.blocks * outcomes),
                ("NEXT", self.groups * outcomes), ("PARK", outcomes), ("END", 1), ("TRAP", 1)]

    @cached_property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """First id and number of payloads of each kind."""
        out, first = {}, 0
        for kind, count in self.kinds:
            out[kind] = (first, count)
            first += count
        return out

    @cached_property
    def seen(self) -> dict[int, Record]:
        """Records decoded so far."""
        return {}


def encode(sizes: Sizes, record: Record) -> int:
    """Token id of a record. Raises ValueError if it has no id."""
    kind, payload, outcome = record
    if kind not in sizes.ranges:
        raise ValueError(f"no token kind {kind}")
    if kind in WITH_OUTCOME:
        payload *= 3 ** sizes.lanes
        for lane, o in enumerate(outcome):
            payload += o * 3 ** lane
    first, count = sizes.ranges[kind]
    if not 0 <= payload < count:
        raise ValueError(f"{record} has no token id")
    return first + payload


def decode(sizes: Sizes, token_id: int) -> Record:
    """Record of a token id. Raises FaultError outside the vocabulary."""
    if token_id not in sizes.seen:
        sizes.seen[token_id] = _decode(sizes, token_id)
    return sizes.seen[token_id]


def _decode(sizes: Sizes, token_id: int) -> Record:
    for kind, (first, count) in sizes.ranges.items():
        if first <= token_id < first + count:
            if kind not in WITH_OUTCOME:
                return Record(kind, token_id - first)
            number, rest = divmod(token_id - first, 3 ** sizes.lanes)
            outcome = []
            for _ in range(sizes.lanes):
                rest, o = divmod(rest, 3)
                outcome.append(o)
            return Record(kind, number, tuple(outcome))
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
