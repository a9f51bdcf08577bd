"""A scripted language model: canned answers in the sampler's place. Everything else is real: tokenizer, forward passes, caches, launches."""

import dataclasses
import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from qgpu.chat.calls import ToolCall
from qgpu.chat.tools import MODES, system_message, written

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


def write_tokenizer(folder, size):
    """A byte-pair tokenizer of `size` tokens, trained on the system messages, with Qwen's marks as tokens."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([system_message(mode) for mode in MODES], trainers.BpeTrainer(
        vocab_size=size - len(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(SPECIAL[:3])
    t.add_tokens(SPECIAL[3:])
    t.save(str(folder / "tokenizer.json"))
    return t


def merged_base(root, cfg, machine):
    """A random model with Qwen's marks in its tokenizer, merged with a machine. Returns the folder."""
    from merge_models import make_base

    from qgpu.merge import merge
    base = make_base(root / "base", cfg)
    end = write_tokenizer(base, cfg.vocab_size - 20).token_to_id("<|im_end|>")
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((base / name).read_text())
        (base / name).write_text(json.dumps(settings | {"eos_token_id": end, "suppress_tokens": None}))
    return merge(base, root / "merged", machine).folder


MADE = {}


def merged_tiny(tmp_path_factory):
    """The same for all test files: two layers, and a machine that small kernels fit and that compiles in two seconds."""
    from merge_models import CONFIG, TINY
    if "tiny" not in MADE:
        cfg = dataclasses.replace(CONFIG, vocab_size=1000, num_hidden_layers=2, layer_types=("linear_attention", "full_attention"))
        MADE["tiny"] = merged_base(tmp_path_factory.mktemp("chat_tiny"), cfg, TINY)
    return MADE["tiny"]


def calc(expression):
    return written(ToolCall("calc", {"expression": expression}))


class Script:
    """answers: each a text, or an iterable of token ids (endless ones too). do: (answer, token number) -> called before that token."""

    def __init__(self, text, answers, do=None):
        self.text, self.answers, self.do = text, list(answers), do or {}
        self.number, self.asked = -1, []

    def choose(self, logits, seen):
        if not seen:
            self.number += 1
            answer = self.answers[self.number]
            self.left = iter(self.text.encode(answer) if isinstance(answer, str) else answer)
            self.asked.append(logits.copy())
        for at, action in list(self.do.items()):
            if at == (self.number, len(seen)):
                action()
        return next(self.left, self.text.id_of("<|im_end|>"))


class Log:
    """A chat.session.Screen that remembers."""

    def __init__(self):
        self.said, self.events = "", []

    def piece(self, text):
        self.said += text
        if self.events and self.events[-1][0] == "said":
            self.events[-1] = ("said", self.events[-1][1] + text)
        else:
            self.events.append(("said", text))

    def call(self, call, attempt):
        self.events.append(("call", call.name, attempt))

    def outcome(self, outcome):
        self.events.append(("outcome", outcome.good, outcome.text))

    def notice(self, text):
        self.events.append(("notice", text))

    def kinds(self):
        return [e[0] for e in self.events]
