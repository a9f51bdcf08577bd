"""CUDA programs, compiled by whatever front-end is there, through the PTX interpreter; results worked out in Python."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from math import gcd

import manifest
import pytest

from qgpu.cuda import available, compile_cuda
from qgpu.errors import FaultError
from qgpu.ptx import parse_ptx
from qgpu_reference.ptx import launch

pytestmark = pytest.mark.skipif(not available(), reason="no CUDA front-end is installed")

KERNELS = [kernel.path for kernel in manifest.KERNELS if kernel.machine == "article"]  # tests/kernels runs all of them
FORMAT = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}


def pack(kind, values):
    return struct.pack(f"<{len(values)}{FORMAT[kind]}", *values)


def unpack(kind, data):
    return list(struct.unpack(f"<{len(data) // struct.calcsize(FORMAT[kind])}{FORMAT[kind]}", data))


def compile_module(source, filename="test.cu"):
    return parse_ptx(compile_cuda(source, filename=filename).ptx, filename)


@pytest.mark.parametrize("path", KERNELS, ids=[p.stem for p in KERNELS])
@pytest.mark.parametrize("warp_size", [4, 32])
def test_kernels_give_what_their_comment_expects(path, warp_size):
    text = path.read_text(encoding="utf-8")
    spec = json.loads(next(line for line in text.splitlines() if line.startswith("// qgpu:"))[len("// qgpu:"):])
    if "expect" not in spec or "warp" in spec:
        pytest.skip("the comment expects nothing, or a warp of its own")
    args = [a if isinstance(a, int) else pack(a["type"], a["data"] if "data" in a else [0] * a["zeros"]) for a in spec["args"]]
    out = launch(compile_module(text, path.name), spec["kernel"], spec["grid"], spec["block"], args, warp_size=warp_size,
                 shared_bytes=spec.get("shared_bytes", 0))
    found = [None if data is None else unpack(a["type"], data) for a, data in zip(spec["args"], out.arrays)]
    assert found == spec["expect"]


PROGRAM = r"""
__constant__ unsigned table[4] = {3, 5, 7, 11};
__device__ unsigned total = 100;

__global__ void reduce(const int *in, int *out, int n)
{
    __shared__ int tile[64];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    tile[threadIdx.x] = sum;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            tile[threadIdx.x] += tile[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(out, tile[0]);
}

__global__ void histogram(const unsigned char *in, unsigned *out, int n)
{
    __shared__ unsigned bins[16];
    if (threadIdx.x < 16)
        bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        atomicAdd(&bins[in[i] & 15], 1u);
    __syncthreads();
    if (threadIdx.x < 16)
        atomicMax(&out[threadIdx.x], bins[threadIdx.x]);
}

__device__ __noinline__ unsigned euclid(unsigned a, unsigned b)
{
    return b == 0 ? a : euclid(b, a % b);
}

struct Shape { int width; short depth; unsigned char tag; long long offset; };

__global__ void mixed(const unsigned *a, const unsigned *b, long long *out, Shape shape)
{
    int i = threadIdx.x;
    unsigned g = euclid(a[i], b[i]);
    long long big = (long long)(int)a[i] * (int)b[i] + shape.offset;
    big = (big >> 3) ^ (unsigned long long)(a[i] / (b[i] | 1)) << 20;
    int work[8];
    for (int k = 0; k < 8; k++)
        work[k] = (int)(a[i] >> k) * shape.depth;
    big += work[b[i] & 7] + shape.tag + shape.width + table[i & 3];
    switch (i % 5) {
    case 0: big += 1; break;
    case 1: big -= 20; break;
    case 3: big *= 3; break;
    default: big = -big;
    }
    out[i] = big * g;
    if (i == 0)
        atomicAdd(&total, 11u);
}

__global__ void warp(unsigned *out)
{
    int i = threadIdx.x;
    unsigned votes = __ballot_sync(0xffffffffu, i % 3 == 0);
    int scan = i;
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(0xffffffffu, scan, d);
        if (i >= d)
            scan += other;
    }
    out[i] = scan + __popc(votes) + __clz(i) + __ffs(i) + (__brev(i) >> 27) + __byte_perm(i, 0x01020304, 0x4560)
           + __shfl_sync(0xffffffffu, i, 3, 8) + (__any_sync(0xffffffffu, i == 31) ? 1000 : 0);
}

__global__ void uninitialised(int *out)
{
    __shared__ int tile[32];
    if (threadIdx.x != 5)
        tile[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

__global__ void outside(int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        out[i] = i;
}
"""


@pytest.fixture(scope="module")
def program():
    return compile_module(PROGRAM)


def test_reduction_over_blocks(program):
    values = [random.Random(1).randrange(-2 ** 31, 2 ** 31) for _ in range(300)]
    out = launch(program, "reduce", 3, 64, [pack("i32", values), bytes(4), 300])
    assert unpack("u32", out.arrays[1]) == [sum(values) % 2 ** 32]


def test_histogram_with_atomics(program):
    values = [random.Random(2).randrange(256) for _ in range(200)]
    out = launch(program, "histogram", 1, 48, [bytes(values), bytes(64), 200])
    counts = Counter(v % 16 for v in values)
    assert unpack("u32", out.arrays[1]) == [counts[k] for k in range(16)]


def test_recursion_structs_local_arrays_and_wide_numbers(program):
    rng = random.Random(3)
    a = [rng.choice([rng.randrange(2 ** 32), rng.randrange(1, 50), 2 ** 31, 2 ** 32 - 1]) for _ in range(40)]
    b = [rng.choice([rng.randrange(2 ** 32), rng.randrange(1, 50), 2 ** 31, 2 ** 32 - 1]) for _ in range(40)]
    shape = struct.pack("<ihBxq", -7, -3, 250, -10 ** 12)
    out = launch(program, "mixed", 1, 40, [pack("u32", a), pack("u32", b), bytes(320), shape])

    def signed(x, bits):
        x %= 2 ** bits
        return x - 2 ** bits if x >> (bits - 1) else x
    expected = []
    for i, (x, y) in enumerate(zip(a, b)):
        big = signed(signed(x, 32) * signed(y, 32) - 10 ** 12, 64)
        big = signed((big >> 3) ^ (x // (y | 1)) << 20, 64)
        work = signed(signed(x >> (y & 7), 32) * -3, 32)
        # work + tag + width are ints; the table's entry is unsigned, so the sum is.
        big += (work + 250 - 7 + (3, 5, 7, 11)[i & 3]) % 2 ** 32
        big = big + 1 if i % 5 == 0 else big - 20 if i % 5 == 1 else big * 3 if i % 5 == 3 else -big
        expected.append(signed(big * gcd(x, y), 64))
    assert unpack("i64", out.arrays[2]) == expected
    assert unpack("u32", out.globals["total"]) == [111]


def test_warp_functions(program):
    out = unpack("u32", launch(program, "warp", 1, 32, [bytes(128)]).arrays[0])
    for i, value in enumerate(out):
        leading = 32 - i.bit_length()
        first = (i & -i).bit_length()
        reverse = int(f"{i:05b}"[::-1], 2)
        permuted = (i & 0xFF) | 0x02 << 8 | 0x03 << 16 | 0x04 << 24  # selector 0x4560: bytes 0 of x, then 2, 1, 0 of y
        assert value == (i * (i + 1) // 2 + 11 + leading + first + reverse + permuted + i // 8 * 8 + 3 + 1000) % 2 ** 32


def test_faults_name_the_line_and_the_thread(program):
    with pytest.raises(FaultError) as e:
        launch(program, "uninitialised", 1, 32, [bytes(128)])
    assert "uninitialised" in str(e.value) and "thread (4, 0, 0)" in str(e.value) and "at byte 20" in str(e.value)
    assert e.value.where.startswith("test.cu:")
    line = PROGRAM[:PROGRAM.index("out[i] = i;")].count("\n") + 1
    with pytest.raises(FaultError) as e:
        launch(program, "outside", 2, 8, [bytes(40), 10])
    assert e.value.where.startswith(f"test.cu:{line} (PTX line ")
    assert "out of bounds" in str(e.value) and "block (1, 0, 0), thread (2, 0, 0)" in str(e.value)
    assert "0 bytes past the end of the array of argument 1 (40 bytes" in str(e.value)
