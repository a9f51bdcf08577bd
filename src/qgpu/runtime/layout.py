"""Where the arguments' arrays live in global memory, and whether the launch's sizes fit the machine.

Arrays are packed into 32-bit words, bytes in little-endian order. Each starts at a fresh word, at an address its
element type is aligned to; machine byte address = global_base + 4 * word. What the lowering needs beyond (variables, frames,
spilled values) comes after them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UsageError
from ..machine.description import Machine
from .arguments import Argument, type_name

WORD_BYTES = 4


@dataclass(frozen=True)
class Placed:
    """One array in memory: position among the arguments (from 0), first word, words, and its bytes."""

    index: int
    word: int
    words: int
    nbytes: int


@dataclass(frozen=True)
class Layout:
    """Global memory at the start of a launch.

    placed: the arrays, in argument order. memory: every word up to the last one in use.
    values: what each parameter gets: an array's byte address, the scalar itself, or a structure's bytes.
    """

    placed: tuple[Placed, ...]
    memory: tuple[int, ...]
    values: tuple[int | bytes, ...]

    def used_words(self) -> list[int]:
        """Numbers of the words that hold array bytes, ascending (gaps left by alignment are not among them)."""
        return [w for p in self.placed for w in range(p.word, p.word + p.words)]


def to_bytes(array: np.ndarray) -> bytes:
    """An integer array's elements in C order, each with its low byte first."""
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def to_words(array: np.ndarray) -> list[int]:
    """An integer array's bytes, little endian, as 32-bit words; the last word is filled up with zeros."""
    data = to_bytes(array)
    data += bytes(-len(data) % WORD_BYTES)
    return np.frombuffer(data, "<u4").tolist()


def from_words(words: Sequence[int], like: np.ndarray) -> np.ndarray:
    """The inverse of `to_words`: a fresh array of `like`'s shape and type."""
    data = np.array(words, dtype="<u4").tobytes()[:like.nbytes]
    return np.frombuffer(data, like.dtype.newbyteorder("<")).reshape(like.shape).astype(like.dtype)


def place(arguments: Sequence[Argument], machine: Machine, alignments: Sequence[int] | None = None,
          by_value: Collection[int] = ()) -> Layout:
    """Lay the arrays out in order from word 0.

    alignments: bytes that each argument's start must be a multiple of, beside its element size (0 or 1: no wish).
    by_value: arguments (from 0) that are a structure's bytes, which take no memory.
    Raises UsageError where the arrays exceed the machine's global memory, saying how many words are needed.
    """
    placed, values, at = [], [], 0
    for index, argument in enumerate(arguments):
        if not isinstance(argument, np.ndarray):
            values.append(int(argument))
            continue
        if index in by_value:
            values.append(to_bytes(argument))
            continue
        align = max(WORD_BYTES, argument.dtype.itemsize, alignments[index] if alignments else 0) // WORD_BYTES
        at = -(-at // align) * align
        words = -(-argument.nbytes // WORD_BYTES)
        placed.append(Placed(index, at, words, argument.nbytes))
        values.append(machine.global_base + WORD_BYTES * at)
        at += words
    if at > machine.global_words:
        sizes = ", ".join(f"argument {p.index + 1} {p.words}" for p in placed)
        raise UsageError(f"the arrays need {at} words of global memory, and the machine has {machine.global_words}",
                         why=f"32-bit words: {sizes}", fix="use smaller arrays or element types, or a larger machine (--machine)")
    memory = [0] * at
    for p in placed:
        memory[p.word:p.word + p.words] = to_words(arguments[p.index])
    return Layout(tuple(placed), tuple(memory), tuple(values))


def read_back(layout: Layout, words: Sequence[int], arguments: Sequence[Argument]) -> None:
    """Write memory words back into the argument arrays, in place."""
    for p in layout.placed:
        array = arguments[p.index]
        array[...] = from_words(words[p.word:p.word + p.words], array)


def own_array(argument: Argument, number: int) -> None:
    """Check one Python argument: an integer array that can be written, or an int. Raises UsageError."""
    where = f"argument {number}"
    if isinstance(argument, np.ndarray):
        try:
            type_name(argument)
        except UsageError as e:
            raise UsageError(e.what, where=where, fix=e.fix) from None
        if not argument.flags.writeable:
            raise UsageError("this array is read-only", where=where, why="a launch updates its arrays in place", fix="pass a copy")
    elif isinstance(argument, bool) or not isinstance(argument, (int, np.integer)):
        raise UsageError(f"{argument!r} is neither an integer nor a NumPy array of integers"[:200], where=where,
                         why="nothing is rounded or converted", fix="pass an int or an array such as numpy.array([1, 2], numpy.int32)")


def check_sizes(grid: tuple[int, int, int], block: tuple[int, int, int], machine: Machine) -> None:
    """Whether the machine can hold this grid and block. Raises UsageError."""
    threads = block[0] * block[1] * block[2]
    if threads > machine.threads:
        raise UsageError(f"a block of {threads} threads is too large for machine {machine.name}", where="block",
                         why=f"it has {machine.warps} warps of {machine.warp_size} lanes: {machine.threads} threads",
                         fix=f"use at most {machine.threads} threads, and more blocks or a loop in the kernel for more elements")
    if max(grid) > machine.largest_grid:
        raise UsageError(f"a grid of {','.join(map(str, grid))} is too large for machine {machine.name}", where="grid",
                         why=f"it counts up to {machine.largest_grid} thread blocks along each axis",
                         fix="use fewer blocks along that axis, and more along another or a loop in the kernel")


def refuse_shared_memory(arguments: Sequence[Argument]) -> None:
    """Two arguments must not be views of the same memory: each gets its own words. Raises UsageError."""
    arrays = [(number, a) for number, a in enumerate(arguments, 1) if isinstance(a, np.ndarray)]
    for at, (first, a) in enumerate(arrays):
        for second, b in arrays[at + 1:]:
            if np.may_share_memory(a, b) and _overlap(a, b):
                raise UsageError(f"arguments {first} and {second} share memory", where=f"argument {second}",
                                 why="each array gets words of its own, so a store to one would not show in the other",
                                 fix="pass a copy")


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=100_000)
    except np.exceptions.TooHardError:
        return True
