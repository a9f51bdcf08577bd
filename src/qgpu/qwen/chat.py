"""Qwen3.5's chat format: a conversation as the text that the model was trained on.

A turn is ``<|im_start|>role``, a line break, the content, ``<|im_end|>`` and a line break. Assistant turns after the last
question keep their thoughts in ``<think>``; earlier ones lose them. Tool calls are written as nested tags in the
assistant's turn, and what tools answer comes back in one user turn of ``<tool_response>`` blocks. Instructions on how to
call tools are part of the system message and up to the caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from qgpu.errors import UsageError

START, END = "<|im_start|>", "<|im_end|>"
ANSWER_OPEN, ANSWER_CLOSE = "<tool_response>", "</tool_response>"
ROLES = ("system", "user", "assistant", "tool")
Message = Mapping[str, Any]


def render(messages: Sequence[Message], *, reply: bool = True, thinking: bool = False) -> str:
    """The conversation as one string.

    messages: each with ``role`` (system, only first; user; assistant; tool) and ``content`` (text, or a list of text
    parts); an assistant's may have ``reasoning_content`` and ``tool_calls``, each with a name and a dict of arguments.
    reply: end with the start of the assistant's next turn; thinking: let it think first. Raises UsageError.
    """
    contents = [_content(message, i) for i, message in enumerate(messages)]
    question = _last_question(messages, contents)
    parts = []
    for i, (message, content) in enumerate(zip(messages, contents, strict=True)):
        role = message["role"]
        if role == "system" and i > 0:
            raise UsageError("a system message must come first", where=f"message {i + 1}")
        if role in ("system", "user"):
            parts.append(f"{START}{role}\n{content}{END}\n")
        elif role == "assistant":
            parts.append(_assistant(message, content, i, after=i > question))
        else:
            first = i > 0 and messages[i - 1]["role"] != "tool"
            last = i + 1 == len(messages) or messages[i + 1]["role"] != "tool"
            opening, closing = f"{START}user" if first else "", f"{END}\n" if last else ""
            parts.append(f"{opening}\n{ANSWER_OPEN}\n{content}\n{ANSWER_CLOSE}{closing}")
    if reply:
        parts.append(f"{START}assistant\n" + ("<think>\n" if thinking else "<think>\n\n</think>\n\n"))
    return "".join(parts)


def _content(message: Message, index: int) -> str:
    """A message's text, trimmed. Raises UsageError for what is not text."""
    where = f"message {index + 1}"
    role = message.get("role")
    if role not in ROLES:
        raise UsageError(f"role {role!r} is none of {', '.join(ROLES)}", where=where)
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, Sequence) and all(isinstance(p, Mapping) and isinstance(p.get("text"), str) for p in content):
        return "".join(part["text"] for part in content).strip()
    raise UsageError("content must be text", where=where, why="images and video are not supported")


def _last_question(messages: Sequence[Message], contents: Sequence[str]) -> int:
    """Index of the last user message that is not a tool's answer. Raises UsageError if there is none."""
    for i in reversed(range(len(messages))):
        answer = contents[i].startswith(ANSWER_OPEN) and contents[i].endswith(ANSWER_CLOSE)
        if messages[i]["role"] == "user" and not answer:
            return i
    raise UsageError("the conversation has no user message")


def _assistant(message: Message, content: str, index: int, *, after: bool) -> str:
    """An assistant's turn. after: it follows the last question, so its thoughts are kept."""
    thoughts = message.get("reasoning_content")
    if not isinstance(thoughts, str):
        thoughts = ""
        if "</think>" in content:
            thoughts = content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
            content = content.split("</think>")[-1].lstrip("\n")
    thinking = f"<think>\n{thoughts.strip()}\n</think>\n\n" if after else ""
    calls = message.get("tool_calls") or ()
    rendered = [_call(call, f"message {index + 1}, tool call {j + 1}") for j, call in enumerate(calls)]
    gap = "\n\n" if rendered and content.strip() else ""
    return f"{START}assistant\n{thinking}{content}{gap}" + "\n".join(rendered) + f"{END}\n"


def _call(call: Message, where: str) -> str:
    """One tool call. call: name and arguments, or these under "function". Raises UsageError."""
    call = call.get("function", call)
    name, arguments = call.get("name"), call.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise UsageError("a tool call needs a name and an object of arguments", where=where)
    lines = [f"<tool_call>\n<function={name}>\n"]
    for key, value in arguments.items():
        plain = not isinstance(value, (Mapping, list, tuple))
        text = str(value) if plain else json.dumps(value, ensure_ascii=False)
        lines.append(f"<parameter={key}>\n{text}\n</parameter>\n")
    return "".join(lines) + "</function>\n</tool_call>"
