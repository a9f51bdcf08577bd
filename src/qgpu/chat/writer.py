"""The model's side of a chat: prompts completed token by token, with caches that follow the text.

A prompt is the whole conversation as text. What the caches have seen already is not computed again: the text they saw is kept
beside them, and copies from earlier places, since a recurrent state cannot be wound back. Launches never come by here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from numpy.typing import NDArray

from ..errors import UsageError
from ..qwen.cache import Cache
from ..qwen.text import Text

MOST_CONTEXT = 32768
"""Tokens of prompt and answer together."""
AT_ONCE = 512
"""Prompt tokens between two looks at the keyboard."""
KEPT = 3
"""Copies of the cache beside the first, which has seen the system message, and the newest."""


class TextSide(Protocol):
    """What is asked of a conversation, a `qgpu.merge.model.Conversation`. The cache may be replaced."""

    cache: Cache

    def forward(self, ids: Sequence[int] | NDArray, *, last: bool = False) -> NDArray:
        """Logits (n, vocab) after each token, or (1, vocab) with last; the cache has seen them afterwards."""
        ...


class Chooser(Protocol):
    """What chooses tokens: a `qgpu.qwen.sampling.Sampler`, or a script in tests."""

    def choose(self, logits: NDArray, seen: Sequence[int]) -> int:
        """A token id from logits (vocab,). seen: the tokens of this answer so far."""
        ...


@dataclass
class Kept:
    """A copy of the cache, and the text that it has seen."""

    text: str
    cache: Cache
    tokens: int


class Writer:
    """One conversation's writer. stop: ids that end an answer. most: tokens of an answer."""

    def __init__(self, side: TextSide, text: Text, stop: set[int], chooser: Chooser, most: int = 1024) -> None:
        self.side, self.text, self.stop, self.chooser, self.most = side, text, stop, chooser, most
        self.kept = [Kept("", side.cache.copy(), 0)]
        self.seen: str | None = ""   # the text behind side.cache; None after an interrupt in the middle of a forward pass
        self.tokens = 0              # how many the cache has seen
        self.why = ""                # why the last answer ended: "stop", "length" or "interrupt"

    def complete(self, prompt: str, keep: Sequence[int] = (), stopped: Callable[[], bool] = lambda: False) -> Iterator[str]:
        """The text after a prompt, in pieces that never split a character, up to a stop token, `most` tokens or an interrupt.

        keep: lengths of beginnings of the prompt that later prompts will share. stopped: asked before each token.
        Raises UsageError for a prompt that is too long or holds tokens of the machine.
        """
        self.why = "interrupt"
        if not self._read(prompt, keep, stopped):
            return
        yield from self.text.stream(self._tokens(prompt, stopped), special=True)

    def _read(self, prompt: str, keep: Sequence[int], stopped: Callable[[], bool]) -> bool:
        """Bring the cache up to the prompt's last token but one and leave that one in `_next`. False where an interrupt came."""
        if self.seen is None or not prompt.startswith(self.seen) or len(self.seen) == len(prompt):
            best = max((k for k in self.kept if prompt.startswith(k.text) and len(k.text) < len(prompt)), key=lambda k: len(k.text))
            self.side.cache, self.seen, self.tokens = best.cache.copy(), best.text, best.tokens
        for end in sorted({*(k for k in keep if len(self.seen) < k < len(prompt)), len(prompt)}):
            ids = self.text.encode(prompt[len(self.seen):end])
            if self.tokens + len(ids) >= MOST_CONTEXT:
                raise UsageError("the conversation is too long", why=f"it has {self.tokens + len(ids):,} tokens, and {MOST_CONTEXT:,} are the most",
                                 fix="/reset begins a new one")
            self._next = [] if end < len(prompt) else ids[-1:]
            rest = ids[:-1] if self._next else ids
            for first in range(0, len(rest), AT_ONCE):
                if stopped():
                    self.seen = None
                    return False
                self._feed(rest[first:first + AT_ONCE])
            self.seen = prompt[:end]
            if not self._next:
                others = [k for k in self.kept[1:] if k.text != self.seen]
                self.kept = [self.kept[0], *others[:1], *others[1:][-KEPT:], Kept(self.seen, self.side.cache.copy(), self.tokens)]
        return True

    def _feed(self, ids: Sequence[int]) -> NDArray:
        """One forward pass; the last token's logits (vocab,)."""
        self.seen = None
        logits = self.side.forward(ids, last=True)[0]
        self.tokens += len(ids)
        return logits

    def _tokens(self, prompt: str, stopped: Callable[[], bool]) -> Iterator[int]:
        """The tokens of the answer. The cache has seen the prompt and all of them once the next is asked for."""
        written: list[int] = []
        fresh = self._next
        while True:
            if stopped():
                self.why = "interrupt"
                break
            if self.tokens + 1 >= MOST_CONTEXT or len(written) >= self.most:
                self.why = "length"
                break
            token = self.chooser.choose(self._feed(fresh), written)
            self.seen = prompt + self.text.decode(written, special=True)
            if token in self.stop:
                self.why = "stop"
                break
            written.append(token)
            fresh = [token]
            yield token
