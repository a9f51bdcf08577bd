"""What the runtime asks of an engine: the forward pass of the compiled layers over one token stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..machine.description import Machine


@runtime_checkable
class Engine(Protocol):
    """A model and the recurrent state of one stream. `qgpu.engine.make_engine(machine, kind=...)` makes one.

    machine: the one that the layers are.
    """

    machine: Machine

    def feed(self, ids: Sequence[int]) -> int:
        """Run the forward pass over these tokens (at least one) and return the id the model writes next.

        That is the argmax of the logits at the last position over the machine's vocabulary.
        """
        ...

    def read_global(self, words: int) -> list[int]:
        """The first `words` words of global memory, 32-bit unsigned, as the recurrent state holds them."""
        ...

    def fork(self) -> "Engine":
        """A second stream that continues from here; neither sees the other's tokens."""
        ...

    def reset(self) -> None:
        """Back to the empty state, as before the first token."""
        ...
