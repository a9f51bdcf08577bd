"""Sums of products in the strict order of :mod:`qgpu.qwen.arithmetic`, sixteen lanes at a time, for Numba kernels.

The loop is written as LLVM vector code, so it has one meaning on every machine: a lane's product is rounded, then
added, and the sixteen lanes are folded by halves. (Numba's own vectoriser would have to be allowed to reorder the sum.)
Several rows and columns are in flight at once, which changes nothing in any single sum.

Weights that are read once come from memory, and a processor's own prefetching stops at every 4 KiB page, which for many
models is every row. So the rows of the next group are asked for while those of this one are summed: reading them went
from 31 to 39 GB/s with that where it was measured, on a mapped file and on two cores.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16
I16, I32, I64, F32 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
BYTES = ir.IntType(8).as_pointer()
V16, V32, VF = ir.VectorType(I16, LANES), ir.VectorType(I32, LANES), ir.VectorType(F32, LANES)


def make_dots(rows: int, columns: int, bf16: bool, fetch: bool = False):
    """An intrinsic ``dots(a, a_step, b, b_step, blocks, out, out_row, out_column)`` for rows x columns sums at once.

    a: address of ``rows`` rows, a_step bytes apart, of bf16 bits (``bf16``) or float32; b: likewise ``columns`` rows of
    float32. Each is 16 * blocks elements long. The sum of row i and column j goes to out + i * out_row + j * out_column.
    fetch: ask for the ``rows`` rows after these as well; they need not exist (a prefetch never faults).
    """

    @intrinsic
    def dots(typingctx, a, a_step, b, b_step, blocks, out, out_row, out_column):
        signature = types.void(*[types.intp] * 8)

        def codegen(context, builder, signature, args):
            a, a_step, b, b_step, blocks, out, out_row, out_column = args
            a_width = 2 if bf16 else 4
            a_rows = [builder.add(a, builder.mul(a_step, I64(i))) for i in range(rows)]
            b_rows = [builder.add(b, builder.mul(b_step, I64(j))) for j in range(columns)]
            lanes = [cgutils.alloca_once_value(builder, ir.Constant(VF, None)) for _ in range(rows * columns)]

            def block(index, fetch):
                """Sixteen more elements of every row and column."""
                a_at = builder.mul(index, I64(LANES * a_width))
                b_at = builder.mul(index, I64(LANES * 4))
                right = [_load(builder, builder.add(row, b_at), VF, 4) for row in b_rows]
                for i, row in enumerate(a_rows):
                    at = builder.add(row, a_at)
                    if fetch:
                        prefetch(builder, builder.add(at, builder.mul(a_step, I64(rows))))
                    left = _widened(builder, at) if bf16 else _load(builder, at, VF, 4)
                    for j in range(columns):
                        slot = lanes[i * columns + j]
                        product = builder.fmul(left, right[j])
                        builder.store(builder.fadd(builder.load(slot), product), slot)

            line = 64 // (LANES * a_width)  # blocks a cache line, so that each line is asked for once
            whole = builder.udiv(blocks, I64(line))
            with cgutils.for_range(builder, whole, intp=I64) as loop:
                for step in range(line):
                    block(builder.add(builder.mul(loop.index, I64(line)), I64(step)), fetch and step == 0)
            with cgutils.for_range_slice(builder, builder.mul(whole, I64(line)), blocks, I64(1), I64) as (index, _):
                block(index, False)
            for i in range(rows):
                for j in range(columns):
                    at = builder.add(out, builder.add(builder.mul(out_row, I64(i)), builder.mul(out_column, I64(j))))
                    pointer = builder.inttoptr(at, F32.as_pointer())
                    builder.store(_fold(builder, builder.load(lanes[i * columns + j])), pointer, align=4)
            return context.get_dummy_value()

        return signature, codegen

    return dots


def _load(builder, address, kind, align):
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=align)


def prefetch(builder, address):
    """Ask for the cache line at address, to be read and kept."""
    kind = ir.FunctionType(ir.VoidType(), [BYTES, I32, I32, I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [builder.inttoptr(address, BYTES), I32(0), I32(3), I32(1)])


def _widened(builder, address):
    """Sixteen bf16 numbers as float32."""
    bits = builder.zext(_load(builder, address, V16, 2), V32)
    shift = ir.Constant(V32, [16] * LANES)
    return builder.bitcast(builder.shl(bits, shift), VF)


def _fold(builder, value):
    """Lane j takes lane j+8, then j+4, j+2, j+1; lane 0 is the sum."""
    width = LANES
    while width > 1:
        width //= 2
        undefined = ir.Constant(value.type, ir.Undefined)
        low = builder.shuffle_vector(value, undefined, ir.Constant(ir.VectorType(I32, width), list(range(width))))
        high = builder.shuffle_vector(
            value, undefined, ir.Constant(ir.VectorType(I32, width), list(range(width, 2 * width)))
        )
        value = builder.fadd(low, high)
    return builder.extract_element(value, I32(0))
