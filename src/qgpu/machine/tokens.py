"""Token records: the machine's vocabulary, ids to records and back (docs/machine.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .description import WORD, Machine

KINDS = ("NOP", "VAL", "SVAL", "PROG", "CONFIG", "MEM", "WARP", "EXEC", "END", "TRAP")


@dataclass(frozen=True)
class Token:
    """One record. fields: VAL/SVAL (bits,), PROG (word, block), CONFIG (warps, threads in the last warp),
    MEM (word,), WARP (warp,), EXEC (block, outcome tuple by lane), others ()."""

    kind: str
    fields: tuple = ()

    def __str__(self) -> str:
        if self.kind == "EXEC":
            block, outcome = self.fields
            return f"EXEC b{block} outcome={''.join('.FT'[o] for o in outcome)}"
        return " ".join([self.kind, *map(str, self.fields)])


class Vocabulary:
    """Dense ids for a machine's records."""

    def __init__(self, machine: Machine) -> None:
        self.machine = m = machine
        self.counts = {
            "NOP": 1, "VAL": 1 << m.chunk_bits, "SVAL": 1 << m.chunk_bits, "PROG": m.words_per_block * m.blocks,
            "CONFIG": m.warps * m.lanes, "MEM": m.global_words, "WARP": m.warps, "EXEC": m.blocks * 3 ** m.lanes,
            "END": 1, "TRAP": 1,
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
            case "VAL" | "SVAL" | "MEM" | "WARP":
                payload = f[0]
            case "PROG":
                payload = f[0] * m.blocks + f[1]
            case "CONFIG":
                payload = (f[0] - 1) * m.lanes + f[1] - 1
            case "EXEC":
                payload = f[0] * 3 ** m.lanes + sum(o * 3 ** lane for lane, o in enumerate(f[1]))
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
            case "VAL" | "SVAL" | "MEM" | "WARP":
                fields: tuple = (payload,)
            case "PROG":
                fields = divmod(payload, m.blocks)
            case "CONFIG":
                fields = (payload // m.lanes + 1, payload % m.lanes + 1)
            case "EXEC":
                block, code = divmod(payload, 3 ** m.lanes)
                fields = (block, tuple(code // 3 ** lane % 3 for lane in range(m.lanes)))
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
