"""bf16: every one of the 65,536 values, and rounding against exact rational arithmetic."""

from fractions import Fraction

import numba as nb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qgpu.bf16 import decode, encode, is_bf16, round_bf16
from qgpu.bf16_numba import decode1, encode1, round1

ALL = np.arange(65536, dtype=np.uint32).astype(np.uint16)


def test_every_value_survives_decode_and_encode():
    values = decode(ALL)  # (65536,)
    back = encode(values)
    nan = np.isnan(values)
    assert nan.sum() == 2 * 127
    assert np.array_equal(back[~nan], ALL[~nan])
    assert np.array_equal(back[nan], ALL[nan] | 0x40)  # made quiet, sign and payload kept
    assert is_bf16(values).all()
    assert np.array_equal(round_bf16(values)[~nan].view(np.uint32), values[~nan].view(np.uint32))


def test_decode_is_the_textbook_value():
    for bits in (0x0000, 0x8000, 0x0001, 0x007F, 0x0080, 0x3F80, 0x3F81, 0xC2F7, 0x7F7F):
        sign, exponent, fraction = bits >> 15, (bits >> 7) & 0xFF, bits & 0x7F
        if exponent == 0:
            exact = Fraction(fraction, 128) * Fraction(2) ** -126
        else:
            exact = (1 + Fraction(fraction, 128)) * Fraction(2) ** (exponent - 127)
        assert Fraction(float(decode(np.uint16(bits)))) == (-exact if sign else exact)


def neighbours_midpoints():
    """Each pair of adjacent non-negative finite bf16 numbers: below, middle (exact in float32), above."""
    low = np.arange(0, 0x7F7F, dtype=np.uint32)  # bits of the lower neighbour
    middle = (low << 16) | np.uint32(0x8000)
    return low.astype(np.uint16), middle


@pytest.mark.parametrize("sign", [0, 0x8000_0000])
def test_midpoints_go_to_even_and_one_step_aside_to_the_nearer(sign):
    low, middle = neighbours_midpoints()
    sign16 = np.uint16(sign >> 16)
    as_float = lambda bits: (bits | np.uint32(sign)).view(np.float32)
    even = np.where(low & 1, low + 1, low).astype(np.uint16)
    assert np.array_equal(encode(as_float(middle)), even | sign16)
    assert np.array_equal(encode(as_float(middle - 1)), low | sign16)
    assert np.array_equal(encode(as_float(middle + 1)), (low + 1).astype(np.uint16) | sign16)


def test_specials():
    x = np.array([np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, 2.0**-133, 2.0**-134, 0.0, -0.0], np.float32)
    assert encode(x).tolist() == [0x7F80, 0xFF80, 0x7F80, 0xFF80, 0, 1, 0, 0, 0x8000]
    payload = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC12345], np.uint32).view(np.float32)
    assert encode(payload).tolist() == [0x7FC0, 0xFFFF, 0x7FC1]
    assert np.isnan(round_bf16(payload)).all()
    assert encode(np.float64(1e300)) == 0x7F80


def test_shapes_and_types():
    x = np.ones((3, 4), np.float32)[:, ::2]
    assert encode(x).shape == (3, 2) and round_bf16(x).shape == (3, 2)
    assert round_bf16(np.float32(1.0)).shape == ()
    with pytest.raises(TypeError):
        decode(np.zeros(3, np.int32))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_rounding_is_to_the_nearest(value):
    rounded = float(round_bf16(np.float32(value)))
    bits = int(encode(np.float32(abs(value))))
    distance = abs(Fraction(rounded) - Fraction(value)) if np.isfinite(rounded) else None
    if distance is None:
        assert abs(value) >= float(decode(np.uint16(0x7F7F)))
        return
    for other in (max(bits - 1, 0), min(bits + 1, 0x7F7F)):
        assert distance <= abs(Fraction(float(decode(np.uint16(other)))) - abs(Fraction(value)))


@nb.njit
def _kernel(x, bits, rounded, decoded):
    for i in range(x.size):
        bits[i] = encode1(x[i])
        rounded[i] = round1(x[i])
        decoded[i] = decode1(bits[i])


def test_numba_scalars_agree():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2**32, 400_000, dtype=np.uint32).view(np.float32)
    _, middle = neighbours_midpoints()
    x = np.concatenate([x, middle.view(np.float32), decode(ALL)])
    bits, rounded, decoded = np.zeros(x.size, np.uint16), np.zeros_like(x), np.zeros_like(x)
    _kernel(x, bits, rounded, decoded)
    assert np.array_equal(bits, encode(x))
    assert np.array_equal(rounded.view(np.uint32), round_bf16(x).view(np.uint32))
    assert np.array_equal(decoded.view(np.uint32), rounded.view(np.uint32))
