"""A conversation on a terminal: answers as they come, calls and what came of them, lines with history and completion."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TextIO

from .calls import ToolCall
from .tools import Outcome

CONTINUE, BLOCK = "\\", '"""'
MOST_LINE = 1 << 20

STYLES = {"call": "36", "good": "32", "bad": "31", "notice": "33", "prompt": "1"}


class Terminal:
    """Implements chat.session.Screen. Colours only on a terminal, and not where NO_COLOR is set."""

    def __init__(self, out: TextIO | None = None, colour: bool | None = None) -> None:
        self.out = sys.stdout if out is None else out
        self.colour = colour if colour is not None else self.out.isatty() and not os.environ.get("NO_COLOR")
        self._open = False

    def _write(self, text: str) -> None:
        self.out.write(text.encode("utf-8", "replace").decode("utf-8"))
        self.out.flush()

    def _line(self, text: str, style: str) -> None:
        """A line of its own."""
        self.end()
        self._write((f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.colour else text) + "\n")

    def piece(self, text: str) -> None:
        """More of the model's answer."""
        text = printable(text if self._open else text.lstrip("\n"))
        if text:
            self._write(text)
            self._open = not text.endswith("\n")

    def end(self) -> None:
        """End the line that the answer is on."""
        if self._open:
            self._write("\n")
            self._open = False

    def call(self, call: ToolCall, attempt: int) -> None:
        """The model calls a tool."""
        again = f" (try {attempt})" if attempt > 1 else ""
        lines = [printable(text) for text in call.arguments.values()]
        if len(lines) == 1 and "\n" not in lines[0]:
            self._line(f"> {printable(call.name)}{again}: {lines[0]}", "call")
            return
        self._line(f"> {printable(call.name)}{again}", "call")
        for name, text in zip(call.arguments, lines):
            first, *more = text.split("\n")
            self._line("\n".join([f"    {printable(name)}: {first}", *(f"        {line}" for line in more)]), "call")

    def outcome(self, outcome: Outcome) -> None:
        """What came of a call."""
        self._line("\n".join("  " + printable(line) for line in outcome.text.split("\n")), "good" if outcome.good else "bad")

    def notice(self, text: str) -> None:
        """Something that neither the model nor the user said."""
        self._line(f"({printable(text)})", "notice")

    def say(self, text: str) -> None:
        """Plain lines: help, lists, errors."""
        self.end()
        self._write(text + "\n")


def printable(text: str) -> str:
    """Text without control characters, which could rule the terminal: they are shown as escapes."""
    def shown(c: str) -> str:
        if c in "\n\t" or c.isprintable() or c == "\ufffd":
            return c
        return f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}"
    return "".join(map(shown, text))


class Lines:
    """Lines from the keyboard with history and completion (readline, where Python has it), or from a file.

    A line that ends in a backslash goes on in the next; one that begins with three double quotes goes on to the next three.
    """

    def __init__(self, complete: Callable[[str], Iterable[str]], source: TextIO | None = None) -> None:
        self.source = source
        if source is None:
            try:
                import readline
            except ImportError:      # Windows: lines can be typed, without history
                return
            readline.set_completer_delims(" \t\n")
            found: list[str] = []

            def completer(text: str, state: int) -> str | None:
                if state == 0:
                    found[:] = complete(readline.get_line_buffer())
                return found[state] if state < len(found) else None

            readline.set_completer(completer)
            readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")

    def read(self, prompt: str) -> str:
        """One message, of one or more lines. Raises EOFError at the end of input, KeyboardInterrupt for Ctrl-C."""
        line = self._one(prompt)
        if line.lstrip().startswith(BLOCK):
            lines = [line.lstrip()[len(BLOCK):]]
            while not lines[-1].rstrip().endswith(BLOCK):
                lines.append(self._one("... "))
            lines[-1] = lines[-1].rstrip()[:-len(BLOCK)]
            return "\n".join(lines).strip("\n")
        lines = [line]
        while lines[-1].endswith(CONTINUE):
            lines[-1] = lines[-1][:-1]
            lines.append(self._one("... "))
        return "\n".join(lines)

    def _one(self, prompt: str) -> str:
        if self.source is None:
            return input(prompt)
        line = self.source.readline(MOST_LINE)
        if not line:
            raise EOFError
        return line.rstrip("\r\n")
