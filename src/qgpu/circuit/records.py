"""Token records as signals: the code that embeddings carry, the last tokens, and the value just sent.

A token's embedding holds +1 or -1 in each *code* dim: one dim a kind, then the payload bits, then one that is always +1
(docs/machine.md section 2; design: the same dims carry the next token's code out of the last layer).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine.description import WORD, Machine
from ..machine.tokens import KINDS, Token, Vocabulary
from .core import Circuit, Form, Signal, all_of, code_bit, not_


def payload_layout(m: Machine) -> dict[str, list[tuple[str, int]]]:
    """kind -> [(field name, bits)], lowest payload bit first. "-" is room left so that fields of several kinds share dims."""
    bits_of = lambda n: max(1, (n - 1).bit_length())
    outcome = [("touched", m.lanes), ("taken", m.lanes)]
    return {
        "VAL": [("chunk", m.chunk_bits)],
        "SVAL": [("chunk", m.chunk_bits)],
        "PROG": [("block", m.block_bits), ("word", bits_of(m.words_per_block))],
        "CONFIG": [("last_warp", m.warp_bits), ("last_group", m.group_bits), ("missing", m.lanes)],
        "GRID": [("axis", 3)],
        "MEM": [("index", m.window_bits - 2), ("shared", 1)],
        "BLOCK": [("axis", 3)],
        "WARP": [("warp", m.warp_bits), ("parked", 1), ("first", 1)],
        "INIT": [("-", 2 * m.lanes), ("group", m.group_bits)],
        "EXEC": [*outcome, ("block", m.block_bits)],
        "NEXT": [*outcome, ("group", m.group_bits)],
        "PARK": outcome,
        "NOP": [], "END": [], "TRAP": [],
    }


def payload_bits(m: Machine) -> int:
    """Payload dims of the code: the widest record's."""
    return max(sum(w for _, w in fields) for fields in payload_layout(m).values())


def field_values(m: Machine, token: Token) -> dict[str, int]:
    """Value of every payload field of a record."""
    f = token.fields
    mask = lambda lanes: sum(1 << lane for lane in lanes)
    outcome = lambda o: {"touched": mask(i for i, v in enumerate(o) if v), "taken": mask(i for i, v in enumerate(o) if v == 2)}
    match token.kind:
        case "VAL" | "SVAL":
            return {"chunk": f[0]}
        case "PROG":
            return {"word": f[0], "block": f[1]}
        case "CONFIG":
            group, lane = divmod(f[1] - 1, m.lanes)
            return {"last_warp": f[0] - 1, "last_group": group, "missing": mask(range(lane + 1, m.lanes))}
        case "GRID" | "BLOCK":
            return {"axis": 1 << f[0]}
        case "MEM":
            shared = f[0] >= m.global_words
            return {"index": f[0] - m.global_words if shared else f[0], "shared": int(shared)}
        case "WARP":
            return {"warp": f[0], "parked": f[1], "first": f[2]}
        case "INIT":
            return {"-": 0, "group": f[0]}
        case "EXEC":
            return {"block": f[0], **outcome(f[1])}
        case "NEXT":
            return {"group": f[0], **outcome(f[1])}
        case "PARK":
            return outcome(f[0])
    return {}


def code_of(m: Machine, token: Token) -> list[int]:
    """The code of a record, +1 or -1 for each code dim: kinds, payload bits, always +1."""
    values = field_values(m, token)
    payload, shift = 0, 0
    for name, width in payload_layout(m)[token.kind]:
        payload |= values[name] << shift
        shift += width
    kinds = [1 if kind == token.kind else -1 for kind in KINDS]
    return kinds + [1 if payload >> k & 1 else -1 for k in range(payload_bits(m))] + [1]


def code_table(m: Machine) -> list[list[int]]:
    """Codes of all token ids in order."""
    v = Vocabulary(m)
    return [code_of(m, v.token(i)) for i in range(v.size)]


@dataclass
class Records:
    """Signals of the current token: `code` (inputs), literals by kind, payload fields as bit forms, value bits."""

    code: list[Signal]
    kind: dict[str, Form]
    field: dict[tuple[str, str], list[Form]]
    value: list[Signal]
    chunk: list[Form]   # chunk[i] is 1 where the next chunk of a value is number i


def build_records(c: Circuit, m: Machine) -> Records:
    """Code inputs, the chunks of the last tokens, and the 32 bits of the value that this token completes."""
    names = [f"kind.{k}" for k in KINDS] + [f"payload{k}" for k in range(payload_bits(m))] + ["on"]
    code = [c.signal(f"code.{n}", -1, 1, is_input=True) for n in names]
    kind = {k: code_bit(code[i]) for i, k in enumerate(KINDS)}
    payload = [code_bit(s) for s in code[len(KINDS):-1]]
    field: dict[tuple[str, str], list[Form]] = {}
    for k, fields in payload_layout(m).items():
        at = 0
        for name, width in fields:
            field[k, name] = payload[at:at + width]
            at += width
    with c.scope("record"):
        older = m.chunks - 1                     # tokens before this one that can belong to its value
        was_val = [c.signal(f"val_before{t}") for t in range(1, older + 1)]
        before = [c.bits(f"chunk_before{t}.", m.chunk_bits) for t in range(1, older + 1)]
        for t in range(1, older + 1):
            c.unit(kind["VAL"], 1, was_val[t - 1], f"token {t} before was VAL", tap=t)
            for j in range(m.chunk_bits):
                c.unit(payload[j], 1, before[t - 1][j], f"payload bit {j} of token {t} before", tap=t)
        value = c.bits("value", WORD)
        for count in range(m.chunks):            # the value has `count` chunks before this one
            case = was_val[:count] + ([not_(was_val[count])] if count < older else [])
            for k in range(WORD):
                i, j = divmod(k, m.chunk_bits)
                if i > count:                    # above the last chunk: its sign
                    i, j = count, m.chunk_bits - 1
                source = payload[j] if i == count else before[count - i - 1][j]
                c.unit(all_of(source, *case), 1, value[k], f"value bit {k}, {count + 1} chunks")
        next_chunk = [c.signal(f"next_chunk{i}") for i in range(m.chunks)]
        c.unit(not_(kind["VAL"]), 1, next_chunk[0], "a value starts next")
        for i in range(1, m.chunks):
            case = [kind["VAL"], *was_val[:i - 1]] + ([not_(was_val[i - 1])] if i < older else [])
            c.all_of(case, next_chunk[i], f"chunk {i} comes next")
        c.one_hot(next_chunk)
    return Records(code, kind, field, value, [s.form() for s in next_chunk])
