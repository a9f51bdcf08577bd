"""Token records: the machine's vocabulary, ids to records and back (docs/machine.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .description import WORD, Machine

KINDS = ("NOP", "VAL", "SVAL", "PROG", "CONFIG", "GRID", "MEM", "BLOCK", "WARP", "INIT", "EXEC", "NEXT", "PARK", "END", "TRAP")


@dataclass(frozen=True)
class Token:
    """One record. fields: VAL/SVAL (bits,), PROG (word, block), CONFIG (warps, threads in the last warp), GRID/BLOCK (axis,),
    MEM (word,), WARP (warp, parked, first), INIT (group,), EXEC (block, outcome), NEXT (group, outcome), PARK (outcome,), others
    (); an outcome is a tuple by lane."""

    kind: str
    fields: tuple = ()

    def __str__(self) -> str:
        if self.kind in ("EXEC", "NEXT", "PARK"):
            *number, outcome = self.fields
            where = {"EXEC": "b", "NEXT": "g", "PARK": ""}[self.kind]
            return " ".join([self.kind, *(f"{where}{n}" for n in number), f"outcome={''.join('.FT'[o] for o in outcome)}"])
        return " ".join([self.kind, *map(str, self.fields)])


def outcome_number(outcome: tuple[int, ...]) -> int:
    """The sum of outcome[lane] * 3^lane."""
    return sum(o * 3 ** lane for lane, o in enumerate(outcome))


def outcome_of(number: int, lanes: int) -> tuple[int, ...]:
    """The outcome by lane of its number."""
    return tuple(number // 3 ** lane % 3 for lane in range(lanes))


class Vocabulary:
    """Dense ids for a machine's records."""

    def __init__(self, machine: Machine) -> None:
        self.machine = m = machine
        self.counts = {
            "NOP": 1, "VAL": 1 << m.chunk_bits, "SVAL": 1 << m.chunk_bits, "PROG": m.words_per_block * m.blocks,
            "CONFIG": m.warps * m.warp_size, "GRID": 3, "MEM": m.words, "BLOCK": 3, "WARP": m.warps * 4, "INIT": m.groups,
            "EXEC": m.blocks * 3 ** m.lanes, "NEXT": m.groups * 3 ** m.lanes, "PARK": 3 ** m.lanes, "END": 1, "TRAP": 1,
        }
        self.base: dict[str, int] = {}
        total = 0
        for kind in KINDS:
            self.base[kind] = total
            total += self.counts[kind]
        self.size = total

    @cached_property
    def _kind_of(self) -> list[tuple[int, str]]:
        return sorted((b, k) for k, b in self.base.items())

    def id_of(self, token: Token) -> int:
        """Id of a record. Raises ValueError where a field is out of range."""
        m, f = self.machine, token.fields
        match token.kind:
            case "VAL" | "SVAL" | "MEM" | "GRID" | "BLOCK" | "INIT":
                payload = f[0]
            case "PROG":
                payload = f[0] * m.blocks + f[1]
            case "CONFIG":
                payload = (f[0] - 1) * m.warp_size + f[1] - 1
            case "WARP":
                payload = f[0] * 4 + f[1] * 2 + f[2]
            case "EXEC" | "NEXT":
                payload = f[0] * 3 ** m.lanes + outcome_number(f[1])
            case "PARK":
                payload = outcome_number(f[0])
            case _:
                payload = 0
        if not 0 <= payload < self.counts[token.kind]:
            raise ValueError(f"{token} does not fit machine {m.name}")
        return self.base[token.kind] + payload

    def token(self, token_id: int) -> Token:
        """Record of an id. Raises ValueError outside the vocabulary."""
        if not 0 <= token_id < self.size:
            raise ValueError(f"token id {token_id} is outside the machine's vocabulary of {self.size}")
        m = self.machine
        base, kind = next(bk for bk in reversed(self._kind_of) if bk[0] <= token_id)
        payload = token_id - base
        match kind:
            case "VAL" | "SVAL" | "MEM" | "GRID" | "BLOCK" | "INIT":
                fields: tuple = (payload,)
            case "PROG":
                fields = divmod(payload, m.blocks)
            case "CONFIG":
                fields = (payload // m.warp_size + 1, payload % m.warp_size + 1)
            case "WARP":
                fields = (payload // 4, payload // 2 % 2, payload % 2)
            case "EXEC" | "NEXT":
                number, code = divmod(payload, 3 ** m.lanes)
                fields = (number, outcome_of(code, m.lanes))
            case "PARK":
                fields = (outcome_of(payload, m.lanes),)
            case _:
                fields = ()
        return Token(kind, fields)

    def value_tokens(self, value: int) -> list[Token]:
        """The VAL ... SVAL records that send a 32-bit value (any int, taken modulo 2^32)."""
        c, n = self.machine.chunk_bits, self.machine.chunks
        v = value & 0xFFFFFFFF
        signed = v - (1 << WORD) if v >> (WORD - 1) else v
        out = []
        for i in range(n):
            chunk = (signed >> (c * i)) & ((1 << c) - 1)
            rest = signed >> (c * i + c - 1)       # this chunk's top bit and everything above
            if rest in (0, -1) or i == n - 1:
                return [*out, Token("SVAL", (chunk,))]
            out.append(Token("VAL", (chunk,)))
        raise AssertionError("unreachable: the last chunk always completes")
