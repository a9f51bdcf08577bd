"""`compile_cuda`: the front-ends that are installed, the header, the cache, messages, limits."""

import os
import re
import sys
import time

import manifest
import pytest

from qgpu.cuda import cache, compile_cuda, driver, frontends, sandbox
from qgpu.errors import FrontEndError, UsageError
from qgpu.ptx import FAMILIES, check_supported, family_of, find_unsupported, parse_ptx

KERNELS = [kernel.path for kernel in manifest.KERNELS if kernel.machine == "article"]  # tests/kernels compiles all of them
CLANGS = [name for name in ("zig", "clang") if frontends.find(name)]
THERE = [f.name for f in frontends.available()]
needs_clang = pytest.mark.skipif(not CLANGS, reason="no clang: pip install 'qgpu[cuda]'")
needs_any = pytest.mark.skipif(not THERE, reason="no CUDA compiler")
ADD = "__global__ void add(int *a, int b)\n{\n    a[threadIdx.x] += b;\n}\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QGPU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def without_lines(ptx):
    """PTX without what only serves debuggers: line directives, their labels and sections, comments."""
    text = re.sub(r"//[^\n]*", "", ptx)
    text = re.sub(r"^\s*(\.loc|\.file|\.section)[^\n]*$|^\$L__(tmp|func_begin|func_end)\d+:$", "", text, flags=re.MULTILINE)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("path", "frontend"), [  # nvcc takes half a second a file: every fourth kernel
    pytest.param(path, name, id=f"{path.stem}-{name}") for name in THERE for path in KERNELS[::4 if name == "nvcc" else 1]])
def test_kernels_compile_and_parse(path, frontend):
    result = compile_cuda(path.read_text(), filename=f"kernels/{path.name}", frontend=frontend)
    assert result.frontend == frontend and result.version
    module = parse_ptx(result.ptx)
    kernel = module.kernel(path.stem)
    check_supported(kernel, FAMILIES)
    lines = {i.cu_line for i in kernel.instructions}
    assert f"kernels/{path.name}" in {line.file for line in lines if line}
    assert "/tmp" not in result.ptx and "qgpu_source" not in result.ptx


@needs_clang
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_stay_within_the_first_machine(path):
    """Only 32-bit values and the families of the first machine; few enough instructions for its program memory."""
    kernel = parse_ptx(compile_cuda(path.read_text(), frontend=CLANGS[0]).ptx).kernel()
    families = {
        "add", "sub", "mul.lo", "mad.lo", "and", "or", "xor", "not", "shl", "shr", "min", "max", "abs", "neg", "setp", "selp", "mov",
        "cvta.to", "ld.param", "ld.global", "st.global", "shfl.sync", "bra", "ret"}
    check_supported(kernel, lambda i: family_of(i).name in families and i.bits in (0, 32))
    assert set(kernel.regs.values()) <= {"b32", "pred"}
    assert len(kernel.instructions) <= 48


@needs_clang
def test_dot_is_short():
    source = next(p for p in KERNELS if p.stem == "dot").read_text()
    assert len(parse_ptx(compile_cuda(source, frontend=CLANGS[0]).ptx).kernel().instructions) <= 24


@needs_clang
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_line_tables_do_not_change_the_code(path, monkeypatch):
    with_lines = compile_cuda(path.read_text(), frontend=CLANGS[0]).ptx
    monkeypatch.setattr(frontends, "CLANG_FLAGS", tuple(f for f in frontends.CLANG_FLAGS if f != "-gline-tables-only"))
    bare = compile_cuda(path.read_text(), frontend=CLANGS[0]).ptx
    assert ".loc" in with_lines and ".loc" not in bare
    assert without_lines(with_lines) == without_lines(bare)


# Every device function of the header that is no plain C, and the families its PTX must show.
VOCABULARY = {
    "threadIdx.x + blockIdx.y * blockDim.z + gridDim.x + warpSize": "mov mad.lo",
    "__shfl_sync(~0u, x, 3) + __shfl_up_sync(~0u, x, 1, 8) + __shfl_down_sync(~0u, x, 2, 4) + __shfl_xor_sync(~0u, x, 1)": "shfl.sync",
    "(int)__shfl_sync(~0u, (unsigned long long)x * 7, 3) + (int)__shfl_down_sync(~0u, (unsigned)x, 1)": "shfl.sync",
    "__all_sync(~0u, x) + __any_sync(~0u, x) + __ballot_sync(~0u, x > 2) + __uni_sync(~0u, x)": "vote.sync",
    "__activemask() + __match_any_sync(~0u, x)": "activemask match.sync",
    "(int)__match_all_sync(~0u, (long long)x, p) + __match_any_sync(~0u, (unsigned long long)x)": "match.sync",
    "(int)__umul64hi(x, 5) + (int)__mul64hi(x, -5) + __rhadd(x, 3) + __urhadd(x, 3)": "mul.wide",
    "(__nanosleep(9), atomicAdd_block(p, x) + atomicMax_system((unsigned *)p, 3))": "atom.add atom.max",
    "atomicCAS((unsigned short *)p, (unsigned short)x, (unsigned short)3)": "atom.cas",
    "__popc(x) + __popcll(x)": "popc", "__clz(x)": "clz", "__brev(x)": "brev", "__ffs(x)": "popc", "__clzll(x) + __ffsll(x)": "clz",
    "__byte_perm(x, 5, 0x3210)": "prmt", "__funnelshift_l(x, 7, 3) + __funnelshift_r(x, 7, x)": "shf.l shf.r",
    "__funnelshift_lc(x, 7, x) + __funnelshift_rc(x, 7, x)": "shf.l shf.r", "__mulhi(x, 77777) + __umulhi(x, x)": "mul.hi",
    "__mul24(x, x) + __umul24(x, 3)": "mul.lo", "min(x, 4) + max(3u, x) + abs(x) + (int)min((long long)x, 5LL)": "min max abs",
    "__sad(x, 5, 3u) + __usad(x, 5, 3u) + __hadd(x, 3)": "max", "__dp4a(x, x, 3) + __dp4a(3u, (unsigned)x, 3u)": "dp4a",
    "atomicAdd(p, x) + atomicSub(p, x) + atomicMin(p, x) + atomicMax(p, x) + atomicExch(p, x)": "atom.add atom.min atom.max atom.exch",
    "atomicAnd(p, x) + atomicOr(p, x) + atomicXor(p, x) + atomicCAS(p, x, 3)": "atom.and atom.or atom.xor atom.cas",
    "atomicInc((unsigned *)p, 7u) + atomicDec((unsigned *)p, 7u)": "atom.inc atom.dec",
    "(__syncthreads(), x)": "bar.sync", "(__syncwarp(), x)": "bar.warp.sync", "__syncthreads_count(x) + __syncthreads_or(x)": "bar.red",
    "(__threadfence(), __threadfence_block(), x)": "membar", "__ldg(p) + make_int2(x, 3).y + make_uint4(1, 2, 3, x).w": "ld.global",
    "(assert(x != 9), x)": "trap", "table[x & 3] + shared[x & 7]": "ld.const ld.shared", "clock()": "mov",
}


@needs_clang
@pytest.mark.parametrize("expression", VOCABULARY)
def test_device_vocabulary(expression):
    source = ("__constant__ int table[4] = {5, 6, 7, 9};\n__global__ void __launch_bounds__(64) k(int *__restrict__ p)\n{\n"
              "    __shared__ int shared[8];\n    int x = p[1];\n    shared[threadIdx.x & 7] = x;\n    __syncthreads();\n"
              f"    p[0] = {expression};\n}}\n")
    kernel = parse_ptx(compile_cuda(source, frontend=CLANGS[0]).ptx).kernel()
    assert find_unsupported(kernel, FAMILIES) == []
    assert set(VOCABULARY[expression].split()) <= {family_of(i).name for i in kernel.instructions}
    assert {i.cu_line.file for i in kernel.instructions if i.cu_line} == {"kernel.cu"}  # never a line of the header


PROGRAM = """#include <cstdio>
#include <stdint.h>
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { fprintf(stderr, "%s\\n", cudaGetErrorString(e)); exit(1); } } while (0)
extern "C" __global__ void twice(uint32_t *a, size_t n) { size_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] *= 2; }
int main()
{
    uint32_t host[4] = {1, 2, 3, 4}, *device;
    CHECK(cudaMalloc(&device, sizeof host));
    CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    twice<<<1, dim3(4)>>>(device, 4);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    printf("%u\\n", host[3]);
    return cudaFree(device) != cudaSuccess;
}
"""


@pytest.mark.parametrize("frontend", [f for f in THERE if f != "nvrtc"])
def test_a_whole_program_with_host_code(frontend):
    module = parse_ptx(compile_cuda(PROGRAM, frontend=frontend).ptx)
    assert list(module.kernels) == ["twice"] and not module.functions


@pytest.mark.skipif(len(CLANGS) < 2, reason="needs two clangs")
def test_zig_and_clang_agree():
    assert without_lines(compile_cuda(ADD, frontend="zig").ptx) == without_lines(compile_cuda(ADD, frontend="clang").ptx)


@pytest.mark.parametrize("frontend", THERE)
def test_the_compilers_message_names_the_users_line(frontend):
    with pytest.raises(FrontEndError) as caught:
        compile_cuda("__global__ void k(int *a)\n{\n    a[0] = nothing;\n}\n", filename="dir/my kernel.cu", frontend=frontend)
    assert caught.value.where == "dir/my kernel.cu:3"
    assert "nothing" in caught.value.why and "/tmp" not in str(caught.value) and "qgpu_source" not in str(caught.value)


@pytest.mark.parametrize("frontend", THERE)
def test_defines(frontend):
    source = "__global__ void k(int *a) { *a = N; }"
    assert "77" in compile_cuda(source, defines=["N=77"], frontend=frontend).ptx
    assert "78" in compile_cuda(source, defines=["N=78"], frontend=frontend).ptx
    for wrong in ("N=1\n#include <stdio.h>", "-I/", "", "1N"):
        with pytest.raises(FrontEndError, match="macro"):
            compile_cuda(source, defines=[wrong], frontend=frontend)


@needs_any
def test_cache_by_content(own_cache, monkeypatch):
    first = compile_cuda(ADD, filename="one.cu")
    (entry,) = (own_cache / "ptx").iterdir()
    monkeypatch.setattr(driver, "run_limited", lambda *a: pytest.fail("compiled again"))
    again = compile_cuda(ADD, filename="two.cu")
    assert again.ptx == first.ptx.replace("one.cu", "two.cu")
    for different in (dict(source=ADD + " "), dict(source=ADD, defines=("X",)), dict(source=ADD, cache=False)):
        with pytest.raises(pytest.fail.Exception, match="compiled again"):
            compile_cuda(different.pop("source"), **different)
    assert list((own_cache / "ptx").iterdir()) == [entry]


@needs_any
def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QGPU_CACHE", str(tmp_path / "file"))
    assert ".entry" in compile_cuda(ADD).ptx


def test_cache_keys_do_not_collide():
    assert len({cache.key("ab", "c"), cache.key("a", "bc"), cache.key("abc"), cache.key("abc", "")}) == 4


def test_no_compiler(monkeypatch):
    monkeypatch.setattr(frontends, "find", lambda name: None)
    with pytest.raises(FrontEndError, match=r"pip install 'qgpu\[cuda\]'"):
        compile_cuda(ADD)
    with pytest.raises(FrontEndError, match="nvcc is not installed"):
        compile_cuda(ADD, frontend="nvcc")
    with pytest.raises(UsageError, match="no front-end is called 'gcc'"):
        compile_cuda(ADD, frontend="gcc")


@needs_clang
def test_only_listed_files_exist_for_clang(tmp_path):
    """Even a directive that the scan did not see cannot open a file: the compiler's file system holds the listed files alone."""
    secret = tmp_path / "secret.h"
    secret.write_text("int very_secret_text error;\n")
    chosen = frontends.find(CLANGS[0])
    with pytest.raises(FrontEndError) as caught:
        driver._compile(chosen, f'#include "{secret}"\n{ADD}', "s.cu", "s.cu", (), 30)
    assert "very_secret_text" not in str(caught.value) and "not found" in str(caught.value)


def test_time_limit_ends_the_command_and_its_children(tmp_path):
    marker = tmp_path / "late"
    child = f"import time; time.sleep(1.5); open({str(marker)!r}, 'w')"
    start = time.monotonic()
    with pytest.raises(sandbox.TimedOut):
        sandbox.run_limited([sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"], tmp_path, 0.5)
    assert time.monotonic() - start < 1.4
    time.sleep(1.2)
    assert not marker.exists()


@needs_any
def test_time_limit_is_an_error_of_its_own():
    with pytest.raises(FrontEndError, match="did not finish within 0.001 seconds"):
        compile_cuda(ADD, timeout=0.001)


def test_the_compiler_sees_a_small_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("CPATH", "/somewhere")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DX")
    status, printed = sandbox.run_limited([sys.executable, "-c", "import os; print(sorted(os.environ), os.getcwd())"], tmp_path, 20)
    assert status == 0 and "CPATH" not in printed and "NVCC" not in printed and os.path.realpath(tmp_path) in os.path.realpath(printed.split()[-1])


@needs_clang
@pytest.mark.parametrize("source", [
    "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n__global__ void k(int *a) { constexpr int x = f(60); *a = x; }",
    "template <int N> struct A { typedef typename A<N + 1>::t t; };\nA<0>::t x;",
    "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(x))))\nint a = B(B(1 +)) 1;",
], ids=["constexpr", "template", "macro"])
def test_compile_time_bombs_end(source):
    start = time.monotonic()
    with pytest.raises(FrontEndError):
        compile_cuda(source, frontend=CLANGS[0], timeout=2)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("frontend", THERE)
def test_file_names_cannot_break_the_ptx(frontend):
    result = compile_cuda(ADD, filename='a"b\n.version\\c.cu', frontend=frontend)
    assert [i.cu_line.file for i in parse_ptx(result.ptx).kernel().instructions if i.cu_line][-1] == "a?b?.version?c.cu"


@pytest.mark.parametrize("frontend", THERE)
def test_structures_have_cudas_layout(frontend):
    """64-bit members are aligned to eight bytes in device code, also where the host compiler's rules say four."""
    source = ("struct S { int a; long long b; double c; };\n"
              "__global__ void layout(int *out, S s) { out[0] = sizeof(S); out[1] = alignof(long long); out[2] = (int)s.b; }\n")
    kernel = parse_ptx(compile_cuda(source, frontend=frontend).ptx).kernel()
    assert (kernel.params[1].size, kernel.params[1].align) == (24, 8)
