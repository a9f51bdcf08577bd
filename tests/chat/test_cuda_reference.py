"""docs/qgpu-cuda.md: every example runs on the compiled weights of `article`, checked, and gives what is written there."""

import re
from pathlib import Path

import pytest

from qgpu.chat.calls import ToolCall, read_reply
from qgpu.chat.tools import REFERENCE, Toolbox, system_message, written

TEXT = REFERENCE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"### ([0-9]+)\. .*?```cuda\n(.*?)```\n\n(.*?)(?=\n###|\Z)", TEXT, re.DOTALL)


def parts(lines):
    """block, grid, args and result from an example's indented lines."""
    found, key = {}, ""
    for line in lines.strip().splitlines():
        name = re.match(r" *(block|grid|args|result): *(.*)", line)
        key = name.group(1) if name else key
        found.setdefault(key, []).append(name.group(2) if name else line.strip())
    return {key: "\n".join(values) for key, values in found.items()}


def test_the_page_and_the_packages_copy_are_one_text():
    assert (Path(__file__).parents[2] / "docs" / "qgpu-cuda.md").read_text(encoding="utf-8") == TEXT


def test_there_are_at_least_ten():
    assert len(EXAMPLES) >= 10 and [int(n) for n, *_ in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))


@pytest.mark.parametrize("number, source, lines", EXAMPLES, ids=[n for n, *_ in EXAMPLES])
def test_example(number, source, lines, circuit):
    wanted = parts(lines)
    result = wanted.pop("result")
    call = ToolCall("launch", {"source": source.rstrip("\n"), **wanted})
    assert read_reply("So be it.\n\n" + written(call)).calls == (call,)
    outcome = Toolbox(circuit, "advanced").call(call)
    assert (outcome.good, outcome.text) == (True, result)
    assert circuit.launched[-1].checked == circuit.launched[-1].generated


def test_it_is_part_of_the_system_message_of_advanced_mode_only():
    assert TEXT.strip() in system_message("advanced") and "blockIdx" not in system_message("normal")
