"""`parse_ptx`: PTX text to a `Module` (PTX ISA 4, 5, 7, 10, 11).

One token of look-ahead, linear time. Anything the grammar does not know raises PtxError with `file:line:column` and the
line; opcodes are not judged here but in `qgpu.ptx.opcodes`.
"""

from __future__ import annotations

import re

from qgpu.ptx.body import parse_body
from qgpu.ptx.cursor import Cursor
from qgpu.ptx.declarations import parse_params, parse_variables
from qgpu.ptx.lexer import tokenize
from qgpu.ptx.model import Function, Kernel, Module

_LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
_MODULE_SPACES = frozenset({".global", ".const", ".shared"})
_PERFORMANCE = frozenset({  # PTX ISA 11.4, with the cluster directives
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn", ".reqnctapercluster",
    ".maxclusterrank", ".explicitcluster", ".blocksareclusters",
})
_FILE = re.compile(r'^[ \t]*\.file[ \t]+(\d{1,9})[ \t]+"((?:\\.|[^"\\\n])*)"', re.MULTILINE)


def parse_ptx(text: str, filename: str = "<ptx>") -> Module:
    """Parse one PTX module.

    Raises PtxError, naming the place, for text that is not PTX, undeclared names, or more than 4 Mi characters.
    """
    cursor = Cursor(tokenize(text, filename), text, filename)
    version, target = _header(cursor)
    module = Module(version, target, 32, filename=filename)
    module.files = {int(m.group(1)): re.sub(r"\\(.)", r"\1", m.group(2)) for m in _FILE.finditer(text)}
    while cursor.kind != "end":
        _top_level(cursor, module)
    for use in cursor.unresolved:
        if use.name not in module.globals and use.name not in module.functions and use.name not in module.kernels:
            raise cursor.error(f"{use.name} is not declared", use.token)
    return module


def _header(cursor: Cursor) -> tuple[tuple[int, int], str]:
    if cursor.text_now != ".version":
        raise cursor.error("PTX starts with .version", fix="give a .ptx file, or a .cu file with that ending")
    cursor.take()
    if not re.fullmatch(r"\d{1,3}\.\d{1,3}", cursor.text_now):
        raise cursor.error("a version such as 8.8 belongs here")
    major, minor = cursor.take().text.split(".")
    cursor.expect(".target")
    target = cursor.name("a target such as sm_75").text
    while cursor.accept(","):
        cursor.name("a target option")
    return (int(major), int(minor)), target


def _top_level(cursor: Cursor, module: Module) -> None:
    """One directive, variable or function at module level."""
    word = cursor.text_now
    if cursor.accept(";"):
        return
    if word == ".address_size":
        cursor.take()
        size = cursor.integer()
        if size not in (32, 64):
            raise cursor.error(".address_size is 32 or 64", cursor.last)
        module.address_size = size
    elif word in (".file", ".loc"):
        cursor.skip_line()
    elif word == ".section":
        cursor.skip_section()
    elif word == ".pragma":
        cursor.skip_statement()
    elif word == ".alias":
        cursor.take()
        name = cursor.name("a function")
        cursor.expect(",")
        aliasee = cursor.name("a function")
        cursor.expect(";")
        if aliasee.text not in module.functions:
            raise cursor.error(f"{aliasee.text} is not declared", aliasee)
        module.functions[name.text] = module.functions[aliasee.text]
    else:
        _declaration(cursor, module)


def _declaration(cursor: Cursor, module: Module) -> None:
    linkage = set()
    while cursor.text_now in _LINKAGE:
        linkage.add(cursor.take().text)
    if cursor.text_now in (".entry", ".func"):
        _function(cursor, module)
    elif cursor.text_now in _MODULE_SPACES:
        for variable in parse_variables(cursor, is_extern=".extern" in linkage):
            earlier = module.globals.get(variable.name)
            if earlier is not None and not (earlier.is_extern or variable.is_extern):
                raise cursor.error(f"{variable.name} is declared twice", cursor.last)
            if earlier is None or earlier.is_extern:
                module.globals[variable.name] = variable
    else:
        raise cursor.error(f"unexpected {cursor.text_now!r}", why="a function, variable or directive belongs here")


def _function(cursor: Cursor, module: Module) -> None:
    is_kernel = cursor.take().text == ".entry"
    cursor.skip_attributes()
    returns = parse_params(cursor) if not is_kernel and cursor.kind == "(" else []
    name = cursor.name("a function's name")
    function = (Kernel if is_kernel else Function)(name.text, name.pos)
    function.returns = [p for p, _ in returns]
    params = parse_params(cursor) if cursor.kind == "(" else []
    function.params = [p for p, _ in params]
    for param, in_register in returns + params:
        if in_register:
            function.regs[param.name] = param.type
    cursor.skip_attributes()
    _performance(cursor, function)
    home = module.kernels if is_kernel else module.functions
    if cursor.accept(";"):
        function.is_declaration = True
        home.setdefault(name.text, function)
        return
    earlier = home.get(name.text)
    if earlier is not None and not earlier.is_declaration:
        raise cursor.error(f"{name.text} is defined twice", name)
    home[name.text] = function  # before the body, which may call it
    parse_body(cursor, function, module)


def _performance(cursor: Cursor, function: Function) -> None:
    while cursor.kind == "dot" and cursor.text_now in _PERFORMANCE | {".pragma"}:
        if cursor.text_now == ".pragma":
            cursor.skip_statement()
            continue
        directive = cursor.take().text[1:]
        numbers = []
        while cursor.kind == "int":
            numbers.append(cursor.integer())
            cursor.accept(",")
        function.directives[directive] = tuple(numbers)
