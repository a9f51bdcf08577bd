"""A conversation: questions, the model's answers, and the launches in between, as messages of Qwen3.5's chat format."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from ..errors import QgpuError
from ..qwen.chat import END, START, render
from .calls import Reply, ToolCall, Watcher, read_reply
from .tools import Outcome, Toolbox, format_help
from .writer import Writer

MOST_TRIES = 3
"""Calls of one question that may fail."""
MOST_ROUNDS = 8
"""Answers that the model writes to one question, calls included."""


class Screen(Protocol):
    """Where a conversation is shown."""

    def piece(self, text: str) -> None:
        """More of the model's answer."""
        ...

    def call(self, call: ToolCall, attempt: int) -> None:
        """The model calls a tool; attempt counts from 1 and goes up with each failure."""
        ...

    def outcome(self, outcome: Outcome) -> None:
        """What came of a call."""
        ...

    def notice(self, text: str) -> None:
        """Something that neither the model nor the user said."""
        ...


@dataclass
class Turn:
    """A question and what came of it. answer: the model's last words. outcomes: of its calls, in order. ended: "answer",
    "interrupt", "length", "tries" or "rounds"."""

    question: str
    answer: str = ""
    outcomes: list[Outcome] = field(default_factory=list)
    problems: int = 0
    ended: str = "answer"


class Session:
    """One conversation. stopped: asked before every token whether the user wants the answer to end. launching: around launches."""

    def __init__(self, writer: Writer, toolbox: Toolbox, screen: Screen, stopped: Callable[[], bool] = lambda: False,
                 thinking: bool = False, launching: Callable[[], AbstractContextManager] = nullcontext) -> None:
        self.writer, self.toolbox, self.screen, self.stopped, self.thinking = writer, toolbox, screen, stopped, thinking
        self.launching = launching
        self.turns: list[Turn] = []
        self.reset()

    def reset(self) -> None:
        """Forget everything that was said."""
        self.messages: list[dict[str, str]] = [{"role": "system", "content": self.toolbox.system_message()}]
        self.turns = []

    def set_mode(self, mode: str) -> None:
        """Another tool and another system message; what was said stays."""
        self.toolbox.mode = mode
        self.messages[0] = {"role": "system", "content": self.toolbox.system_message()}

    def ask(self, question: str) -> Turn:
        """Put a question, let the model answer and launch.

        Raises QgpuError where the question cannot be put; the conversation is then as before. An interrupt ends the turn, not the session.
        """
        before = len(self.messages)
        self.messages.append({"role": "user", "content": question})
        turn = Turn(question)
        try:
            self._answer(turn, before)
        except QgpuError:
            del self.messages[before:]
            raise
        except KeyboardInterrupt:
            turn.ended = "interrupt"
            self.screen.notice("stopped")
        if self.messages[-1]["role"] == "user":
            del self.messages[before:]   # the model said nothing: the question was not put
        self.turns.append(turn)
        return turn

    def _answer(self, turn: Turn, asked: int) -> None:
        """Answers and calls until the model stops calling."""
        failures = 0
        for _ in range(MOST_ROUNDS):
            reply, raw = self._write(asked)
            if raw.strip():
                self.messages.append({"role": "assistant", "content": raw})
            turn.answer = reply.content
            if self.writer.why == "interrupt":
                raise KeyboardInterrupt
            if not reply.calls and not reply.problem:
                if self.writer.why == "length":
                    turn.ended = "length"
                    self.screen.notice(f"the answer was cut off after {self.writer.most} tokens")
                return
            if failures >= MOST_TRIES:
                turn.ended = "tries"
                self.screen.notice(f"{MOST_TRIES} calls failed; the model is not asked again")
                return
            for call in reply.calls:
                failures += not self._carry_out(call, turn, failures + 1)
            if reply.problem:
                failures += 1
                turn.problems += 1
                self.screen.notice(f"the model's call does not parse: {reply.problem}")
                self._respond(f"error: {reply.problem}\n  try: {format_help(self.toolbox.mode)}")
            self.messages[-1]["content"] += "\nNo more calls: answer the user now, and say what failed." * (failures >= MOST_TRIES)
        turn.ended = "rounds"
        self.screen.notice(f"the model went on calling; stopped after {MOST_ROUNDS} answers")

    def _write(self, asked: int) -> tuple[Reply, str]:
        """Let the model write one answer, shown as it comes."""
        prompt = render(self.messages, thinking=self.thinking)
        shared = [len(f"{START}system\n{self.messages[0]['content'].strip()}{END}\n"), len(render(self.messages[:asked + 1], reply=False))]
        watcher = Watcher()
        pieces = self.writer.complete(prompt, shared, self.stopped)
        for piece in pieces:
            if shown := watcher.add(piece):
                self.screen.piece(shown.replace("</think>", "--"))   # the line between thoughts and answer
            if watcher.over:
                pieces.close()
                self.writer.why = "stop"
                break
        if shown := watcher.rest():
            self.screen.piece(shown)
        raw = watcher.text[:watcher.cut()]
        if self.writer.why == "interrupt":
            raw = raw.split("<tool_call>")[0]
        return read_reply(raw), raw

    def _carry_out(self, call: ToolCall, turn: Turn, attempt: int) -> bool:
        """One call: show it, launch, hand the result back. Returns whether it has one."""
        self.screen.call(call, attempt)
        try:
            with self.launching():
                outcome = self.toolbox.call(call)
        except KeyboardInterrupt:
            self._respond("error: the user stopped the launch")
            raise
        turn.outcomes.append(outcome)
        self.screen.outcome(outcome)
        self._respond(outcome.text)
        return outcome.good

    def _respond(self, text: str) -> None:
        self.messages.append({"role": "tool", "content": text})
