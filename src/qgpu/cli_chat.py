"""`qgpu chat`: ask a merged model, which computes on the GPU in its own weights."""

from __future__ import annotations

import argparse
import sys

from .cli_generate import whole
from .cli_options import count
from .errors import QgpuError, UsageError

EXAMPLES = """examples:
  python -m qgpu chat qwen3.5-2b-gpu
  python -m qgpu chat qwen3.5-2b-gpu --mode advanced --temperature 0.7 --top-p 0.8 --top-k 20 --seed 1
  echo "What is 12345 times 6789?" | python -m qgpu chat qwen3.5-2b-gpu --no-check

Inside, /help lists the commands. docs/chat.md has the rest."""


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    parser = commands.add_parser("chat", allow_abbrev=False, help="talk with a merged model that computes on its own GPU", epilog=EXAMPLES,
                                 formatter_class=argparse.RawDescriptionHelpFormatter,
                                 description="Talk with MODEL, which qgpu merge wrote. Its GPU is a tool that it calls; launches run in its own weights.")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a folder that qgpu merge wrote; without one, how to get it")
    parser.add_argument("--mode", choices=("normal", "advanced"), default="normal",
                        help="normal (default): expressions, by ready-made kernels; advanced: the model writes CUDA")
    parser.add_argument("--check", action=argparse.BooleanOptionalAction, default=True,
                        help="replay every launch on the reference interpreters (default: yes)")
    parser.add_argument("--think", action="store_true", help="let the model think before it answers")
    parser.add_argument("--max-new-tokens", metavar="N", type=count, default=1024, help="cut an answer off after N tokens (default: 1024)")
    parser.add_argument("--temperature", metavar="T", type=float, default=0.0, help="0 (default): always the likeliest token")
    parser.add_argument("--top-k", metavar="K", type=whole, default=0, help="draw from the K likeliest tokens (default: 0, all)")
    parser.add_argument("--top-p", metavar="P", type=float, default=1.0, help="draw from the likeliest tokens of probability P (default: 1)")
    parser.add_argument("--repetition-penalty", metavar="R", type=float, default=1.0, help="above 1: repeated tokens become less likely")
    parser.add_argument("--seed", metavar="N", type=whole, help="the same seed draws the same answers")
    parser.add_argument("--panel", action="store_true", help="show the machine from the start, as /panel does")
    parser.set_defaults(action=chat)


def chat(options: argparse.Namespace) -> int:
    """Open the model and talk. Returns the exit status; raises QgpuError before the first question only."""
    from .chat.open import check_model, open_session
    try:
        folder = check_model(options.model)
    except UsageError as error:
        built = _offer(error, options.model)
        if built is None:
            raise
        folder = check_model(built)
    from .chat.interrupts import Interrupts
    from .chat.terminal import Terminal
    from .qwen.sampling import Sampling
    from .runtime.progress import Progress
    how = Sampling(options.temperature, options.top_k, options.top_p, options.repetition_penalty, options.seed)
    terminal, interrupts = Terminal(), Interrupts()
    terminal.say(f"loading {folder}")
    session = open_session(folder, terminal, mode=options.mode, check=options.check, sampling=how, most=options.max_new_tokens,
                           thinking=options.think, progress=Progress(), interrupts=interrupts)
    return talk(session, terminal, interrupts, options.panel)


def _offer(error: UsageError, model: str | None) -> str | None:
    """Where no model is there, on a terminal: offer to build it. The built folder, or None."""
    from .chat.open import BASE, HOW
    if error.why != HOW or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    out = model or "qwen3.5-2b-gpu"
    print(f"qgpu: {error.where + ': ' if error.where else ''}{error.what}; {HOW}\n")
    try:
        answer = input(f"Download {BASE} and build {out} now? [y/N] ")
    except EOFError:
        return None
    if answer.strip().lower() not in ("y", "yes"):
        return None
    from .machine.description import ARTICLE
    from .merge.build import merge
    try:
        result = merge(BASE, out, ARTICLE, progress=lambda text: print(text, file=sys.stderr))
    except OSError as problem:
        raise UsageError(f"cannot write the checkpoint: {problem}", where=out, fix="choose another folder, or make room") from None
    return str(result.folder)


def talk(session, terminal, interrupts, panel_on: bool = False, source=None) -> int:
    """Read messages and commands until the end. source: a file to read them from; the keyboard, or standard input if that is none."""
    from .chat.commands import Commands
    from .chat.panel import Beside
    from .chat.terminal import Lines
    keyboard = source is None and sys.stdin.isatty()
    panel = Beside(session.toolbox.device)
    commands = Commands(session, terminal, panel)
    lines = Lines(commands.complete, None if keyboard else source or sys.stdin)
    if keyboard:
        checked = "checked" if session.toolbox.device.check else "not checked"
        terminal.say(f"mode {session.toolbox.mode}, launches {checked}. /help lists the commands.")
    failed = 0
    try:
        if panel_on:
            commands.run("/panel on")
        while True:
            try:
                line = lines.read("you> " if keyboard else "")
            except EOFError:
                break
            except KeyboardInterrupt:
                terminal.say("\n(Ctrl-D or /quit leaves)")
                continue
            if not line.strip():
                continue
            try:
                if line.startswith("/"):
                    if not commands.run(line):
                        break
                    continue
                line.encode("utf-8")
                with interrupts.guarded():
                    session.ask(line)
                terminal.end()
            except UnicodeEncodeError:
                terminal.say("qgpu: the message is not UTF-8 text")
                failed += 1
            except QgpuError as error:
                terminal.say(f"qgpu: {error}")
                failed += 1
            except KeyboardInterrupt:
                terminal.say("(stopped)")
    finally:
        panel.close()
    return 0 if keyboard or not failed else 1
