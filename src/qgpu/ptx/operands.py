"""Operands of an instruction (PTX ISA 6)."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from fractions import Fraction

from qgpu.ptx.cursor import Cursor
from qgpu.ptx.lexer import Token
from qgpu.ptx.model import Addr, ArgList, Imm, Operand, Pair, Reg, Sink, Special, Symbol, Vector

# Special registers (PTX ISA 10). Those with parts are written `%tid.x`.
_WITH_PARTS = frozenset({
    "%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid",
})
_SPECIAL = re.compile(
    r"%(laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster|cluster_ctarank|cluster_nctarank|lanemask_(eq|le|lt|ge|gt)"
    r"|clock|clock_hi|clock64|pm\d|pm\d_64|envreg\d{1,2}|globaltimer|globaltimer_lo|globaltimer_hi|current_graph_exec"
    r"|reserved_smem_offset_\w+|total_smem_size|aggr_smem_size|dynamic_smem_size)"
)
_PARTS = frozenset({".x", ".y", ".z", ".w", ".r", ".g", ".b", ".a"})
_MAX_ITEMS = 1024


def parse_operand(cursor: Cursor, lookup, is_call: bool = False) -> Operand:
    """One operand. `lookup(name)` says what a name means: ("reg" | "variable", unique name) or None."""
    token = cursor.token
    kind = token.kind
    if kind == "[":
        return _address(cursor, lookup)
    if kind == "{":
        return Vector(_items(cursor, lookup, "{", "}"), token.pos)
    if kind == "(" and is_call:
        return ArgList(_items(cursor, lookup, "(", ")"), token.pos)
    if kind == "!" and cursor.ahead().kind == "word":
        cursor.take()
        register = _named(cursor, lookup)
        if not isinstance(register, Reg):
            raise cursor.error("only a predicate register can be negated", token)
        return replace(register, negated=True, pos=token.pos)
    if kind == "word":
        operand = _named(cursor, lookup)
        if isinstance(operand, (Reg, Sink)) and cursor.accept("|"):
            second = _named(cursor, lookup)
            if not isinstance(second, (Reg, Sink)):
                raise cursor.error("a register belongs behind |", cursor.last)
            return Pair(operand, second, token.pos)
        return operand
    return _immediate(cursor)


def _named(cursor: Cursor, lookup) -> Operand:
    token = cursor.name("an operand")
    name = token.text
    if name == "_":
        return Sink(token.pos)
    if name == "WARP_SZ":
        return Special(name, token.pos)
    meaning = lookup(name)
    part = cursor.text_now if cursor.kind == "dot" and cursor.token.offset == token.end and cursor.text_now in _PARTS else ""
    if meaning is not None and meaning[0] == "reg":
        if part:
            cursor.take()
        return Reg(meaning[1] + part, False, token.pos)
    if meaning is None and name.startswith("%"):
        if name in _WITH_PARTS or _SPECIAL.fullmatch(name):
            if part and name in _WITH_PARTS:
                cursor.take()
                name += part
            return Special(name, token.pos)
        raise cursor.error(f"register {name} is not declared", token)
    offset = cursor.integer() if cursor.kind in ("+", "-") else 0
    return Symbol(meaning[1] if meaning else name, offset, False, token.pos)


def _immediate(cursor: Cursor) -> Imm:
    token = cursor.token
    negative = token.kind == "-" and cursor.ahead().kind in ("f32", "f64", "decimal")
    if negative:
        cursor.take()
    if cursor.kind in ("f32", "f64"):
        number = cursor.take()
        sign = 1 << (31 if number.kind == "f32" else 63)
        return Imm(number.value ^ sign if negative else number.value, number.kind, token.pos)
    if cursor.kind == "decimal":
        return Imm(_double(cursor.take(), negative), "f64", token.pos)
    if cursor.kind not in ("int", "-", "+", "~", "!", "("):
        raise cursor.error(f"expected an operand before {cursor.text_now[:40]!r}")
    return Imm(cursor.integer(), "int", token.pos)


def _double(token: Token, negative: bool) -> int:
    """A decimal floating-point literal as the bits of an IEEE double (PTX ISA 4.5.2)."""
    text = token.text
    exponent = re.search(r"[eE]([+-]?\d+)", text)
    if exponent and abs(int(exponent.group(1)[:8])) > 5000:
        value = 0.0
    else:
        try:
            value = float(Fraction(text)) if len(text) < 400 else float(text)
        except OverflowError:
            value = float("inf")
    return struct.unpack("<Q", struct.pack("<d", -value if negative else value))[0]


def _address(cursor: Cursor, lookup) -> Operand:
    opening = cursor.expect("[")
    base, offset = None, 0
    if cursor.kind == "word":
        token = cursor.token
        base = _named(cursor, lookup)
        if isinstance(base, Symbol):
            base, offset = replace(base, offset=0), base.offset
        elif not isinstance(base, Reg):
            raise cursor.error("a register or variable belongs here", token)
    else:
        offset = cursor.integer()
    while cursor.kind in ("+", "-"):
        offset += cursor.integer()
    address = Addr(base, offset, opening.pos)
    extra = []
    while cursor.accept(","):  # texture and tensor addresses: [t, {%r1, %r2}]
        if cursor.kind == "[" or len(extra) > _MAX_ITEMS:
            raise cursor.error("not an address", opening)
        extra.append(parse_operand(cursor, lookup))
    cursor.expect("]")
    return ArgList((address, *extra), opening.pos) if extra else address


def _items(cursor: Cursor, lookup, begin: str, end: str) -> tuple[Operand, ...]:
    cursor.expect(begin)
    items: list[Operand] = []
    while not cursor.accept(end):
        if items:
            cursor.expect(",")
        if cursor.kind in ("{", "["):
            raise cursor.error(f"unexpected {cursor.text_now!r}")
        items.append(parse_operand(cursor, lookup))
        if len(items) > _MAX_ITEMS:
            raise cursor.error("too many operands")
    return tuple(items)


def with_symbols(operand: Operand, names: dict[str, str]) -> Operand:
    """The operand with symbols renamed."""
    if isinstance(operand, Symbol):
        return replace(operand, name=names.get(operand.name, operand.name))
    if isinstance(operand, Addr) and isinstance(operand.base, Symbol):
        return replace(operand, base=with_symbols(operand.base, names))
    if isinstance(operand, (Vector, ArgList)):
        return replace(operand, items=tuple(with_symbols(i, names) for i in operand.items))
    return operand
