"""The law of bf16, "do it in float32, then round to nearest even", held to torch for every operation the model uses."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from qgpu.bf16 import decode, encode, round_bf16  # noqa: E402

pytestmark = pytest.mark.crosscheck
ALL = np.arange(65536, dtype=np.uint32).astype(np.uint16)


def to_torch(bits):
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)


def from_torch(t):
    return t.view(torch.int16).numpy().view(np.uint16)


def assert_same(ours, theirs):
    """Equal bits, except that any NaN equals any NaN."""
    a, b = decode(ours), decode(theirs)
    nan = np.isnan(a)
    assert np.array_equal(nan, np.isnan(b))
    assert np.array_equal(ours[~nan], theirs[~nan])


def test_conversion():
    assert_same(encode(to_torch(ALL).float().numpy()), ALL)
    raw = np.random.default_rng(0).integers(0, 2**32, 1_000_000, dtype=np.uint32).view(np.float32)
    assert_same(encode(raw), from_torch(torch.from_numpy(raw).to(torch.bfloat16)))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_binary_operations(op):
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.permutation(ALL) for _ in range(8)])
    y = np.concatenate([rng.permutation(ALL) for _ in range(8)])
    npop = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    with np.errstate(all="ignore"):
        ours = encode(npop(decode(x), decode(y)))
    assert_same(ours, from_torch(getattr(torch, op)(to_torch(x), to_torch(y))))


@pytest.mark.parametrize("op", ["neg", "sqrt"])
def test_unary_operations(op):
    npop = {"neg": np.negative, "sqrt": np.sqrt}[op]
    with np.errstate(all="ignore"):
        ours = encode(npop(decode(ALL)))
    assert_same(ours, from_torch(getattr(torch, op)(to_torch(ALL))))


@pytest.mark.parametrize("factor", [256**-0.5, 32**-0.5, 24**-0.5])
def test_multiplication_by_a_python_float(factor):
    """The attention scale: the float64 scalar becomes float32 before the product, not bf16."""
    with np.errstate(all="ignore"):
        ours = encode(decode(ALL) * np.float32(factor))
    assert_same(ours, from_torch(to_torch(ALL) * factor))


def test_a_product_of_sums_is_rounded_once():
    """A linear layer: float32 sums of exact products, one rounding. Small integers make the sums exact in any order."""
    rng = np.random.default_rng(3)
    x = rng.integers(-100, 100, (5, 300)).astype(np.float32)
    w = rng.integers(-100, 100, (40, 300)).astype(np.float32)
    theirs = torch.nn.functional.linear(to_torch(encode(x)), to_torch(encode(w)))
    ours = round_bf16(x @ w.T)
    assert np.array_equal(ours, theirs.float().numpy())
