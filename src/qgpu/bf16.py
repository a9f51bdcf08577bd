"""bfloat16 as the upper half of a float32, and the one law of its arithmetic.

A bf16 number is 1 sign bit, 8 exponent bits and 7 stored fraction bits: float32 with the lower 16 bits cut off. It is
held here either as its bits (``uint16``) or as a float32 array whose values all happen to be bf16 numbers.

The law: an operation on bf16 operands is done in float32 and its result is rounded to bf16, to nearest with ties to
even. Subnormals are kept, a value past the largest finite bf16 becomes an infinity, and a NaN stays a (quiet) NaN.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

QUIET = np.uint32(0x0040_0000)  # the bit that makes a NaN quiet; it survives the cut


def encode(x: ArrayLike) -> NDArray[np.uint16]:
    """Round float32 values to bf16 and return the bits.

    x: any shape, float32 (other floats are converted to float32 first). Returns uint16 of the same shape.
    Ties go to the even neighbour; a NaN keeps its sign and upper payload and is made quiet.
    """
    bits = _bits(x)
    half = ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)  # just under a half, or a half for odd
    rounded = bits + half  # wraps only for NaNs, which are replaced below
    is_nan = (bits & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    rounded = np.where(is_nan, bits | QUIET, rounded)
    return (rounded >> np.uint32(16)).astype(np.uint16)


def decode(bits: ArrayLike) -> NDArray[np.float32]:
    """The float32 values of bf16 bits. bits: any shape, uint16. Returns float32 of the same shape; exact."""
    raw = np.asarray(bits)
    if raw.dtype != np.uint16:
        raise TypeError(f"bf16 bits are uint16, not {raw.dtype}")
    wide = raw.astype(np.uint32)
    wide <<= np.uint32(16)
    return wide.view(np.float32)


def round_bf16(x: ArrayLike) -> NDArray[np.float32]:
    """The float32 values nearest to x that bf16 can hold: ``decode(encode(x))``. Same shape, float32."""
    bits = _bits(x)
    out = bits >> np.uint32(16)
    out &= np.uint32(1)
    out += np.uint32(0x7FFF)
    out += bits
    out &= np.uint32(0xFFFF_0000)
    is_nan = (bits & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    if is_nan.any():
        out = np.where(is_nan, (bits | QUIET) & np.uint32(0xFFFF_0000), out)
    return out.view(np.float32)


def is_bf16(x: ArrayLike) -> NDArray[np.bool_]:
    """Where x, taken as float32, is a bf16 number: the lower 16 bits are zero. Same shape, bool."""
    return (_bits(x) & np.uint32(0xFFFF)) == 0


def _bits(x: ArrayLike) -> NDArray[np.uint32]:
    """The bits of x as float32; a fresh array is never needed, so the result may share memory with x."""
    with np.errstate(over="ignore"):  # a double past the float32 range becomes inf, which is what bf16 would hold
        values = np.asarray(x, dtype=np.float32)
    return np.ascontiguousarray(values).view(np.uint32).reshape(values.shape)
