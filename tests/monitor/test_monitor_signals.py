"""Stage results read between the layers are those of the reference interpreter; streams of other origin are refused."""

import asyncio

import pytest
from monitor_streams import ids_of, trace_of

from qgpu.errors import CheckError
from qgpu.machine.description import ARTICLE, DEFAULT
from qgpu.monitor.app import WatchApp, screen_text
from qgpu.monitor.signals import StageSignals
from qgpu.monitor.traces import Trace
from qgpu.monitor.view import View
from qgpu_reference.machine import MachineInterpreter


def expected(machine, ids):
    """position of a pass's first token -> (stage, lane) -> result, by the interpreter."""
    judge, out, last = MachineInterpreter(machine), {}, None
    for position, token in enumerate(ids):
        judge.feed(token)
        if judge.last_exec is not None and judge.last_exec is not last:
            last = judge.last_exec
            out[position] = {(s, lane): r for s, trace in enumerate(last.stages, 1) for lane, r in enumerate(trace.result)}
    return out


def compare(name):
    machine, ids, setup = ids_of(name)
    signals, wanted = StageSignals(machine, ids, setup), expected(machine, ids)
    positions = sorted(wanted)
    assert len(positions) > 5
    for position in (*positions[::2], *reversed(positions)):  # forwards, and back again
        assert signals.at(position) == wanted[position] == signals.known(position)
    assert signals.known(0) is None


def test_results_are_the_interpreters():
    assert ids_of("loop")[0] is ARTICLE
    compare("loop")


@pytest.mark.slow
def test_results_on_the_default_machine():
    assert ids_of("barrier")[0] is DEFAULT
    compare("barrier")


def test_a_stream_of_other_origin_is_refused():
    machine, ids, setup = ids_of("loop")
    wrong = list(ids)
    wrong[setup + 20] = ids[setup + 21]
    with pytest.raises(CheckError, match="did not write this stream"):
        StageSignals(machine, wrong, setup).at(max(expected(machine, ids)))
    view = View(Trace(machine, wrong, setup, {}))
    view.player.jump("b2")
    view.player.tick(0.0)
    with pytest.raises(CheckError):
        view.read_values()


def test_an_answer_that_nobody_wants_any_more():
    machine, ids, setup = ids_of("loop")
    signals, last = StageSignals(machine, ids, setup), max(expected(machine, ids))
    assert signals.at(last, lambda: False) is None and signals.known(last) is None
    assert signals.at(last) is not None


def test_the_panel_marks_them():
    view = View(trace_of("loop"), title="loop")

    async def body():
        app = WatchApp(view)
        async with app.run_test(size=(100, 30)) as pilot:
            view.player.jump("b1")
            await pilot.pause(0.2)
            assert "~" not in screen_text(app)
            await pilot.press("v")
            for _ in range(300):
                await pilot.pause(0.1)
                if "0~" in screen_text(app):
                    break
            stages = [line for line in screen_text(app).split("\n") if "set.gt" in line and "s3" in line]
            assert stages[0].rstrip("│ ").split()[-4:] == ["0~", "0~", "1~", "1~"]
            await pilot.press("v")
            await pilot.pause(0.2)
            assert "0~" not in screen_text(app)
    asyncio.run(body())
