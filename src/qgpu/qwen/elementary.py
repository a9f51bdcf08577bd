"""exp, log1p and what is built on them, from +, * and / alone.

Library exponentials differ from one NumPy, C library or vector unit to the next. These use nothing but IEEE double
arithmetic in a written order, so that every implementation of the forward pass, on any machine, gets the same bits. The
double result is good to about 1e-14, so the float32 it is rounded to is the nearest one but for the rarest of ties.

Each function takes and returns float32 of any shape. Infinities, NaN and overflow behave as in torch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]

LOG2E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490  # 33 significant bits: times a small integer it is exact
LN2_LOW = 1.90821492927058770002e-10
EXP_LIMIT = 200.0  # beyond this exp is 0 or inf in float32
# 1/13!, 1/12!, ..., 1/2!, 1, 1: the Taylor series, for |r| <= ln(2)/2
EXP_COEFFICIENTS = tuple(1.0 / float(f) for f in (
    6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1,
))  # fmt: skip
SQRT2 = 1.4142135623730951
# 1/21, 1/19, ..., 1/3, 1: log((1+s)/(1-s)) = 2s(1 + s^2/3 + s^4/5 + ...), for |s| <= 0.172
ATANH_COEFFICIENTS = tuple(1.0 / float(d) for d in (21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1))
SOFTPLUS_THRESHOLD = np.float32(20.0)
ONE = np.float32(1.0)


def exp(x: F32) -> F32:
    """e^x."""
    wide = np.clip(np.asarray(x, np.float64), -EXP_LIMIT, EXP_LIMIT)
    n = np.floor(wide * LOG2E + 0.5)
    r = (wide - n * LN2_HIGH) - n * LN2_LOW
    p = np.full_like(r, EXP_COEFFICIENTS[0])
    for c in EXP_COEFFICIENTS[1:]:
        p = p * r + c
    power = np.where(np.isnan(n), 0.0, n).astype(np.int64)  # p is NaN there, whatever the scale
    scale = ((power + 1023) << 52).view(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return (p * scale).astype(np.float32)


def log1p(x: F32) -> F32:
    """log(1 + x) for x >= 0 (all that softplus needs)."""
    wide = np.asarray(x, np.float64)
    m, e = np.frexp(1.0 + wide)  # 1 + x = m * 2^e, m in [0.5, 1)
    m = m * 2.0  # in [1, 2)
    k = e - 1.0
    big = m > SQRT2
    m = np.where(big, m * 0.5, m)
    k = np.where(big, k + 1.0, k)
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = np.full_like(t, ATANH_COEFFICIENTS[0])
    for c in ATANH_COEFFICIENTS[1:]:
        p = p * t + c
    log = k * LN2_HIGH + (2.0 * s * p + k * LN2_LOW)
    tiny = wide - wide * wide * 0.5  # where 1 + x drops bits of x
    return np.where(wide < 2.0**-27, tiny, log).astype(np.float32)


def rsqrt(x: F32) -> F32:
    """1 / sqrt(x), each step rounded to float32; 0 for inf, inf for 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return ONE / np.sqrt(x)


def sigmoid(x: F32) -> F32:
    """1 / (1 + e^-x), each step rounded to float32."""
    with np.errstate(over="ignore"):
        return ONE / (ONE + exp(-x))


def silu(x: F32) -> F32:
    """x / (1 + e^-x), each step rounded to float32; -0 where e^-x overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return x / (ONE + exp(-x))


def softplus(x: F32) -> F32:
    """log(1 + e^x), each step rounded to float32; x itself above 20, as torch has it."""
    return np.where(x > SOFTPLUS_THRESHOLD, x, log1p(exp(np.minimum(x, SOFTPLUS_THRESHOLD))))
