"""The certificate's rules: tables, proofs, claims; each must be able to fail."""

from __future__ import annotations

import ast
import copy
from pathlib import Path

import numpy as np
import pytest

import qgpu.audit
from qgpu.audit import counting, memory, numbers
from qgpu.audit.certificate import Checker
from qgpu.audit.claims import parse_claims
from qgpu.audit.codes import code_table
from qgpu.audit.exclusion import Exclusion
from qgpu.audit.facts import Facts, grid
from qgpu.audit.layer_rules import LayerCheck
from qgpu.audit.preset import PresetTensors
from qgpu.audit.prover import Between, Exact, Prover, Whole
from qgpu.circuit.records import code_table as circuit_codes
from qgpu.errors import CheckpointError
from qgpu.machine.description import ARTICLE, DEFAULT

ONE = (1, {})
MODULES = ("certificate", "checkpoint", "claims", "codes", "counting", "exclusion", "expected", "facts", "gates", "layer_rules", "memory",
           "mutations", "numbers", "output", "programs", "prover", "shared", "world")


def bits(n):
    facts = Facts()
    return facts, [facts.var(f"x{i}", 0, 1) for i in range(n)]


def test_the_checker_shares_nothing_with_the_compiler():
    allowed = {"errors", "bf16", "files", "machine.description", "machine.tokens", *MODULES}
    for name in MODULES:
        tree = ast.parse((Path(qgpu.audit.__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
        imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level}
        assert imported <= allowed, name


def test_tables_hold_and_fail_with_another_constant(monkeypatch):
    assert numbers.check_tables() == [] and counting.check_power_table() == []
    monkeypatch.setattr(numbers, "HEAD_CONSTANT", 2.0 ** 40)               # with a power of two in 162's place, 7 is not exact
    assert numbers.check_products()
    monkeypatch.setattr(numbers, "LARGEST", 300)
    assert numbers.check_integers()


@pytest.mark.parametrize("machine", [ARTICLE, DEFAULT], ids=lambda m: m.name)
def test_codes_derived_anew_are_the_circuits(machine):
    assert np.array_equal(code_table(machine), np.asarray(circuit_codes(machine)))


def test_sums_within_and_beyond_a_range():
    facts, (a, b, c, d) = bits(4)
    both = (1, (-1, {a: 1, b: 1}), ONE)
    assert Prover(facts).prove(Between(0, 1), [both])
    either = [(1, (0, {a: 1}), ONE), (1, (0, {b: 1}), ONE)]
    assert not Prover(facts).prove(Between(0, 1), either)
    assert Prover(facts).prove(Between(0, 1), [*either, (-1, (-1, {a: 1, b: 1}), ONE)])
    facts.one_hot([a, b])
    assert Prover(facts).prove(Between(0, 1), either)
    facts.apart([c, d])
    assert Prover(facts).prove(Between(0, 1), [(1, (0, {c: 1}), ONE), (1, (0, {d: 1}), ONE)])


def test_repeated_proofs_look_their_exclusions_up_again():
    facts, (a, b, c, d) = bits(4)
    facts.apart([a, b])
    prover = Prover(facts)
    two = lambda x, y: [(1, (0, {x: 1}), ONE), (1, (0, {y: 1}), ONE)]
    assert prover.prove(Between(0, 1), two(a, b))
    assert not prover.prove(Between(0, 1), two(c, d))                      # the same shape, without the exclusion


def test_units_at_their_limits():
    facts = Facts()
    x = facts.var("x", 0, 300)
    assert Prover(facts).prove(Exact(), [(1, ONE, (0, {x: 1}))]) is False  # 300 is more than 256
    y = facts.var("y", 0, 40)
    assert Prover(facts).prove(Exact(), [(1, (0, {y: 1}), ONE)])
    assert not Prover(facts).prove(Exact(), [(1, (1, {y: 1}), ONE)])       # 41
    assert Prover(facts).prove(Exact(), [(1, (0, {x: 1}), (41, {x: -1}))]) is False       # 20 * 21
    assert Prover(facts).prove(Exact(), [(1, (0, {x: 1}), (31, {x: -1}))])                # 15 * 16, x far beyond is 0


def test_fractions_must_cancel():
    facts, (a, b) = bits(2)
    half = lambda f: (0.5, f, ONE)
    assert not Prover(facts).prove(Whole(), [half((0, {a: 1}))])
    assert Prover(facts).prove(Whole(), [half((0, {a: 1})), half((0, {a: 3}))])
    assert Prover(facts).prove(Whole(), [half((0, {a: 2, b: 2}))])


def test_exclusion_by_definitions():
    facts, (a, b, p, q, r) = bits(5)
    facts.defs[p] = [(1, (-1, {a: 1, b: 1}), ONE)]
    facts.defs[q] = [(1, (0, {a: 1, b: -1}), ONE)]
    facts.defs[r] = [(1, (0, {a: 1}), ONE)]
    found = Exclusion(facts)
    assert found.excludes(p, q) and not found.excludes(p, r) and found.needs(p, a) and not found.needs(r, b)


def test_a_grid_holds_every_value():
    facts, (a, b, c) = bits(3)
    facts.one_hot([a, c])
    points = grid(facts, [(0, {a: 1, b: 2}), (0, {c: 3})], 1 << 10)
    assert {tuple(p) for p in points} == {(0, 0), (1, 0), (2, 0), (3, 0), (0, 3), (2, 3)}
    assert grid(facts, [(0, {a: 1, b: 2}), (0, {c: 3})], 8) is None


def test_rows_that_meet_are_found():
    facts, (a, b, c) = bits(3)
    found = Exclusion(facts)
    assert memory.exclusive_rows(facts, found, [(-1, {a: 1, b: 1}), (0, {a: 1, b: -1}), (0, {a: -1, b: 1})])
    assert not memory.exclusive_rows(facts, found, [(0, {a: 1}), (0, {b: 1})])
    assert not memory.exclusive_rows(facts, found, [(-1, {a: 1, b: 1}), (-1, {a: 1, c: 1})])


# ---- a whole map, its first layers --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def preset():
    return PresetTensors(ARTICLE)


def problems(preset, signal_map, layers=5):
    checker = Checker(preset, preset.config, parse_claims(signal_map))
    out = checker.check_map()
    world, prover, _ = checker.world()
    check = LayerCheck(world, prover, ARTICLE.head_dim)
    for number in range(1, layers + 1):
        found, facts = check.run(number)
        out += found + facts.unproved
    return out


def changed(preset, change):
    data = copy.deepcopy(preset.signal_map)
    change(data)
    return data


def test_first_layers_hold(preset):
    assert problems(preset, preset.signal_map) == []


def narrow(data, boundary, name):
    """Claim that a bit is always 0 after some layer."""
    (entry,) = [e for e in data["boundaries"][boundary] if data["signals"][e[1]]["name"] == name]
    entry[3] = 0


def unit(data, layer, j):
    return data["layers"][layer - 1]["heads"][-1]["units"][j]


@pytest.mark.parametrize("change, says", [
    (lambda d: d["boundaries"][1].pop(), "the map says"),
    (lambda d: narrow(d, 1, "record.val_before1"), "in 0..0"),
    (lambda d: narrow(d, 3, "record.val_before1"), "is claimed"),
    (lambda d: unit(d, 2, 0)["f"].__setitem__(0, unit(d, 2, 0)["f"][0] + 1), ""),
    (lambda d: unit(d, 2, 0)["f"].__setitem__(0, 50), "may be inexact"),
    (lambda d: unit(d, 2, 0)["f"].__setitem__(0, 0.25), "not always an integer"),
    (lambda d: unit(d, 1, 0)["outs"][0].__setitem__(1, 300), ""),
    (lambda d: unit(d, 1, 0)["outs"][0].__setitem__(1, 0.5), "fraction"),
    (lambda d: d["residual"].__setitem__("constants", [0, 0]), "fixed dims"),
], ids=["boundary", "range", "later", "bias", "large", "quarter", "weight", "half", "constants"])
def test_a_map_that_claims_what_is_not_so(preset, change, says):
    found = problems(preset, changed(preset, change))
    assert found and any(says in p for p in found), found[:3]


@pytest.mark.parametrize("change", [
    lambda d: d.__setitem__("format", 2), lambda d: d.pop("layers"), lambda d: d["signals"][0].__setitem__("lo", "1"),
    lambda d: unit(d, 1, 0)["f"].append([10 ** 9, 1]), lambda d: unit(d, 1, 0).__setitem__("tap", 4),
    lambda d: unit(d, 1, 0)["f"].__setitem__(0, float("nan")), lambda d: d.__setitem__("signals", 5)])
def test_malformed_maps_are_refused(preset, change):
    with pytest.raises(CheckpointError):
        parse_claims(changed(preset, change))
