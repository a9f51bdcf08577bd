"""Sparse engine and dense forward pass: the same bits at every layer boundary, chunked and token by token, NumPy and Numba."""

import numpy as np
import pytest
from engine_machines import GROUPED, SMALL, weights
from machine_programs import random_setup, setup_ids

from qgpu.engine.dense import DenseEngine, circuit_model_config, dense_bits, dense_layer
from qgpu.engine.sparse import SparseEngine
from qgpu.machine.description import ARTICLE
from qgpu.machine.encoding import Block, Instruction, Register, Result, Source
from qgpu.machine.tokens import KINDS, Token, Vocabulary
from qgpu.qwen.arithmetic import Arithmetic
from qgpu.qwen.fast import FastArithmetic
from qgpu.qwen.naive import linear_layer
from qgpu_reference.machine import MachineInterpreter

I, F = Instruction, frozenset


def stream(machine, ids, most):
    """A setup and the next `most` tokens of its launch, as the interpreter has them."""
    judge, ids = MachineInterpreter(machine), list(ids)
    for i in ids:
        judge.feed(i)
    while judge.running and most:
        ids.append(judge.expected)
        judge.feed(ids[-1])
        most -= 1
    return ids


def short_setup(machine):
    """A few program words only; the rest of the ROM stays zero: load, multiply-add, a divergent branch, shift and stores."""
    m, v = machine, Vocabulary(machine)
    decide = [None, I(F({"xor"}), Result(2))] if m.stages == 4 else []    # the last stage's bit 0: lanes diverge
    first = Block((I(F({"add", "ld"}), Source.ZERO, Source.IMMEDIATE, immediate=m.global_base),
                   I(F({"mul"}), Source.TID, Source.IMMEDIATE, Result(1), 0x80001), *decide), (0, 2), 1, 2, True)
    second = Block((I(F({"shl"}), Register(2), Source.IMMEDIATE, immediate=3),
                    I(F({"add", "st"}), Source.ZERO, Source.IMMEDIATE, Result(1), m.global_base + 8)), (3, 0), m.exit_target)
    third = Block((None, I(F({"add", "st"}), Source.ZERO, Source.IMMEDIATE, Register(3), m.global_base + 12)), (0, 0), m.exit_target)
    ids = setup_ids(m, [first, second, third], 2, {0: 0x1235})
    keep = [v.token(i) for i in ids]
    out, value = [], []
    for t in keep:                                 # words of zero need not be sent
        if t.kind in ("VAL", "SVAL"):
            value.append(t)
            continue
        if not (t.kind == "PROG" and [x.fields for x in value] == [(0,)]):
            out += [*value, t]
        value = []
    return [v.id_of(t) for t in out]


def grouped_setup(m):
    """3 threads in two groups, two thread blocks: a vote, a barrier, the ballot to shared memory and back to global memory."""
    odd = I(F({"and"}), Source.TID, Source.IMMEDIATE, immediate=1)
    blocks = [Block((None, None, odd), (0, 0, 0), 1, vote=True, clear=True),
              Block((I(F({"shl"}), Source.TID, Source.IMMEDIATE, immediate=2), I(F({"add"}), Source.BALLOT, Source.ZERO),
                     I(F({"add", "st"}), Result(1), Source.IMMEDIATE, Result(2), m.shared_base)), (1, 0, 0), 2, barrier=True),
              Block((I(F({"add", "ld"}), Register(1), Source.IMMEDIATE, immediate=m.shared_base), I(F({"popc"}), Result(1)),
                     I(F({"add", "st"}), Register(1), Source.IMMEDIATE, Result(2), m.global_base + 4 * 127)), (3, 0, 0), m.exit_target)]
    return setup_ids(m, blocks, 3, {128: 5}, grid=(2, 1, 1))


def compare(sparse, found, wanted, where):
    if not np.array_equal(found, wanted):
        at = np.argwhere(found != wanted)[0]
        raise AssertionError(f"{where}: {np.sum(found != wanted)} values differ, first at (token, dim) {tuple(at)}: "
                             f"sparse {found[tuple(at)]}, dense {wanted[tuple(at)]}")


NUMPY, NUMBA = Arithmetic(bf16=True), FastArithmetic(bf16=True, strict=True)


def check_chunked(ids, ar, machine=ARTICLE):
    """One call over a whole stream of a machine, layer after layer."""
    w = weights(machine)
    sparse = SparseEngine(w)
    traces = np.stack([sparse.trace(i) for i in ids], 1)          # (layers + 1, n, D)
    config, h = circuit_model_config(w), w.embedding()[ids]
    for i, layer in enumerate(w.layers):
        compare(sparse, traces[i], h, f"input of layer {i + 1}")
        h = linear_layer(h, dense_layer(machine, layer), config, ar=ar)
    compare(sparse, traces[-1], h, "output")


@pytest.mark.parametrize("ar", [NUMBA, pytest.param(NUMPY, marks=pytest.mark.slow)], ids=["numba", "numpy"])
def test_article_chunked_at_every_layer_boundary(ar):
    """More than one chunk of the delta rule; every kind of token that a machine without groups has, but TRAP."""
    ids = stream(ARTICLE, short_setup(ARTICLE), 70)
    assert 64 < len(ids) < 150
    assert {Vocabulary(ARTICLE).token(i).kind for i in ids} == set(KINDS) - {"TRAP", "INIT", "NEXT"}
    check_chunked(ids, ar)


@pytest.mark.parametrize("ar", [NUMBA, pytest.param(NUMPY, marks=pytest.mark.slow)], ids=["numba", "numpy"])
def test_groups_chunked_at_every_layer_boundary(ar):
    """Groups, votes, a barrier, two thread blocks, both memories."""
    m = GROUPED
    ids = stream(m, grouped_setup(m), 110)
    assert {Vocabulary(m).token(i).kind for i in ids} == set(KINDS) - {"TRAP"}
    check_chunked(ids, ar, m)


@pytest.fixture(scope="module")
def dense():
    return DenseEngine(weights(SMALL), compiled=False)


def check_against_dense(dense, ids, prefill):
    """prefill tokens in one call, the others one by one."""
    dense.reset()
    sparse = SparseEngine(weights(SMALL))
    for part in [ids[:prefill]] * bool(prefill) + [[i] for i in ids[prefill:]]:
        boundaries = []
        dense.forward(part, boundaries)
        traces = np.stack([sparse.trace(i) for i in part], 1)
        for layer, h in enumerate(boundaries):
            compare(sparse, traces[layer], h, f"token {sparse.seen}, boundary {layer}")


def test_token_by_token_from_the_first(dense):
    check_against_dense(dense, short_setup(SMALL)[:6], 0)


def test_prefill_then_token_by_token(dense):
    ids = stream(SMALL, short_setup(SMALL), 5)
    check_against_dense(dense, ids, len(ids) - 5)


def test_prefill_in_two_calls(dense):
    ids = stream(SMALL, short_setup(SMALL), 20)
    dense.reset()
    sparse = SparseEngine(weights(SMALL))
    for part in (ids[:30], ids[30:31], ids[31:]):
        out = dense.forward(part)
        compare(sparse, np.stack([sparse.trace(i)[-1] for i in part]), out, f"{len(part)} tokens")
    assert sparse.read_global(SMALL.global_words) == dense.read_global(SMALL.global_words)


def test_numba_is_numpy_bit_for_bit(dense):
    """Logits aside, which only one of them computes: next tokens, recurrent states and conv states."""
    ids = stream(SMALL, short_setup(SMALL), 30)
    fast = DenseEngine(weights(SMALL))
    dense.reset()
    for part in [ids[:-4], *[[i] for i in ids[-4:]]]:
        assert fast.feed(part) == dense.feed(part)
    for a, b in zip(fast.cache.layers, dense.cache.layers[:-1]):
        assert np.array_equal(a.state, b.state) and np.array_equal(a.conv, b.conv)
        assert a.started and b.started


def test_dense_bits_are_the_dense_tensors():
    layer = weights(SMALL).layers[3]
    for n in ("qkv", "z", "a", "b", "out"):
        coo = getattr(layer, n)
        assert np.array_equal(dense_bits(coo).astype(np.uint32) << 16, coo.dense().view(np.uint32))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_article_random_programs_chunked(seed):
    """Whole streams of a few hundred tokens through the dense layers in one call: every boundary."""
    ids = stream(ARTICLE, random_setup(900 + seed, ARTICLE, 2 + seed % 4), 300)
    check_chunked(ids, NUMPY)


@pytest.mark.slow
def test_article_token_by_token_numba_and_numpy():
    """A launch generated by the Numba dense engine, and by plain NumPy for its first tokens."""
    w = weights(ARTICLE)
    setup = short_setup(ARTICLE)
    ids = stream(ARTICLE, setup, 45)
    fast = DenseEngine(w)
    token = fast.feed(setup)
    for i in ids[len(setup):]:
        assert token == i
        token = fast.feed([i]) if Vocabulary(ARTICLE).token(i) != Token("END") else None
    del fast
    plain = DenseEngine(w, compiled=False)
    assert plain.feed(setup) == ids[len(setup)]
    for k in range(5):
        assert plain.feed([ids[len(setup) + k]]) == ids[len(setup) + k + 1]
