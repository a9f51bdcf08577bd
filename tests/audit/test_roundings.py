"""The bf16 audit: none of a right layer's roundings is harmful; a weight that makes one so is found in its layer and operation."""

from dataclasses import replace

import numpy as np
import pytest
from audit_machines import SMALL, random_stream, spot_of, weights, with_change

from qgpu.audit.roundings import NORM_ALLOWED, OPERATIONS, SUM_BITS, Products, power_near, refuse, watch
from qgpu.audit.signals import map_of
from qgpu.errors import CheckError


LAYERS = 6


def few_layers(w, n):
    return replace(w, layers=w.layers[:n], key="")


def short_stream():
    """A few words of program, and control records: (ids, how many in chunks)."""
    ids, setup = random_stream(SMALL, 0, 3)
    return ids[:40] + ids[setup - 10:], 50


@pytest.fixture(scope="module")
def report():
    return watch(few_layers(weights(SMALL), LAYERS), *short_stream(), keep=True)


def test_no_rounding_of_right_layers_is_harmful(report):
    refuse(report)
    assert report.harmful == 0 and len(report.layers) == LAYERS
    total = report.total()
    assert tuple(total) == OPERATIONS and all(op.harmful == op.sums == 0 for op in total.values())
    heads, dim, d = SMALL.heads, SMALL.head_dim, SMALL.hidden
    values = report.tokens * len(report.layers)
    assert total["in_proj_qkv"].values == values * 3 * heads * dim and total["residual"].values == values * d


def test_some_bits_change_by_design_and_others_never(report):
    total = report.total()
    assert all(total[name].changed for name in ("ln1", "recurrence", "head norm", "norm weight"))
    assert not any(total[name].changed for name in ("in_proj_b", "conv1d", "silu", "beta", "gated", "out_proj", "residual", "residual after mlp"))
    assert total["ln1"].farthest < 2.0 ** -11 and total["recurrence"].farthest <= 2.0 ** -8


def test_margins(report):
    assert 0 < report.stream_norm < NORM_ALLOWED and 0 < report.head_norm < NORM_ALLOWED
    assert report.smallest == 1
    assert 0 < max(op.bits for op in report.total().values()) <= SUM_BITS


@pytest.mark.parametrize("matrix, name, change, operation", [
    ("qkv", "record.value3", lambda x: x * (1 + 2.0 ** -7), "in_proj_qkv"), ("out", "record.value3", lambda x: x * (1 + 2.0 ** -7), "ln1")])
def test_an_ulp_of_a_weight_is_found(matrix, name, change, operation):
    """Where the form no longer fits bf16, or where the stream holds what is no integer."""
    w, m = weights(SMALL), map_of(weights(SMALL))
    layer, head, value, dim = spot_of(m, name)
    unit = head * SMALL.head_dim + value
    row = 2 * SMALL.heads * SMALL.head_dim + unit
    spot = (dim, unit) if matrix == "out" else (row, next(c for r, c in zip(w.layers[layer - 1].qkv.rows, w.layers[layer - 1].qkv.cols) if r == row))
    bad = few_layers(with_change(w, layer, matrix, *spot, change), layer + 1)
    found = watch(bad, *short_stream())
    harmful = {(number, name) for number, ops in enumerate(found.layers, 1) for name, op in ops.items() if op.harmful or op.sums}
    assert min(harmful) == (layer + (matrix == "out"), operation)
    with pytest.raises(CheckError, match=f"layer {min(harmful)[0]}"):
        refuse(found)


def test_sums_of_products_are_judged_exactly():
    """A sum that fp32 cannot hold is seen; bits count from the lowest bit of any term."""
    w = np.array([[2.0 ** 24, 1, 0], [3, 0.5, 0], [0, 0, 0]], np.float32)
    x = np.array([[1, 1, 7]], np.float32)
    off, bits = Products(w).check(x, np.matmul(x, w.T))
    assert off.tolist() == [[True, False, False]] and bits == 25
    off, bits = Products(w[1:2]).check(x, np.array([[3.5]], np.float32))
    assert not off.any() and bits == 3
    assert Products(w[1:2], fractions=[1]).check(x, np.array([[3.5]], np.float32))[1] == 0
    assert Products(w[2:]).check(x, np.array([[1]], np.float32))[0].all()


def test_powers_of_two():
    assert power_near(np.array([0.5, 0.49, 0, 3e-9, -1], np.float32)).tolist() == [0.5, 0.5, 0, 2.0 ** -28, 0]


def test_ids_are_kept_whole(report):
    assert len(report.ids) == report.tokens == report.boundaries[0].shape[0] and len(report.boundaries) == len(report.layers) + 1


@pytest.mark.slow
def test_a_whole_stream_through_all_layers():
    ids, setup = random_stream(SMALL, 1, 10)
    report = watch(weights(SMALL), ids, setup)
    refuse(report)
    assert report.harmful == 0 and report.smallest == 1 and report.gap > 0.01 and report.total()["in_proj_z"].changed
