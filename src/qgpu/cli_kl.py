"""`qgpu kl`: how far a merged model's text is from its base's."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from .cli_options import count
from .errors import CheckpointError, UsageError

SEED = 0


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "kl", allow_abbrev=False, help="compare a merged model's text with its base's",
        description="Next-token Kullback-Leibler divergence of MERGED from BASE, and the number of logits that differ in any bit.",
        epilog="example: python -m qgpu kl Qwen3.5-2B merged --text notes.txt")
    parser.add_argument("base", metavar="BASE", help="the model that was merged: a folder, or a name on the hub")
    parser.add_argument("merged", metavar="MERGED", help="folder that qgpu merge wrote")
    parser.add_argument("--text", metavar="FILE", action="append", help="a text file; may be repeated (default: built-in texts)")
    parser.add_argument("--random", metavar="N", type=count, help="compare on N random tokens instead (also where there is no tokenizer)")
    parser.add_argument("--skip", action="store_true", help="let text skip the circuit's layers, as chats do; default: it runs through them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(action=kl)


def kl(options: argparse.Namespace) -> int:
    """Compare and print. Exit status 1 where a logit over the base's vocabulary differs in any bit."""
    from .merge.kl import compare
    from .merge.model import load as load_merged
    from .qwen import load
    from .qwen.hub import find
    folder = find(options.base)
    merged = load_merged(options.merged)
    base = load(folder)
    if base.cfg.vocab_size != merged.first:
        raise UsageError(f"the merged model was made from one of {merged.first} tokens, this one has {base.cfg.vocab_size}", where=options.base)
    result = compare(base, merged, texts_of(options, folder, merged.first), skip=options.skip)
    if options.json:
        print(json.dumps(asdict(result)))
    else:
        print(f"{result.tokens:,} tokens, {result.logits:,} logits over the base's vocabulary: {result.different:,} differ in any bit")
        for name, what in (("base", "the base's vocabulary"), ("extended", "the merged vocabulary"),
                           ("suppressed", "the merged vocabulary, machine tokens suppressed")):
            print(f"  KL over {what}: mean {getattr(result, name + '_mean'):.3g}, largest {getattr(result, name + '_max'):.3g} nats")
    return 0 if result.different == 0 else 1


def texts_of(options: argparse.Namespace, folder: Path, vocabulary: int) -> list[list[int]]:
    """Token ids of every text that the options ask for. Raises UsageError or CheckpointError."""
    if options.random:
        return [np.random.default_rng(SEED).integers(0, vocabulary, options.random).tolist()]
    path = folder / "tokenizer.json"
    if not path.exists():
        raise UsageError("the base has no tokenizer.json", where=str(folder), fix="pass --random 1000 to compare on random tokens")
    from tokenizers import Tokenizer
    from .merge.kl import TEXTS
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception for a file that it cannot read
        raise CheckpointError("the tokenizer cannot be read", where=str(path), why=str(error)[:200]) from None
    texts = []
    for name in options.text or []:
        try:
            texts.append(Path(name).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError("the text cannot be read", where=name, why=str(error)) from None
    found = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts or TEXTS]
    found = [ids for ids in found if ids]
    if not found:
        raise UsageError("there is no text to compare on", fix="give a file that is not empty")
    return found
