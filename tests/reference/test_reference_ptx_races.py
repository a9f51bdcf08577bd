"""Races on the PTX interpreter: what barriers, fences and atomics order, and what they do not."""

import numpy as np
import pytest

from qgpu.cuda import compile_cuda
from qgpu.errors import FaultError
from qgpu.ptx import parse_ptx
from qgpu_reference.ptx import launch

HEAD = "__global__ void k(int *a, int *b) { extern __shared__ int s[]; int i = threadIdx.x, n = blockDim.x; "


def run(body, grid=1, block=40, races=True):
    module = parse_ptx(compile_cuda(HEAD + body + " }\n").ptx)
    arrays = [np.arange(256, dtype=np.int32).tobytes(), bytes(1024)]
    return launch(module, None, grid, block, arrays, shared_bytes=1024, races=races)


CLEAN = {
    "own words": "b[i] = a[i];",
    "barrier": "s[i] = a[i]; __syncthreads(); b[i] = s[n - 1 - i];",
    "barrier in a loop": "s[i] = i; for (int d = 1; d < 40; d *= 2) { __syncthreads(); int v = s[(i + d) % n]; __syncthreads(); s[i] += v; }",
    "barrier of a warp": "s[i] = a[i]; __syncwarp(); b[i] = s[i ^ 1];",
    "atomics": "atomicAdd(b, a[i]);",
    "atomics of two blocks": "atomicAdd(b, 1); b[1 + blockIdx.x * n + i] = 1;",
    "the same value": "if (a[i] & 1) b[0] = 1;",
    "volatile": "((volatile int *)b)[0] = i; b[1 + i] = ((volatile int *)b)[0];",
    "reads": "b[i] = a[0] + a[(i + 1) % n];",
    "bytes of a word": "((char *)b)[i] = i;",
    "shared memory of two blocks": "s[i] = blockIdx.x; b[blockIdx.x * n + i] = s[i];",
    "a flag with fences": "if (i == 32) { b[0] = 7; __threadfence(); atomicExch(b + 1, 1); }"
                          "if (i == 0) { while (atomicAdd(b + 1, 0) == 0); __threadfence(); b[2] = b[0]; }",
    "the last block": "b[4 + blockIdx.x * n + i] = i; __syncthreads();"
                      "if (i == 0) { __threadfence(); s[0] = atomicAdd(b, 1); __threadfence(); } __syncthreads();"
                      "if (s[0] == 1) b[4 + i] += b[4 + n + i];",
}
ZERO = "s[i] = 0; __syncthreads(); "
RACES = {
    "no barrier": (ZERO + "s[i] = a[i]; b[i] = s[n - 1 - i];", "shared 4-byte"),
    "barrier too early": (ZERO + "s[i] = a[i]; b[i] = s[(i + 1) % n];", "no barrier lies between"),
    "no barrier at the end of a loop": ("s[i] = i; for (int d = 1; d < 40; d *= 2) { __syncthreads(); s[i] += s[(i + d) % n]; }", "s"),
    "barrier of a warp between warps": (ZERO + "s[i] = a[i]; __syncwarp(); b[i] = s[n - 1 - i];", "no barrier lies between"),
    "sum without atomics": ("b[0] += a[i];", "global 4-byte"),
    "atomic and plain": ("atomicAdd(b, 1); if (i == 39) b[1] = b[0];", "global 4-byte load"),
    "plain after atomic of another block": ("if (blockIdx.x) b[0] = 3; else atomicAdd(b, 1);", "run in any order"),
    "different values": ("b[0] = i;", "global 4-byte store"),
    "two blocks": ("if (i == 0) b[0] = blockIdx.x;", "run in any order"),
    "bytes that overlap": ("((char *)b)[i] = 1; b[20] = 0; ((short *)b)[(i + 1) % n / 2] = 0;", "store"),
    "a flag without fences": ("if (i == 32) { b[0] = 7; atomicExch(b + 1, 1); } if (i == 0) { while (atomicAdd(b + 1, 0) == 0); b[2] = b[0]; }",
                              "global 4-byte load"),
}


@pytest.mark.parametrize("name", CLEAN)
def test_ordered_accesses_are_no_race(name):
    grid = 2 if "block" in name else 1
    assert run(CLEAN[name], grid).arrays == run(CLEAN[name], grid, races=False).arrays


@pytest.mark.parametrize("name", RACES)
def test_races_are_named(name):
    body, says = RACES[name]
    grid = 2 if "block" in name else 1
    run(body, grid, races=False)
    with pytest.raises(FaultError, match="race: ") as e:
        run(body, grid)
    text = str(e.value)
    assert says in text and "kernel k, block (" in text and text.count("kernel.cu:1") == 2
