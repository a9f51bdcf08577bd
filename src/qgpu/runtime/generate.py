"""The token loop: the model is handed its own tokens until the launch ends."""

from __future__ import annotations

from ..errors import FaultError
from ..machine.description import Machine
from ..machine.tokens import Token, Vocabulary
from .engine_api import Engine
from .progress import Progress

MAX_TOKENS = 1_000_000
"""Generated tokens after which a launch is stopped, unless told otherwise."""


def generate(engine: Engine, machine: Machine, ids: list[int], token: int, max_tokens: int = MAX_TOKENS,
             progress: Progress | None = None) -> str:
    """Append every token that the model writes to `ids`. token: what it wrote when it was fed `ids`, the setup.

    Returns how it stopped: "END" or "TRAP" (that token is the last of ids), "LIMIT" where max_tokens came first, or "FOREIGN"
    where the last token is one that only the host may write: then the layers are not this machine's.
    Raises FaultError for an id outside the machine's vocabulary.
    """
    vocabulary = Vocabulary(machine)
    stops = {vocabulary.id_of(Token(kind)): kind for kind in ("END", "TRAP")}
    for kind in ("NOP", "PROG", "CONFIG", "GRID"):
        first = vocabulary.base[kind]
        stops |= dict.fromkeys(range(first, first + vocabulary.counts[kind]), "FOREIGN")
    most = len(ids) + max_tokens
    if progress is not None:
        progress.begin()
    while True:
        if not 0 <= token < vocabulary.size:
            raise FaultError(f"the model wrote token {token}, which machine {machine.name} does not have", where=f"token {len(ids)}",
                             fix="check that the model was made for this machine")
        ids.append(token)
        if progress is not None:
            progress.step()
        if token in stops:
            return stops[token]
        if len(ids) >= most:
            return "LIMIT"
        token = engine.feed([token])
