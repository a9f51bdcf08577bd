"""The body of a function: labels, instructions, scoped declarations (PTX ISA 4.3, 6, 7.1, 9.3)."""

from __future__ import annotations

import re
from dataclasses import replace

from qgpu.ptx.cursor import Cursor, Use
from qgpu.ptx.declarations import parse_registers, parse_variables
from qgpu.ptx.lexer import Token
from qgpu.ptx.model import Function, Guard, Instruction, Label, Module, Operand, Reg, SourceLine
from qgpu.ptx.operands import parse_operand, with_symbols

_MAX_SCOPES = 64
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Scopes:
    """Names of a function by scope. A scope's names are its own, so a name that was used before gets a suffix `$1`."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.next_suffix: dict[str, int] = {}
        self.parents: list[int] = [-1]
        self.names: list[dict[str, str]] = [{}]  # registers and variables: name as written -> unique name
        self.labels: list[dict[str, str]] = [{}]
        self.now = 0

    def open(self) -> None:
        self.parents.append(self.now)
        self.names.append({})
        self.labels.append({})
        self.now = len(self.parents) - 1

    def close(self) -> None:
        self.now = self.parents[self.now]

    def depth(self) -> int:
        return sum(1 for _ in self._chain(self.now))

    def _chain(self, scope: int):
        while scope >= 0:
            yield scope
            scope = self.parents[scope]

    def unique(self, name: str) -> str:
        if name not in self.taken:
            self.taken.add(name)
            return name
        suffix = self.next_suffix.get(name, 1)
        while f"{name}${suffix}" in self.taken:
            suffix += 1
        self.next_suffix[name] = suffix + 1
        self.taken.add(f"{name}${suffix}")
        return f"{name}${suffix}"

    def find(self, name: str) -> str | None:
        """The unique name of a register or variable that is visible here."""
        for scope in self._chain(self.now):
            if name in self.names[scope]:
                return self.names[scope][name]
        return None

    def find_label(self, name: str, scope: int) -> str | None:
        for each in self._chain(scope):
            if name in self.labels[each]:
                return self.labels[each][name]
        return None


def parse_body(cursor: Cursor, function: Function, module: Module) -> None:
    """Fill `function` from `{` to its `}`. Labels may be used before they stand; every other name must be declared first."""
    Body(cursor, function, module).run()


class Body:
    """The state of one body's parse."""

    def __init__(self, cursor: Cursor, function: Function, module: Module) -> None:
        self.cursor, self.function, self.module = cursor, function, module
        declared = [p.name for p in function.returns + function.params]
        self.scopes = Scopes(set(declared))
        self.scopes.names[0] = {name: name for name in declared}
        self.cu_line: SourceLine | None = None
        self.pending: list[tuple[int, int, list[tuple[str, Token]]]] = []  # (index in body, scope, names to resolve)
        self.missing: list[str] = []  # names of the instruction at hand that are not declared in the function

    def run(self) -> None:
        cursor = self.cursor
        cursor.expect("{")
        while True:
            if cursor.accept("}"):
                if self.scopes.now == 0:
                    break
                self.scopes.close()
            elif cursor.accept("{"):
                self.scopes.open()
                if self.scopes.depth() > _MAX_SCOPES:
                    raise cursor.error("too deeply nested", cursor.last)
            elif cursor.kind == "dot":
                self._directive()
            elif cursor.kind == "word" and cursor.ahead().kind == ":":
                self._label()
            elif cursor.kind in ("word", "@"):
                self._instruction()
            elif cursor.kind == "end":
                raise cursor.error("the file ends too early", why="a function's closing brace is missing")
            elif not cursor.accept(";"):
                raise cursor.error(f"unexpected {cursor.text_now[:40]!r}", why="an instruction, label or declaration belongs here")
        self._resolve()

    # ---- directives

    def _directive(self) -> None:
        cursor, function, word = self.cursor, self.function, self.cursor.text_now
        if word == ".loc":
            self._loc(cursor.skip_line())
        elif word == ".file":
            cursor.skip_line()
        elif word == ".pragma":
            cursor.skip_statement()
        elif word == ".section":
            cursor.skip_section()
        elif word == ".reg":
            parse_registers(cursor, function, self._declare)
        elif word in (".shared", ".local", ".const", ".global", ".param"):
            home = {".shared": function.shared, ".local": function.locals, ".param": function.call_params}.get(word, function.consts)
            at = cursor.ahead(0)
            for variable in parse_variables(cursor):
                name = self._declare(at, variable.name)
                home[name] = replace(variable, name=name)
        else:
            raise cursor.error(f"unknown directive {word}")

    def _declare(self, token: Token, name: str) -> str:
        names = self.scopes.names[self.scopes.now]
        if name in names:
            raise self.cursor.error(f"{name} is declared twice", token)
        names[name] = self.scopes.unique(name)
        return names[name]

    def _loc(self, tokens: list[Token]) -> None:
        """`.loc file line column [, function_name name[+n], inlined_at file line column]`.

        Line 0 marks code that stands for several lines at once: the line before it goes on, the nearest there is.
        """
        numbers = [t.value for t in tokens if t.kind == "int"]
        if len(numbers) < 2:
            raise self.cursor.error(".loc needs a file and a line", tokens[0])
        file, line = numbers[:2]
        if any(t.text == "inlined_at" for t in tokens) and len(numbers) >= 6 and numbers[-3] != file:
            file, line = numbers[-3:-1]  # code of a header: name the line that called it
        name = self.module.files.get(file)
        if line:
            self.cu_line = SourceLine(name, line) if name else None

    # ---- labels

    def _label(self) -> None:
        cursor = self.cursor
        token = cursor.take()
        cursor.take()
        labels = self.scopes.labels[self.scopes.now]
        if token.text in labels:
            raise cursor.error(f"label {token.text} stands twice", token)
        name = labels[token.text] = self.scopes.unique(token.text)
        if cursor.text_now == ".branchtargets":
            cursor.take()
            targets = [cursor.name("a label")]
            while cursor.accept(","):
                targets.append(cursor.name("a label"))
            cursor.expect(";")
            self.function.branch_targets[name] = tuple(t.text for t in targets)
            self.pending.append((-1, self.scopes.now, [(t.text, t) for t in targets]))
        elif cursor.text_now in (".callprototype", ".calltargets"):
            cursor.skip_statement()
        else:
            self.function.body.append(Label(name, token.pos))

    # ---- instructions

    def _instruction(self) -> None:
        cursor, first = self.cursor, self.cursor.token
        guard = None
        if cursor.accept("@"):
            negated = cursor.accept("!")
            token = cursor.name("a predicate register")
            name = self.scopes.find(token.text)
            if name is None or self.function.regs.get(name) != "pred":
                raise cursor.error(f"{token.text} is no predicate register", token)
            guard = Guard(Reg(name, False, token.pos), negated)
        opcode = cursor.name("an instruction")
        if opcode.text.startswith(("%", "$")):
            raise cursor.error(f"expected an instruction before {opcode.text!r}", opcode)
        modifiers = []
        while cursor.kind == "dot":
            modifiers.append(cursor.take().text[1:])
        operands: list[Operand] = []
        self.missing.clear()
        while not cursor.accept(";"):
            if operands:
                cursor.expect(",")
            operands.append(parse_operand(cursor, self._lookup, is_call=opcode.text == "call"))
        end = cursor.last.offset
        raw = self.cursor.text[first.offset:end]
        if "/" in raw:
            raw = _COMMENT.sub(" ", raw)
        instruction = Instruction(opcode.text, tuple(modifiers), tuple(operands), first.pos, guard, self.cu_line, " ".join(raw.split()))
        if self.missing:
            self.pending.append((len(self.function.body), self.scopes.now, [(name, first) for name in self.missing]))
        if self.cu_line is not None:
            self.function.line_map[first.line] = self.cu_line
        self.function.body.append(instruction)

    def _lookup(self, name: str) -> tuple[str, str] | None:
        """What a name means here: ("reg" or "variable", unique name), or None for a label or something of the module."""
        unique = self.scopes.find(name)
        if unique is None:
            if not name.startswith("%"):  # special registers are no names of the program
                self.missing.append(name)
            return None
        base = unique.split(".")[0]
        return ("reg" if base in self.function.regs else "variable"), unique

    def _resolve(self) -> None:
        """Labels get their unique names; what is neither a label nor declared in the function is left to the module's end."""
        function = self.function
        tables = {}
        for index, scope, names in self.pending:
            renamed = {}
            for name, token in names:
                label = self.scopes.find_label(name, scope)
                if label is not None:
                    renamed[name] = label
                elif index >= 0 and function.body[index].opcode == "bra" or index < 0:
                    raise self.cursor.error(f"there is no label {name}", token)
                else:
                    self.cursor.unresolved.append(Use(name, token))
            if index >= 0:
                if any(old != new for old, new in renamed.items()):
                    one = function.body[index]
                    function.body[index] = replace(one, operands=tuple(with_symbols(o, renamed) for o in one.operands))
            else:
                tables[tuple(name for name, _ in names)] = tuple(renamed[name] for name, _ in names)
        for name, targets in function.branch_targets.items():
            function.branch_targets[name] = tables.get(targets, targets)
