"""Tool calls in an assistant's text: the nested tags of Qwen3.5, and what is wrong with those that do not parse."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MOST_CALLS = 4

_FUNCTION = re.compile(r"\s*<function=\s*([^<>\s]{1,64})\s*>(.*?)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=\s*([^<>\s]{1,64})\s*>(.*?)</parameter>\s*", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it. arguments: text by name, without the line breaks around it."""

    name: str
    arguments: dict[str, str]


@dataclass(frozen=True)
class Reply:
    """An assistant's turn. content: what it says to the user. problem: what is wrong with its calls, "" if nothing."""

    content: str
    calls: tuple[ToolCall, ...] = ()
    problem: str = ""
    thoughts: str = ""


@dataclass
class Watcher:
    """Follows an answer as it is written: what may be shown of it, and whether it should end.

    Text is shown up to the first tag of a call. An answer ends behind a call, unless another call follows at once.
    """

    text: str = ""
    _shown: int = field(default=0, repr=False)

    def add(self, piece: str) -> str:
        """The new text that may be shown."""
        self.text += piece
        at = self.text.find(OPEN)
        end = at if at >= 0 else len(self.text) - _overlap(self.text, OPEN)
        out = self.text[self._shown:end] if end > self._shown else ""
        self._shown = max(self._shown, end)
        return out

    def rest(self) -> str:
        """What is still to show when the answer is over."""
        out = "" if OPEN in self.text else self.text[self._shown:]
        self._shown = len(self.text)
        return out

    @property
    def over(self) -> bool:
        """A call is complete, and what follows it begins no other."""
        return self.cut() < len(self.text)

    def cut(self) -> int:
        """Where the answer ends: behind the last call, or the text's own end."""
        at = self.text.rfind(CLOSE)
        if at < 0:
            return len(self.text)
        rest = self.text[at + len(CLOSE):].strip()
        return len(self.text) if OPEN.startswith(rest[:len(OPEN)]) else at + len(CLOSE)


def _overlap(text: str, tag: str) -> int:
    """How many characters at the text's end may be the beginning of a tag."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:n])), 0)


def read_reply(text: str) -> Reply:
    """An assistant's text taken apart. Never raises."""
    thoughts, mark, after = text.rpartition("</think>")
    if mark:
        text = after
    content, *blocks = text.split(OPEN)
    content = content.strip()
    calls: list[ToolCall] = []
    for block in blocks[:MOST_CALLS]:
        body, closed, _ = block.partition(CLOSE)
        found = read_call(body)
        if isinstance(found, str):
            return Reply(content, tuple(calls), found if closed else f"{found}; the call is not closed with {CLOSE}", thoughts.strip())
        calls.append(found)
    problem = f"more than {MOST_CALLS} calls at once" if len(blocks) > MOST_CALLS else ""
    if not blocks and ("<function=" in text or CLOSE in text):
        problem = f"the call does not begin with {OPEN}"
    return Reply(content, tuple(calls), problem, thoughts.strip())


def read_call(body: str) -> ToolCall | str:
    """One call, from between its tags, or what is wrong with it. JSON with name and arguments is taken as well."""
    if body.lstrip().startswith("{"):
        return _json_call(body)
    found = _FUNCTION.fullmatch(body)
    if found is None:
        if "<function=" not in body:
            return "there is no <function=NAME> in the call"
        return "text stands beside the function" if "</function>" in body else "the function is not closed with </function>"
    name, inner = found.groups()
    arguments: dict[str, str] = {}
    at = 0
    while at < len(inner) and inner[at:].strip():
        parameter = _PARAMETER.match(inner, at)
        if parameter is None:
            return "parameters are written <parameter=NAME>, value, </parameter>"
        key, value = parameter.groups()
        if key in arguments:
            return f"parameter {key} is given twice"
        arguments[key] = value.strip("\r\n")
        at = parameter.end()
    return ToolCall(name, arguments)


def _json_call(body: str) -> ToolCall | str:
    try:
        data = json.loads(body)
        name, arguments = data["name"], data.get("arguments", {})
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        if not isinstance(name, str):
            return "the function's name is no text"
        return ToolCall(name, {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in arguments.items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "the call is neither tags nor JSON with a name and arguments"
