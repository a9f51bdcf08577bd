"""A layer computed by hand, of the kind the circuit compiler makes: exact integers, huge constants, overflow on purpose.

Units are products of two thresholds, a memory head stores four bits at one of sixteen addresses, and reserved dims
silence the layer on text by overflowing the norms of q and k. transformers, the naive and the fast forward must agree
on every bit of the residual stream, token by token and in chunks, and with plain integer arithmetic.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from qgpu.bf16 import decode, encode  # noqa: E402
from qgpu.qwen import naive  # noqa: E402
from qgpu.qwen.cache import new_cache  # noqa: E402
from qgpu.qwen.config import FULL, LINEAR, Config  # noqa: E402
from qgpu.qwen.fast import FastModel  # noqa: E402
from qgpu.qwen.hooks import Recorder  # noqa: E402
from qgpu.qwen.load import load_weights  # noqa: E402
from qgpu.qwen.synthetic import save, tensors_of  # noqa: E402
from qgpu.qwen.weights import FullLayer, LinearLayer, Weights, layer_shapes  # noqa: E402

pytestmark = pytest.mark.crosscheck

D, HEADS, SIZE = 2048, 16, 128
MACHINE, TEXT = 400, 100  # tokens
CONSTANT, RESERVED = (0, 1), (2, 3)  # dims
BITS = range(8, 40)  # 32 input bits
ADDRESS, WRITE, DATA = range(8, 12), 12, range(13, 17)
OUT = 100  # the units' results, then 4 bits read from memory
UNITS = 200
CFG = Config(
    vocab_size=MACHINE + TEXT,
    hidden_size=D,
    intermediate_size=16,
    num_hidden_layers=2,
    num_attention_heads=1,
    num_key_value_heads=1,
    head_dim=256,
    linear_num_key_heads=HEADS,
    linear_num_value_heads=HEADS,
    layer_types=(LINEAR, FULL),
)
BIG = 162.0 * 2.0**26


def build(seed):
    """Weights, and each unit's two forms as (33,) integers: coefficients of the 32 bits, then a constant."""
    rng = np.random.default_rng(seed)
    zero = {name: np.zeros(shape, np.float32) for name, shape in layer_shapes(CFG, 0).items()}
    w = LinearLayer(**zero)
    w.input_norm[:] = 2.0**15
    w.input_norm[list(CONSTANT)] = 1 / 32 - 1
    w.input_norm[list(RESERVED)] = 0
    w.conv[:, -1] = 1
    w.gated_norm[:] = 162 / 128
    q, k, v = w.qkv[: HEADS * SIZE], w.qkv[HEADS * SIZE : 2 * HEADS * SIZE], w.qkv[2 * HEADS * SIZE :]
    forms = []
    for h in range(HEADS):
        base = h * SIZE
        v[base : base + 2, CONSTANT[0]] = BIG
        w.z[base : base + SIZE, CONSTANT[0]] = 128
        for row, sign in enumerate((1, -1)):  # the last two rows of q and k look at the reserved dims
            for part in (q, k):
                part[base + SIZE - 2 + row, RESERVED[0]] = sign * 2.0**100
        if h == 0:  # the memory head
            w.dt_bias[h] = -200
            w.b[h, WRITE], w.b[h, CONSTANT[0]] = 256, -128
            for row in range(16):
                for part in (q, k):
                    for i, dim in enumerate(ADDRESS):
                        part[base + row, dim] = 128 if row >> i & 1 else -128
                    part[base + row, CONSTANT[0]] = 128 * (1 - bin(row).count("1"))
            for i, dim in enumerate(DATA):
                v[base + 2 + i, dim] = 128
                w.out[OUT + UNITS + i, base + 2 + i] = 2.0**16
            continue
        w.dt_bias[h] = 200
        w.b[h, CONSTANT[0]] = 128
        q[base, CONSTANT[0]] = k[base, CONSTANT[0]] = 128
    for u in range(UNITS):
        lane = SIZE + u // 120 * SIZE + 2 + u % 120
        f, g = (rng.integers(-2, 3, 33) * (rng.random(33) < 0.3) for _ in range(2))
        f[32], g[32] = rng.integers(1, 3, 2)
        v[lane, list(BITS)], v[lane, CONSTANT[0]] = 128 * f[:32], 128 * f[32]
        w.z[lane, list(BITS)], w.z[lane, CONSTANT[0]] = 128 * g[:32], 128 * g[32]
        w.out[OUT + u, lane] = 2.0**16
        forms.append((f, g))
    for name, tensor in vars(w).items():
        setattr(w, name, encode(tensor))
        assert np.array_equal(decode(getattr(w, name)), tensor), name
    nothing = FullLayer(**{name: np.zeros(shape, np.uint16) for name, shape in layer_shapes(CFG, 1).items()})
    embed = np.zeros((MACHINE + TEXT, D), np.float32)
    embed[:MACHINE, list(CONSTANT)] = 2.0**20
    embed[:MACHINE, BITS.start : BITS.stop] = rng.integers(0, 2, (MACHINE, len(BITS)))
    embed[MACHINE:] = rng.standard_normal((TEXT, D)) * 0.02
    embed[MACHINE:, RESERVED[0]] = 0.01 + rng.random(TEXT)
    bits = encode(embed)
    return Weights(bits, [w, nothing], np.zeros(D, np.uint16), bits.copy()), forms


def expected(tokens, embed, forms):
    """What the layer adds, by integer arithmetic. (n, UNITS + 4)."""
    memory, out = {}, np.zeros((len(tokens), UNITS + 4))
    for t, token in enumerate(tokens):
        if token >= MACHINE:
            continue
        x = np.concatenate([embed[token, BITS.start : BITS.stop], [1]])
        for u, (f, g) in enumerate(forms):
            out[t, u] = max(0, f @ x) * max(0, g @ x)
        bit = {dim: int(embed[token, dim]) for dim in BITS}
        address = sum(bit[dim] << i for i, dim in enumerate(ADDRESS))
        if bit[WRITE]:
            memory[address] = [bit[dim] for dim in DATA]
        out[t, UNITS:] = memory.get(address, [0] * 4)
    return out


def widened(layer):
    """The same layer with float32 arrays that hold the bf16 numbers."""
    fields = {name: None if tensor is None else decode(tensor) for name, tensor in vars(layer).items()}
    return type(layer)(**fields)


@pytest.fixture
def residuals(monkeypatch):
    """What each fast forward leaves in the residual stream. (A hook would make it take the naive functions.)"""
    seen, inner = [], FastModel._layers

    def layers(self, ids, cache):
        seen.append(inner(self, ids, cache))
        return seen[-1]

    monkeypatch.setattr(FastModel, "_layers", layers)
    return seen


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_every_bit(tmp_path, seed, residuals):
    torch.set_num_threads(1)
    weights, forms = build(seed)
    save(tmp_path, CFG, tensors_of(CFG, weights))
    theirs = transformers.Qwen3_5ForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    cfg, weights = load_weights(tmp_path)
    model = FastModel(cfg, weights)
    embed = decode(weights.embed)
    wide = Weights(embed, [widened(layer) for layer in weights.layers], decode(weights.norm), embed)
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, MACHINE + TEXT, 150)
    text = tokens >= MACHINE
    added = expected(tokens, embed, forms)
    assert (added[:, :UNITS] > 1).sum() > 1000 and added[:, UNITS:].sum() > 50
    for split in ([150], [70, 1, 1, 64, 14], [1] * 40):  # the second layer is all zeros and adds nothing
        cache, plain_cache, fast_cache = None, new_cache(cfg), new_cache(cfg)
        judged, plain = [], Recorder(lambda name: name == "blocks.1.hook_resid_post")
        residuals.clear()
        n = sum(split)
        for part in np.split(tokens[:n], np.cumsum(split)[:-1]):
            with torch.no_grad():
                result = theirs(torch.from_numpy(part)[None], cache=cache, use_cache=True, output_hidden_states=True)
            cache = result.cache
            judged.append(result.hidden_states[1][0].float().numpy())
            naive.forward(part, wide, cfg, plain_cache, hook=plain, last=True)
            model.forward(part, fast_cache, last=True)
        judged = np.concatenate(judged)  # (n, D)
        for ours in (np.concatenate(plain["blocks.1.hook_resid_post"]), np.concatenate(residuals)):
            assert np.array_equal(ours.view(np.uint32), judged.view(np.uint32))
        assert np.array_equal(judged[text[:n]], embed[tokens[:n][text[:n]]])
        assert np.array_equal(judged[:, OUT : OUT + UNITS + 4][~text[:n]], added[:n][~text[:n]])
