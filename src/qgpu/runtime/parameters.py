"""Do the arguments fit the kernel's parameters? Number, scalar or array or a structure's bytes, and range.

PTX does not say which parameter is a pointer: clang writes a `.ptr` hint, NVIDIA's compilers do not. So an argument is
refused only where the kernel leaves no doubt: by the hints, or by how the parameter's value is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import UsageError
from ..ptx.mangling import parameter_types
from ..ptx.model import Addr, Instruction, Kernel, Param, Reg, Symbol, Vector
from .arguments import Argument, type_name

# A register that one of these writes from an address and a constant is still that address, moved.
_KEEPS_ADDRESS = frozenset({"mov", "cvta", "cvt", "add", "sub"})


def check_arguments(kernel: Kernel, arguments: Sequence[Argument]) -> list[int]:
    """The alignment that each parameter asks for, in bytes (0: none). Raises UsageError naming the argument."""
    params = kernel.params
    if len(arguments) != len(params):
        wanted = ", ".join(describe(kernel)) or "none"
        raise UsageError(f"kernel {kernel.short_name} takes {len(params)} arguments, and {len(arguments)} are given",
                         where=kernel.short_name, why=f"parameters: {wanted}",
                         fix="give one argument for each parameter, in order (--arg, or \"args\" in the launch)")
    kinds = parameter_kinds(kernel)
    types = parameter_types(kernel.name) or []
    types = types if len(types) == len(params) else [""] * len(params)
    for number, (param, kind, argument, of_cpp) in enumerate(zip(params, kinds, arguments, types), 1):
        where = f"argument {number} of {kernel.short_name}"
        if param.is_array:
            given = argument.nbytes if isinstance(argument, np.ndarray) else None
            if given != param.size:
                what = f"an array of {given} bytes" if given is not None else f"the number {argument}"
                raise UsageError(f"the kernel takes a structure of {param.size} bytes here, and {what} is given", where=where,
                                 why=f"parameter {number} is passed by value: its argument is an array of its bytes, padding included",
                                 fix="give its bytes, such as --arg \"u8:[1,0,0,0]\" for an int that is 1")
            continue
        if param.type[0] not in "busi":
            raise UsageError(f"parameter {number} has type {param.type}", where=where, why="the machine has integers only",
                             fix="use an integer parameter")
        if isinstance(argument, np.ndarray):
            if kind == "scalar" or param.size < 4:
                raise UsageError(f"the kernel takes a number here, and an array of {type_name(argument)} is given", where=where,
                                 why=f"parameter {number} is no pointer", fix="give a single integer, such as --arg 3")
            if of_cpp in ("Pl", "Pm") and param.size == 4 and argument.itemsize == 8:
                raise UsageError(f"the kernel takes an array of long here, and an array of {type_name(argument)} is given", where=where,
                                 why="long has 32 bits on this machine, like pointers and size_t",
                                 fix="declare the parameter as long long *, or give an array of i32")
        elif kind == "pointer":
            raise UsageError(f"the kernel takes an array here, and the number {argument} is given", where=where,
                             why=f"parameter {number} is a pointer",
                             fix="give an array, such as --arg \"[1,2,3]\" or --arg \"zeros(4)\"")
        else:
            low, high = -(1 << (8 * param.size - 1)), (1 << (8 * param.size)) - 1
            if not low <= argument <= high:
                raise UsageError(f"{argument} does not fit the parameter", where=where,
                                 why=f"it has {8 * param.size} bits: {low} to {high}", fix="give a smaller number")
    return [param.pointer_align or 0 for param in params]


def describe(kernel: Kernel) -> list[str]:
    """A few words for each parameter, such as "array", "number of 32 bits"."""
    names = {"pointer": "array", "scalar": "number of {} bits", "unknown": "array or number of {} bits"}
    return [f"{number}: " + (f"structure of {param.size} bytes" if param.is_array else names[kind].format(8 * param.size))
            for number, (param, kind) in enumerate(zip(kernel.params, parameter_kinds(kernel)), 1)]


def passed_by_value(kernel: Kernel) -> frozenset[int]:
    """Positions (from 0) of the parameters that are structures or arrays passed by value."""
    return frozenset(index for index, param in enumerate(kernel.params) if param.is_array)


def parameter_kinds(kernel: Kernel) -> list[str]:
    """"pointer", "scalar" or "unknown" for each parameter.

    A `.ptr` hint is a pointer, and where one parameter has the hint those without are scalars. Without any hint: a value
    that reaches an address through moves and constant offsets only is a pointer; one that is loaded, but reaches no
    address and is not stored, is a scalar.
    """
    if any(param.is_pointer_hint for param in kernel.params):
        return ["pointer" if param.is_pointer_hint else "scalar" for param in kernel.params]
    return [_kind_by_use(kernel, param) for param in kernel.params]


def _kind_by_use(kernel: Kernel, param: Param) -> str:
    loads = [i for i in kernel.instructions if i.opcode == "ld" and i.space == "param" and _param_name(i) == param.name]
    if not loads or any(isinstance(op, Symbol) and op.name == param.name for i in kernel.instructions for op in i.operands):
        return "unknown"
    start = {reg for i in loads for reg in _registers(i.operands[0])}
    if _reaches_address(kernel, _closure(kernel, start, exact=True), through_store=False):
        return "pointer"
    return "unknown" if _reaches_address(kernel, _closure(kernel, start, exact=False), through_store=True) else "scalar"


def _param_name(load: Instruction) -> str | None:
    address = load.operands[1]
    return address.base.name if isinstance(address, Addr) and isinstance(address.base, Symbol) else None


def _registers(operand) -> list[str]:
    if isinstance(operand, Reg):
        return [operand.name]
    if isinstance(operand, Addr):
        return [operand.base.name] if isinstance(operand.base, Reg) else []
    if isinstance(operand, Vector):
        return [name for item in operand.items for name in _registers(item)]
    return [name for part in ("first", "second", "items") for item in _as_tuple(getattr(operand, part, ()))
            for name in _registers(item)]


def _as_tuple(value) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def _closure(kernel: Kernel, start: set[str], *, exact: bool) -> set[str]:
    """Registers whose value may come from `start`; `exact`: through moves and sums with constants only."""
    reached, grew = set(start), True
    while grew:
        grew = False
        for i in kernel.instructions:
            if len(i.operands) < 2 or i.opcode in ("st", "ld", "red"):
                continue
            sources = [name for operand in i.operands[1:] for name in _registers(operand)]
            if not reached.intersection(sources) or (exact and (i.opcode not in _KEEPS_ADDRESS or len(sources) > 1)):
                continue
            targets = set(_registers(i.operands[0])) - reached
            grew = grew or bool(targets)
            reached |= targets
    return reached


def _reaches_address(kernel: Kernel, registers: set[str], *, through_store: bool) -> bool:
    for i in kernel.instructions:
        for operand in i.operands:
            if isinstance(operand, Addr) and i.space != "param" and registers.intersection(_registers(operand)):
                return True
        if through_store and i.opcode in ("st", "atom", "red", "call") and any(registers.intersection(_registers(o)) for o in i.operands):
            return True
    return False
