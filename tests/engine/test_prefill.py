"""All positions at once give the bits of the sparse engine, token by token: residual stream, next tokens, memory."""

import numpy as np
import pytest
from engine_machines import GROUPED, SMALL, weights
from machine_programs import random_setup

from qgpu.engine.prefill import PIECE, PrefillEngine
from qgpu.engine.sparse import SparseEngine
from qgpu.machine.description import ARTICLE, DEFAULT
from qgpu.machine.tokens import Vocabulary
from qgpu_reference.machine import MachineInterpreter


def stream(machine, seed, blocks, most):
    """Setup and generated tokens of a random program, as the interpreter has them; where the setup ends."""
    judge, ids = MachineInterpreter(machine), list(random_setup(seed, machine, blocks))
    for i in ids:
        judge.feed(i)
    setup = len(ids)
    while judge.running and most:
        ids.append(judge.expected)
        judge.feed(ids[-1])
        most -= 1
    return ids, setup


def pieces(ids, sizes):
    """ids in parts of the given sizes, over and over."""
    at, k, out = 0, 0, []
    while at < len(ids):
        out.append(ids[at:at + sizes[k % len(sizes)]])
        at, k = at + len(out[-1]), k + 1
    return out


def check_boundaries(machine, ids, sizes):
    sparse, engine = SparseEngine(weights(machine)), PrefillEngine(weights(machine))
    for part in pieces(ids, sizes):
        wanted, found = np.stack([sparse.trace(i) for i in part], 1), engine.boundaries(part)
        if not np.array_equal(wanted, found):
            layer, t, dim = np.argwhere(wanted != found)[0]
            raise AssertionError(f"boundary {layer}, token {engine.seen - len(part) + t}, dim {dim}: {found[layer, t, dim]}, "
                                 f"token by token {wanted[layer, t, dim]}")
    assert np.array_equal(sparse._states, engine._states)
    assert sparse.read_global(machine.global_words) == engine.read_global(machine.global_words)


@pytest.mark.parametrize("machine", [SMALL, GROUPED], ids=lambda m: m.name)
@pytest.mark.parametrize("sizes", [[PIECE], [1, 2, 3, 61, 5]], ids=["large", "uneven"])
def test_every_layer_boundary(machine, sizes):
    ids, setup = stream(machine, 5, 3, 60)
    assert len(ids) > setup + 20
    check_boundaries(machine, ids, sizes)


def test_streams_that_no_launch_produces():
    """A forged stream may hold anything: the bits still are the sparse engine's."""
    rng = np.random.default_rng(7)
    check_boundaries(SMALL, rng.integers(0, Vocabulary(SMALL).size, 300).tolist(), [100])


def test_next_tokens():
    ids, setup = stream(ARTICLE, 11, 4, 400)
    engine = PrefillEngine(weights(ARTICLE))
    found = engine.feed(ids)
    assert found.dtype == np.int64 and found[setup - 1:-1].tolist() == ids[setup:]
    memory = engine.read_global(20)
    engine.reset()
    again = np.concatenate([engine.feed(part) for part in pieces(ids, [200, 3, PIECE + 1])])
    assert np.array_equal(again, found) and engine.read_global(20) == memory
    assert engine.feed([]).shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_article_random_programs(seed):
    ids, _ = stream(ARTICLE, 300 + seed, 2 + seed, 500)
    check_boundaries(ARTICLE, ids, [PIECE, 17])


@pytest.mark.slow
def test_default_machine():
    ids, setup = stream(DEFAULT, 17, 3, 600)
    found = PrefillEngine(weights(DEFAULT)).feed(ids)
    assert found[setup - 1:-1].tolist() == ids[setup:]
    check_boundaries(DEFAULT, ids[:400], [PIECE])
