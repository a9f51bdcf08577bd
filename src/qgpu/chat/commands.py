"""The commands of a chat: lines that begin with a slash."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import UsageError
from ..files import whole_file
from ..runtime.prepare import block_places
from ..runtime.trace import records, write_trace
from .device import KERNELS, kernel_names
from .session import Session
from .terminal import Terminal
from .tools import MODES

SHOWN_TOKENS = 40


class PanelSwitch(Protocol):
    """What shows the machine beside the chat; `qgpu.chat.panel` has it."""

    def set(self, on: bool | None) -> str:
        """Show or hide it, or the other one for None; a line that says what happened."""
        ...


@dataclass
class Commands:
    """Runs them on a session. panel: None where there is none to show."""

    session: Session
    terminal: Terminal
    panel: PanelSwitch | None = None

    def run(self, line: str) -> bool:
        """Carry out a line such as "/mode advanced". False for /quit. Raises UsageError for what is no command."""
        name, _, rest = line[1:].strip().partition(" ")
        found = COMMANDS.get(name)
        if found is None:
            near = [n for n in COMMANDS if name and n.startswith(name)]
            if len(near) != 1:
                raise UsageError(f"there is no command /{name[:40]}", fix="/help lists them; a message cannot begin with a slash")
            found = COMMANDS[near[0]]
        return found.run(self, rest.strip()) is not False

    def complete(self, line: str) -> list[str]:
        """What the last word of a line may become."""
        if not line.startswith("/"):
            return []
        name, space, rest = line[1:].partition(" ")
        if not space:
            return [f"/{n}" for n in COMMANDS if n.startswith(name)]
        if name in COMMANDS and COMMANDS[name].values:
            return [v for v in COMMANDS[name].values if v.startswith(rest)]
        if name in ("save", "trace"):
            folder, slash, stem = rest.rpartition("/")
            try:
                found = [p for p in Path(folder + slash or ".").iterdir() if p.name.startswith(stem)]
                return sorted(f"{folder}{slash}{p.name}{'/' * p.is_dir()}" for p in found)[:50]
            except OSError:
                return []
        return []

    # ---- what they do ------------------------------------------------------------------------------------------------
    def help(self, rest: str) -> None:
        width = max(len(n) + len(c.takes) for n, c in COMMANDS.items()) + 2
        lines = [f"  /{(n + ' ' + c.takes):<{width}}{c.about}" for n, c in COMMANDS.items()]
        self.terminal.say("\n".join([*lines, "  A line that ends in \\ goes on in the next; \"\"\" begins and ends a longer text.",
                                     "  Ctrl-C stops an answer or a launch, Ctrl-D leaves."]))

    def mode(self, rest: str) -> None:
        if rest and rest not in MODES:
            raise UsageError(f"there is no mode {rest[:40]!r}", fix="use /mode normal or /mode advanced")
        if rest:
            self.session.set_mode(rest)
        tool = {"normal": "expressions, by ready-made kernels", "advanced": "the model writes CUDA kernels"}
        self.terminal.say(f"mode {self.session.toolbox.mode}: {tool[self.session.toolbox.mode]}")

    def check(self, rest: str) -> None:
        device = self.session.toolbox.device
        device.check = self._switch(rest, device.check)
        self.terminal.say("every launch is replayed on the reference interpreters" if device.check else "launches are not checked")

    def show_panel(self, rest: str) -> None:
        if self.panel is None:
            raise UsageError("there is no panel here", why="it needs a terminal")
        self.terminal.say(self.panel.set(self._switch(rest, None) if rest else None))

    @staticmethod
    def _switch(rest: str, now: bool | None) -> bool:
        """on, off, or the other one."""
        if rest not in ("", "on", "off"):
            raise UsageError(f"{rest[:40]!r} is neither on nor off")
        return rest == "on" if rest else not now

    def kernels(self, rest: str) -> None:
        if rest:
            if rest not in kernel_names():
                raise UsageError(f"there is no kernel {rest[:40]!r}", fix="/kernels lists them")
            self.terminal.say((KERNELS / f"{rest}.cu").read_text(encoding="utf-8").rstrip())
            return
        firsts = {name: (KERNELS / f"{name}.cu").read_text(encoding="utf-8").split("\n")[0][3:] for name in kernel_names()}
        lines = [f"  {name:<14}{first}" for name, first in firsts.items()]
        launched = self.session.toolbox.device.launched
        if launched:
            lines += ["the last calculation launched:"] + [
                f"  {one.kernel:<14}{one.items} numbers, {one.setup:,} tokens written by the host, {one.generated:,} by the model, "
                f"{one.seconds:.2f} s" + (", checked" if one.checked is not None else "") for one in launched]
        self.terminal.say("\n".join(lines))

    def trace(self, rest: str) -> None:
        last = self.session.toolbox.device.last
        if last is None:
            raise UsageError("nothing was launched yet")
        places = block_places(last.program.blocks)
        if rest:
            write_trace(rest, last.machine, last.tokens, last.setup, places)
            self.terminal.say(f"{len(last.tokens):,} tokens written to {rest}")
            return
        lines = []
        for record in records(last.machine, last.tokens, last.setup, places):
            if record["position"] >= last.setup:
                lines.append(f"  {record['position']:6} {record['kind']:<6} {record['meaning']}")
            if len(lines) == SHOWN_TOKENS:
                break
        more = len(last.tokens) - last.setup - len(lines)
        self.terminal.say("\n".join([f"{last.kernel}: {last.setup:,} tokens by the host, then the model's:", *lines]
                                    + [f"  and {more:,} more; /trace FILE writes all"] * (more > 0)))

    def save(self, rest: str) -> None:
        if not rest:
            raise UsageError("no file is named", fix="write /save chat.json")
        save_chat(self.session, rest)
        self.terminal.say(f"written to {rest}")

    def reset(self, rest: str) -> None:
        self.session.reset()
        self.terminal.say("a new conversation")

    def quit(self, rest: str) -> bool:
        return False


@dataclass(frozen=True)
class Command:
    """takes: its argument, for /help. values: what completes it."""

    run: Callable[[Commands, str], bool | None]
    takes: str
    about: str
    values: tuple[str, ...] = ()


COMMANDS = {
    "help": Command(Commands.help, "", "this list"),
    "mode": Command(Commands.mode, "[normal|advanced]", "expressions by ready-made kernels, or kernels that the model writes", MODES),
    "check": Command(Commands.check, "[on|off]", "replay every launch on the reference interpreters", ("on", "off")),
    "panel": Command(Commands.show_panel, "[on|off]", "show the machine while it runs", ("on", "off")),
    "kernels": Command(Commands.kernels, "[NAME]", "the ready-made kernels and the last launches, or a kernel's source",
                       tuple(kernel_names())),
    "trace": Command(Commands.trace, "[FILE]", "the last launch's tokens in words; all of them to a file"),
    "save": Command(Commands.save, "FILE", "write the conversation to a JSON file"),
    "reset": Command(Commands.reset, "", "forget the conversation"),
    "quit": Command(Commands.quit, "", "leave"),
}


def save_chat(session: Session, path: str) -> None:
    """The conversation as JSON: mode, messages, and every question's calls. Raises UsageError where it cannot be written."""
    data = {"mode": session.toolbox.mode, "messages": session.messages,
            "turns": [{"question": t.question, "answer": t.answer, "ended": t.ended,
                       "calls": [{"name": o.call.name, "arguments": o.call.arguments, "good": o.good, "text": o.text} for o in t.outcomes]}
                      for t in session.turns]}
    target = Path(path)
    try:
        with whole_file(target) as out:
            out.write(json.dumps(data, indent=1).encode())
    except (OSError, ValueError) as error:
        raise UsageError("the conversation cannot be written", where=path, why=str(error), fix="choose another file") from None
