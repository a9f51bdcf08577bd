"""Rules of numbers: which constants a layer uses, and the finite tables that make its roundings no-ops (docs/certificate.md, rules N).

Each table tries every value there is, with the norms anywhere within their margin, in IEEE arithmetic.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..bf16 import round_bf16

SCALE = 128.0                       # every form is written times this
HEAD_CONSTANT = 162 * 2.0 ** 33     # value dims 0 and 1 of a head, times SCALE already
NORM_WEIGHT = 162 / 128             # gated norm
OUT_SCALE = 2.0 ** 23               # out_proj
RESIDUAL_CONSTANT = 2.0 ** 20
SILENCE = 2.0 ** 100
FORGET, KEEP = 200.0, -200.0        # dt_bias
HOLD, FIRST_HOLD = -40.0, -24.0     # a of the counter on tokens that do not halve; in a merged model's first layer
CONSTANT_DIMS = 2                   # of a head
F_LIMIT, G_LIMIT, H_LIMIT = 40, 256, 256
LARGEST = 256                       # every integer up to here is a bf16 number
MARGIN = 2.0 ** -10                 # of a norm's sum of squares: its root stays within 2^-11
SUM_BITS = 24                       # fp32 adds multiples of one power of two below 2^24 of them exactly
LOOSE = 2.0 ** -20
"""What an implementation's rsqrt, division and products may be off by, beyond the margin."""


def residual_rms(hidden: int, constants: int) -> float:
    """Root mean square of the stream: n constant dims of 2^20 in `hidden`."""
    return RESIDUAL_CONSTANT * (constants / hidden) ** 0.5


def is_power(x: float) -> bool:
    """Whether x is a power of two."""
    return x > 0 and np.frexp(x)[0] == 0.5


@lru_cache(maxsize=1 << 16)
def grain(x: float) -> Fraction:
    """The largest power of two that divides a dyadic number (0: 1)."""
    q = Fraction(x)
    return Fraction(q.numerator & -q.numerator, q.denominator) if q else Fraction(1)


def _ends(values: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """bf16 of values times anything in low..high: rounding is monotonous, so both ends suffice."""
    return round_bf16(np.float32(values * low)), round_bf16(np.float32(values * high))


def check_integers() -> list[str]:
    """N1: the input norm leaves every integer up to 256, and the constant, exactly."""
    h = np.concatenate([np.arange(1, LARGEST + 1, dtype=np.float64), 2.0 ** -np.arange(1, 20), [RESIDUAL_CONSTANT]])
    spread = (1 - 2.0 ** -11) * (1 - 2.0 ** -15) * (1 - LOOSE), (1 + 2.0 ** -15) * (1 + LOOSE)       # 2^-15: the 1 of 1 + w
    low, high = _ends(h, *spread)
    return [] if np.array_equal(low, high) and np.array_equal(low, h) else ["the input norm moves an integer up to 256"]


def check_products() -> list[str]:
    """N2: a unit with f up to 40, g up to 256 and f g up to 256 comes out of its head as f g 2^-23 exactly, and 0 as 0."""
    f = np.arange(0, F_LIMIT + 1, dtype=np.float64)
    scale = 1 / 128 ** 0.5
    read = [round_bf16(np.float32(SCALE * f * scale * (1 + e))) for e in (-LOOSE, LOOSE)]             # (41,) each
    constant = [float(round_bf16(np.float32(HEAD_CONSTANT * scale * (1 + e)))) for e in (-LOOSE, LOOSE)]
    if not np.array_equal(*read) or constant[0] != constant[1]:
        return ["a read depends on the last bits of 128^-1/2"]
    root = (CONSTANT_DIMS * constant[0] ** 2 / 128) ** -0.5
    low, high = _ends(read[0].astype(np.float64), root * (1 - 2.0 ** -11) * (1 - LOOSE), root * (1 + LOOSE))
    if not np.array_equal(low, high):
        return ["the head's norm moves a value up to 40"]
    value = round_bf16(np.float32(NORM_WEIGHT) * low)                                                 # (41,)
    g = np.arange(0, G_LIMIT + 1, dtype=np.float64)
    product = f[:, None] * g
    y = round_bf16(value[:, None] * np.float32(SCALE * g)) * OUT_SCALE                                # (41, 257)
    wrong = (y != product) & (product <= H_LIMIT)
    return [f"{int(wrong.sum())} products of a head are not exact"] if wrong.any() else []


def check_switches() -> list[str]:
    """N3: silu of 128 j is 128 j or 0, sigmoid of 128 is 1, decays are exactly 0 and 1: all far beyond the end of fp32."""
    tiny, unit = 2.0 ** -150, 2.0 ** -25
    far = np.exp(-SCALE), np.exp(-FORGET), np.exp(KEEP)
    ok = far[0] * LARGEST * SCALE < tiny and all(x < tiny for x in far) and far[0] < unit
    return [] if ok else ["a switch is not exact"]


def check_rows() -> list[str]:
    """N4: a row of 128 alone becomes exactly 1: 128^2 + 1e-6 is 2^14 in fp32, whose root is 2^7."""
    square = np.float32(SCALE) * np.float32(SCALE) + np.float32(1e-6)
    return [] if square == np.float32(2.0 ** 14) else ["a row's norm is not exact"]


def check_tables() -> list[str]:
    """All rules N: problems, none if they hold."""
    return check_integers() + check_products() + check_switches() + check_rows()
