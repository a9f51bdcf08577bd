"""Reading a token trace (`run --trace`) back: its machine, its ids, who wrote them, the places of its blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import QgpuError, UsageError
from ..machine.description import ARTICLE, PRESETS, Machine
from ..machine.tokens import KINDS, Vocabulary

MOST_TOKENS, MOST_LINE = 5_000_000, 1 << 20
"""Tokens in a trace, and bytes in a line of it."""

NO_TRACE = "give a file that `qgpu run --trace FILE` wrote"


@dataclass
class Trace:
    """ids: the stream. setup: how many of them the host wrote. places: program block -> place in the source.
    cut: whether the file breaks off in the middle of a record."""

    machine: Machine
    ids: list[int]
    setup: int
    places: dict[int, str]
    cut: bool = False


def machine_of(data: Any) -> Machine:
    """The machine whose fields these are, as `machine.description.as_dict` gives them. Raises ValueError, or UsageError from validate."""
    if not isinstance(data, dict):
        raise ValueError("a machine is a set of fields")
    known = {f.name: getattr(ARTICLE, f.name) for f in fields(Machine)}
    out = {}
    for name, value in data.items():
        if name not in known:
            raise ValueError(f"a machine has no field {str(name)[:40]!r}")
        if isinstance(known[name], tuple):
            right = isinstance(value, list) and all(type(v) is int for v in value)
            value = tuple(value) if right else value
        else:
            right = type(value) is type(known[name])
        if not right:
            raise ValueError(f"a machine's {name} cannot be {str(value)[:40]}")
        out[name] = value
    if "name" not in out:
        raise ValueError("a machine needs a name")
    return Machine(**out).validate()


def read_trace(path: str | Path, machine: Machine | None = None) -> Trace:
    """Read a trace. machine: what it must be of; else what the trace says itself, or the preset that its ids fit.

    A file that breaks off within a line is read up to there. Raises UsageError for anything else that is no trace of that machine.
    """
    path = Path(path)
    judge: _Judge | None = None
    trace = None
    try:
        with open(path, "rb") as file:
            for where, record in _records(file, path):
                if record is None:
                    trace.cut = True
                    break
                if judge is None:
                    own = _own_machine(record, where)
                    judge = _Judge(own, machine, where)
                    trace = Trace(judge.candidates[0], [], 0, {})
                judge.take(record, trace, where)
    except OSError as e:
        raise UsageError(f"cannot read the trace: {e.strerror or e}", where=str(path)) from None
    if trace is None:
        raise UsageError("there is no token in this trace", where=str(path), fix=NO_TRACE)
    trace.machine = judge.candidates[0]
    return trace


def _records(file, path: Path) -> Iterator[tuple[str, dict | None]]:
    """(place, record) of every line; None for a last line that breaks off after at least one record."""
    number = 0
    while line := file.readline(MOST_LINE + 1):
        number += 1
        where = f"{path}:{number}"
        if len(line) > MOST_LINE:
            raise UsageError("this line is too long for a token", where=where, fix=NO_TRACE)
        if number > MOST_TOKENS:
            raise UsageError(f"more than {MOST_TOKENS:,} tokens", where=where, fix="look at a shorter trace")
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            if number > 1 and not line.endswith(b"\n"):
                yield where, None
                return
            raise UsageError("this line is not JSON", where=where, fix=NO_TRACE) from None
        if not isinstance(record, dict) or type(record.get("id")) is not int or record.get("by") not in ("host", "model"):
            raise UsageError("this line is no token's record", where=where, fix=NO_TRACE)
        yield where, record


def _own_machine(record: dict, where: str) -> Machine | None:
    """The machine that a trace names in its first record, if it does."""
    if "machine" not in record:
        return None
    try:
        return machine_of(record["machine"])
    except (ValueError, QgpuError) as e:
        raise UsageError(f"the trace's machine is none: {getattr(e, 'what', e)}", where=where) from None


class _Judge:
    """Which machines the records fit. Keeps those that every record so far agrees with."""

    def __init__(self, own: Machine | None, asked: Machine | None, where: str) -> None:
        if own is not None and asked is not None and own != asked:
            raise UsageError(f"this trace is of machine {own.name!r}, not of {asked.name!r}", where=where, fix="leave --machine out")
        self.candidates = [m for m in (own or asked,) if m] or list(PRESETS.values())
        self.vocabularies = {m.name: Vocabulary(m) for m in self.candidates}
        self.sure = own is not None or asked is not None
        self.seen: dict[tuple, None] = {}

    def take(self, record: dict, trace: Trace, where: str) -> None:
        """Append the record's token. Raises UsageError where no candidate has that token, or the order is not a trace's."""
        token_id, kind, own_fields = record["id"], record.get("kind"), record.get("fields")
        if record.get("position") != len(trace.ids):
            raise UsageError(f"this is position {str(record.get('position'))[:20]}, where {len(trace.ids)} comes next", where=where,
                             why="lines are missing or in another order")
        key = (token_id, kind, json.dumps(own_fields))
        if key not in self.seen:
            fits = [m for m in self.candidates if self._fits(self.vocabularies[m.name], token_id, kind, own_fields)]
            if not fits:
                raise self._none_left(token_id, kind, where)
            self.candidates = fits
            self.seen[key] = None
        if record["by"] == "host":
            if trace.setup != len(trace.ids):
                raise UsageError("the host wrote this token after one of the model's", where=where)
            trace.setup += 1
        if kind == "EXEC" and isinstance(record.get("place"), str):
            trace.places[own_fields[0]] = record["place"][:200]
        trace.ids.append(token_id)

    @staticmethod
    def _fits(vocabulary: Vocabulary, token_id: int, kind: Any, own_fields: Any) -> bool:
        try:
            token = vocabulary.token(token_id)
        except ValueError:
            return False
        return token.kind == kind and [list(f) if isinstance(f, tuple) else f for f in token.fields] == own_fields

    def _none_left(self, token_id: int, kind: Any, where: str) -> UsageError:
        if kind not in KINDS:
            return UsageError(f"no token is called {str(kind)[:20]!r}", where=where, fix=NO_TRACE)
        if self.sure:
            return UsageError(f"token {token_id} is not what machine {self.candidates[0].name!r} calls {kind}", where=where,
                              why="the trace is of another machine, or damaged", fix="name its machine with --machine NAME|FILE.toml")
        return UsageError("this trace is of another machine than the presets " + ", ".join(PRESETS), where=where,
                          why=f"none of them calls token {token_id} {kind} with these fields",
                          fix="name its machine with --machine FILE.toml")
