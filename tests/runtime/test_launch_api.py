"""`qgpu.launch` from Python, with the reference interpreter in the model's place."""

from pathlib import Path

import numpy as np
import pytest
from reference_engine import ReferenceEngine

import qgpu
from qgpu.cuda import compile_cuda
from qgpu.errors import CheckError, FaultError, UsageError
from qgpu.machine.description import ARTICLE, DEFAULT, Machine
from qgpu.machine.tokens import Token, Vocabulary

SCALE = "__global__ void scale(int *a, int by) { a[threadIdx.x] *= by; }\n"
POINTERS = "__global__ void where(int *a, int *b) { *a = (int)(unsigned long long)b; }\n"
SPIN = "__global__ void spin(int *a, int *b) {\n    while (*b == 0)\n        *a += 3;\n}\n"
V = Vocabulary(ARTICLE)


def run(source, args, block=3, **options):
    return qgpu.launch(source, None, 1, block, args, engine=options.pop("engine", ReferenceEngine(ARTICLE)), **options)


def numbers():
    return np.array([1, -2, 2**31 - 1], np.int32)


def test_arrays_are_updated_in_place():
    a = numbers()
    result = run(SCALE, [a, 3], check=True)
    assert a.tolist() == [3, -6, 2147483645] and result.args[0] is a and result.args[1] == 3
    assert (result.kernel, result.grid, result.block, result.machine) == ("scale", (1, 1, 1), (3, 1, 1), ARTICLE)
    assert V.token(result.tokens[-1]) == Token("END") and V.token(result.tokens[result.setup - 1]) == Token("WARP", (0, 0, 1))
    assert result.check.positions == len(result.tokens) - result.setup and result.check.mismatches == 0 and result.check.words == 3
    assert result.seconds > 0 and result.speed > 0 and result.program.blocks


def test_a_machine_by_name():
    a = numbers()
    assert run(SCALE, [a, 2], machine="default", engine=ReferenceEngine(DEFAULT)).machine == DEFAULT and a[0] == 2
    for wrong in ("big", "default.toml", 4):
        with pytest.raises(UsageError, match="is no machine\n.*'article' or 'default'"):
            run(SCALE, [a, 2], machine=wrong)


def test_sources(tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SCALE)
    ptx = compile_cuda(SCALE).ptx
    (tmp_path / "scale.ptx").write_text(ptx)
    for source in (SCALE, ptx, path, str(path), tmp_path / "scale.ptx"):
        a = numbers()
        run(source, [a, np.int64(-1)], check=True)
        assert a.tolist() == [-1, 2, -2147483647]


def test_shapes_strides_and_byte_orders_are_kept():
    base = np.zeros((4, 3), ">i4")
    view = base[::2]
    view[...] = [[1, 2, 3], [4, 5, 6]]
    run(SCALE, [view, 10], block=6)
    assert base.tolist() == [[10, 20, 30], [0, 0, 0], [40, 50, 60], [0, 0, 0]]


@pytest.mark.parametrize("args, says", [
    ([numbers(), 2.0], "argument 2"), ([numbers(), True], "argument 2"), ([[1, 2, 3], 2], "argument 1"),
    ([np.array([1.0]), 2], "argument 1"), ([numbers()], "takes 2 arguments"), ([numbers(), None], "argument 2"),
])
def test_arguments_that_are_refused(args, says):
    with pytest.raises(UsageError, match=says):
        run(SCALE, args)


@pytest.mark.parametrize("options, says", [
    ({"max_tokens": 0}, "no limit"), ({"block": 0}, "at least 1"), ({"block": 2.0}, "at least 1"), ({"engine": "torch"}, "no engine"),
    ({"model": "x", "machine": ARTICLE}, "an engine and a model"),
])
def test_options_that_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        run(SCALE, [numbers(), 2], **options)


def test_arrays_that_share_memory_are_refused():
    both = np.zeros(8, np.int32)
    kernel = "__global__ void copy(int *a, const int *b) { a[threadIdx.x] = b[threadIdx.x]; }\n"
    for first, second in ((both, both), (both[:5], both[3:])):
        with pytest.raises(UsageError, match="share memory"):
            run(kernel, [first, second])
    run(kernel, [both[::2], both[1::2]])


def test_a_kernel_that_looks_at_its_pointers_passes_the_check():
    a, b = np.zeros(1, np.int32), np.zeros(1, np.int32)
    result = run(POINTERS, [a, b], block=1, check=True)
    assert a[0] == ARTICLE.global_base + 4 and result.check.mismatches == 0


@pytest.mark.parametrize("check", [False, True])
def test_the_token_limit_says_where(check):
    a = np.zeros(1, np.int32)
    with pytest.raises(FaultError, match=r"kernel.cu:[23].*did not end within 100 generated tokens") as e:
        run(SPIN, [a, np.zeros(1, np.int32)], block=1, max_tokens=100, check=check)
    result = e.value.result
    assert len(result.tokens) - result.setup == 100 and a[0] == 0
    assert result.check is None or (result.check.positions, result.check.mismatches) == (100, 0)


def test_a_wrong_token_is_found_at_its_place():
    a = numbers()
    wrong = V.id_of(Token("SVAL", (1000,)))
    with pytest.raises(CheckError, match="SVAL 1000") as e:
        run(SCALE, [a, 3], check=True, engine=ReferenceEngine(ARTICLE, wrong={1: wrong}))
    result = e.value.result
    assert f"token {result.setup + 1} (number 2 of the model's)" in str(e.value)
    assert result.check.mismatches >= 1 and a.tolist() == numbers().tolist()


def test_a_wrong_word_is_found_at_its_place():
    a = numbers()
    with pytest.raises(CheckError, match="argument 1, element 1") as e:
        run(SCALE, [a, 3], check=True, engine=ReferenceEngine(ARTICLE, wrong_word=(1, 5)))
    assert "holds 5" in str(e.value) and "-6" in str(e.value) and e.value.result.check.mismatches == 1
    assert a.tolist() == numbers().tolist()


@pytest.mark.parametrize("check, kind, says", [(False, FaultError, "only the host writes"), (True, CheckError, "NOP")])
def test_a_model_that_writes_what_only_the_host_may(check, kind, says):
    with pytest.raises(kind, match=says):
        run(SCALE, [numbers(), 3], check=check, engine=ReferenceEngine(ARTICLE, wrong={2: 0}))


def test_a_trap_that_the_kernel_does_not_deserve():
    trap = V.id_of(Token("TRAP"))
    with pytest.raises(FaultError, match="the PTX interpreter finds no such access"):
        run(SCALE, [numbers(), 3], engine=ReferenceEngine(ARTICLE, wrong={1: trap}))
    with pytest.raises(CheckError, match="TRAP"):
        run(SCALE, [numbers(), 3], check=True, engine=ReferenceEngine(ARTICLE, wrong={1: trap}))


def test_other_machines():
    machine = Machine("pair", lanes=2, warps=3, registers=7, blocks=8, global_words=9)
    a = numbers()
    result = qgpu.launch(SCALE, "scale", 1, 3, [a, 2], check=True, machine=machine, engine=ReferenceEngine(machine))
    assert a.tolist() == [2, -4, -2] and result.check.mismatches == 0
    with pytest.raises(UsageError, match="10 words"):
        qgpu.launch(SCALE, "scale", 1, 3, [np.zeros(10, np.int32), 2], machine=machine, engine=ReferenceEngine(machine))


def test_the_package_shows_its_names():
    assert {"launch", "LaunchResult", "qwen"} <= set(dir(qgpu)) and qgpu.LaunchResult is type(run(SCALE, [numbers(), 1]))
    assert qgpu.machine.description.ARTICLE is ARTICLE and Path(qgpu.__file__).is_file()
    with pytest.raises(AttributeError):
        qgpu.nothing


COMPACT = "__global__ void compact(const int *a, int *out, int *n) {\n    if (a[threadIdx.x] > 2) out[atomicAdd(n, 1)] = a[threadIdx.x];\n}\n"


def test_places_given_out_by_an_atomic_pass_the_check_in_the_machines_own_order():
    a, out, n = np.arange(-5, 27, dtype=np.int32), np.zeros(32, np.int32), np.zeros(1, np.int32)
    result = run(COMPACT, [a, out, n], block=32, check=True, engine=ReferenceEngine(DEFAULT), machine=DEFAULT)
    assert n[0] == 24 and sorted(out[:24].tolist()) == list(range(3, 27)) and out[:24].tolist() != list(range(3, 27))
    assert result.check.mismatches == 0


def test_a_wrong_word_of_an_order_dependent_result_says_so():
    a, out, n = np.arange(-5, 27, dtype=np.int32), np.zeros(32, np.int32), np.zeros(1, np.int32)
    with pytest.raises(CheckError, match="argument 2 changes: the result depends on the order of threads"):
        run(COMPACT, [a, out, n], block=32, check=True, engine=ReferenceEngine(DEFAULT, wrong_word=(33, 99)), machine=DEFAULT)


def test_a_loop_that_waits_for_a_later_warp_is_explained():
    kernel = "__global__ void wait(volatile int *a) { if (threadIdx.x == 0) while (*a == 0); else if (threadIdx.x == 4) *a = 1; }\n"
    with pytest.raises(FaultError, match="waits for a thread of another warp"):
        run(kernel, [np.zeros(1, np.int32)], block=5, max_tokens=100, check=True)


WIDE = """__global__ void wide(const long long *a, long long *o, unsigned short *h) {
    long long x = a[threadIdx.x], y = a[threadIdx.x ^ 1];
    o[2 * threadIdx.x] = __umul64hi(x, y); o[2 * threadIdx.x + 1] = __mul64hi(x, y);
    unsigned short old = h[1], seen;
    do { seen = old; old = atomicCAS(h + 1, seen, (unsigned short)(seen + 3)); } while (old != seen);
}
"""


def test_high_halves_of_64_bit_products_and_a_16_bit_exchange():
    values = [-2**63, -1, 2**63 - 1, 0x123456789ABCDEF]
    o, h = np.zeros(8, np.int64), np.array([1, 65530, 3], np.uint16)
    run(WIDE, [np.array(values, np.int64), o, h], block=4, check=True, engine=ReferenceEngine(DEFAULT), machine=DEFAULT)
    pairs = [(x, values[k ^ 1]) for k, x in enumerate(values)]
    assert [int(v) % 2**64 for v in o[::2]] == [(x % 2**64) * (y % 2**64) >> 64 for x, y in pairs]
    assert o[1::2].tolist() == [x * y >> 64 for x, y in pairs] and h.tolist() == [1, 6, 3]


def test_an_empty_array_lies_where_the_next_one_does():
    b = np.zeros(1, np.int32)
    run("__global__ void same(int *a, int *b) { b[0] = a == b ? 7 : 9; }\n", [np.zeros(0, np.int32), b], block=1, check=True)
    assert b[0] == 7


def test_a_kernel_that_is_not_named_is_missed_in_the_users_own_file(tmp_path):
    path = tmp_path / "both.cu"
    path.write_text(SCALE + POINTERS)
    with pytest.raises(UsageError, match=r"^both\.cu: several kernels"):
        run(path, [numbers(), 2])


LEADER = """__global__ void leader(const int *a, int *n, int *out) {
    int lane = threadIdx.x & 31, base;
    if (a[threadIdx.x] & 1) {
        unsigned m = __activemask();
        int first = __ffs(m) - 1;
        if (lane == first) base = atomicAdd(n, __popc(m));
        out[__shfl_sync(m, base, first) + __popc(m & ((1u << lane) - 1))] = a[threadIdx.x];
    }
}
"""


def test_one_lane_adds_for_its_warp_and_the_others_shuffle_what_they_never_set():
    a, n, out = np.array([k * k % 7 for k in range(40)], np.int32), np.zeros(1, np.int32), np.zeros(40, np.int32)
    run(LEADER, [a, n, out], block=40, check=True, engine=ReferenceEngine(DEFAULT), machine=DEFAULT)
    odd = [v for v in a.tolist() if v % 2]
    assert n[0] == len(odd) and out.tolist() == odd + [0] * (40 - len(odd))
