"""Products of bf16 matrices on AMX tiles (x86 processors that have them), for prefill.

A tile holds 16 rows of 64 bytes. Rows of a weight matrix are tile rows as they lie; tokens become the columns of a second
tile, pairs of bf16 side by side. One tile instruction adds 32 products to each of 256 float32 sums. The order of each
sum depends on nothing but the matrix's width, so results are the same for any number of threads, though not the strict
order's. Every other processor takes the ordinary kernels.
"""

from __future__ import annotations

import ctypes
import functools
import platform

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numpy.typing import NDArray

import qgpu.qwen.threads  # noqa: F401  (before anything runs in parallel)
from qgpu.bf16_numba import encode1

F32 = NDArray[np.float32]
I8, I64 = ir.IntType(8), ir.IntType(64)
BYTES = I8.as_pointer()
ARCH_PRCTL, ASK_PERMISSION, TILE_DATA = 158, 0x1023, 18  # Linux: a process asks once before it may use tiles
ROWS, TOKENS, PAIRS, DEEP = 32, 32, 16, 32  # output rows and tokens a step; bf16 pairs, elements deep a tile


@functools.cache
def available() -> bool:
    """Whether this processor has bf16 tiles, Numba compiles for them, and the system lets us use them."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return False
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    if "+amx-tile" not in features or "+amx-bf16" not in features:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(ARCH_PRCTL, ASK_PERMISSION, TILE_DATA) == 0


def fits(weight: NDArray) -> bool:
    """Whether tiles are worth it for a weight matrix (m, K). A row's sum does not depend on how many rows there are."""
    return weight.shape[0] >= ROWS and weight.shape[1] % DEEP == 0


def pack(x: F32) -> NDArray[np.uint32]:
    """Tokens as tiles, for any number of ``linear`` calls. x: (n, K) float32 holding bf16 numbers, K a multiple of 32.

    Returns (n'/16, K/32, 16, 16) uint32 with n' = n rounded up to 32: groups of 16 tokens, steps along K, and then a
    tile: row p holds elements 2p and 2p+1 of each of the 16 tokens.
    """
    if not available():
        raise RuntimeError("this processor has no bf16 tiles")
    tiles = np.zeros(((x.shape[0] + TOKENS - 1) // TOKENS * 2, x.shape[1] // DEEP, PAIRS, 16), np.uint32)
    _pack(x, tiles)
    return tiles


def linear(tiles: NDArray[np.uint32], weight: NDArray[np.uint16], out: F32) -> None:
    """out = x W^T, unrounded. tiles: packed x (n, K), weight: (m, K) C-contiguous, out: (n, m) float32."""
    _linear(weight.ctypes.data, tiles, _layout(), out.shape[0], out)  # whole steps of 32 rows
    rest = weight.shape[0] % ROWS
    if rest:
        last, part = np.zeros((ROWS, weight.shape[1]), np.uint16), np.empty((out.shape[0], ROWS), np.float32)
        last[:rest] = weight[-rest:]
        _linear(last.ctypes.data, tiles, _layout(), out.shape[0], part)
        out[:, -rest:] = part[:, :rest]


def _layout() -> NDArray[np.uint8]:
    """The tile configuration: palette 1, all eight tiles 16 rows of 64 bytes."""
    layout = np.zeros(64, np.uint8)
    layout[0] = 1
    layout[16:32].view(np.uint16)[:] = 64
    layout[48:56] = 16
    return layout


def _instruction(name, arguments):
    """An intrinsic that issues one tile instruction. arguments: tile numbers (int), "address" or "stride"."""
    kinds = [I8 if isinstance(a, int) else BYTES if a == "address" else I64 for a in arguments]
    given = [a for a in arguments if not isinstance(a, int)]

    def build(context, builder, signature, args):
        values, rest = [], iter(args)
        for argument in arguments:
            if isinstance(argument, int):
                values.append(ir.Constant(I8, argument))
            elif argument == "address":
                values.append(builder.inttoptr(next(rest), BYTES))
            else:
                values.append(next(rest))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), kinds), f"llvm.x86.{name}"
        )
        builder.call(function, values)
        return context.get_dummy_value()

    if len(given) == 0:
        return intrinsic(lambda typingctx: (types.void(), build))
    if len(given) == 1:
        return intrinsic(lambda typingctx, address: (types.void(types.intp), build))
    return intrinsic(lambda typingctx, address, stride: (types.void(types.intp, types.intp), build))


_configure, _release = _instruction("ldtilecfg", ["address"]), _instruction("tilerelease", [])
_zero = [_instruction("tilezero", [t]) for t in range(4)]
_store = [_instruction("tilestored64", [t, "address", "stride"]) for t in range(4)]
_load = [_instruction("tileloadd64", [t, "address", "stride"]) for t in range(4, 8)]
_zero0, _zero1, _zero2, _zero3 = _zero
_store0, _store1, _store2, _store3 = _store
_load4, _load5, _load6, _load7 = _load
_add0, _add1 = _instruction("tdpbf16ps", [0, 4, 6]), _instruction("tdpbf16ps", [1, 4, 7])
_add2, _add3 = _instruction("tdpbf16ps", [2, 5, 6]), _instruction("tdpbf16ps", [3, 5, 7])


@intrinsic
def address_as_void_pointer(typingctx, address):
    """An integer address as a pointer that numba.carray takes."""

    def build(context, builder, signature, args):
        return builder.inttoptr(args[0], BYTES)

    return types.voidptr(types.intp), build


@nb.njit(parallel=True, cache=True, nogil=True)
def _pack(x, tiles):
    """The work of ``pack``."""
    n = x.shape[0]
    for group in nb.prange(tiles.shape[0]):
        for t in range(min(16, n - group * 16)):
            row = x[group * 16 + t]
            for k in range(tiles.shape[1]):
                for p in range(PAIRS):
                    low, high = encode1(row[k * DEEP + 2 * p]), encode1(row[k * DEEP + 2 * p + 1])
                    tiles[group, k, p, t] = np.uint32(low) | (np.uint32(high) << np.uint32(16))


@nb.njit(parallel=True, cache=True, nogil=True)
def _linear(w_at, tiles, layout, n, out):
    """w_at: address of (m, K) uint16, tiles: (n'/16, K/32, 16, 16) uint32, layout: (64,) uint8, out: (n, m) float32."""
    m, depth = out.shape[1], tiles.shape[1]
    weight = nb.carray(address_as_void_pointer(w_at), (m, depth * DEEP), dtype=np.uint16)
    for task in nb.prange(m // ROWS):
        # This task's 32 rows, tile by tile: two tiles side by side for each step along K.
        packed = np.empty((depth, ROWS, DEEP), np.uint16)
        for k in range(depth):
            for r in range(ROWS):
                for i in range(DEEP):
                    packed[k, r, i] = weight[task * ROWS + r, k * DEEP + i]
        sums = np.empty((2, ROWS, 16), np.float32)
        p_at, s_at, t_at = packed.ctypes.data, sums.ctypes.data, tiles.ctypes.data
        _configure(layout.ctypes.data)
        for pair in range(tiles.shape[0] // 2):
            _zero0()
            _zero1()
            _zero2()
            _zero3()
            left, right = t_at + 2 * pair * depth * 1024, t_at + (2 * pair + 1) * depth * 1024
            for k in range(depth):
                _load4(p_at + k * 2048, 64)
                _load5(p_at + k * 2048 + 1024, 64)
                _load6(left + k * 1024, 64)
                _load7(right + k * 1024, 64)
                _add0()
                _add1()
                _add2()
                _add3()
            _store0(s_at, 64)
            _store1(s_at + 2048, 64)
            _store2(s_at + 1024, 64)
            _store3(s_at + 3072, 64)
            for side in range(2):
                for t in range(16):
                    token = pair * 32 + side * 16 + t
                    if token < n:
                        for r in range(ROWS):
                            out[token, task * ROWS + r] = sums[side, r, t]
        _release()
