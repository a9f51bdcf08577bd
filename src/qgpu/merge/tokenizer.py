"""The machine's tokens in a tokenizer: added special tokens whose ids follow the model's vocabulary.

The tokenizers library numbers added tokens without gaps, so ids between the tokenizer's last token and the model's
last row get names too.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import CheckpointError
from ..machine.description import Machine
from ..machine.tokens import Vocabulary
from ..qwen.config import read_json


def token_text(machine: Machine, token_id: int) -> str:
    """What a machine token looks like in text."""
    return f"<|gpu:{Vocabulary(machine).token(token_id)}|>"


def token_texts(machine: Machine) -> list[str]:
    """Texts of all machine tokens, in the order of their ids."""
    v = Vocabulary(machine)
    return [f"<|gpu:{v.token(i)}|>" for i in range(v.size)]


def added_tokens(machine: Machine, first_free: int, first: int) -> list[dict]:
    """Entries of tokenizer.json for ids first_free .. first - 1 (unused) and the machine's from `first` on."""
    names = [f"<|gpu:unused {i}|>" for i in range(first_free, first)] + token_texts(machine)
    return [{"id": first_free + k, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for k, name in enumerate(names)]


def extend_tokenizer(source: Path, target: Path, machine: Machine, first: int) -> bool:
    """Write tokenizer files with the machine's tokens from id `first` on. False where the model has no tokenizer.json.

    Raises CheckpointError for a tokenizer that has more tokens than the model has rows, or a token of ours.
    """
    path = source / "tokenizer.json"
    if not path.exists():
        return False
    data = read_json(path)
    try:
        vocab = data["model"]["vocab"]
        ids = [*(vocab.values() if isinstance(vocab, dict) else range(len(vocab))), *(t["id"] for t in data.get("added_tokens") or [])]
        taken = {t["content"] for t in data.get("added_tokens") or []}
        free = max(ids, default=-1) + 1
    except (KeyError, TypeError, AttributeError):
        raise CheckpointError("this is no tokenizer that the tokenizers library writes", where=str(path)) from None
    if free > first:
        raise CheckpointError(f"the tokenizer has ids up to {free - 1}, the model {first} rows", where=str(path))
    added = added_tokens(machine, free, first)
    if clash := next((t["content"] for t in added if t["content"] in taken), None):
        raise CheckpointError(f"the tokenizer has the token {clash!r} already", where=str(path))
    data["added_tokens"] = [*(data.get("added_tokens") or []), *added]
    (target / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False) + "\n", encoding="utf-8")
    extra = source / "tokenizer_config.json"
    if extra.exists():
        config = read_json(extra)
        if isinstance(config.get("added_tokens_decoder"), dict):
            config["added_tokens_decoder"] |= {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in added}
        (target / "tokenizer_config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return True
