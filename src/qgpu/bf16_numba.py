"""The scalar bf16 conversions of :mod:`qgpu.bf16` for Numba kernels; inlined where they are called."""

from __future__ import annotations

import numba as nb
import numpy as np
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def _float_bits(typingctx, x):
    """The bits of a float32 as uint32."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.uint32))

    return types.uint32(types.float32), codegen


@intrinsic
def _bits_float(typingctx, x):
    """The float32 whose bits are the uint32 x."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.uint32), codegen


@nb.njit(inline="always")
def decode1(bits):
    """uint16 bf16 bits to float32."""
    return _bits_float(np.uint32(np.uint32(bits) << np.uint32(16)))


@nb.njit(inline="always")
def encode1(x):
    """float32 to uint16 bf16 bits, to nearest even; NaN stays NaN."""
    bits = _float_bits(np.float32(x))
    if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):
        return np.uint16((bits | np.uint32(0x00400000)) >> np.uint32(16))
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@nb.njit(inline="always")
def round1(x):
    """float32 to the nearest bf16 number, as float32."""
    return decode1(encode1(x))
