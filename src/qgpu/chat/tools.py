"""The tools that a model may call, one a mode, and the instructions that go with them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import QgpuError, UsageError
from ..runtime.arguments import Argument, from_json, from_text
from ..runtime.source import Source
from .calculate import calculate
from .calls import ToolCall
from .device import Device

REFERENCE = Path(__file__).parent / "qgpu-cuda.md"
MODES = ("normal", "advanced")
MOST_SOURCE = 20_000
MOST_ARGUMENTS = 16
SHOWN = 256

SPECIFICATIONS: dict[str, dict[str, Any]] = {
    "calc": {"name": "calc", "description": "Computes an integer expression on your GPU and returns its value. "
             "Use it for every calculation.",
             "parameters": {"type": "object", "required": ["expression"], "properties": {"expression": {"type": "string", "description":
                            "Numbers, lists [1, 2, 3] and matrices [[1, 2], [3, 4]] with + - * // % ** @ < <= > >= == != and the functions "
                            "sum product min max mean sort reverse dot norm2 transpose minimum maximum abs divmod pow isqrt factorial "
                            "is_prime gcd lcm range len. Integers of 32 bits only."}}}},
    "launch": {"name": "launch", "description": "Compiles a CUDA kernel, launches it on your GPU and returns the arrays that changed.",
               "parameters": {"type": "object", "required": ["source", "block", "args"], "properties": {
                   "source": {"type": "string", "description": "CUDA C++ with one __global__ kernel, integers only"},
                   "block": {"type": "string", "description": "threads in the block, such as 4"},
                   "grid": {"type": "string", "description": "thread blocks, 1 unless given"},
                   "args": {"type": "string", "description": "the kernel's arguments, one a line: [1, 2, 3], zeros(4) or a number"}}}},
}
TOOL_OF = {"normal": "calc", "advanced": "launch"}

TWICE = """__global__ void twice(const int *a, int *out) {
    out[threadIdx.x] = 2 * a[threadIdx.x];
}"""
EXAMPLE = {"normal": ToolCall("calc", {"expression": "[1, 2, 3] @ [4, 5, 6]"}),
           "advanced": ToolCall("launch", {"source": TWICE, "block": "3", "args": "[5, 6, 7]\nzeros(3)"})}

RULES = {
    "normal": "You have a GPU in your own weights: it computes with 32-bit integers and makes no mistakes, while mental arithmetic does. "
              "For every calculation call calc with one expression, wait for its value, then answer with that value. "
              "If it reports an error, change the expression as the error says and call again. Do not calculate yourself. "
              "Without a calculation, answer directly.",
    "advanced": "You have a GPU in your own weights. For every calculation write a CUDA kernel and call launch; then answer with what "
                "comes back. If it reports an error, correct the kernel as the error says and call again, at most three times in all. "
                "What this GPU runs is described below.",
}


def written(call: ToolCall) -> str:
    """A call in the tags that Qwen3.5 was trained on."""
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in call.arguments.items())
    return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"


def system_message(mode: str, machine: str = "article") -> str:
    """The system message of a mode: the tool, how to call it, when; in advanced mode the reference of docs/qgpu-cuda.md too.

    machine: the name of the one in the model's weights.
    """
    specification = json.dumps({"type": "function", "function": SPECIFICATIONS[TOOL_OF[mode]]})
    parts = [f"# Tools\n\nThere is one function for you:\n\n<tools>\n{specification}\n</tools>\n\n"
             f"A call looks like this, with nothing after it:\n\n{written(EXAMPLE[mode])}\n\n"
             "What it returns comes in <tool_response></tool_response>.", RULES[mode]]
    if mode == "advanced":
        parts += [f"Your GPU is the machine {machine}.", REFERENCE.read_text(encoding="utf-8").strip()]
    return "\n\n".join(parts)


@dataclass(frozen=True)
class Outcome:
    """What a call gave. text: for the model. good: it has a result. value: that result, None without one."""

    call: ToolCall
    text: str
    good: bool
    value: Any = None


def format_help(mode: str) -> str:
    """What a model is told whose call does not parse."""
    return f"write the call exactly like this:\n{written(EXAMPLE[mode])}"


class Toolbox:
    """Carries calls out on a device. Errors come back as text for the model; only an interrupt is raised.

    machine: the name of the device's machine, known before its engine is made.
    """

    def __init__(self, device: Device, mode: str = "normal", machine: str = "article") -> None:
        self.device, self.mode, self.machine = device, mode, machine

    def system_message(self) -> str:
        """What the model is told in this mode."""
        return system_message(self.mode, self.machine)

    def call(self, call: ToolCall) -> Outcome:
        """Check a call and carry it out."""
        wanted = TOOL_OF[self.mode]
        if call.name != wanted:
            return Outcome(call, f"error: there is no function {call.name!r}\n  try: call {wanted}; {format_help(self.mode)}", False)
        known = SPECIFICATIONS[wanted]["parameters"]
        missing = [name for name in known["required"] if not call.arguments.get(name, "").strip()]
        unknown = [name for name in call.arguments if name not in known["properties"]]
        if missing or unknown:
            what = f"parameter {missing[0]} is missing" if missing else f"there is no parameter {unknown[0]!r}"
            return Outcome(call, f"error: {what}\n  try: {format_help(self.mode)}", False)
        try:
            text, value = (self._calc if wanted == "calc" else self._launch)(call.arguments)
            return Outcome(call, text, True, value)
        except QgpuError as error:
            return Outcome(call, f"error: {error}", False)

    def _calc(self, arguments: dict[str, str]) -> tuple[str, Any]:
        answer = calculate(arguments["expression"], self.device)
        note = f" ({answer.note})" if answer.note else ""
        return f"{answer.expression} = {answer.text()}{note}", answer.value.tolist()

    def _launch(self, arguments: dict[str, str]) -> tuple[str, Any]:
        source = arguments["source"]
        if len(source) > MOST_SOURCE:
            raise UsageError(f"the kernel has {len(source):,} characters", where="source", fix=f"write at most {MOST_SOURCE:,}")
        block, grid = size(arguments["block"], "block"), size(arguments.get("grid") or "1", "grid")
        args = read_arguments(arguments["args"])
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        self.device.begin()
        self.device.run(Source(source + "\n", "kernel.cu", False), None, grid, block, args,
                        items=sum(a.size for a in args if isinstance(a, np.ndarray)))
        changed = {n: a.tolist() for n, (a, old) in enumerate(zip(args, before), 1)
                   if isinstance(a, np.ndarray) and not np.array_equal(a, old)}
        lines = [f"argument {n} = {values if len(values) <= SHOWN else [*values[:SHOWN], '...']}" for n, values in changed.items()]
        return "\n".join(lines) or "the launch ended, but no array changed", changed


def size(text: str, where: str) -> tuple[int, int, int]:
    """"4", "4, 2" or "[4, 2, 1]" as three sizes. Raises UsageError."""
    found = re.fullmatch(r"[\s\[(]*([1-9][0-9]{0,5}(?:\s*,\s*[1-9][0-9]{0,5}){0,2})[\s\])]*", text)
    if found is None:
        raise UsageError(f"{text.strip()[:40]!r} is no size", where=where, fix="write one to three numbers from 1 on, such as 4 or 4, 2")
    x, y, z = [*map(int, found.group(1).split(",")), 1, 1][:3]
    return x, y, z


def read_arguments(text: str) -> list[Argument]:
    """A kernel's arguments: one a line, or separated by commas, or a JSON list of lists and numbers. Raises UsageError."""
    pieces: Sequence[Any] = [line.strip().rstrip(",") for line in text.splitlines() if line.strip()]
    if len(pieces) == 1:
        try:
            data = json.loads(pieces[0])
            pieces = data if isinstance(data, list) and any(not isinstance(v, int) for v in data) else pieces
        except (ValueError, RecursionError):
            pieces = _split(pieces[0])
    if len(pieces) > MOST_ARGUMENTS:
        raise UsageError(f"{len(pieces)} arguments are too many", where="args", fix=f"give at most {MOST_ARGUMENTS}")
    return [_argument(piece, f"args, number {n}") for n, piece in enumerate(pieces, 1)]


def _split(text: str) -> list[str]:
    """Pieces between the commas that are in no brackets."""
    pieces, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            pieces.append(text[start:at])
            start = at + 1
    return [p.strip() for p in (*pieces, text[start:]) if p.strip()]


def _argument(piece: Any, where: str) -> Argument:
    if isinstance(piece, list):
        piece = {"type": "i32", "data": piece}
    if not isinstance(piece, str):
        return from_json(piece, where)
    if "@" in piece:
        raise UsageError("files cannot be arguments here", where=where, fix="write the numbers, as in [1, 2, 3]")
    return from_text(piece, where)
