"""What every engine does besides arithmetic: feed, fork, reset, read memory; errors."""

import pytest
from engine_machines import GROUPED, SMALL, weights
from machine_programs import random_setup, setup_ids

from qgpu import engine as engines
from qgpu.engine.dense import DenseEngine
from qgpu.engine.sparse import SparseEngine
from qgpu.errors import FaultError, UsageError
from qgpu.machine.tokens import Token, Vocabulary
from qgpu.runtime.engine_api import Engine
from qgpu_reference.machine import MachineInterpreter

CLASSES = {"sparse": SparseEngine, "dense": DenseEngine}


@pytest.fixture(scope="module", params=CLASSES)
def engine(request):
    return CLASSES[request.param](weights(SMALL))


def eat(engine, ids):
    """Feed tokens after which the model need not write any: within a setup its output means nothing."""
    try:
        engine.feed(ids)
    except FaultError:
        pass


def play(engine, setup, most=12):
    """Generated ids, checked against the interpreter."""
    judge = MachineInterpreter(SMALL)
    for i in setup:
        judge.feed(i)
    token, out = engine.feed(setup), []
    while judge.running and most:
        assert token == judge.expected, Vocabulary(SMALL).token(judge.expected)
        out.append(token)
        judge.feed(token)
        token = engine.feed([token]) if judge.running else None
        most -= 1
    return out, judge


def test_protocol(engine):
    assert isinstance(engine, Engine) and engine.kind in engines.KINDS


def test_a_launch_and_its_memory(engine):
    engine.reset()
    out, judge = play(engine, random_setup(31, SMALL, 2))
    assert out and engine.read_global(SMALL.global_words) == judge.memory


def test_memory_in_several_heads():
    """All words of both memories, from the heads of one copy."""
    m, v = GROUPED, Vocabulary(GROUPED)
    e = SparseEngine(weights(m))
    held = [0x9E3779B9 * (k + 1) & 0xFFFFFFFF for k in range(m.words)]
    eat(e, setup_ids(m, [], 1, dict(enumerate(held))))
    assert e.read_global(m.words) == held and e.read_global(127) == held[:127] and e.read_global(3) == held[:3]
    for t in [*v.value_tokens(-5), Token("MEM", (m.global_words,))]:
        eat(e, [v.id_of(t)])
    held[m.global_words] = 0xFFFFFFFB
    assert e.read_global(m.words) == held


def test_reset_forgets_everything(engine):
    setup = random_setup(32, SMALL, 2)
    engine.reset()
    first = play(engine, setup)[0]
    assert any(engine.read_global(9))
    engine.reset()
    assert not any(engine.read_global(9))
    assert play(engine, setup)[0] == first


def test_forks_go_their_own_ways(engine):
    """A fork that is fed something else leaves the first stream as it was, and the other way round."""
    setup = random_setup(33, SMALL, 2)
    engine.reset()
    token = engine.feed(setup)
    other = engine.fork()
    v = Vocabulary(SMALL)
    for t in [*v.value_tokens(12345), Token("MEM", (3,))]:
        eat(other, [v.id_of(t)])
    assert other.read_global(9)[3] == 12345 != engine.read_global(9)[3]
    third = engine.fork()
    out = []
    for e in (engine, third):
        mine, t = [], token
        for _ in range(6):
            mine.append(t)
            t = e.feed([t])
        out.append(mine)
    assert out[0] == out[1]


def test_streams_may_be_fed_in_any_pieces(engine):
    setup = random_setup(34, SMALL, 2)
    engine.reset()
    whole = engine.feed(setup)
    engine.reset()
    for part in (setup[:1], setup[1:2], setup[2:20]):
        eat(engine, part)
    assert engine.feed(setup[20:]) == whole


def test_unknown_engine():
    with pytest.raises(UsageError, match="unknown engine 'fast'"):
        engines.make_engine(SMALL, kind="fast")


def test_make_engine_takes_compiled_weights(monkeypatch):
    monkeypatch.setattr("qgpu.compile.cache.compiled_weights", weights)
    for kind, cls in CLASSES.items():
        assert type(engines.make_engine(SMALL, kind=kind)) is cls


def test_where_no_token_is_written_is_a_fault():
    """The sparse engine says so: after NOP alone nothing is due."""
    engine = SparseEngine(weights(SMALL))
    with pytest.raises(FaultError, match="no token's code") as e:
        engine.feed([Vocabulary(SMALL).id_of(Token("NOP"))] * 3)
    assert "position 2" in e.value.where and engine.seen == 3
