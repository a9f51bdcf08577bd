"""The chat format turn by turn, tokenizers, and streaming that keeps characters whole."""

import numpy as np
import pytest
from qwen_shapes import CONFIGS
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from qgpu.errors import CheckpointError, UsageError
from qgpu.qwen import Model, Sampling, hub
from qgpu.qwen.chat import render
from qgpu.qwen.synthetic import random_weights
from qgpu.qwen.text import Text, complete, generate

USER = {"role": "user", "content": " What is 6 x 7? "}
ASSISTANT = {"role": "assistant", "content": "<think>\nSix sevens.\n</think>\n\n42"}
CALL = {
    "role": "assistant",
    "content": "Let me see.",
    "tool_calls": [
        {"function": {"name": "mul", "arguments": {"a": 6, "b": [7, "é"], "c": True}}},
        {"name": "now"},
    ],
}


def test_system_and_user():
    text = render([{"role": "system", "content": "Be brief.\n"}, USER])
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is 6 x 7?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    assert render([USER], thinking=True).endswith("<|im_start|>assistant\n<think>\n")
    assert render([USER], reply=False) == "<|im_start|>user\nWhat is 6 x 7?<|im_end|>\n"


def test_thoughts_stay_only_after_the_last_question():
    assert render([USER, ASSISTANT], reply=False).endswith(
        "<|im_start|>assistant\n<think>\nSix sevens.\n</think>\n\n42<|im_end|>\n"
    )
    assert "<|im_start|>assistant\n42<|im_end|>\n" in render([USER, ASSISTANT, USER])
    explicit = {"role": "assistant", "content": "42", "reasoning_content": " Hm. "}
    assert "<think>\nHm.\n</think>\n\n42" in render([USER, explicit], reply=False)


def test_tool_calls_and_answers():
    text = render([USER, CALL, {"role": "tool", "content": "42"}, {"role": "tool", "content": "noon"}], reply=False)
    assert text == (
        "<|im_start|>user\nWhat is 6 x 7?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\nLet me see.\n\n"
        "<tool_call>\n<function=mul>\n<parameter=a>\n6\n</parameter>\n"
        '<parameter=b>\n[7, "é"]\n</parameter>\n<parameter=c>\nTrue\n</parameter>\n</function>\n</tool_call>\n'
        "<tool_call>\n<function=now>\n</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n42\n</tool_response>\n<tool_response>\nnoon\n</tool_response><|im_end|>\n"
    )


def test_a_wrapped_answer_from_the_user_is_no_question():
    wrapped = {"role": "user", "content": "<tool_response>\n42\n</tool_response>"}
    assert "<think>\nSix sevens." in render([USER, ASSISTANT, wrapped])


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "x"}],
        [USER, {"role": "system", "content": "late"}],
        [{"role": "robot", "content": "x"}, USER],
        [{"role": "user", "content": [{"type": "image", "image": "x"}]}],
        [USER, {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": "{}"}]}],
    ],
)
def test_conversations_that_are_refused(messages):
    with pytest.raises(UsageError):
        render(messages)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A byte-level tokenizer with one token a byte and two special tokens, as small as they come."""
    folder = tmp_path_factory.mktemp("tokenizer")
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    return Text(folder)


SAMPLES = ["plain", "naïve Ünïcödé", "日本語のテキスト", "👩‍👩‍👧 family 🇪🇺", "a\ufffdb", "\ufffd", "", "é" * 50]


@pytest.mark.parametrize("sample", SAMPLES)
def test_streaming_keeps_characters_whole(text, sample):
    ids = text.encode(sample)
    pieces = list(text.stream(ids))
    assert "".join(pieces) == text.decode(ids) == sample
    assert all(pieces)
    if "\ufffd" not in sample:
        assert not any("\ufffd" in piece for piece in pieces)


def test_bytes_that_are_no_text_come_out_at_the_end(text):
    broken = text.encode("ab日")[:-1]
    assert "".join(text.stream(broken)) == text.decode(broken)
    assert list(text.stream(broken))[:2] == ["a", "b"]


def test_special_tokens(text):
    ids = text.encode("<|im_start|>hi<|im_end|>")
    assert ids[0] == text.id_of("<|im_start|>") and len(ids) == 4
    assert text.decode(ids) == "hi" and text.decode(ids, special=True) == "<|im_start|>hi<|im_end|>"
    assert text.id_of("<|nowhere|>") is None


def test_bad_tokenizers(tmp_path):
    with pytest.raises(CheckpointError, match="missing"):
        Text(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(CheckpointError, match="cannot be read"):
        Text(tmp_path)


def test_generation_from_text(text):
    import dataclasses

    cfg = dataclasses.replace(CONFIGS["16/32 untied"], vocab_size=258)
    model = Model(cfg, random_weights(cfg, seed=4))
    whole = "".join(generate(model, text, "hello", 20, sampling=Sampling(1.0, seed=3)))
    again = "".join(generate(model, text, [{"role": "user", "content": "hello"}], 20, sampling=Sampling(1.0, seed=3)))
    assert whole == again and whole
    weights = random_weights(cfg, seed=4)
    weights.head = np.zeros_like(weights.head)
    weights.head[text.id_of("<|im_end|>")] = 0x3F80  # a row of ones: the end, or everything else at 0
    short = Model(cfg, weights)
    assert len("".join(complete(short, text, "hello", 5))) <= 5


def test_hub_names(tmp_path, monkeypatch):
    import huggingface_hub

    assert hub.find(tmp_path) == tmp_path
    with pytest.raises(UsageError, match="no such folder"):
        hub.find(tmp_path / "nowhere")
    for name in ("x" * 5000, "a\0b"):
        with pytest.raises(UsageError, match="no such folder"):
            hub.find(name)
    with pytest.raises(CheckpointError, match="nor a name that the hub allows"):
        hub.find("owner/a--b")
    asked = []

    def download(name, **options):
        asked.append((name, options))
        if name.endswith("offline"):
            raise huggingface_hub.errors.LocalEntryNotFoundError("no connection")
        if name.endswith("broken"):
            raise RuntimeError("the connection broke off")  # as the HTTP library's errors: no kind of the hub's
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert hub.find("owner/model") == tmp_path
    assert "*.safetensors" in asked[0][1]["allow_patterns"]
    for name in ("owner/offline", "owner/broken"):
        with pytest.raises(CheckpointError, match="could not be downloaded"):
            hub.find(name)
