"""The stream in a folder: what a launch writes is what a reader sees, the launch never waits, and nothing in a folder breaks the reader."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from monitor_streams import ids_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from reference_engine import ReferenceEngine  # noqa: E402

import qgpu  # noqa: E402
from qgpu.errors import FaultError, UsageError  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402
from qgpu.monitor.live import StreamReader, StreamWriter  # noqa: E402
from qgpu.monitor.view import View  # noqa: E402

KERNEL = "__global__ void k(int *a) { a[threadIdx.x] = threadIdx.x * 7; }"


def launch(tap, **more):
    return qgpu.launch(KERNEL, None, 1, 4, [np.zeros(4, np.int32)], engine=ReferenceEngine(ARTICLE), tap=tap, **more)


def test_a_launch_is_seen(tmp_path):
    writer, reader = StreamWriter(tmp_path), StreamReader(tmp_path)
    assert not reader.poll() and reader.replay is None
    result = launch(writer.tap, check=True)
    assert reader.poll() and reader.ended is None
    writer.end()
    assert not reader.poll() and reader.ended.error == "" and reader.ended.speed > 0
    assert list(reader.replay.ids) == result.tokens and reader.replay.setup == result.setup
    assert reader.replay.title == "k" and reader.replay.machine == ARTICLE
    assert reader.replay.state.narrator.lines  # places in the source
    reader.close()


def test_tokens_come_while_it_runs(tmp_path):
    machine, ids, setup = ids_of("loop")
    now = [0.0]
    writer, reader = StreamWriter(tmp_path, clock=lambda: now[0]), StreamReader(tmp_path)
    writer.begin(machine, ids[:setup], {1: "k.cu:3"}, "k")
    for token in ids[setup:setup + 10]:
        writer.token(token)
    reader.poll()
    assert list(reader.replay.ids) == list(ids[:setup])  # held back for a moment
    now[0] = 1.0
    writer.token(ids[setup + 10])
    reader.poll()
    assert list(reader.replay.ids) == list(ids[:setup + 11])
    now[0] = 11.0
    writer.token(ids[setup + 11])
    writer.end("it stopped")
    reader.poll()
    assert list(reader.replay.ids) == list(ids[:setup + 12]) and reader.ended.error == "it stopped"
    assert reader.ended.speed == pytest.approx(1.0)  # 11 tokens after the first one, in 11 seconds
    reader.close()


def test_the_newest_launch_is_followed(tmp_path):
    writer, view = StreamWriter(tmp_path), View(folder=tmp_path)
    view.tick()
    assert view.mode == "WAITING" and view.headline() == "waiting for a launch" and view.line() == ""
    machine, ids, setup = ids_of("loop")
    for name in ("first", "second"):
        writer.begin(machine, ids[:setup], {}, name)
    view.tick()
    assert view.headline().startswith("second on article") and view.mode == "LIVE"
    writer.begin(machine, ids[:setup], {}, "third")
    for token in ids[setup:]:
        writer.token(token)
    writer.end()
    view.tick()
    view.tick()
    assert view.headline().startswith("third") and view.mode == "END" and view.state.ended == "END"
    view.reader.close()


def test_what_stops_a_launch(tmp_path):
    def stop():
        raise KeyboardInterrupt
    writer = StreamWriter(tmp_path, stop, clock=iter(range(10_000)).__next__)
    with pytest.raises(KeyboardInterrupt):
        launch(writer.tap)
    writer.end("interrupted")  # itself asks nobody
    reader = StreamReader(tmp_path)
    reader.poll()
    assert reader.ended.error == "interrupted" and len(reader.replay.ids) > reader.replay.setup
    reader.close()


def test_a_fault_is_said(tmp_path):
    writer, view = StreamWriter(tmp_path), View(folder=tmp_path)
    with pytest.raises(FaultError) as caught:
        launch(writer.tap, max_tokens=5)
    writer.end(str(caught.value))
    view.tick()
    assert view.mode == "STOPPED" and "did not end within 5" in view.line() and "\n" not in view.line()
    view.reader.close()


def test_a_full_disk_costs_the_view_only(tmp_path):
    class Full:
        def write(self, data):
            raise OSError(28, "no space")

        def close(self):
            pass
    writer = StreamWriter(tmp_path)

    def tap(ready, engine):
        engine = writer.tap(ready, engine)
        writer._out.close()
        writer._out = Full()
        return engine
    assert launch(tap, check=True).check.mismatches == 0
    writer.end()


def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(UsageError, match="cannot write the stream"):
        launch(StreamWriter(tmp_path / "none").tap)


@pytest.mark.skipif(os.name != "posix", reason="asks the system for a process")
def test_a_launch_whose_process_is_gone(tmp_path):
    machine, ids, setup = ids_of("loop")
    writer, reader = StreamWriter(tmp_path), StreamReader(tmp_path)
    writer.begin(machine, ids[:setup], {}, "k")
    head = tmp_path / "launch-1.json"
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    head.write_text(json.dumps(json.loads(head.read_text()) | {"pid": pid}))
    reader.poll()
    assert "is gone" in reader.ended.error
    writer.end()
    reader.close()


@pytest.mark.parametrize("head", ["", "{}", "[1]", "null", '{"machine": {"name": "x"}, "setup": "many"}', '{"machine": 3, "setup": 1}', "\0"])
def test_a_folder_with_something_else(tmp_path, head):
    (tmp_path / "launch-1.json").write_text(head)
    with pytest.raises(UsageError):
        StreamReader(tmp_path).poll()
    view = View(folder=tmp_path)
    view.tick()
    assert "launch-1.json" in view.line() and view.mode == "WAITING"


def test_tokens_that_the_machine_does_not_have(tmp_path):
    machine, ids, setup = ids_of("loop")
    writer, view = StreamWriter(tmp_path), View(folder=tmp_path)
    writer.begin(machine, ids[:setup], {}, "k")
    writer.token(1 << 31)
    writer.flush()
    view.tick()
    assert "outside the vocabulary" in view.line()
    writer.end()
    view.reader.close()


def test_readers_are_asked_to_go(tmp_path):
    writer, reader = StreamWriter(tmp_path), StreamReader(tmp_path)
    assert not reader.closing
    writer.close_readers()
    assert reader.closing
    assert StreamReader(tmp_path / "gone").closing
