"""Parameters, variables with initialisers, and register declarations (PTX ISA 5.3-5.4, 7.1)."""

from __future__ import annotations

from qgpu.ptx.cursor import Cursor
from qgpu.ptx.lexer import Token
from qgpu.ptx.model import TYPE_BYTES, Function, InitAddress, Param, Symbol, Variable

MAX_VARIABLE_BYTES = 1 << 31
MAX_INITIALISED_BYTES = 1 << 24
MAX_REGISTERS = 1 << 18
MAX_DIMS = 16
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
_POINTER_SPACES = frozenset({".global", ".shared", ".local", ".const", ".param"})


def parse_params(cursor: Cursor) -> list[tuple[Param, bool]]:
    """`( .param ..., ... )`: each parameter, and whether it was written `.reg` (the old calling convention)."""
    cursor.expect("(")
    found: list[tuple[Param, bool]] = []
    offset = 0
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        in_register = cursor.text_now == ".reg"
        if not in_register and cursor.text_now != ".param":
            raise cursor.error(f"expected .param before {cursor.text_now!r}")
        cursor.take()
        param = _param(cursor, offset)
        if any(p.name == param.name for p, _ in found[-1:]):
            raise cursor.error(f"parameter {param.name} is declared twice", cursor.last)
        found.append((param, in_register))
        offset = param.offset + param.size
    names = [p.name for p, _ in found]
    if len(set(names)) != len(names):
        raise cursor.error("a parameter is declared twice", cursor.last)
    return found


def _param(cursor: Cursor, offset: int) -> Param:
    kind, align, vector = None, None, 1
    pointer, pointer_space, pointer_align = False, None, None
    while cursor.kind == "dot":
        word = cursor.take()
        if word.text == ".align":
            value = _alignment(cursor)
            align, pointer_align = (align, value) if pointer else (value, pointer_align)
        elif word.text == ".ptr":
            pointer = True
        elif pointer and word.text in _POINTER_SPACES:
            pointer_space = word.text[1:]
        elif word.text in _VECTORS:
            vector = _VECTORS[word.text]
        else:
            kind = _type(cursor, word)
    if kind is None:
        raise cursor.error("a parameter needs a type")
    name = cursor.name("a parameter's name")
    dims = _dims(cursor)
    size = _size(cursor, kind, vector, dims, name)
    align = align or max(TYPE_BYTES[kind] * vector, 1)
    offset = -(-offset // align) * align
    return Param(name.text, kind, size, align, offset, name.pos, bool(dims), pointer, pointer_space, pointer_align)


def parse_variables(cursor: Cursor, is_extern: bool = False) -> list[Variable]:
    """`.shared .align 4 .b8 s[32];` with its state space as the next token; takes the semicolon."""
    space = cursor.take().text[1:].split("::")[0]
    kind, align, vector = None, None, 1
    while True:
        cursor.skip_attributes()
        if cursor.kind != "dot":
            break
        word = cursor.take()
        if word.text == ".align":
            align = _alignment(cursor)
        elif word.text in _VECTORS:
            vector = _VECTORS[word.text]
        else:
            kind = _type(cursor, word)
    if kind is None:
        raise cursor.error("a variable needs a type")
    found = []
    while True:
        name = cursor.name("a variable's name")
        dims = _dims(cursor)
        width = TYPE_BYTES[kind] * vector
        size = _size(cursor, kind, vector, dims, name)
        init, addresses = None, ()
        if cursor.accept("="):
            dims, size, init, addresses = _initialiser(cursor, kind, vector, dims, size, name)
        found.append(Variable(name.text, space, kind, size, align or width, name.pos, dims, init, addresses, is_extern))
        if not cursor.accept(","):
            cursor.expect(";")
            return found


def parse_registers(cursor: Cursor, function: Function, declare) -> None:
    """`.reg .b32 %r<4>, %x;` with `.reg` as the next token. `declare(token, name)` gives the name in the function."""
    cursor.take()
    kind, vector = None, ""
    while cursor.kind == "dot":
        word = cursor.take()
        if word.text in _VECTORS:
            vector = word.text[1:] + "."
        else:
            kind = _type(cursor, word)
    if kind is None:
        raise cursor.error("a register needs a type")
    while True:
        name = cursor.name("a register's name")
        names = [name.text]
        if cursor.accept("<"):
            count = cursor.integer()
            if not 0 <= count <= MAX_REGISTERS - len(function.regs):
                raise cursor.error(f"more than {MAX_REGISTERS} registers", name)
            names = [f"{name.text}{n}" for n in range(count)]
            cursor.expect(">")
        for each in names:
            function.regs[declare(name, each)] = vector + kind
        if not cursor.accept(","):
            cursor.expect(";")
            return


def _type(cursor: Cursor, word: Token) -> str:
    if word.text[1:] not in TYPE_BYTES:
        raise cursor.error(f"unknown type {word.text}", word)
    return word.text[1:]


def _alignment(cursor: Cursor) -> int:
    value = cursor.integer()
    if value not in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        raise cursor.error("an alignment is a power of two up to 1024", cursor.last)
    return value


def _dims(cursor: Cursor) -> tuple[int, ...]:
    dims = []
    while cursor.accept("["):
        dims.append(0 if cursor.kind == "]" else cursor.integer())
        cursor.expect("]")
        if len(dims) > MAX_DIMS:
            raise cursor.error(f"more than {MAX_DIMS} dimensions", cursor.last)
    return tuple(dims)


def _size(cursor: Cursor, kind: str, vector: int, dims: tuple[int, ...], name: Token) -> int:
    size = TYPE_BYTES[kind] * vector
    for dim in dims:
        size *= dim
        if not 0 <= size <= MAX_VARIABLE_BYTES:
            raise cursor.error(f"{name.text} is too large", name, why=f"the limit is {MAX_VARIABLE_BYTES} bytes")
    if kind == "pred":
        raise cursor.error("a predicate has no place in memory", name)
    return size


def _initialiser(cursor: Cursor, kind: str, vector: int, dims: tuple[int, ...], size: int, name: Token):
    """(dims, size, bytes, addresses) after `=`; missing elements are zero; `x[] = {...}` takes its length from the list."""
    shape = dims + ((vector,) if vector > 1 else ())
    width = TYPE_BYTES[kind]
    data, addresses = bytearray(), []

    def put(at: int, level: int) -> None:
        if level > len(shape) or at > MAX_INITIALISED_BYTES:
            raise cursor.error("the initialiser does not fit the variable")
        if not cursor.accept("{"):
            _put_value(cursor, data, addresses, at, width, kind)
            return
        step = width
        for dim in shape[level + 1:]:
            step *= dim
        count = 0
        while not cursor.accept("}"):
            if count:
                cursor.expect(",")
            put(at + count * step, level + 1)
            count += 1
        if level < len(shape) and 0 < shape[level] < count or level == len(shape) and count > 1:
            raise cursor.error(f"{name.text} has more initial values than elements", cursor.last)

    put(0, 0)
    if dims and dims[0] == 0:
        row = width * vector
        for dim in dims[1:]:
            row *= dim
        dims = (-(-len(data) // row) if row else 0, *dims[1:])
        size = dims[0] * row
    if len(data) > size or size > MAX_INITIALISED_BYTES:
        raise cursor.error(f"{name.text} has more initial values than elements", name)
    return dims, size, bytes(data) + bytes(size - len(data)), tuple(addresses)


def _put_value(cursor: Cursor, data: bytearray, addresses: list[InitAddress], at: int, width: int, kind: str) -> None:
    token = cursor.token
    value = 0
    if token.kind in ("f32", "f64"):
        value = cursor.take().value
    elif token.kind == "word":
        addresses.append(InitAddress(at, _address(cursor), width))
    elif token.kind == "int" and cursor.ahead().kind == "(":
        mask = cursor.take().value
        cursor.expect("(")
        shift = (mask & -mask).bit_length() - 1 if mask else 0
        if mask == 0 or shift % 8 or mask >> shift != 0xFF:
            raise cursor.error("a byte mask such as 0xFF00(name) belongs here", token)
        addresses.append(InitAddress(at, _address(cursor), width, shift // 8))
        cursor.expect(")")
    else:
        value = cursor.integer()
    if len(data) < at + width:
        data.extend(bytes(at + width - len(data)))
    data[at:at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def _address(cursor: Cursor) -> Symbol:
    name = cursor.name("a name")
    generic = name.text == "generic" and cursor.accept("(")
    if generic:
        name = cursor.name("a variable's name")
        cursor.expect(")")
    offset = cursor.integer() if cursor.kind in ("+", "-") else 0
    return Symbol(name.text, offset, bool(generic), name.pos)
