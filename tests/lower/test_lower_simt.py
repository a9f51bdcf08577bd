"""Random kernels over warps of 32: lowered for `default` and run by the machine interpreter, they leave the PTX interpreter's memory."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from lower_harness import expected_random, run_random
from ptx_programs import RandomProgram
from qgpu.errors import LoweringError
from qgpu.machine.description import DEFAULT, Machine
from simt_programs import seeded_simt_program, simt_programs

SCARCE = dataclasses.replace(DEFAULT, name="scarce", registers=11).validate()


def check(p: RandomProgram, machine: Machine) -> bool:
    """Whether the program fits; if so, its results are right."""
    try:
        found = run_random(p, machine)
    except LoweringError as e:
        assert "blocks" in e.what or "registers" in e.what
        return False
    assert found == expected_random(p, machine)
    return True


@settings(max_examples=25, deadline=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much])
@given(simt_programs(statements=8))
def test_random_simt_programs(p: RandomProgram) -> None:
    check(p, DEFAULT)


@pytest.mark.parametrize("seed", range(30))
def test_seeded_simt_programs(seed: int) -> None:
    assert check(seeded_simt_program(seed), DEFAULT)


def test_few_registers() -> None:
    """Values go to memory where there are only eleven registers."""
    assert sum(check(seeded_simt_program(seed, 14), SCARCE) for seed in range(3000, 3012)) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2000, 100))
def test_many_simt_seeds(start: int) -> None:
    for seed in range(10_000 + start, 10_100 + start):
        check(seeded_simt_program(seed, 16), DEFAULT)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_scarce_registers(seed: int) -> None:
    check(seeded_simt_program(20_000 + seed, 20), SCARCE)
