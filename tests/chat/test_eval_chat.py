"""tools/eval_chat.py: its questions, its judge, its file, and a run against a scripted model."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from reference_engine import ReferenceEngine
from scripted import Log, Script, calc

from qgpu.chat.calls import ToolCall
from qgpu.chat.device import Device
from qgpu.chat.open import open_session
from qgpu.chat.session import Turn
from qgpu.chat.tools import Outcome, written
from qgpu.errors import UsageError
from qgpu.machine.description import ARTICLE
from qgpu.qwen.text import Text

PATH = Path(__file__).resolve().parents[2] / "tools" / "eval_chat.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("eval_chat", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["eval_chat"] = module
    spec.loader.exec_module(module)
    return module


def test_the_questions(tool):
    normal = [q for q in tool.QUESTIONS if q.mode == "normal"]
    advanced = [q for q in tool.QUESTIONS if q.mode == "advanced"]
    assert len(normal) >= 24 and len(advanced) >= 5 and len({q.name for q in tool.QUESTIONS}) == len(tool.QUESTIONS)
    for q in tool.QUESTIONS:
        assert all(-2**31 <= v < 2**31 for v in q.answer)
    for q in normal:   # a model that repeats the question is not right
        assert not tool.says(tool.integers(q.text), q.answer) or q.name in ("largest", "prime"), q.name


def test_integers(tool):
    assert tool.integers("It is 14,029,218 or -3, not 2.5 nor v7; 1,2,3 and 10 \u22124 or 1{,}000.") == [14029218, -3, 1, 2, 3, 10, -4, 1000]
    assert tool.integers("[503,660,912]", grouped=False) == [503, 660, 912]
    assert tool.says([1, 2, 3], (2, 3)) and not tool.says([1, 2, 3], (3, 2))


def test_the_judge(tool):
    q = tool.Question("x", "?", (32,))
    good, bad = Outcome(ToolCall("calc", {}), "", True, 32), Outcome(ToolCall("calc", {}), "error", False)
    assert tool.judge(q, Turn("?", "It is 32.", [good])) == {"right": True, "on_gpu": True, "call": True, "tries": 1}
    assert tool.judge(q, Turn("?", "It is 33.", [bad, good])) == {"right": False, "on_gpu": True, "call": False, "tries": 2}
    assert tool.judge(q, Turn("?", "It is 32.", [])) == {"right": True, "on_gpu": False, "call": False, "tries": 0}
    assert tool.judge(q, Turn("?", "32", [good], problems=1))["call"] is False
    wide = Outcome(ToolCall("launch", {}), "", True, {3: [[1], [32]]})
    assert tool.judge(q, Turn("?", "", [wide])) == {"right": False, "on_gpu": True, "call": True, "tries": 1}


def test_against_a_scripted_model_and_again(tool, tiny, tmp_path):
    text = Text(tiny)
    session = open_session(tiny, Log(), check=True)
    session.toolbox.device = Device(lambda: ReferenceEngine(ARTICLE), check=False)
    questions = [q for q in tool.QUESTIONS if q.name in ("product", "largest", "kernel add")]
    kernel = written(ToolCall("launch", {"source": "__global__ void add(const int *a, const int *b, int *c) {\n    c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];\n}",
                                         "block": "3", "args": "[171, 282, 393]\n[919, 828, 737]\nzeros(3)"}))
    scripts = {"product": [calc("4738 * 2961"), "It is 14,029,218."], "largest": ["It is 3021."], "kernel add": [kernel, "[1090, 1110, 1130]"]}
    asked = []

    def ask(question, sample):
        asked.append((question.name, sample))
        return tool.asker(session, lambda _: Script(text, scripts[question.name]))(question, sample)
    path, settings = tmp_path / "eval.jsonl", {"model": "tiny"}
    records = tool.evaluate(ask, questions[:1], 1, path, settings)
    path.write_text(path.read_text() + '{"name": "largest", "sam')                       # killed while it wrote
    records = tool.evaluate(ask, questions, 1, path, settings)
    assert asked == [("product", 0), ("largest", 0), ("kernel add", 0)]
    assert [(r["right"], r["on_gpu"], r["call"], r["tries"]) for r in records] == [(True, True, True, 1), (True, False, False, 0), (True, True, True, 1)]
    assert tool.evaluate(ask, questions, 1, path, settings) == records and len(asked) == 3
    lines = tool.table(records).splitlines()
    assert len(lines) == 6 and lines[-2].split()[:5] == ["all", "normal", "2/2", "1/2", "1/2"] and lines[-1].split()[:3] == ["all", "advanced", "1/1"]
    with pytest.raises(UsageError, match="other settings"):
        tool.evaluate(ask, questions, 1, path, {"model": "another"})
    assert json.loads(path.read_text().splitlines()[0])["answer"] == "It is 14,029,218."


def test_the_command_line(tool, capsys):
    assert tool.main(["/nowhere"]) == 2
    assert "python -m qgpu merge" in capsys.readouterr().err
