"""Text in and out: the checkpoint's own tokenizer, streaming that keeps characters whole, and generation from a prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from qgpu.errors import CheckpointError
from qgpu.qwen.chat import Message, render
from qgpu.qwen.model import Model
from qgpu.qwen.sampling import Sampling

UNFINISHED = "\ufffd"  # what a decoder shows for the first bytes of a character whose rest is still to come


class Text:
    """A ``tokenizer.json``, by the tokenizers library."""

    def __init__(self, folder: str | Path) -> None:
        """Read ``tokenizer.json`` of a checkpoint folder. Raises CheckpointError if it is missing or malformed."""
        from tokenizers import Tokenizer

        path = Path(folder) / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError("the file is missing", where=str(path), why="without it there are only token ids")
        try:
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception for every malformed file
            raise CheckpointError("the tokenizer cannot be read", where=str(path), why=str(error)[:200]) from None
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def encode(self, text: str) -> list[int]:
        """Token ids; special tokens written out in the text are taken as such."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of ids; special tokens are left out unless ``special``."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=not special)

    def id_of(self, token: str) -> int | None:
        """The id of a token by its text, such as ``<|im_end|>``."""
        return self.tokenizer.token_to_id(token)

    def stream(self, ids: Iterable[int], *, special: bool = False) -> Iterator[str]:
        """The text of ids as they come, in pieces that never split a character. The pieces joined are the whole text."""
        pending: list[int] = []
        shown = 0
        for token in ids:
            pending.append(token)
            text = self.decode(pending, special=special)
            whole = text.rstrip(UNFINISHED)
            if len(whole) > shown:
                yield whole[shown:]
                shown = len(whole)
            if len(whole) == len(text):
                pending, shown = [], 0
        rest = self.decode(pending, special=special)[shown:]
        if rest:
            yield rest


def generate(
    model: Model,
    text: Text,
    prompt: str | Sequence[Message],
    max_new_tokens: int = 256,
    *,
    sampling: Sampling | None = None,
    thinking: bool = False,
) -> Iterator[str]:
    """The model's answer, piece by piece. prompt: one user message, or a whole conversation (see ``chat.render``)."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return complete(model, text, render(messages, thinking=thinking), max_new_tokens, sampling=sampling)


def complete(
    model: Model,
    text: Text,
    prompt: str,
    max_new_tokens: int = 256,
    *,
    sampling: Sampling | None = None,
    heard: list[int] | None = None,
) -> Iterator[str]:
    """The text that follows a prompt as it is, piece by piece, up to a stop token (which is not shown).

    heard: every generated token id is appended to it as it comes, the stop token included.
    """
    end = text.id_of("<|im_end|>")
    stop = set(model.stop) | ({end} if end is not None else set())
    tokens = model.stream(text.encode(prompt), max_new_tokens, sampling=sampling, stop=stop)
    return text.stream(token for token in _noting(tokens, heard) if token not in stop)


def _noting(tokens: Iterator[int], heard: list[int] | None) -> Iterator[int]:
    for token in tokens:
        if heard is not None:
            heard.append(token)
        yield token
