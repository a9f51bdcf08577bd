"""Expressions by launches: the tree of a parsed expression, from the leaves up."""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass

import numpy as np

from ..errors import QgpuError, UsageError
from . import functions
from .device import Device, Launched
from .functions import ALIASES, FUNCTIONS, HINTS, MOST_ELEMENTS, OPERATORS, Array
from .parser import COMPARISONS, parse
from .syntax import Binary, Call, Items, Node, Number, Unary, mistake

SHOWN = 256
"""Most numbers of a result that are written out in text."""


@dataclass(frozen=True)
class Answer:
    """value: int32, of no, one or two dimensions. note: how to read it, for pairs of quotient and remainder."""

    expression: str
    value: Array
    note: str
    launches: tuple[Launched, ...]
    seconds: float

    def text(self) -> str:
        """The value as it is written in expressions; long lists with their beginning and end."""
        if self.value.size <= SHOWN:
            return str(self.value.tolist())
        flat = self.value.reshape(-1)
        first, last = (", ".join(map(str, part.tolist())) for part in (flat[:SHOWN // 2], flat[-8:]))
        return f"[{first}, ... {last}] ({functions.shape_text(self.value)})"

    def as_dict(self) -> dict:
        """For JSON."""
        return {"expression": self.expression, "value": self.value.tolist(), "note": self.note or None,
                "launches": [one.as_dict() for one in self.launches], "seconds": round(self.seconds, 6)}


def calculate(text: str, device: Device) -> Answer:
    """The value of an expression (docs/chat.md), every operation a launch on the device.

    Raises UsageError for what cannot be computed, Overflow for a result beyond 32 bits, FaultError and CheckError of a launch.
    """
    start = time.perf_counter()
    node = parse(text)
    device.begin()
    value = _Evaluation(text, device).value(node)
    return Answer(text.strip(), value, _note(node), tuple(device.launched), time.perf_counter() - start)


def _note(node: Node) -> str:
    """What a pair means that the outermost operation gives."""
    if isinstance(node, Call) and ALIASES.get(node.name, node.name) in ("mean", "divmod"):
        return "quotient (rounded down), remainder"
    if isinstance(node, Binary) and node.operator in COMPARISONS:
        return "1 is true, 0 is false"
    return "1 is prime, 0 is not" if isinstance(node, Call) and ALIASES.get(node.name, node.name) == "is_prime" else ""


class _Evaluation:
    def __init__(self, text: str, device: Device) -> None:
        self.text, self.device = text, device

    def value(self, node: Node) -> Array:
        """A node's value. Errors of its operation get its place."""
        if isinstance(node, Number):
            return np.array(node.value, np.int32)
        if isinstance(node, Items):
            return self.items(node)
        try:
            if isinstance(node, Unary):
                return functions.negate(self.device, self.value(node.operand))
            if isinstance(node, Call):
                return self.call(node)
            left, right = self.value(node.left), self.value(node.right)
            if node.operator in COMPARISONS:
                return functions.compare(self.device, node.operator, left, right)
            return OPERATORS[node.operator][0](self.device, left, right)
        except QgpuError as error:
            if not error.where:
                error.where = mistake("", node.at, self.text).where
                error.args = (error.render(),)
            raise

    def items(self, node: Items) -> Array:
        """A list of numbers, or of lists of one length."""
        def fail(what: str, fix: str) -> UsageError:
            return mistake(what, node.at, self.text, fix=fix)
        if not node.items:
            raise fail("an empty list has nothing to compute with", "put numbers in")
        parts = [self.value(item) for item in node.items]
        shapes = {part.shape for part in parts}
        if len(shapes) > 1:
            raise fail("the elements of this list have different sizes", "give numbers only, or rows of one length")
        if parts[0].ndim == 2:
            raise fail("lists go two levels deep at most", "use numbers, lists and matrices")
        if sum(part.size for part in parts) > MOST_ELEMENTS:
            raise fail("this list is too long", f"use at most {MOST_ELEMENTS} numbers")
        return np.stack(parts)

    def call(self, node: Call) -> Array:
        """A function's value."""
        name = ALIASES.get(node.name, node.name)
        function = FUNCTIONS.get(name)
        if function is None:
            raise self.unknown(node)
        arguments = [self.value(argument) for argument in node.arguments]
        count = len(arguments)
        if not function.least <= count <= function.most:
            wanted = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
            raise mistake(f"{name} takes {wanted} argument{'s' * (wanted != '1')}, not {count}", node.at, self.text,
                          fix=f"{name}: {function.about}")
        if function.gather and count > 1:
            if any(a.ndim for a in arguments):
                raise mistake(f"{name} of several lists", node.at, self.text, fix=f"give one list, or numbers, as in {name}(1, 2, 3)")
            arguments = [np.stack(arguments)]
        return function.run(self.device, *arguments)

    def unknown(self, node: Call) -> UsageError:
        near = difflib.get_close_matches(node.name[:40], [*FUNCTIONS, *ALIASES], 1, 0.75)
        fix = HINTS.get(node.name) or (f"did you mean {near[0]}?" if near else "")
        known = "functions: " + ", ".join(FUNCTIONS)
        return mistake(f"there is no function {node.name[:40]!r}", node.at, self.text, fix=f"{fix}; {known}" if fix else known)
