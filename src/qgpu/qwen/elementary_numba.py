"""The functions of :mod:`qgpu.qwen.elementary` one float32 at a time, for Numba kernels: the same steps, the same bits."""

from __future__ import annotations

import numba as nb
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from qgpu.qwen.elementary import ATANH_COEFFICIENTS, EXP_COEFFICIENTS, EXP_LIMIT, LN2_HIGH, LN2_LOW, LOG2E, SQRT2

C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = EXP_COEFFICIENTS
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10 = ATANH_COEFFICIENTS
ONE = np.float32(1.0)


@intrinsic
def _as_double(typingctx, bits):
    """The float64 whose bits are the int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@intrinsic
def _as_bits(typingctx, x):
    """The bits of a float64 as int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@nb.njit(error_model="numpy")
def exp1(x):
    """e^x."""
    wide = np.float64(x)
    wide = wide if wide < EXP_LIMIT else EXP_LIMIT  # NaN too, until the end
    wide = wide if wide > -EXP_LIMIT else -EXP_LIMIT
    n = np.floor(wide * LOG2E + 0.5)
    r = (wide - n * LN2_HIGH) - n * LN2_LOW
    p = C0
    p = p * r + C1
    p = p * r + C2
    p = p * r + C3
    p = p * r + C4
    p = p * r + C5
    p = p * r + C6
    p = p * r + C7
    p = p * r + C8
    p = p * r + C9
    p = p * r + C10
    p = p * r + C11
    p = p * r + C12
    p = p * r + C13
    scale = _as_double((np.int64(n) + np.int64(1023)) << np.int64(52))
    result = np.float32(p * scale)
    return x if x != x else result


@nb.njit(error_model="numpy")
def log1p1(x):
    """log(1 + x) for 0 <= x < 2^31."""
    wide = np.float64(x)
    if wide < 2.0**-27:
        return np.float32(wide - wide * wide * 0.5)
    bits = _as_bits(1.0 + wide)
    k = np.float64((bits >> np.int64(52)) - np.int64(1023))
    m = _as_double((bits & np.int64(0x000FFFFFFFFFFFFF)) | np.int64(0x3FF0000000000000))
    if m > SQRT2:
        m = m * 0.5
        k = k + 1.0
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = A0
    p = p * t + A1
    p = p * t + A2
    p = p * t + A3
    p = p * t + A4
    p = p * t + A5
    p = p * t + A6
    p = p * t + A7
    p = p * t + A8
    p = p * t + A9
    p = p * t + A10
    return np.float32(k * LN2_HIGH + (2.0 * s * p + k * LN2_LOW))


@nb.njit(error_model="numpy")
def rsqrt1(x):
    """1 / sqrt(x), each step rounded to float32."""
    return ONE / np.sqrt(np.float32(x))


@nb.njit(error_model="numpy")
def sigmoid1(x):
    """1 / (1 + e^-x), each step rounded to float32."""
    return ONE / (ONE + exp1(-x))


@nb.njit(error_model="numpy")
def silu1(x):
    """x / (1 + e^-x), each step rounded to float32."""
    return x / (ONE + exp1(-x))


@nb.njit(error_model="numpy")
def softplus1(x):
    """log(1 + e^x), each step rounded to float32; x itself above 20 (and NaN for NaN)."""
    if x > np.float32(20.0):
        return x
    return x if x != x else log1p1(exp1(x))
