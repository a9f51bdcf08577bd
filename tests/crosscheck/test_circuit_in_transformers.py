"""The exported article checkpoint in transformers (torch, bf16, CPU): greedy generation writes the tokens that the engines write.

Once with the setup prefilled in one call, which takes the chunked rule, and once token by token, the recurrent rule.
"""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import qgpu  # noqa: E402
from qgpu.compile.export import export_checkpoint  # noqa: E402
from qgpu.engine import make_engine  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402
from qgpu.machine.tokens import Token, Vocabulary  # noqa: E402

pytestmark = pytest.mark.crosscheck
KERNELS = Path(__file__).resolve().parents[2] / "kernels"
I32 = lambda *values: np.array(values, np.int32)
LAUNCHES = {
    "dot": (4, lambda: [I32(1, 2, 3), I32(4, 5, 6), I32(0)]),
    "collatz": (4, lambda: [np.array([1, 3, 6, 2], np.uint32), I32(0, 0, 0, 0)]),
    "branches": (4, lambda: [I32(-7, 5, 100, 2**31 - 1), I32(0, 0, 0, 0), 4]),
}


@pytest.fixture(scope="module")
def streams():
    """kernel -> (setup ids, generated ids), from the sparse engine, each token checked against the interpreter."""
    engine, out = make_engine(ARTICLE), {}
    for name, (threads, arguments) in LAUNCHES.items():
        engine.reset()
        result = qgpu.launch(KERNELS / f"{name}.cu", name, 1, threads, arguments(), check=True, engine=engine)
        assert result.check.mismatches == 0
        out[name] = result.tokens[:result.setup], result.tokens[result.setup:]
    return out


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """One thread: several, on processors that others use, wait for one another most of the time."""
    folder = export_checkpoint(ARTICLE, tmp_path_factory.mktemp("article") / "checkpoint")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    torch.set_num_threads(threads)


def test_streams_are_worth_comparing(streams):
    """Lanes diverge, loops repeat, values take several chunks."""
    v = Vocabulary(ARTICLE)
    outcomes = {o for _, generated in streams.values() for i in generated for o in [v.token(i)] if o.kind == "EXEC"}
    assert any({1, 2} <= set(o.fields[1]) for o in outcomes)
    assert {v.token(i).kind for _, generated in streams.values() for i in generated} >= {"VAL", "SVAL", "MEM", "EXEC", "END"}
    assert len(streams["dot"][1]) <= 20 and all(len(g) <= 110 for _, g in streams.values())


def test_it_is_a_plain_qwen_model(model):
    assert type(model).__name__ == "Qwen3_5ForCausalLM"
    kinds = model.config.layer_types
    assert len(kinds) <= 40 and kinds == ["linear_attention"] * (len(kinds) - 1) + ["full_attention"]
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("name", LAUNCHES)
@torch.no_grad()
def test_prefilled_in_one_call(model, streams, name):
    """`generate` as it comes: the setup is one chunked call, and END stops it."""
    setup, generated = streams[name]
    out = model.generate(torch.tensor([setup]), max_new_tokens=len(generated) + 5, do_sample=False)
    assert out[0].tolist() == setup + generated


@pytest.mark.parametrize("name", LAUNCHES)
@torch.no_grad()
def test_whole_stream_in_one_call(model, streams, name):
    """Every generated position at once, by the chunked rule alone."""
    setup, generated = streams[name]
    logits = model(torch.tensor([setup + generated]), use_cache=False).logits[0]
    assert logits[len(setup) - 1:-1].argmax(-1).tolist() == generated


@torch.no_grad()
def test_token_by_token(model, streams):
    """All launches side by side in one batch, NOPs in front of the shorter setups; each model token is fed back."""
    nop = Vocabulary(ARTICLE).id_of(Token("NOP"))
    longest = max(len(setup) for setup, _ in streams.values())
    rows = [[nop] * (longest - len(setup)) + setup for setup, _ in streams.values()]
    written = [[] for _ in rows]
    cache, ids = None, torch.tensor(rows)
    for position in range(longest + max(len(generated) for _, generated in streams.values()) - 1):
        if position < longest:
            now = ids[:, position:position + 1]
        else:
            now = torch.tensor([[row[-1]] for row in written])
        result = model(now, cache=cache, use_cache=True)
        cache = result.cache
        if position >= longest - 1:
            for row, token in zip(written, result.logits[:, -1].argmax(-1).tolist()):
                row.append(token)
    for (name, (_, generated)), row in zip(streams.items(), written):
        assert row[:len(generated)] == generated, name
