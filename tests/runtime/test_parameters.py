"""Arguments against a kernel's parameters, with and without `.ptr` hints."""

import re

import numpy as np
import pytest

from qgpu.errors import UsageError
from qgpu.ptx import parse_ptx
from qgpu.runtime.parameters import check_arguments, describe, parameter_kinds, passed_by_value

PTX = """.version 6.4
.target sm_75
.address_size 64
.visible .entry _Z4kernPKijS0_Pih(
  .param .u64 .ptr .align 4 a, .param .u32 n, .param .u64 .ptr .align 16 b, .param .u64 .ptr .align 4 unused, .param .u8 small)
{
  .reg .b64 %rd<9>;
  .reg .b32 %r<9>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [a];
  cvta.to.global.u64 %rd2, %rd1;
  ld.param.u32 %r1, [n];
  ld.param.u64 %rd3, [b];
  ld.param.u8 %r7, [small];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd4, %r2, 4;
  add.s64 %rd5, %rd3, %rd4;
  ld.global.u32 %r3, [%rd2+8];
  setp.lt.u32 %p1, %r3, %r1;
  add.s32 %r4, %r3, %r7;
  st.global.u32 [%rd5], %r3;
  ret;
}
"""


def kernel(hints=True):
    return parse_ptx(PTX if hints else re.sub(r"\.ptr \.align \d+", "", PTX)).kernel()


def array(dtype=np.int32):
    return np.zeros(4, dtype)


def test_kinds():
    assert parameter_kinds(kernel()) == ["pointer", "scalar", "pointer", "pointer", "scalar"]
    # Without hints: a only moves into an address; b is summed with an index, either of which could be the pointer.
    assert parameter_kinds(kernel(False)) == ["pointer", "scalar", "unknown", "unknown", "scalar"]


@pytest.mark.parametrize("hints", [True, False])
def test_good_arguments(hints):
    assert check_arguments(kernel(hints), [array(), 3, array(), array(), 7]) == ([4, 0, 16, 4, 0] if hints else [0] * 5)
    check_arguments(kernel(hints), [array(np.uint8), 2**32 - 1, array(np.int64), array(), -1])


@pytest.mark.parametrize("hints", [True, False])
@pytest.mark.parametrize("change, says", [
    ({0: 5}, "takes an array here"), ({1: array()}, "takes a number here"), ({4: array()}, "takes a number here"),
    ({1: 2**32}, "does not fit"), ({1: -2**31 - 1}, "does not fit"), ({4: 256}, "does not fit"), ({4: -129}, "does not fit"),
])
def test_wrong_arguments(hints, change, says):
    arguments = [array(), 3, array(), array(), 7]
    for index, value in change.items():
        arguments[index] = value
    with pytest.raises(UsageError) as e:
        check_arguments(kernel(hints), arguments)
    assert says in str(e.value) and f"argument {next(iter(change)) + 1} of kern" in str(e.value)


@pytest.mark.parametrize("given", [0, 4, 6])
def test_wrong_number(given):
    with pytest.raises(UsageError, match=f"takes 5 arguments, and {given} are given"):
        check_arguments(kernel(), [array()] * given)


def taking(declared):
    return parse_ptx(".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry k(%s)\n{\n ret;\n}\n" % declared).kernel()


def test_parameters_that_no_argument_fits():
    with pytest.raises(UsageError, match="integers only"):
        check_arguments(taking(".param .f32 a"), [array()])


def test_structures_by_value():
    k = taking(".param .u64 .ptr .align 4 a, .param .align 4 .b8 s[12]")
    assert passed_by_value(k) == {1} and passed_by_value(kernel()) == frozenset()
    assert describe(k) == ["1: array", "2: structure of 12 bytes"]
    for bytes_ in (np.zeros(12, np.uint8), np.zeros(3, np.int32)):
        assert check_arguments(k, [array(), bytes_]) == [4, 0]
    for wrong, says in ((np.zeros(11, np.uint8), "an array of 11 bytes is given"), (3, "the number 3 is given")):
        with pytest.raises(UsageError, match=says) as e:
            check_arguments(k, [array(), wrong])
        assert "structure of 12 bytes" in str(e.value) and "argument 2 of k" in str(e.value)
