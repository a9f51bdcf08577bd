"""Reading a trace that may be forged: every record must say what its token says where it stands.

Token ids alone decide. Kind, fields, author and meaning are derived from them once more, and a record that says anything else is refused
at its line, as are records that are missing or in another order.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import CheckError, QgpuError, UsageError
from ..machine.description import Machine, as_dict
from ..machine.tokens import Vocabulary
from ..runtime.trace import Narrator, record_of
from .binding import FORMAT

MOST_TOKENS, MOST_LINE = 5_000_000, 1 << 20
FORGED = "the trace was changed after it was written, or is damaged"
NO_TRACE = "give a file that `qgpu run --trace FILE` wrote"
LAUNCH = {"format": int, "checkpoint": str, "source": dict, "ptx": str, "kernel": str, "grid": list, "block": list, "shared_bytes": int,
          "args": list, "setup": int, "setup_sha256": str}
"""Entries of the first record's "launch", and their types."""


@dataclass
class Recorded:
    """A trace: machine, ids, what it says it is bound to, places of program blocks in the source. setup: ids that the host wrote."""

    path: Path
    machine: Machine
    launch: dict[str, Any]
    ids: list[int] = field(default_factory=list)
    setup: int = 0
    places: dict[int, str] = field(default_factory=dict)


def read_recorded(path: str | Path, progress: Callable[[int], None] | None = None) -> Recorded:
    """Read a trace and hold every record to its token. progress: called with the number of tokens now and then.

    Raises UsageError for a file that is no trace, CheckError where a record contradicts the stream.
    """
    path = Path(path)
    recorded: Recorded | None = None
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(MOST_LINE + 1):
                number += 1
                record = _parse(line, f"{path}:{number}", first=number == 1)
                if recorded is None:
                    recorded = _begin(record, path)
                    vocabulary, narrator = Vocabulary(recorded.machine), Narrator(recorded.machine)
                    narrator.lines = recorded.places
                _take(recorded, vocabulary, narrator, record, f"{path}:{number}")
                if progress is not None and number % 4096 == 0:
                    progress(number)
    except OSError as e:
        raise UsageError(f"cannot read the trace: {e.strerror or e}", where=str(path)) from None
    if recorded is None:
        raise UsageError("there is no token in this trace", where=str(path), fix=NO_TRACE)
    if not recorded.setup:
        raise CheckError("no token of the trace starts a launch", where=str(path), why="a setup ends with WARP; " + FORGED)
    return recorded


def _parse(line: bytes, where: str, first: bool) -> dict:
    """The JSON object of a line."""
    if len(line) > MOST_LINE:
        raise UsageError("this line is too long for a token", where=where, fix=NO_TRACE)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        if first:
            raise UsageError("this is no trace: its first line is not JSON", where=where, fix=NO_TRACE) from None
        raise CheckError("this line is not JSON", where=where, why="the file breaks off here" if not line.endswith(b"\n") else FORGED) from None
    if not isinstance(record, dict) or type(record.get("id")) is not int:
        raise (UsageError if first else CheckError)("this line is no token's record", where=where, fix=NO_TRACE if first else "")
    return record


def _begin(record: dict, path: Path) -> Recorded:
    """What the first record says of the whole."""
    where = f"{path}:1"
    launch, own = record.pop("launch", None), record.get("machine")
    if not isinstance(launch, dict) or not isinstance(own, dict):
        raise UsageError("this trace does not say what it is bound to", where=where, why='its first record has no "launch" or no "machine"',
                         fix="record it again with `qgpu run --trace FILE`")
    for key, kind in LAUNCH.items():
        if type(launch.get(key)) is not kind:
            raise UsageError(f'the trace\'s "launch" has no usable {key!r}', where=where, fix=NO_TRACE)
    if launch["format"] != FORMAT:
        raise UsageError(f"the trace is of format {launch['format']}, not {FORMAT}", where=where, fix="record it again")
    try:
        machine = Machine(**{k: tuple(v) if isinstance(v, list) else v for k, v in own.items()}).validate()
        if as_dict(machine) != own:
            raise ValueError("fields are missing")
    except (TypeError, ValueError, AttributeError, OverflowError, QgpuError) as e:
        raise UsageError("the trace's machine is none", where=where, why=str(getattr(e, "what", e)), fix=NO_TRACE) from None
    return Recorded(path, machine, launch)


def _take(recorded: Recorded, vocabulary: Vocabulary, narrator: Narrator, record: dict, where: str) -> None:
    """Append a record's token. Raises CheckError where the record says anything that its token does not."""
    position = len(recorded.ids)
    if position >= MOST_TOKENS:
        raise UsageError(f"more than {MOST_TOKENS:,} tokens", where=where, fix="record a shorter launch")
    if record.get("position") != position:
        raise CheckError(f"this is position {str(record.get('position'))[:20]}, where {position} comes next", where=where,
                         why="records are missing, repeated or in another order; " + FORGED)
    try:
        token = vocabulary.token(record["id"])
    except ValueError as e:
        raise CheckError(f"this is no token of machine {recorded.machine.name!r}", where=where, why=f"{e}; {FORGED}") from None
    if token.kind == "EXEC" and isinstance(record.get("place"), str):
        recorded.places.setdefault(token.fields[0], record["place"])
    wanted = record_of(vocabulary, narrator, position, record["id"], "model" if recorded.setup else "host")
    if position == 0:
        wanted["machine"] = as_dict(recorded.machine)
    for key in dict.fromkeys([*wanted, *record]):
        if record.get(key) != wanted.get(key):
            raise CheckError(f"{key} is {_short(record.get(key))} in the trace; token {record['id']} makes it {_short(wanted.get(key))}",
                             where=where, why=FORGED)
    recorded.ids.append(record["id"])
    if token.kind == "WARP" and not recorded.setup:
        recorded.setup = position + 1


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:197] + "..."
