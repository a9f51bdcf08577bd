"""Merged models held to transformers: text to the bit, launches by `generate` over the whole vocabulary."""

import dataclasses
import functools
import json
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "merge"))

from merge_models import ARTICLE_CONFIG, CONFIG, REMAINDER, TINY, make_base  # noqa: E402

import qgpu  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402
from qgpu.machine.tokens import Vocabulary  # noqa: E402
from qgpu.merge import compare, load, merge  # noqa: E402
from qgpu.runtime.launchfile import find_launch_comments  # noqa: E402
from qgpu.runtime.source import open_source  # noqa: E402

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


def open_model(folder, kind=transformers.AutoModelForCausalLM):
    return kind.from_pretrained(folder, dtype=torch.bfloat16).eval()


@torch.no_grad()
def logits(model, ids, rows, step=1000):
    """float32 (n, rows) over the head's first rows, in pieces of `step` tokens through one cache.

    The product is taken here, with heads of one size: torch's bf16 products choose their order of summation by shape, so
    that one hidden state may give other last bits with more rows below.
    """
    cache, parts = None, []
    head = model.lm_head.weight[:rows]
    for at in range(0, len(ids), step):
        out = model.model(input_ids=torch.tensor(np.asarray(ids[at:at + step]))[None], past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        parts.append(torch.nn.functional.linear(out.last_hidden_state[0], head).float().numpy())
    return np.concatenate(parts)


def differing(a, b):
    return int((np.ascontiguousarray(a).view(np.uint32) != np.ascontiguousarray(b).view(np.uint32)).sum())


def text(count, vocabulary, seed=0):
    return np.random.default_rng(seed).integers(0, vocabulary, count)


@torch.no_grad()
def generated(model, ids, machine, first, most):
    """What transformers' generate writes after ids: greedily, over the whole vocabulary, until the launch ends."""
    stop = [first + Vocabulary(machine).base[kind] for kind in ("END", "TRAP")]
    model.generation_config.suppress_tokens = None           # those are for text
    how = transformers.GenerationConfig(do_sample=False, max_new_tokens=most, eos_token_id=stop, pad_token_id=stop[0])
    out = model.generate(torch.tensor(ids)[None], generation_config=how)
    return out[0, len(ids):].tolist()


def streams_agree(model, merged, vocabulary, launches, before=40, between=25):
    """Text, a launch, text, a launch, ...: each launch's tokens in transformers as in the skipping engine."""
    stream, seed, engine = [], 100, merged.engine()
    for source, kernel, block, args in launches:
        stream += text(before if not stream else between, vocabulary, seed).tolist()
        seed += 1
        result = qgpu.launch(source, kernel, 1, block, args(), engine=engine, machine=merged.machine)
        ids = [t + merged.first for t in result.tokens]
        stream += ids[:result.setup]
        ours = ids[result.setup:]
        assert generated(model, stream, merged.machine, merged.first, len(ours) + 5) == ours, kernel
        stream += ours
    return stream


# ---- a machine that is made in seconds ------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    base = make_base(root / "base", dataclasses.replace(CONFIG, vocab_size=600))
    return base, merge(base, root / "merged", TINY).folder


@pytest.mark.crosscheck
def test_text_has_the_same_bits(tiny):
    base, merged = (open_model(f) for f in tiny)
    ids = text(400, 600)
    assert differing(logits(merged, ids, 600, 250), logits(base, ids, 600, 250)) == 0
    assert differing(logits(merged, ids[:10], 600, 1), logits(base, ids[:10], 600, 1)) == 0
    with torch.no_grad():
        whole = [m(input_ids=torch.tensor(ids[:60])[None]).logits[0].float().numpy() for m in (base, merged)]
    assert np.allclose(whole[0], whole[1][:, :600], rtol=2 ** -7) and whole[1].shape[1] > 600


@pytest.mark.crosscheck
def test_text_generation_is_the_bases(tiny):
    base, merged = (open_model(f) for f in tiny)
    ids = torch.tensor(text(20, 600))[None]
    assert base.generate(ids, max_new_tokens=6, do_sample=False).tolist() == merged.generate(ids, max_new_tokens=6, do_sample=False).tolist()


@pytest.mark.crosscheck
def test_launches_with_text_around_them(tiny):
    model, merged = open_model(tiny[1]), load(tiny[1])
    launches = [(REMAINDER, "remainder", n, lambda v=v: [np.array(v, np.int32), np.zeros(len(v), np.int32)])
                for n, v in ((3, [4, 0, 5]), (2, [1, 8]))]
    streams_agree(model, merged, 600, launches)


@pytest.mark.crosscheck
def test_a_multimodal_checkpoint(tmp_path):
    """One that transformers itself wrote, vision tower and all."""
    inner = json.loads((make_base(tmp_path / "text", CONFIG) / "config.json").read_text())
    inner = {k: v for k, v in inner.items() if k not in ("architectures", "model_type", "dtype")}
    vision = dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=CONFIG.hidden_size, patch_size=4,
                  num_position_embeddings=16)
    config = transformers.Qwen3_5Config(text_config=inner, vision_config=vision, tie_word_embeddings=True)
    torch.manual_seed(0)
    kind = transformers.Qwen3_5ForConditionalGeneration
    kind(config).to(torch.bfloat16).save_pretrained(tmp_path / "base")
    result = merge(tmp_path / "base", tmp_path / "merged", TINY)
    base, merged = open_model(tmp_path / "base", kind), open_model(tmp_path / "merged", kind)
    ids = text(300, 400)
    assert differing(logits(merged, ids, 400), logits(base, ids, 400)) == 0
    old, new = dict(base.named_parameters()), dict(merged.named_parameters())
    seen = [n for n in old if "visual" in n]
    assert seen and all(torch.equal(old[n], new[n]) for n in seen)
    assert result.first == 400


# ---- the preset machine at the 2B's hidden size ---------------------------------------------------------------------
@pytest.fixture(scope="module")
def article(tmp_path_factory):
    root = tmp_path_factory.mktemp("article")
    base = make_base(root / "base", ARTICLE_CONFIG)
    yield base, merge(base, root / "merged", ARTICLE).folder


def from_file(name, args=None, block=None):
    source = open_source(KERNELS / f"{name}.cu")
    spec = find_launch_comments(source.text, source.name)[0]
    return source, spec.kernel, block or spec.block, lambda: [a.copy() if isinstance(a, np.ndarray) else a for a in (args or spec.args)]


@pytest.mark.slow
def test_ten_thousand_tokens_have_the_same_bits(article):
    base, merged = (open_model(f) for f in article)
    ids, different = text(10_000, 3000), 0
    for at in range(0, len(ids), 1000):
        different += differing(logits(merged, ids[at:at + 1000], 3000), logits(base, ids[at:at + 1000], 3000))
    assert different == 0


@pytest.mark.slow
def test_ten_thousand_tokens_in_our_own_forward_pass(article):
    base, merged = qgpu.qwen.load(article[0]), load(article[1])
    found = compare(base, merged, [text(10_000, 3000)], most=500)
    assert (found.tokens, found.different, found.base_max) == (10_000, 0, 0)


@pytest.mark.slow
def test_kernels_with_text_around_them(article):
    """Dot product, Collatz, divergent branches; text before, between and after."""
    model, merged = open_model(article[1]), load(article[1])
    collatz = [np.array([1, 2, 3, 6], np.uint32), np.zeros(4, np.int32)]
    branches = [np.array([-1, 3, 20, 100], np.int32), np.zeros(4, np.int32), 4]
    stream = streams_agree(model, merged, 3000, [from_file("dot"), from_file("collatz", collatz, (4, 1, 1)), from_file("branches", branches, (4, 1, 1))])
    after = text(30, 3000, 7)
    talk = load(article[0].parent / "merged").conversation()
    assert len(stream) > 500 and talk.generate(after, 5) == qgpu.qwen.load(article[0]).generate(after, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dot", "collatz", "branches"])
def test_both_ways_through_the_article_machine(article, name):
    """The skipping engine and all layers of qgpu's forward pass write the same tokens."""
    merged = load(article[1])
    args = {"collatz": [np.array([1, 2, 3, 6], np.uint32), np.zeros(4, np.int32)],
            "branches": [np.array([-1, 3, 20, 100], np.int32), np.zeros(4, np.int32), 4]}.get(name)
    source, kernel, block, made = from_file(name, args, (4, 1, 1))
    run = functools.partial(qgpu.launch, source, kernel, 1, block, machine=ARTICLE, check=True)
    talk = merged.conversation(full=True)
    talk.forward(text(40, 3000))
    assert run(made(), engine=talk.engine()).tokens == run(made(), engine=merged.engine()).tokens
