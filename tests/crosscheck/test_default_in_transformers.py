"""Three kernels of the `default` machine in transformers (torch, bf16, CPU): warps of 32, barriers, atomics, two thread blocks.

The whole token stream in one call, by the chunked rule: at every generated position the argmax over the vocabulary is the token
that the sparse engine wrote, and the machine interpreter expects.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import qgpu  # noqa: E402
from qgpu.compile.export import export_checkpoint  # noqa: E402
from qgpu.engine import make_engine  # noqa: E402
from qgpu.machine.description import DEFAULT  # noqa: E402
from qgpu.machine.tokens import Vocabulary  # noqa: E402

pytestmark = pytest.mark.crosscheck

BARRIER = """
__global__ void turn(const int* in, int* out) {
    __shared__ int tile[40];
    int i = threadIdx.x, at = blockIdx.x * 40 + i;
    tile[i] = in[at] * 3 + i;
    __syncthreads();
    out[at] = tile[39 - i] + blockIdx.x;
}
"""
WARP = """
__global__ void warp(const unsigned* in, unsigned* out) {
    unsigned lane = threadIdx.x, v = in[lane];
    unsigned odd = __ballot_sync(0xffffffffu, v & 1);
    unsigned other = __shfl_xor_sync(0xffffffffu, v, 16);
    out[lane] = v < 50 ? __popc(odd) + other : odd ^ (v * 0x9e3779b9u);
}
"""
ATOMIC = """
__global__ void count(const int* in, int* bins) {
    int v = in[blockIdx.x * 8 + threadIdx.x];
    if (v >= 0) atomicAdd(&bins[v % 3], v);
}
"""
I32 = np.int32
LAUNCHES = {
    "turn": (BARRIER, 2, 40, lambda: [np.arange(-40, 40, dtype=I32) * 12345, np.zeros(80, I32)]),
    "warp": (WARP, 1, 32, lambda: [(np.arange(32, dtype=np.uint32) * 7919) % 101, np.zeros(32, np.uint32)]),
    "count": (ATOMIC, 2, 8, lambda: [np.array([5, -1, 7, 9, 1000000, 2, -3, 4] * 2, I32), np.zeros(3, I32)]),
}


@pytest.fixture(scope="module")
def streams():
    """kernel -> (setup ids, generated ids), each token checked against the interpreter, the memory against PTX."""
    engine, out = make_engine(DEFAULT), {}
    for name, (source, grid, block, arguments) in LAUNCHES.items():
        engine.reset()
        result = qgpu.launch(source, name, grid, block, arguments(), check=True, engine=engine, machine=DEFAULT)
        assert result.check.mismatches == 0
        out[name] = result.tokens[:result.setup], result.tokens[result.setup:]
    return out


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The exported checkpoint, loaded by transformers."""
    folder = export_checkpoint(DEFAULT, tmp_path_factory.mktemp("default") / "checkpoint")
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()


def test_streams_use_what_only_default_has(streams):
    """Several groups, warps and thread blocks, and a new round after a barrier."""
    v = Vocabulary(DEFAULT)
    kinds = {v.token(i).kind for _, generated in streams.values() for i in generated}
    assert kinds >= {"INIT", "NEXT", "PARK", "WARP", "BLOCK", "MEM", "EXEC", "END"}
    rounds = [v.token(i).fields for i in streams["turn"][1] if v.token(i).kind == "WARP"]
    assert (0, 0, 0) in rounds


@pytest.mark.parametrize("name", LAUNCHES)
@torch.no_grad()
def test_every_generated_token(model, streams, name):
    setup, generated = streams[name]
    ids = torch.tensor([setup + generated])
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[0, len(setup) - 1:-1]     # (generated, D)
    best = torch.cat([model.lm_head(part).argmax(-1) for part in hidden.split(256)])
    assert best.tolist() == generated
