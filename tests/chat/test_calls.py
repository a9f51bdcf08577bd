"""Tool calls: read from text, right and wrong; carried out or refused with a message for the model."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_engine import ReferenceEngine
from scripted import calc

from qgpu.chat.calls import ToolCall, Watcher, read_reply
from qgpu.chat.device import Device
from qgpu.chat.tools import MODES, SPECIFICATIONS, TOOL_OF, Toolbox, read_arguments, size, system_message, written
from qgpu.errors import UsageError
from qgpu.machine.description import ARTICLE
from qgpu.qwen.chat import render

DOUBLE = "__global__ void twice(const int *a, int *out) {\n    int i = threadIdx.x;\n    out[i] = a[i] + a[i];\n}"


@pytest.mark.parametrize("call", [ToolCall("calc", {"expression": "1 < 2"}), ToolCall("launch", {"source": DOUBLE, "block": "4", "args": "[1]\nzeros(1)"}),
                                  ToolCall("none", {})])
def test_calls_come_back_as_they_were_written(call):
    assert read_reply(f"Well.\n\n{written(call)}").calls == (call,)
    rendered = render([{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [{"name": call.name, "arguments": call.arguments}]}])
    assert written(call) in rendered


@pytest.mark.parametrize("text, problem", [
    ("<tool_call>\nsum of 1 and 2\n</tool_call>", "no <function=NAME>"), ("<tool_call>\n{\"name\": \"calc\"\n</tool_call>", "neither tags nor JSON"),
    ("<tool_call>[1]</tool_call>", "no <function=NAME>"), ("<tool_call>{\"name\": 3}</tool_call>", "no text"), ("<tool_call>{\"name\": \"calc\", \"arguments\": 3}</tool_call>", "neither"),
    ("<tool_call>" + "{\"a\":" * 5000 + "</tool_call>", "neither"), ("<function=calc>\n</function>\n</tool_call>", "does not begin with <tool_call>"),
    ("<tool_call>\n<function=calc>\n", "not closed"), ("<tool_call>\nso <function=calc></function>\n</tool_call>", "text stands beside"),
    ("<tool_call><function=calc><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>", "given twice"),
    ("<tool_call><function=calc><parameter=a>1</function></tool_call>", "parameters are written"), ("<tool_call><function=calc>1 + 1</function></tool_call>", "parameters are written"),
    ("\n".join([calc("1 + 1")] * 6), "more than 4 calls"), ("1</tool_call>", "does not begin")])
def test_what_is_wrong_is_said(text, problem):
    assert problem in read_reply(text).problem


def test_json_calls_are_taken_too():
    reply = read_reply('Yes: <tool_call>\n{"name": "calc", "arguments": {"expression": "6 * 7"}}\n</tool_call>')
    assert reply.calls == (ToolCall("calc", {"expression": "6 * 7"}),) and reply.content == "Yes:" and not reply.problem
    assert read_reply('<tool_call>{"name": "calc", "arguments": "{\\"expression\\": [1, 2]}"}</tool_call>').calls[0].arguments == {"expression": "[1, 2]"}


def test_thoughts_are_no_answer():
    reply = read_reply("<think>\nI might <tool_call> it\n</think>\n\nGood.")
    assert (reply.content, reply.calls, reply.thoughts) == ("Good.", (), "<think>\nI might <tool_call> it")


@given(st.text(max_size=80) | st.text("<>/=_ \n{}\":tool_callfunctionparametr", max_size=120))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read(text):
    reply = read_reply(text)
    assert reply.calls or reply.problem or "<tool_call>" not in text


@given(st.lists(st.sampled_from(["a", "<", "<tool", "_call>", "<tool_call>", "\n", "</tool_call>", "x y"]), max_size=12))
@settings(max_examples=300, deadline=None)
def test_the_watcher_shows_what_is_before_a_call(pieces):
    watcher, shown = Watcher(), ""
    for piece in pieces:
        shown += watcher.add(piece)
        if watcher.over:
            break
    shown += watcher.rest()
    assert shown == watcher.text.split("<tool_call>")[0]


def test_the_watcher_ends_behind_the_last_call():
    watcher = Watcher()
    for piece in (calc("1"), "\n", "<tool", "_call>", calc("2")[11:], "\n"):
        watcher.add(piece)
        assert not watcher.over
    watcher.add(" so")
    assert watcher.over and watcher.text[:watcher.cut()] == calc("1") + "\n" + calc("2")


@pytest.fixture
def advanced():
    return Toolbox(Device(lambda: ReferenceEngine(ARTICLE), check=False), "advanced")


@pytest.mark.parametrize("changed, what", [
    ({"block": "0"}, "no size"), ({"block": "a lot"}, "no size"), ({"block": "4; 5"}, "no size"), ({"grid": "1,1,1,1"}, "no size"), ({"args": "@/etc/passwd"}, "files cannot be"),
    ({"args": "u8:@/etc/passwd"}, "files cannot be"), ({"args": "[1.5]\nzeros(2)"}, "1.5"), ({"args": "[5]"}, "argument"), ({"args": "[5]\nzeros(99999999999)"}, "impossible"),
    ({"source": "int main() { return 0; }"}, "kernel"), ({"source": "#include \"/etc/passwd\"\n" + DOUBLE}, "not available"), ({"block": "1000"}, "1000 threads"),
    ({"source": DOUBLE * 400}, "characters"), ({"args": "1\n" * 40}, "too many"), ({"source": ""}, "source is missing"), ({"what": "1"}, "no parameter 'what'"),
    ({"source": DOUBLE.replace("int i", "float i")}, ""), ({"source": DOUBLE.replace("+ a[i]", "+ b[i]")}, "kernel.cu:3"),
    ({"args": "[5, -6]\nzeros(90)\n", "source": DOUBLE.replace("out[i]", "out[i + 400]")}, "kernel.cu:3")])
def test_bad_launches(changed, what, advanced):
    outcome = advanced.call(ToolCall("launch", {"source": DOUBLE, "block": "2", "args": "[5, -6]\nzeros(2)"} | changed))
    assert not outcome.good and outcome.text.startswith("error: ") and what in outcome.text and len(outcome.text) < 2500


def test_a_launch_that_changes_nothing(advanced):
    outcome = advanced.call(ToolCall("launch", {"source": DOUBLE, "block": "2", "grid": "", "args": "[0, 0]\nzeros(2)"}))
    assert outcome.good and "no array changed" in outcome.text


def test_arguments():
    def read(text):
        return [a.tolist() if isinstance(a, np.ndarray) else a for a in read_arguments(text)]
    assert read("[1, 2]\nzeros(3)\n7") == read("[1, 2], zeros(3), 7") == read('[[1, 2], "zeros(3)", 7]') == [[1, 2], [0, 0, 0], 7]
    assert read("[1, 2, 3]") == [[1, 2, 3]] and read("i64:[5]\n-1") == [[5], -1] and read("[1, 2],\n3,") == [[1, 2], 3]
    assert read_arguments("i64:zeros(2)")[0].dtype == np.int64
    for text in ("[" * 5000, "{}", "[true]", "null", "1;2"):
        with pytest.raises(UsageError):
            read(text + "\n1" if text == "1;2" else text)


def test_sizes():
    assert [size(t, "") for t in ("4", " 4, 2 ", "[4,2,3]", "(8, 8)")] == [(4, 1, 1), (4, 2, 1), (4, 2, 3), (8, 8, 1)]


def test_system_messages_name_the_tool_and_what_it_takes():
    for mode in MODES:
        text = system_message(mode)
        tool = SPECIFICATIONS[TOOL_OF[mode]]
        assert json.loads(text.split("<tools>\n")[1].split("\n</tools>")[0])["function"] == tool
        call = read_reply(text.split("nothing after it:")[1].split("What it returns")[0]).calls[0]
        assert Toolbox(Device(lambda: ReferenceEngine(ARTICLE), check=False), mode).call(call).good
    names = set(SPECIFICATIONS["calc"]["parameters"]["properties"]["expression"]["description"].split("functions ")[1].split(". ")[0].rstrip(".").split())
    from qgpu.chat.functions import FUNCTIONS
    assert names == set(FUNCTIONS) - {"matmul"}
