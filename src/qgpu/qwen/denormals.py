"""Treating denormal float32 numbers as zero for a while, on x86, from inside a Numba kernel.

Processors do arithmetic with denormals some hundred times slower. A fast-forgetting head's products over a chunk are
full of them, and they matter to nothing but their own last bits. Elsewhere than on x86 these do nothing.
"""

from __future__ import annotations

import platform

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

X86 = platform.machine().lower() in ("x86_64", "amd64")
FLUSH = 0x8040  # results to zero, and operands as zero
I32 = ir.IntType(32)


@intrinsic
def flush_denormals(typingctx):
    """Turn flushing on for this thread. Returns what ``restore_denormals`` takes."""

    def codegen(context, builder, signature, args):
        if not X86:
            return ir.Constant(I32, 0)
        slot = cgutils.alloca_once(builder, I32)
        _control(builder, "stmxcsr", slot)
        before = builder.load(slot)
        _set(builder, builder.or_(before, ir.Constant(I32, FLUSH)))
        return before

    return types.uint32(), codegen


@intrinsic
def restore_denormals(typingctx, before):
    """Undo ``flush_denormals``."""

    def codegen(context, builder, signature, args):
        if X86:
            _set(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.uint32), codegen


def _set(builder, value):
    slot = cgutils.alloca_once(builder, I32)
    builder.store(value, slot)
    _control(builder, "ldmxcsr", slot)


def _control(builder, name, slot):
    """Load or store the control register of the vector unit."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.sse.{name}")
    builder.call(function, [builder.bitcast(slot, pointer)])
