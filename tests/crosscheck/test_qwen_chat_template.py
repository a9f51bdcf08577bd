"""The chat format held to a checkpoint's own jinja template, where there is one: set QGPU_QWEN_FOLDER to its folder."""

import json
import os
import random
from pathlib import Path

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("transformers")

from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402

from qgpu.errors import UsageError  # noqa: E402
from qgpu.qwen.chat import render  # noqa: E402

pytestmark = pytest.mark.crosscheck

WORDS = ["hi", " spaced ", "line\n\nbreak", "", "<tool_response>\n1\n</tool_response>", "<think>\nhm\n</think>\n\nyes", "é 日本"]
VALUES = [1, 2.5, True, None, "text", "two\nlines", [1, "é"], {"a": [None]}]


@pytest.fixture(scope="module")
def template():
    folder = os.environ.get("QGPU_QWEN_FOLDER")
    if not folder:
        pytest.skip("QGPU_QWEN_FOLDER is not set")
    file = Path(folder) / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    return json.loads((Path(folder) / "tokenizer_config.json").read_text(encoding="utf-8"))["chat_template"]


def conversation(rng):
    """A random one, sensible or not."""
    messages = [{"role": "system", "content": rng.choice(WORDS)}] if rng.random() < 0.4 else []
    for _ in range(rng.randint(1, 7)):
        message = {"role": rng.choice(["user", "assistant", "assistant", "tool"]), "content": rng.choice(WORDS)}
        if message["role"] == "assistant":
            if rng.random() < 0.3:
                message["reasoning_content"] = rng.choice(WORDS)
            if rng.random() < 0.4:
                calls = [
                    {"name": f"f{i}", "arguments": {f"p{j}": rng.choice(VALUES) for j in range(rng.randint(0, 3))}}
                    for i in range(rng.randint(1, 3))
                ]
                message["tool_calls"] = [{"function": call} if rng.random() < 0.5 else call for call in calls]
        elif rng.random() < 0.2:
            message["content"] = [{"type": "text", "text": w} for w in rng.choices(WORDS, k=2)]
        messages.append(message)
    return messages


def test_random_conversations(template):
    rng = random.Random(1)
    same = 0
    for _ in range(2000):
        messages, reply, thinking = conversation(rng), rng.random() < 0.7, rng.random() < 0.3
        try:
            theirs = render_jinja_template(
                [messages], chat_template=template, add_generation_prompt=reply, enable_thinking=thinking
            )[0][0]
        except Exception as error:  # what the template itself refuses
            assert "Exception" in type(error).__name__ or "Error" in type(error).__name__
            with pytest.raises(UsageError):
                render(messages, reply=reply, thinking=thinking)
            continue
        assert render(messages, reply=reply, thinking=thinking) == theirs, messages
        same += 1
    assert same > 1000
