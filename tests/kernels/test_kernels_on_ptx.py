"""Every kernel through the PTX interpreter: each front-end's PTX must give what the kernel's rule derives.

clang's PTX (zig or clang) is the default tier. NVIDIA's compilers write other instructions for the same source: they judge in
the slow tier, where they are installed. Warps also run in reverse order: no kernel may depend on it.
"""

import struct

import manifest
import pytest

from qgpu.cuda import compile_cuda, frontends
from qgpu.ptx import parse_ptx
from qgpu_reference import ptx as reference
from qgpu_reference.ptx_schedule import Block

FORMAT = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
CLANG = next((name for name in ("zig", "clang") if frontends.find(name)), None)
NVIDIA = [name for name in ("nvcc", "nvrtc") if frontends.find(name)]
needs_clang = pytest.mark.skipif(CLANG is None, reason="no clang: pip install 'qgpu[cuda]'")
MOST_STEPS = 20_000


class LastWarpFirst(Block):
    """A thread block whose warps take their turns in reverse order."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.warps.reverse()


def pack(argument, values):
    return struct.pack(f"<{len(values)}{FORMAT[argument['type']]}", *values)


def unpack(argument, data):
    return list(struct.unpack(f"<{len(data) // struct.calcsize(FORMAT[argument['type']])}{FORMAT[argument['type']]}", data))


def run(kernel, frontend):
    """The arguments after the launch, and the instructions that its threads ran."""
    launch, file = kernel.launch, kernel.path.name
    module = parse_ptx(compile_cuda(kernel.path.read_text("utf-8"), filename=file, frontend=frontend).ptx, file)
    given = [v if isinstance(v, int) else pack(a, v) for a, v in zip(launch["args"], kernel.arguments())]
    outcome = reference.launch(module, kernel.name, launch["grid"], launch["block"], given,
                               shared_bytes=launch.get("shared_bytes", 0))
    return [None if data is None else unpack(a, data) for a, data in zip(launch["args"], outcome.arrays)], outcome.steps


@needs_clang
@pytest.mark.parametrize("kernel", manifest.KERNELS, ids=lambda kernel: kernel.name)
def test_kernel(kernel, monkeypatch):
    expected = kernel.expected()
    found, steps = run(kernel, CLANG)
    assert found == expected
    assert steps <= MOST_STEPS
    threads = kernel.launch["block"][0] * kernel.launch["block"][1] * kernel.launch["block"][2]
    if threads > 32:
        monkeypatch.setattr(reference, "Block", LastWarpFirst)
        assert run(kernel, CLANG)[0] == expected


@pytest.mark.slow
@pytest.mark.skipif(not NVIDIA, reason="neither nvcc nor NVRTC")
@pytest.mark.parametrize("frontend", NVIDIA)
@pytest.mark.parametrize("kernel", manifest.KERNELS, ids=lambda kernel: kernel.name)
def test_kernel_by_nvidias_compilers(kernel, frontend):
    assert run(kernel, frontend)[0] == kernel.expected()
