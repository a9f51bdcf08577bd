"""Launches on the machine `default`: grids, shared memory, wide blocks, structures, the choice of a preset, places of faults.

The reference interpreter plays the model."""

import numpy as np
import pytest
from reference_engine import ReferenceEngine

import qgpu
import qgpu.engine
from qgpu.errors import FaultError, LoweringError, UnsupportedError, UsageError
from qgpu.machine.description import ARTICLE, DEFAULT, Machine, load_machine
from qgpu.machine.tokens import Token, Vocabulary

SCALE = "__global__ void scale(int *a, int by) { a[threadIdx.x] *= by; }\n"
WHERE = """__global__ void where(int *a)
{
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    a[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
}
"""
REVERSE = """__global__ void reverse(int *a)
{
    extern __shared__ int s[];
    int i = threadIdx.x, at = blockIdx.x * blockDim.x;
    s[i] = a[at + i];
    __syncthreads();
    a[at + i] = s[blockDim.x - 1 - i];
}
"""
TABLE = """__constant__ unsigned char next[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int total = 100;
__global__ void table(int *a) { int scratch[9]; for (int i = 0; i < 9; i++) scratch[i] = a[0] + i;
    a[threadIdx.x] = next[threadIdx.x] + total + scratch[a[threadIdx.x + 1]]; }
"""
PAIR = """struct Pair { short low; long long high; };
__global__ void pair(long long *a, Pair p, int n) { a[threadIdx.x] = p.high + p.low * n; }
"""


@pytest.fixture
def engines(monkeypatch):
    """The names of the machines that engines are made for; the reference interpreter plays each."""
    made = []

    def make(machine, **_):
        made.append(machine.name)
        return ReferenceEngine(machine)
    monkeypatch.setattr(qgpu.engine, "make_engine", make)
    return made


def on_default(source, grid, block, args, **options):
    return qgpu.launch(source, None, grid, block, args, machine=DEFAULT, engine=ReferenceEngine(DEFAULT), check=True, **options)


@pytest.mark.parametrize("machine", [ARTICLE, DEFAULT], ids=lambda m: m.name)
@pytest.mark.parametrize("grid, block", [((3, 1, 1), (7, 1, 1)), ((2, 3, 2), (3, 2, 1)), ((1, 1, 5), (2, 1, 3)), ((1, 4, 1), (1, 5, 2))])
def test_grids_and_blocks_in_three_dimensions(machine, grid, block):
    threads, blocks = int(np.prod(block)), int(np.prod(grid))
    a = np.zeros((blocks, threads), np.int32)
    result = qgpu.launch(WHERE, "where", grid, block, [a], machine=machine, engine=ReferenceEngine(machine), check=True)
    assert (a == np.arange(blocks)[:, None] * 1000 + np.arange(threads)).all() and result.check.mismatches == 0
    assert result.grid == grid and result.block == block


def test_the_largest_block_and_more_than_one_token_of_grid():
    a = np.arange(256, dtype=np.int32)
    on_default(SCALE, 1, 256, [a, 5])
    assert (a == np.arange(256) * 5).all()
    b = np.zeros(600, np.int32)
    on_default("__global__ void mark(int *b) { b[blockIdx.y] = blockIdx.y; }\n", (1, 600), 1, [b])
    assert (b == np.arange(600)).all()


def test_dynamic_shared_memory():
    a = np.arange(80, dtype=np.int32)
    on_default(REVERSE, 2, 40, [a], shared_bytes=160)
    assert a.tolist() == [*range(39, -1, -1), *range(79, 39, -1)]
    with pytest.raises(UsageError, match="4100 bytes of shared memory"):
        on_default(REVERSE, 2, 40, [a], shared_bytes=4100)
    with pytest.raises(UsageError, match="count of bytes"):
        on_default(REVERSE, 2, 40, [a], shared_bytes=-4)


def test_tables_variables_and_local_arrays():
    a = np.array([8, 7, 6, 5, 4, 3, 2, 1, 0], np.int32)
    expected = [k + 100 + 8 + a[i + 1] for i, k in enumerate((3, 1, 4, 1, 5, 9, 2))]
    result = on_default(TABLE, 1, 1, [a])
    assert a[0] == expected[0] and result.program.data and result.program.frame_words


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_a_structure_is_given_as_its_bytes(dtype):
    a = np.zeros(3, np.int64)
    pair = np.frombuffer(np.array([-2 & 0xFFFF, 1 << 40], "<i8").tobytes(), dtype).copy()
    result = on_default(PAIR, 1, 3, [a, pair, 7])
    assert a.tolist() == [(1 << 40) - 14] * 3 and result.args[1] is pair and result.check.words == 6
    with pytest.raises(UsageError, match="structure of 16 bytes here, and an array of 15 bytes"):
        on_default(PAIR, 1, 3, [a, np.zeros(15, np.uint8), 7])


def test_the_smallest_preset_that_fits(engines):
    a = np.arange(33, dtype=np.int32)
    assert qgpu.launch(SCALE, "scale", 1, 32, [a, 2]).machine == ARTICLE
    assert qgpu.launch(SCALE, "scale", 1, 33, [a, 2]).machine == DEFAULT
    assert qgpu.launch(SCALE, "scale", 1, 4, [np.zeros(127, np.int32), 2]).machine == DEFAULT
    assert qgpu.launch(REVERSE, None, 1, 4, [a], shared_bytes=16).machine == DEFAULT
    assert qgpu.launch(SCALE, "scale", 1, 4, [a, 2], machine=DEFAULT).machine == DEFAULT
    assert engines == ["article", "default", "default", "default", "default"]


@pytest.mark.parametrize("source, block, args, options, kind, says", [
    (SCALE, 257, [np.zeros(1, np.int32), 2], {}, UsageError, ("article: a block of 257", "default: a block of 257", "use at most 256")),
    (SCALE, 64, [np.zeros(5000, np.int32), 2], {}, UsageError, ("article: a block of 64", "default: the arrays need 5000 words")),
    (REVERSE, 4, [np.zeros(4, np.int32)], {"shared_bytes": 5000}, UsageError, ("article: ", "default: ", "5000 bytes of shared")),
    ("__global__ void k(int *a) { a[0] = a[1] * 1.5f; }\n", 1, [np.zeros(2, np.int32)], {}, UnsupportedError, ("kernel.cu:1", "cvt")),
])
def test_a_launch_that_fits_nowhere_says_why_for_each_machine(engines, source, block, args, options, kind, says):
    with pytest.raises(kind) as e:
        qgpu.launch(source, None, 1, block, args, **options)
    for text in says:
        assert text in str(e.value)
    assert engines == []


def test_a_kernel_with_too_many_blocks_fits_nowhere(engines):
    steps = "".join(f" if (a[{i}] > {i}) a[{i + 1}] ^= a[{i}] / (a[{i + 2}] + {i});" for i in range(60))
    with pytest.raises(LoweringError, match="fits none of the machines article, default") as e:
        qgpu.launch(f"__global__ void long_one(int *a) {{{steps} }}\n", None, 1, 1, [np.ones(70, np.int32)])
    assert "article: " in str(e.value) and "default: " in str(e.value) and "126 blocks" in str(e.value)


def test_a_description_between_the_presets(tmp_path):
    path = tmp_path / "between.toml"
    path.write_text("groups = 2\nwarps = 3\nregisters = 20\nregister_classes = 3\nblocks = 60\nglobal_words = 300\nshared_words = 32\n"
                    "stage_bits = [2]\nstage_mulhi = [4]\n")
    machine = load_machine(path)
    a = np.arange(24, dtype=np.int32)
    qgpu.launch(REVERSE, None, 1, 24, [a], machine=machine, engine=ReferenceEngine(machine), check=True, shared_bytes=96)
    assert a.tolist() == list(range(23, -1, -1))


def test_an_engine_brings_its_machine():
    class Nameless(ReferenceEngine):
        def __init__(self):
            super().__init__(ARTICLE)
            del self.machine
    with pytest.raises(UsageError, match="without its machine"):
        qgpu.launch(SCALE, None, 1, 1, [np.zeros(1, np.int32), 2], engine=Nameless())
    small = Machine("small", warps=1)
    assert qgpu.launch(SCALE, None, 1, 1, [np.zeros(1, np.int32), 2], engine=ReferenceEngine(small)).machine == small


def test_threads_of_one_warp_see_cudas_warp_size():
    for machine in (ARTICLE, DEFAULT):
        a = np.zeros(4, np.int32)
        qgpu.launch("__global__ void w(int *a) { a[threadIdx.x] = warpSize; }\n", None, 1, 4, [a], machine=machine,
                    engine=ReferenceEngine(machine), check=True)
        assert a.tolist() == [32] * 4


def test_races_are_judged_before_the_launch(engines):
    a = np.arange(80, dtype=np.int32)
    with pytest.raises(FaultError, match="race: global 4-byte") as e:
        qgpu.launch("__global__ void sum(int *a) { a[0] += threadIdx.x; }\n", None, 1, 40, [a], race_check=True)
    assert "thread (" in str(e.value) and engines == [] and (a == np.arange(80)).all()
    qgpu.launch(REVERSE, None, 2, 40, [a], shared_bytes=160, race_check=True)
    assert a[0] == 39 and engines == ["default"]


BAD = """__global__ void bad(int *a, int far)
{
    if (blockIdx.y == 1 && threadIdx.x >= 37)
        a[threadIdx.x + far] = 1;
}
"""


def test_a_trap_names_kernel_line_block_and_thread():
    with pytest.raises(FaultError) as e:
        qgpu.launch(BAD, None, (1, 2), 40, [np.zeros(40, np.int32), 9000], machine=DEFAULT, engine=ReferenceEngine(DEFAULT))
    assert "kernel.cu:4" in str(e.value) and "kernel bad, block (0, 1, 0), thread (37, 0, 0)" in str(e.value)
    assert Vocabulary(DEFAULT).token(e.value.result.tokens[-1]) == Token("TRAP")


def test_a_launch_that_the_model_stops_names_its_threads():
    trap = Vocabulary(DEFAULT).id_of(Token("TRAP"))
    a = np.zeros(80, np.int32)
    good = qgpu.launch(BAD, None, (1, 2), 40, [a, 0], machine=DEFAULT, engine=ReferenceEngine(DEFAULT))
    last = max(k for k, t in enumerate(good.tokens) if Vocabulary(DEFAULT).token(t).kind == "EXEC") - good.setup
    with pytest.raises(FaultError, match=r"kernel bad, block \(0, 1, 0\), threads 36 to 39") as e:
        qgpu.launch(BAD, None, (1, 2), 40, [a, 0], machine=DEFAULT, engine=ReferenceEngine(DEFAULT, wrong={last: trap}))
    assert "finds no such access" in str(e.value)


DEADLOCK = """__global__ void lock(volatile int *a)
{
    while (a[threadIdx.x ^ 1] == 0);
    a[threadIdx.x] = 1;
}
"""


def test_lanes_that_wait_for_each_other_are_told_from_a_long_launch():
    with pytest.raises(FaultError, match="did not end within 500 generated tokens") as e:
        qgpu.launch(DEADLOCK, None, 1, 2, [np.zeros(2, np.int32)], engine=ReferenceEngine(ARTICLE), max_tokens=500, check=True)
    assert "endless loop" in str(e.value) and "kernel lock, block (0, 0, 0), thread (0, 0, 0)" in str(e.value)
