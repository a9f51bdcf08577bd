"""A kernel and the functions it calls as one list of steps (PTX ISA 9.7.12 for control flow).

Everything that this interpreter has no meaning for is collected and raised as one UnsupportedError before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from qgpu.errors import UnsupportedError
from qgpu.ptx.model import ArgList, Function, Instruction, Kernel, Label, Module, Param, Pos, Symbol, Variable

from .ptx_bits import BITS, carry_operation
from .ptx_data import DATA, Execute
from .ptx_integer import INTEGER, entry
from .ptx_memory import Region
from .ptx_operands import Scope, defined, destinations, reader, writer
from .ptx_thread import EXITED, CompiledFunction, Frame, Step, Thread, Trouble
from .ptx_values import TYPES, U32, Modifiers, Undefined, Unsupported
from .ptx_warp import WARP

CONTROL = frozenset(("bra", "brx", "call", "ret", "exit", "trap"))
PURE = INTEGER | BITS


@dataclass
class Program:
    """All steps, functions one after another, and where each function begins."""

    module: Module
    kernel: Kernel
    steps: list[Step] = field(default_factory=list)
    functions: dict[str, CompiledFunction] = field(default_factory=dict)


def reachable(module: Module, kernel: Kernel) -> list[Function]:
    """The kernel and every function it may call, callees before callers where there is no recursion."""
    found: list[Function] = []
    seen: set[str] = set()

    def visit(function: Function) -> None:
        if function.name in seen:
            return
        seen.add(function.name)
        for i in function.instructions:
            for operand in i.operands:
                if i.opcode == "call" and isinstance(operand, Symbol) and operand.name in module.functions:
                    visit(module.functions[operand.name])
        found.append(function)
    visit(kernel)
    return found


def compile_program(module: Module, kernel: Kernel, fixed: dict[str, dict[str, tuple[str, Region]]]) -> Program:
    """Make a program. fixed: for each function, the variables it sees that have one address for all threads.

    Raises UnsupportedError, listing every place.
    """
    program = Program(module, kernel)
    problems: list[tuple[Instruction, str]] = []
    functions = reachable(module, kernel)
    at = 0
    scopes: list[Scope] = []
    for function in functions:
        scope = Scope(module, function, fixed[function.name])
        scopes.append(scope)
        program.functions[function.name] = CompiledFunction(function, at)
        for statement in function.body:
            if isinstance(statement, Label):
                scope.labels[statement.name] = at
            else:
                at += 1
        at += 1  # the `ret` that every body ends in
    for scope in scopes:
        _compile_body(program, scope, problems)
    if problems:
        count = "1 instruction" if len(problems) == 1 else f"{len(problems)} instructions"
        raise UnsupportedError(
            f"{count} of kernel {kernel.short_name} cannot run on the reference interpreter", where=module.filename,
            why="\n       ".join(f"{i.where}: {i.text or i.name}: {why}" for i, why in problems))
    return program


def _compile_body(program: Program, scope: Scope, problems: list[tuple[Instruction, str]]) -> None:
    last = Instruction("ret", (), (), scope.function.pos if not scope.function.body else _end(scope.function))
    for i in [*scope.function.instructions, last]:
        try:
            program.steps.append(_compile(program, scope, i))
        except Unsupported as e:
            problems.append((i, str(e)))


def _end(function: Function) -> Pos:
    return function.body[-1].pos


def _compile(program: Program, scope: Scope, i: Instruction) -> Step:
    guard = None
    if i.guard:
        if scope.register_bits(i.guard.reg.name) != 1:
            raise Unsupported(f"the guard {i.guard.reg.name} is no predicate")
        guard = (i.guard.reg.name, int(not i.guard.negated))
    if i.opcode in CONTROL:
        return Step(i, CONTROL_TABLE[i.opcode](program, i, scope), guard, True)
    if i.opcode in WARP:
        return Step(i, WARP[i.opcode](i, scope), guard, True)
    if i.opcode in DATA:
        return Step(i, DATA[i.opcode](i, scope), guard, False)
    if i.opcode in ("addc", "subc", "madc") or "cc" in i.modifiers:
        return Step(i, _carry(i, scope), guard, False)
    if i.opcode in PURE:
        return Step(i, _pure(i, scope), guard, False)
    raise Unsupported(f"opcode {i.opcode} is not supported")


def _pure(i: Instruction, scope: Scope) -> Execute:
    """An operation on numbers alone: read, compute, write; an Undefined operand makes the result Undefined."""
    m = Modifiers(i)
    operation = PURE[i.opcode](m)
    m.done()
    if len(i.operands) != 1 + len(operation.sources):
        raise Unsupported(f"it has {len(i.operands)} operands instead of {1 + len(operation.sources)}")
    writers = destinations(i.operands[0], operation.results, scope)
    readers = [reader(o, t, scope) for o, t in zip(i.operands[1:], operation.sources)]
    function, absorbs = operation.function, operation.absorbs

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            values = [read(thread) for read in readers]
            for value in values:
                if value.__class__ is Undefined:
                    result = absorbs if absorbs is not None and absorbs in values else value
                    break
            else:
                result = function(*values)
            if result.__class__ is tuple:
                for write, one in zip(writers, result):
                    write(thread, one)
            else:
                for write in writers:
                    write(thread, result)
    return run


def _carry(i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    if i.opcode not in ("add", "addc", "sub", "subc", "mad", "madc"):
        raise Unsupported("modifier .cc is not supported here")
    function, t, count, writes = carry_operation(m)
    m.done()
    if len(i.operands) != 1 + count:
        raise Unsupported(f"it has {len(i.operands)} operands instead of {1 + count}")
    write = writer(i.operands[0], t, scope)
    readers = [reader(o, t, scope) for o in i.operands[1:]]
    uses = i.opcode.endswith("c")
    unset = Undefined("the carry flag, which no .cc instruction has written")

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            values = [read(thread) for read in readers]
            carry = thread.regs.get("CC.CF", unset) if uses else 0
            unknown = next((v for v in (*values, carry) if isinstance(v, Undefined)), None)
            result, flag = (unknown, unknown) if unknown else function(*values, carry)
            write(thread, result)
            if writes:
                thread.regs["CC.CF"] = flag
    return run


# ---- control flow: the scheduler has set every thread's pc to the next step -------------------------------------------

CONTROL_TABLE: dict[str, Callable[[Program, Instruction, Scope], Execute]] = {}


def _target(scope: Scope, name: str) -> int:
    if name not in scope.labels:
        raise Unsupported(f"{name} is no label of this function")
    return scope.labels[name]


@entry(CONTROL_TABLE, "bra")
def _bra(program: Program, i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    m.flag("uni")
    m.done()
    if len(i.operands) != 1 or not isinstance(i.operands[0], Symbol):
        raise Unsupported("its operands have a form that is not supported here")
    target = _target(scope, i.operands[0].name)

    def run(threads: list[Thread]) -> None:
        if target < threads[0].pc:
            threads[0].warp.went_back = True
        for thread in threads:
            thread.pc = target
    return run


@entry(CONTROL_TABLE, "brx")
def _brx(program: Program, i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    m.one_of("idx")
    m.flag("uni")
    m.done()
    if len(i.operands) != 2 or not isinstance(i.operands[1], Symbol):
        raise Unsupported("its operands have a form that is not supported here")
    read = reader(i.operands[0], U32, scope)
    names = scope.function.branch_targets.get(i.operands[1].name)
    if names is None:
        raise Unsupported(f"{i.operands[1].name} is no list of branch targets")
    targets = [_target(scope, name) for name in names]

    def run(threads: list[Thread]) -> None:
        threads[0].warp.went_back = True
        for thread in threads:
            index = defined(thread, read(thread), "the index of a branch")
            if index >= len(targets):
                raise Trouble(thread, f"branch to target {index} of {len(targets)}", "the index is beyond the list")
            thread.pc = targets[index]
    return run


@entry(CONTROL_TABLE, "exit")
def _exit(program: Program, i: Instruction, scope: Scope) -> Execute:
    Modifiers(i).done()

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            thread.state = EXITED
    return run


@entry(CONTROL_TABLE, "trap")
def _trap(program: Program, i: Instruction, scope: Scope) -> Execute:
    Modifiers(i).done()

    def run(threads: list[Thread]) -> None:
        raise Trouble(threads[0], "the kernel stopped itself (trap)", "a failed assertion, or code that cannot be reached")
    return run


@entry(CONTROL_TABLE, "ret")
def _ret(program: Program, i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    m.flag("uni")
    m.done()

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            if not thread.frames:
                thread.state = EXITED
                continue
            frame = thread.frames.pop()
            results = [(thread.symbols.get(p.name), thread.regs.get(p.name)) for p in scope.function.returns]
            leave(thread, thread.symbols)
            thread.regs, thread.symbols, thread.pc = frame.regs, frame.symbols, frame.return_pc
            for put, (region, value) in zip(frame.results, results):
                put(thread, region, value)
    return run


@entry(CONTROL_TABLE, "call")
def _call(program: Program, i: Instruction, scope: Scope) -> Execute:
    m = Modifiers(i)
    m.flag("uni")
    m.done()
    operands = list(i.operands)
    returned = list(operands.pop(0).items) if operands and isinstance(operands[0], ArgList) else []
    if not operands or not isinstance(operands[0], Symbol):
        raise Unsupported("calls through a pointer are not supported")
    name = operands.pop(0).name
    arguments = list(operands.pop(0).items) if operands and isinstance(operands[0], ArgList) else []
    callee = program.functions.get(name)
    if callee is None or callee.function.is_declaration:
        raise Unsupported(f"function {name} has no body in this file")
    function = callee.function
    if len(arguments) != len(function.params) or len(returned) != len(function.returns):
        raise Unsupported(f"{name} takes {len(function.params)} arguments and returns {len(function.returns)} values")
    give = [_give(p, operand, scope, function) for p, operand in zip(function.params, arguments)]
    take = tuple(_take(p, operand, scope) for p, operand in zip(function.returns, returned))

    def run(threads: list[Thread]) -> None:
        for thread in threads:
            if len(thread.frames) >= 256:
                raise Trouble(thread, f"calls are nested more than {256} deep", "a recursion that does not end")
            regs: dict = {}
            symbols = enter(thread, function)
            for put in give:
                put(thread, symbols, regs)
            thread.frames.append(Frame(thread.regs, thread.symbols, thread.pc, take, callee))
            thread.regs, thread.symbols, thread.pc = regs, symbols, callee.entry
    return run


def _is_register(p: Param, function: Function) -> bool:
    return p.name in function.regs


def _give(p: Param, operand, scope: Scope, function: Function):
    """Hands one argument to a parameter: bytes of a .param variable, or a value."""
    if isinstance(operand, Symbol):
        if operand.name not in scope.function.call_params or _is_register(p, function):
            raise Unsupported(f"argument {operand.name} has a form that is not supported here")

        def copy(thread: Thread, symbols: dict[str, Region], regs: dict) -> None:
            copy_bytes(thread.symbols[operand.name], symbols[p.name])
        return copy
    t = TYPES.get(p.type)
    if t is None or p.is_array:
        raise Unsupported(f"parameter {p.name} cannot take a register")
    read = reader(operand, TYPES[f"b{t.bits}"] if t.kind != "pred" else t, scope)

    def put(thread: Thread, symbols: dict[str, Region], regs: dict) -> None:
        value = read(thread)
        if _is_register(p, function):
            regs[p.name] = value
        elif not isinstance(value, Undefined):
            region = symbols[p.name]
            region.data[:] = value.to_bytes(p.size, "little")
            region.known[:] = b"\1" * p.size
    return put


def _take(p: Param, operand, scope: Scope):
    """Takes one returned value: into a .param variable of the caller, or into a register."""
    if isinstance(operand, Symbol):
        if operand.name not in scope.function.call_params:
            raise Unsupported(f"result {operand.name} has a form that is not supported here")

        def copy(thread: Thread, region: Region, value) -> None:
            copy_bytes(region, thread.symbols[operand.name])
        return copy
    t = TYPES.get(p.type)
    if t is None or p.is_array:
        raise Unsupported(f"result {p.name} cannot go to a register")
    write = writer(operand, t, scope)
    unset = Undefined(f"the result {p.name} of a function that did not set it")

    def put(thread: Thread, region: Region | None, value) -> None:
        if region is not None:
            value = int.from_bytes(region.data, "little") if all(region.known) else unset
        write(thread, unset if value is None else value)
    return put


def copy_bytes(source: Region, target: Region) -> None:
    """Copy what fits, unknown bytes as unknown."""
    n = min(len(source.data), len(target.data))
    target.data[:n] = source.data[:n]
    target.known[:n] = source.known[:n] if source.known is not None else b"\1" * n


def enter(thread: Thread, function: Function, parameters: dict[str, Region] | None = None) -> dict[str, Region]:
    """Fresh variables for one activation of a function; a kernel brings its parameters."""
    symbols = dict(parameters or {})

    def add(space: str, label: str, v: Variable | Param) -> None:
        if parameters is None or v.name not in parameters:
            symbols[v.name] = thread.memory.spaces[space].allocate(label, bytearray(v.size), v.align, gap=16, known=False)
    for v in function.locals.values():
        add("local", f"local memory of {function.short_name}", v)
    for v in function.call_params.values():
        add("param", f"argument {v.name}", v)
    for p in function.params + function.returns:
        if not _is_register(p, function):
            add("param", f"parameter {p.name}", p)
    return symbols


def leave(thread: Thread, symbols: dict[str, Region]) -> None:
    """Give the variables of an activation back."""
    for region in reversed(symbols.values()):
        for space in ("local", "param"):
            if region in thread.memory.spaces[space].regions:
                thread.memory.spaces[space].remove(region)
                break
