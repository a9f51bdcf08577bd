"""The parser of expressions: one function a rule of the grammar in docs/chat.md, each looking one symbol ahead."""

from __future__ import annotations

from ..errors import UsageError
from .syntax import MOST, Binary, Call, Items, Node, Number, Symbol, Unary, mistake, symbols, too_large

MOST_DEPTH = 32
"""Parentheses, brackets, calls, signs and powers inside one another."""

MOST_OPERATIONS = 256

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
WORDS = {
    "and": "multiply comparisons instead, as in (2 < 3) * (3 < 4)",
    "or": "write maximum(2 < 3, 3 < 4)",
    "not": "write x == 0",
    "in": "write sum([1, 2, 3] == 2), which counts the matches",
    "for": "operations work on whole lists, as in sum(range(1, 6) ** 2)",
    "if": "multiply by a comparison, as in x * (x > 0)",
    "lambda": "write the expression itself",
}
"""Python's words that are no part of the grammar, and what to write instead."""

CONSTANTS = {"True": 1, "False": 0, "true": 1, "false": 0}


def parse(text: str) -> Node:
    """The tree of an expression. Raises UsageError with the place and what to write there instead."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.list = text, symbols(text)
        self.next, self.depth, self.operations = 0, 0, 0

    # ---- the grammar ----------------------------------------------------------------------------------------------
    def whole(self) -> Node:
        """expression, end"""
        if self.now.kind == "end":
            raise UsageError("there is no expression", where="expression", fix="write one such as [1, 2, 3] @ [4, 5, 6]")
        node = self.expression()
        if self.now.kind != "end":
            raise self.unexpected("an operator or the end")
        return node

    def expression(self) -> Node:
        """sum [comparison sum]"""
        self.down()
        node = self.sum()
        if self.now.kind in COMPARISONS:
            operator = self.operator()
            node = Binary(operator.text, node, self.sum(), operator.at)
            if self.now.kind in COMPARISONS:
                raise mistake("comparisons cannot be chained", self.now.at, self.text, fix="write (1 < 2) * (2 < 3)")
        self.depth -= 1
        return node

    def sum(self) -> Node:
        """product {("+" | "-") product}"""
        node = self.product()
        while self.now.kind in ("+", "-"):
            operator = self.operator()
            node = Binary(operator.text, node, self.product(), operator.at)
        return node

    def product(self) -> Node:
        """signed {("*" | "//" | "%" | "@") signed}"""
        node = self.signed()
        while self.now.kind in ("*", "//", "%", "@"):
            operator = self.operator()
            node = Binary(operator.text, node, self.signed(), operator.at)
        return node

    def signed(self) -> Node:
        """("-" | "+") signed | power"""
        if self.now.kind not in ("-", "+"):
            return self.power()
        sign = self.take()
        if sign.kind == "-" and self.now.kind == "number" and self.list[self.next + 1].kind != "**":
            return Number(-int(self.take().text), sign.at)
        self.down()
        operand = self.signed()
        self.depth -= 1
        if sign.kind == "+":
            return operand
        self.count(sign)
        return Unary("-", operand, sign.at)

    def power(self) -> Node:
        """atom ["**" signed]"""
        node = self.atom()
        if self.now.kind != "**":
            return node
        operator = self.operator()
        self.down()
        node = Binary("**", node, self.signed(), operator.at)
        self.depth -= 1
        return node

    def atom(self) -> Node:
        """number | "(" expression ")" | "[" [expression {"," expression}] "]" | name "(" [expression {"," expression}] ")" """
        symbol = self.now
        if symbol.kind == "number":
            self.take()
            if int(symbol.text) > MOST:
                raise too_large(symbol.text, symbol.at, self.text)
            return Number(int(symbol.text), symbol.at)
        if symbol.kind == "(":
            self.take()
            node = self.expression()
            if self.now.kind == ",":
                raise mistake("this looks like a tuple", self.now.at, self.text, fix="write lists in brackets, as in [1, 2, 3]")
            self.expect(")", symbol)
            return node
        if symbol.kind == "[":
            self.take()
            return Items(self.series("]", symbol), symbol.at)
        if symbol.kind == "name":
            return self.named()
        raise self.unexpected("a number, a list or a function")

    def named(self) -> Node:
        """A call, or one of Python's constants."""
        name = self.take()
        if name.text in WORDS:
            raise mistake(f"there is no {name.text!r} here", name.at, self.text, fix=WORDS[name.text])
        if self.now.kind == "(":
            opening = self.take()
            self.count(name)
            return Call(name.text, self.series(")", opening), name.at)
        if name.text in CONSTANTS:
            return Number(CONSTANTS[name.text], name.at)
        raise mistake(f"{name.text[:40]!r} has no value", name.at, self.text, why="there are no variables",
                      fix="write the numbers themselves; functions take parentheses, as in sum([1, 2, 3])")

    # ---- helpers --------------------------------------------------------------------------------------------------
    @property
    def now(self) -> Symbol:
        return self.list[self.next]

    def take(self) -> Symbol:
        self.next += 1
        return self.list[self.next - 1]

    def operator(self) -> Symbol:
        """Take a binary operator."""
        symbol = self.take()
        self.count(symbol)
        return symbol

    def series(self, closing: str, opening: Symbol) -> tuple[Node, ...]:
        """[expression {"," expression} [","]], then the closing bracket."""
        items: list[Node] = []
        while self.now.kind != closing:
            items.append(self.expression())
            if self.now.kind != ",":
                break
            self.take()
        self.expect(closing, opening)
        return tuple(items)

    def expect(self, closing: str, opening: Symbol) -> None:
        if self.now.kind == "end":
            raise mistake(f"{opening.text!r} is never closed", opening.at, self.text, fix=f"add {closing!r}")
        if self.now.kind != closing:
            raise self.unexpected(f"{closing!r}")
        self.take()

    def down(self) -> None:
        """One level deeper."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise mistake(f"the expression is more than {MOST_DEPTH} levels deep", self.now.at, self.text,
                          fix="compute inner parts first, and put their results in")

    def count(self, symbol: Symbol) -> None:
        """One more operation."""
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise mistake(f"the expression has more than {MOST_OPERATIONS} operations", symbol.at, self.text,
                          fix="use lists, as in sum([1, 2, 3]), or split the work into several expressions")

    def unexpected(self, wanted: str) -> UsageError:
        symbol = self.now
        if symbol.kind == "end":
            return mistake("the expression stops too early", symbol.at, self.text, fix=f"go on with {wanted}")
        fix = WORDS.get(symbol.text, f"there should be {wanted}")
        if symbol.kind == "number" and self.next and self.list[self.next - 1].kind in ("number", ")"):
            fix = "write * for products and commas between the elements of a list; thousands have no separator"
        elif symbol.kind in ("(", "name") and self.next and self.list[self.next - 1].kind in ("number", ")") and symbol.text not in WORDS:
            fix = "write * for products, as in 2 * (3 + 4)"
        elif symbol.kind == "[" and self.next and self.list[self.next - 1].kind in ("]", ")", "number"):
            fix = "single elements cannot be taken out; write commas between the elements of a list"
        elif symbol.kind == "*" and symbol.at:
            fix = "write ** for powers, without a space"
        return mistake(f"{symbol.text[:40]!r} does not belong here", symbol.at, self.text, fix=fix)
