"""Arrays in memory words, alignment, limits, and the setup stream against the reference interpreter."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from qgpu.errors import UsageError
from qgpu.machine.description import ARTICLE, DEFAULT
from qgpu.machine.tokens import Vocabulary
from qgpu.runtime.arguments import TYPES
from qgpu.runtime.layout import check_sizes, from_words, own_array, place, read_back, to_words
from qgpu.runtime.setup import setup_tokens, thread_shape
from qgpu_reference.machine import MachineInterpreter


def test_bytes_are_little_endian():
    assert to_words(np.array([1, 2, 3, 4, 5], np.uint8)) == [0x04030201, 5]
    assert to_words(np.array([-1, 2], np.int16)) == [0x0002FFFF]
    assert to_words(np.array([1 << 32 | 7], ">i8")) == [7, 1]


@given(st.sampled_from(sorted(TYPES)), st.lists(st.integers(0, 255), max_size=24))
def test_words_and_back(name, data):
    dtype = TYPES[name]
    array = np.frombuffer(bytes(data[:len(data) // dtype.itemsize * dtype.itemsize]), dtype)
    again = from_words(to_words(array), array)
    assert again.dtype == dtype and again.tolist() == array.tolist()


def test_places_and_values():
    arrays = [np.zeros(5, np.uint8), 42, np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(1, np.int32)]
    layout = place(arrays, ARTICLE)
    assert [(p.index, p.word, p.words) for p in layout.placed] == [(0, 0, 2), (2, 2, 2), (3, 4, 0), (4, 4, 1)]
    assert layout.values == (512, 42, 520, 528, 528)
    assert layout.used_words() == [0, 1, 2, 3, 4]


def test_alignment_leaves_gaps():
    layout = place([np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(4, np.int32)], ARTICLE, [0, 0, 16])
    assert [p.word for p in layout.placed] == [0, 2, 4] and layout.used_words() == [0, 2, 3, 4, 5, 6, 7]


def test_structures_take_no_memory():
    arrays = [np.zeros(1, np.int32), np.array([1, -2], ">i2"), np.ones(1, np.int32)]
    layout = place(arrays, ARTICLE, None, {1})
    assert layout.values == (512, b"\x01\x00\xfe\xff", 516) and [p.index for p in layout.placed] == [0, 2]
    read_back(layout, [7, 8], arrays)
    assert [a.tolist() for a in arrays] == [[7], [1, -2], [8]]


def test_too_large():
    with pytest.raises(UsageError, match="need 127 words of global memory, and the machine has 126"):
        place([np.zeros(126, np.int32), np.zeros(1, np.uint8)], ARTICLE)
    place([np.zeros(126, np.int32)], ARTICLE)


def test_read_back_keeps_shape_and_identity():
    a, b = np.zeros((2, 2), np.int16), np.zeros(6, np.int32)[::2]
    layout = place([a, b], ARTICLE)
    read_back(layout, [0x00020001, 0xFFFF0003, 7, 8, 0xFFFFFFFF], [a, b])
    assert a.tolist() == [[1, 2], [3, -1]] and b.tolist() == [7, 8, -1]


@pytest.mark.parametrize("argument", [1.0, "3", None, True, [1], np.array([1.0]), np.array([True]), np.float32(1)])
def test_python_arguments_that_are_refused(argument):
    with pytest.raises(UsageError, match="argument 2"):
        own_array(argument, 2)


def test_read_only_arrays_are_refused():
    array = np.zeros(3, np.int32)
    array.flags.writeable = False
    with pytest.raises(UsageError, match="read-only"):
        own_array(array, 1)


def test_sizes():
    check_sizes((1, 1024, 1), (2, 4, 4), ARTICLE)
    with pytest.raises(UsageError, match="33 threads"):
        check_sizes((1, 1, 1), (33, 1, 1), ARTICLE)
    check_sizes((1024, 1024, 1024), (8, 8, 4), DEFAULT)
    with pytest.raises(UsageError, match="257 threads.*\n.*8 warps of 32 lanes"):
        check_sizes((1, 1, 1), (257, 1, 1), DEFAULT)
    with pytest.raises(UsageError, match="grid of 1,1025,2 is too large"):
        check_sizes((1, 1025, 2), (4, 1, 1), DEFAULT)
    assert [thread_shape(n, ARTICLE) for n in (1, 4, 5, 32)] == [(1, 1), (1, 4), (2, 1), (8, 4)]
    assert [thread_shape(n, DEFAULT) for n in (1, 32, 33, 256)] == [(1, 1), (1, 32), (2, 1), (8, 32)]


WORDS = st.integers(0, 2**32 - 1)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([ARTICLE, DEFAULT]), st.tuples(*[st.integers(1, 1024)] * 3))
def test_the_reference_reads_the_setup(data, machine, grid):
    threads = data.draw(st.integers(1, machine.threads))
    program = data.draw(st.dictionaries(st.integers(0, machine.blocks - 1), st.lists(WORDS, min_size=14, max_size=14), max_size=3))
    memory = data.draw(st.dictionaries(st.integers(0, machine.words - 1), WORDS, max_size=9))
    judge = MachineInterpreter(dataclasses.asdict(machine))
    for token in setup_tokens(machine, program, grid, threads, memory):
        judge.feed(token)
    assert judge.running and (judge.warp, judge.parked, judge.first, judge.group) == (0, False, True, 0)
    assert (judge.warps - 1) * machine.warp_size + judge.last_threads == threads and 1 <= judge.last_threads <= machine.warp_size
    assert tuple(judge.grid) == grid and judge.index == [0, 0, 0]
    assert judge.memory == [memory.get(word, 0) for word in range(machine.words)]
    assert all(judge.program[block] == program.get(block, [0] * 14) for block in range(machine.blocks))


def test_what_no_machine_has_is_no_setup():
    for program, grid, threads, memory in (({0: [0] * 13}, (1, 1, 1), 1, {}), ({32: [0] * 14}, (1, 1, 1), 1, {}),
                                           ({}, (1, 1, 1), 33, {}), ({}, (1, 1, 1), 1, {126: 0})):
        with pytest.raises(ValueError):
            setup_tokens(ARTICLE, program, grid, threads, memory)


def test_vocabulary_has_room():
    for m, outcomes in ((ARTICLE, 81), (DEFAULT, 81)):
        assert Vocabulary(m).size == (1 + 2048 * 2 + 14 * m.blocks + m.threads + 3 + m.words + 3 + 4 * m.warps + m.groups
                                      + (m.blocks + m.groups + 1) * outcomes + 2)
