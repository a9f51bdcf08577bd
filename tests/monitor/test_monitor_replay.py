"""Walking through a stream: any way to a place gives the same state; play, pause, jumps, and what is said of places that are not there."""

import pytest
from monitor_streams import ids_of, trace_of

from qgpu.monitor import panes, replay
from qgpu.monitor.replay import SPEEDS, Player, Replay
from qgpu.monitor.state import State
from qgpu.monitor.view import View


def shown(state):
    """Everything that a state shows."""
    return [panes.plain(draw(state, 120, 40)) for draw in panes.PANES.values()], state.position, state.ended


def fresh(name, cursor):
    trace = trace_of(name)
    state = State(trace.machine, trace.setup, trace.places)
    for token in trace.ids[:cursor]:
        state.feed(token)
    return shown(state)


def replay_of(name):
    trace = trace_of(name)
    return Replay(trace.machine, trace.setup, trace.places, trace.ids, name)


@pytest.mark.parametrize("every", [7, 8192])
@pytest.mark.parametrize("name", ["loop", "barrier"])
def test_back_and_forth_is_the_same(name, every, monkeypatch):
    monkeypatch.setattr(replay, "EVERY", every)
    walk = replay_of(name)
    end = len(walk.ids)
    for cursor in (end, 3, end - 1, walk.setup + 20, walk.setup + 19, 0, walk.setup, end):
        assert walk.go(cursor)
        assert shown(walk.state) == fresh(name, cursor), cursor
    assert walk.go(end + 1000) and walk.state.position == end
    assert walk.go(-5) and walk.state.position == 0


def test_a_moment_is_kept_to():
    walk = replay_of("barrier")
    assert not walk.go(len(walk.ids), 0.0)
    assert 0 < walk.state.position < len(walk.ids)
    while not walk.go(len(walk.ids), 0.0):
        pass
    assert walk.state.ended == "END"


def test_ids_of_another_machine_are_refused():
    walk = replay_of("loop")
    with pytest.raises(ValueError, match="outside the vocabulary of machine article"):
        walk.extend([walk.vocabulary.size])


def test_playing_takes_its_time():
    player = Player(replay_of("loop"))
    assert player.cursor == player.replay.setup and not player.playing
    player.toggle()
    player.speed = 10
    for _ in range(7):
        player.tick(0.05)  # 3.5 tokens
    assert player.cursor == player.replay.setup + 3 == player.replay.state.position
    player.toggle()
    player.tick(10.0)
    assert player.cursor == player.replay.setup + 3
    player.toggle()
    player.tick(1e4)
    assert player.cursor == player.end and not player.playing  # stops at the end
    player.toggle()                                            # and begins anew
    assert player.playing and player.cursor == player.replay.setup


def test_speeds():
    player = Player(replay_of("loop"))
    for _ in range(30):
        player.faster()
    assert player.speed == SPEEDS[-1]
    player.faster(-1)
    assert player.speed == SPEEDS[-2]
    for _ in range(30):
        player.faster(-1)
    assert player.speed == SPEEDS[0]


def test_live_follows_a_growing_stream():
    machine, ids, setup = ids_of("loop")
    walk = Replay(machine, setup, {}, ids[:setup])
    player = Player(walk, live=True, done=False)
    walk.extend(ids[setup:setup + 9])
    assert player.tick(0.1) and walk.state.position == setup + 9
    player.toggle()
    walk.extend(ids[setup + 9:])
    player.tick(0.1)
    assert walk.state.position == setup + 9  # paused
    player.to_end()
    player.tick(0.1)
    assert walk.state.ended == "END" and player.live


def test_jumps():
    machine, ids, setup = ids_of("barrier")
    player = Player(replay_of("barrier"))

    def kind():
        return player.replay.vocabulary.token(ids[player.cursor - 1])
    assert player.jump("b2") == "" and kind().kind == "EXEC" and kind().fields[0] == 2
    first = player.cursor
    assert player.jump("B2") == "" and player.cursor > first  # the next one
    assert "does not come again" in player.jump("b2") and "does not come again" in player.jump("b100")
    assert player.jump("start") == "" and player.cursor == setup
    assert player.jump("s4") == "" and str(kind()) == "MEM 4100"
    assert player.jump("w1") == "" and str(kind()).startswith("WARP 1")
    assert player.jump("m9") == "" and str(kind()) == "MEM 9"
    assert player.jump("240") == "" and player.cursor == 241
    assert player.jump("+5") == "" and player.cursor == 246
    assert player.jump(" -6 ") == "" and player.cursor == 240
    assert player.jump("end") == "" and player.cursor == len(ids)
    assert player.step_pass() == "no further pass"
    assert player.step_pass(back=True) == "" and kind().kind in ("EXEC", "NEXT", "PARK")
    player.jump("0")
    assert player.step_pass(back=True) == "no pass before this one"
    for wrong, why in (("b126", "has 126"), ("w9", "has 8"), ("m4096", "has 4096"), ("s1024", "has 1024"),
                       ("99999", "no token 99999"), ("7b", "is no place"), ("", "is no place"), ("b", "is no place"), ("-", "is no place"), ("x" * 5000, "is no place"), ("9" * 50, "is no place")):
        before = player.cursor
        message = player.jump(wrong)
        assert why in message and len(message) < 300 and player.cursor == before


def test_steps_visit_every_pass():
    machine, ids, setup = ids_of("loop")
    player, kinds = Player(replay_of("loop")), []
    while not player.step_pass():
        player.tick(0.0)
        kinds.append(player.replay.state.said[-1].name.split()[0])
    assert kinds == [k for k in (player.replay.vocabulary.token(t).kind for t in ids) if k in ("EXEC", "NEXT", "PARK")]


def test_how_a_stream_ends_is_said():
    trace = trace_of("loop")
    trap, stops = trace_of("trap"), trace_of("loop")
    stops.ids, stops.cut = stops.ids[:-9], True
    foreign = trace_of("loop")
    foreign.ids = foreign.ids[:-9] + [0]
    for given, mode, text in ((trace, "END", "the launch ends"), (trap, "TRAP", "bad address"), (stops, "STOPPED", "breaks off after token"),
                              (foreign, "FOREIGN", "only the host may")):
        view = View(given, title="k")
        view.player.to_end()
        view.tick()
        assert view.mode == mode and text in view.line() and "k on article" in view.headline()
        view.notice = ""
    view = View(stops)
    view.player.to_end()
    view.notice = ""
    view.tick()
    assert view.line().startswith("no END: the stream stops here; token ")
