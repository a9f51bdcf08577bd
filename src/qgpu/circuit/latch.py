"""Small pieces that every room of the machine uses: literals of an address, one-row stores, increments."""

from __future__ import annotations

from collections.abc import Callable

from ..machine.description import Machine
from .core import Circuit, Form, MemoryHead, Signal, all_of, not_


def address(bits: list, number: int) -> list[Form]:
    """Literals that hold exactly where `bits` (least significant first) spell `number`."""
    return [Form.of(b) if number >> k & 1 else not_(b) for k, b in enumerate(bits)]


def latch(c: Circuit, name: str, write: Form, bits: list, note: str, *, tap: int = 0, value_tap: int | None = None,
          names=None, after: tuple[Signal, ...] = ()) -> list[Signal]:
    """A one-row store: rewritten with `bits` where `write` is 1, read at every token. Returns the signals read.

    tap: conv tap of key and values (1: what was so at the token before); value_tap, if given, of the values alone.
    after: signals that must be complete first; it keeps a store that is rewritten often out of the first layer, whose norm is
    not the exact one of the others in a merged model.
    """
    outs = [c.signal(n) for n in (names or [f"{name}.{k}" for k in range(len(bits))])]
    c.add_head(MemoryHead(c._full(name), {0: Form.of(write)}, {0: Form.of(1)}, [Form.of(b) for b in bits],
                          [Form.of(1)] * len(bits), [((s, 1),) for s in outs], note, key_tap=tap,
                          value_tap=tap if value_tap is None else value_tap, after=after))
    return outs


def banks(c: Circuit, m: Machine, name: str, numbers: list, key: Callable, query: Callable, value: list, outs: list[Signal],
          note: str, row_name: Callable, *, value_tap: int = 0, after: tuple[Signal, ...] = ()) -> None:
    """An addressed store of one word a row, over as many heads as its rows need.

    numbers: what the rows stand for. key(n), query(n): forms that are 1 where row n is written, read (at most one row each). The
    row read is added to outs. value: forms written.
    """
    room = m.head_dim - 2
    for bank, at in enumerate(range(0, len(numbers), room)):
        part = numbers[at:at + room]
        c.add_head(MemoryHead(c._full(f"{name}{bank}"), {i: key(n) for i, n in enumerate(part)},
                              {i: query(n) for i, n in enumerate(part)}, [Form.of(v) for v in value],
                              [Form.of(1)] * len(value), [((s, 1),) for s in outs], note, value_tap=value_tap,
                              row_names={i: row_name(n) for i, n in enumerate(part)}, after=after))


def increment(c: Circuit, bits: list[Signal], name: str, when: list = ()) -> list[Signal]:
    """bits + 1 (modulo 2^n) where every literal of `when` is 1, else 0: bit k flips where all lower bits are 1."""
    out = c.bits(name, len(bits))
    for k, b in enumerate(bits):
        c.unit(all_of(b, *when), 1, out[k], f"bit {k} stays")
        c.unit(all_of(b, *bits[:k], *when), 1, {out[k]: -1}, f"bit {k} flips to 0")
        c.unit(all_of(not_(b), *bits[:k], *when), 1, out[k], f"bit {k} flips to 1")
    return out
