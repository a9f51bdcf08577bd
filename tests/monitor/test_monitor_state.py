"""The display state against the reference interpreter: whatever it calls known is what the machine holds."""

import random

import numpy as np
import pytest
from machine_programs import random_setup
from monitor_streams import ids_of, trace_of

from qgpu.machine.description import ARTICLE, DEFAULT, Machine
from qgpu.machine.tokens import Token, Vocabulary
from qgpu.monitor import panes
from qgpu.monitor.state import State
from qgpu_reference.machine import MachineInterpreter

SMALL = Machine("small", groups=2, registers=31, register_classes=3, blocks=12, global_words=60, shared_words=20, stage_load=(1,), stage_bits=(2,),
                stage_mulhi=(4,))


def follow(machine, ids, setup):
    """(state, interpreter) after every token."""
    state, judge = State(machine, setup), MachineInterpreter(machine)
    for token in ids:
        state.feed(token)
        judge.feed(token)
        yield state, judge


def agrees(state, judge):
    known, values = state.known, np.array(judge.registers, np.uint32)
    assert np.array_equal(state.registers[known], values[known])
    stored = state.stored >= 0
    assert np.array_equal(state.memory[stored], np.array(judge.memory, np.uint32)[stored])
    assert not np.array(judge.memory)[~stored].any() and not values[~known].any()  # what was never written is 0
    assert state.ended == judge.ended
    if judge.running:
        n = state.narrator
        assert (n.warp, n.group, n.index) == (judge.warp, judge.group, judge.index)
        assert n.block is None or n.targets[n.warp] == judge.targets[judge.warp]
        assert state.ballots == judge.ballots
        if judge.last_exec is not None and any(judge.active):
            assert state.active == [lane for lane, active in enumerate(judge.active) if active]
            for (stage, lane), value in state.results.items():
                assert judge.last_exec.stages[stage - 1].result[lane] == value


@pytest.mark.parametrize("name", ["loop", "barrier", "trap"])
def test_state_is_the_interpreters(name):
    machine, ids, setup = ids_of(name)
    for state, judge in follow(machine, ids, setup):
        agrees(state, judge)
    assert state.ended == ("TRAP" if name == "trap" else "END")


@pytest.mark.parametrize("seed", range(12))
def test_state_on_random_programs(seed):
    machine = (ARTICLE, SMALL)[seed % 2]
    setup = random_setup(seed, machine, 6)
    writer = MachineInterpreter(machine)
    ids = [*setup]
    for token in setup:
        token = writer.feed(token)
    while token is not None and len(ids) < len(setup) + 400:
        ids.append(token)
        token = writer.feed(token)
    for state, judge in follow(machine, ids, len(setup)):
        agrees(state, judge)
    assert state.known.any() or state.ended == "TRAP"


def test_lanes_and_warps_at_a_barrier():
    machine, ids, setup = ids_of("barrier")
    seen = set()
    for state, judge in follow(machine, ids, setup):
        if not judge.running:
            continue
        seen.add(tuple(state.warps[:3]))
        lanes = {state.lane(w, g, lane) for w in range(2) for g in range(8) for lane in range(4)}
        assert state.lane(2, 0, 0) == "-" and "-" not in lanes
        if state.warps[1] == "fresh":
            assert {state.lane(1, g, lane) for g in range(8) for lane in range(4)} == {"."}
        if state.warps[0] == "barrier":
            assert state.lane(0, 3, 1) == "="
    assert seen == {("runs", "fresh", "fresh"), ("barrier", "fresh", "fresh"), ("barrier", "runs", "fresh"), ("barrier", "barrier", "fresh"),
                    ("runs", "barrier", "fresh"), ("ended", "barrier", "fresh"), ("ended", "runs", "fresh"), ("ended", "ended", "fresh")}


def test_what_is_lit_is_what_the_pass_wrote():
    machine, ids, setup = ids_of("loop")
    before, written = None, 0
    for state, judge in follow(machine, ids, setup):
        if judge.running and judge.last_exec is not None:
            now = np.array(judge.registers)
            if state.said[-1].name.startswith("EXEC"):
                assert not state.lit_registers and not state.results
                before = now
            elif before is not None:
                changed = {tuple(map(int, at)) for at in np.argwhere(now != before)}
                assert changed <= state.lit_registers
                written += len(changed)
    assert written and state.lit_words == {12, 13}  # warp 1's two threads stored last
    assert state.passes == {0: 2, 1: 3 + 5, 2: 2}


def test_a_copy_goes_its_own_way():
    machine, ids, setup = ids_of("loop")
    state = State(machine, setup)
    for token in ids[:setup + 30]:
        state.feed(token)
    other = state.copy()
    picture = panes.plain(panes.registers(state, 60, 20)), state.position, dict(state.passes)
    for token in ids[setup + 30:]:
        other.feed(token)
    assert (panes.plain(panes.registers(state, 60, 20)), state.position, dict(state.passes)) == picture
    for token in ids[setup + 30:]:
        state.feed(token)
    assert panes.plain(panes.memory(state, 60, 20)) == panes.plain(panes.memory(other, 60, 20))
    assert state.said == other.said and state.ended == other.ended == "END"


@pytest.mark.parametrize("machine", [ARTICLE, DEFAULT], ids=lambda m: m.name)
def test_any_tokens_are_shown(machine):
    rng, vocabulary = random.Random(5), Vocabulary(machine)
    state = State(machine, 50)
    kinds = list(vocabulary.base)
    for position in range(1500):
        kind = rng.choice(kinds)
        state.feed(vocabulary.base[kind] + rng.randrange(vocabulary.counts[kind]))
        if position % 10 == 0:
            for name, draw in panes.PANES.items():
                lines = draw(state, 80, 12)
                assert len(lines) <= 12, name
    for _ in range(2000):
        state.feed(vocabulary.base["VAL"] + 7)  # no value is that long
    assert state.narrator.value < 1 << 64
    with pytest.raises(ValueError):
        state.feed(vocabulary.size)


def test_a_token_of_the_hosts_in_a_launch():
    machine, ids, setup = ids_of("loop")
    vocabulary = Vocabulary(machine)
    state = State(machine, setup)
    for token in (*ids[:setup + 5], vocabulary.id_of(Token("CONFIG", (1, 1)))):
        state.feed(token)
    assert state.ended == "FOREIGN"


def test_panes_keep_to_their_size():
    trace = trace_of("barrier")
    state = State(trace.machine, trace.setup, trace.places)
    for position, token in enumerate(trace.ids):
        state.feed(token)
        if position % 37 == 0:
            for width, height in ((20, 3), (48, 8), (120, 30)):
                for draw in panes.PANES.values():
                    assert len(draw(state, width, height)) <= height


def test_stage_values_are_the_streams_or_unknown():
    """A stage's value is shown where the stream said it; where it never does, a mark stands for it."""
    machine, ids, setup = ids_of("loop")
    state = State(machine, setup)
    for token in ids[:setup + 1]:
        state.feed(token)
    text = panes.plain(panes.stages(state, 100, 10))
    assert text[1].split()[-4:] == ["_"] * 4 and text[2].split()[-4:] == ["_"] * 4  # to come
    while state.narrator.block != 1:
        state.feed(ids[state.position])
    for token in ids[state.position:state.position + 4]:
        state.feed(token)
    text = panes.plain(panes.stages(state, 100, 10))
    assert text[1].split()[-4:] == ["0*", "1*", "2*", "3*"]
    assert text[2].split()[-4:] == ["_"] * 4 and text[3].split()[-4:] == ["?"] * 4
