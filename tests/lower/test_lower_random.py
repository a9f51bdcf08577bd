"""Random kernels: lowered and run by the machine interpreter, they leave the memory that the PTX interpreter leaves."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from lower_harness import expected_random, run_random
from ptx_programs import programs, seeded_program
from qgpu.errors import LoweringError
from qgpu.lower import LaunchShape, lower, lowering
from qgpu.machine.description import ARTICLE, Machine
from qgpu.ptx import parse_ptx

SMALL = Machine("small", registers=15, stages=2, blocks=126, stage_mul=(1, 2), stage_shift=(1, 2), stage_load=(1, 2)).validate()
LONG = Machine("long", registers=12, stages=3, blocks=64, stage_mul=(3,), stage_shift=(1, 2), stage_load=(2, 3)).validate()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example])
@given(programs(statements=8))
def test_random_programs(p) -> None:
    try:
        found = run_random(p)
    except LoweringError as e:
        assert "blocks" in e.what or "registers" in e.what
        return
    assert found == expected_random(p)


@pytest.mark.parametrize("seed", range(40))
def test_seeded_programs(seed: int) -> None:
    p = seeded_program(seed)
    assert run_random(p) == expected_random(p)


@pytest.mark.parametrize("mode", lowering.MODES, ids=lambda m: "-".join(k for k, v in vars(m).items() if v) or "plain")
def test_every_mode(mode: lowering.Mode, monkeypatch) -> None:
    """Each way of working in the second half is right by itself, not only the one that usually fits."""
    monkeypatch.setattr(lowering, "MODES", (mode,))
    fitted = 0
    for seed in range(1000, 1012):
        p = seeded_program(seed)
        try:
            found = run_random(p)
        except LoweringError:
            continue
        fitted += 1
        assert found == expected_random(p), f"seed {seed}"
    assert fitted >= 6


@pytest.mark.parametrize("machine", [SMALL, LONG], ids=lambda m: m.name)
def test_other_machines(machine: Machine) -> None:
    fitted = 0
    for seed in range(2000, 2020):
        p = seeded_program(seed, statements=6)
        try:
            found = run_random(p, machine)
        except LoweringError:
            continue
        fitted += 1
        assert found == expected_random(p, machine), f"seed {seed}"
    assert fitted >= 10


def test_the_same_program_every_time() -> None:
    p = seeded_program(7)
    shape = LaunchShape((1, 1, 1), (p.threads, 1, 1), [*p.addresses(ARTICLE.global_base), p.number])
    first = lower(parse_ptx(p.ptx), None, ARTICLE, shape)
    assert [lower(parse_ptx(p.ptx), None, ARTICLE, shape).words() for _ in range(3)] == [first.words()] * 3


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 4000, 250))
def test_many_seeds(start: int) -> None:
    for seed in range(10_000 + start, 10_250 + start):
        p = seeded_program(seed, statements=12)
        try:
            found = run_random(p)
        except LoweringError:
            continue
        assert found == expected_random(p), f"seed {seed}"
