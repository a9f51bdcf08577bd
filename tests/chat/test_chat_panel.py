"""The panel beside the chat: what it is told, and that a launch is the same with it."""

from pathlib import Path

import pytest
from reference_engine import ReferenceEngine

from qgpu.chat.calculate import calculate
from qgpu.chat.device import Device
from qgpu.chat.functions import Overflow
from qgpu.chat.panel import Beside
from qgpu.machine.description import ARTICLE
from qgpu.monitor.live import StreamReader


@pytest.fixture
def beside(monkeypatch):
    monkeypatch.delenv("TMUX", raising=False)
    device = Device(lambda: ReferenceEngine(ARTICLE), check=True)
    panel = Beside(device)
    yield panel
    panel.close()


def test_another_terminal_sees_the_launches(beside):
    device = beside.device
    without = calculate("[1, 2, 3] @ [4, 5, 6]", device)
    stream = device.last.tokens
    line = beside.set(True)
    folder = Path(line.split()[-1])
    assert "-m qgpu watch" in line and folder.is_dir()
    assert calculate("[1, 2, 3] @ [4, 5, 6]", device).value == without.value and device.last.tokens == stream
    reader = StreamReader(folder)
    reader.poll()
    assert reader.replay.ids.tolist() == stream and reader.replay.machine == ARTICLE and reader.ended.error == ""
    with pytest.raises(Overflow):
        calculate("2 ** 31", device)
    assert beside.set(None) == "the panel is off" and not folder.exists() and device.tap is None
    assert calculate("1 + 1", device).value == 2


def test_on_and_off(beside):
    assert beside.set(None).startswith("the panel is on;") and beside.set(True) == "the panel is on"
    assert beside.set(False) == "the panel is off" and beside.set(False) == "the panel is off"
