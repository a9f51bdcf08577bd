"""`qgpu generate`: text from a Qwen3.5 checkpoint, shown as it is written."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

from .cli_options import count
from .errors import UsageError

EXAMPLES = """examples:
  python -m qgpu generate Qwen/Qwen3.5-2B "Why is the sky blue?"
  python -m qgpu generate ./model "A limerick about warps" --temperature 0.7 --top-p 0.9 --seed 1
  python -m qgpu generate ./model "Once upon a time" --raw --max-new-tokens 50"""


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "generate", allow_abbrev=False, help="let a Qwen3.5 model answer a prompt",
        description="Print MODEL's answer to PROMPT as it is written, on this machine's processor.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="a checkpoint folder, or a model on the Hugging Face hub, downloaded on first use")
    parser.add_argument("prompt", metavar="PROMPT", help="what the user says")
    parser.add_argument("--system", metavar="TEXT", help="a system message before the prompt")
    parser.add_argument("--raw", action="store_true", help="go on from PROMPT as it is, without the chat format")
    parser.add_argument("--max-new-tokens", metavar="N", type=count, default=256, help="stop after N tokens (default: 256)")
    parser.add_argument("--temperature", metavar="T", type=float, default=0.0,
                        help="0 (default): always the likeliest token, whatever --top-k, --top-p and --seed say")
    parser.add_argument("--top-k", metavar="K", type=whole, default=0, help="draw from the K likeliest tokens (default: 0, all)")
    parser.add_argument("--top-p", metavar="P", type=float, default=1.0,
                        help="draw from the likeliest tokens that together have probability P (default: 1, all)")
    parser.add_argument("--repetition-penalty", metavar="R", type=float, default=1.0,
                        help="above 1: tokens that were there before become less likely (default: 1)")
    parser.add_argument("--seed", metavar="N", type=whole, help="the same seed draws the same text (default: another one each time)")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end, and nothing before")
    parser.set_defaults(action=generate)


def whole(text: str) -> int:
    """An argparse type: a whole number, at least 0."""
    return 0 if text == "0" else count(text)


def generate(options: argparse.Namespace) -> int:
    """Load, generate, print. Returns the exit status. Raises UsageError or CheckpointError."""
    for name, words in (("PROMPT", options.prompt), ("--system", options.system)):
        _check_text(name, words)
    if options.raw and options.system is not None:
        raise UsageError("--system needs the chat format", where="--raw", fix="leave one of the two out")
    from .merge.model import load_text  # slow to import, and few commands need it
    from .qwen import Sampling
    from .qwen.chat import render
    from .qwen.text import Text, complete
    how = Sampling(options.temperature, options.top_k, options.top_p, options.repetition_penalty, options.seed)
    model = load_text(options.model)
    text = Text(model.folder)
    system = [] if options.system is None else [{"role": "system", "content": options.system}]
    prompt = options.prompt if options.raw else render([*system, {"role": "user", "content": options.prompt}])
    heard: list[int] = []
    start = time.perf_counter()
    pieces = complete(model, text, prompt, options.max_new_tokens, sampling=how, heard=heard)
    if options.json:
        answer = "".join(pieces)
        print(json.dumps({"text": answer, "tokens": {"prompt": len(text.encode(prompt)), "generated": len(heard)},
                          "seconds": round(time.perf_counter() - start, 3)}))
    else:
        _show(pieces)
    return 0


def _check_text(where: str, words: str | None) -> None:
    """Raise UsageError for what no tokenizer takes: nothing, or bytes that are not UTF-8 (surrogates in a str)."""
    if words == "":
        raise UsageError("there is no text", where=where)
    try:
        (words or "").encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError("the text is not UTF-8", where=where, why=f"character {error.start + 1} is none") from None


def _show(pieces: Iterator[str]) -> None:
    """Print pieces as they come and end the line, also where the user interrupts."""
    try:
        for piece in pieces:
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        print(flush=True)
        raise
    print()
