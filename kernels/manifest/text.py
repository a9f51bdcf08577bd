"""Bytes and text."""

import base64 as library
import itertools
import operator

from .registry import Rules, flat, rows

rules = Rules()


@rules
def string_search(text, pattern, found, first, n, m):
    places = [i for i in range(n) if bytes(text).startswith(bytes(pattern), i)]
    return {2: [int(i in places) for i in range(len(found))], 3: [places[0]]}


@rules
def kmp(text, pattern, place, length, m):
    return {2: [bytes(line).find(bytes(pattern)) for line in rows(text, length)]}


@rules
def run_length(data, symbol, length, runs):
    groups = [(v, len(list(g))) for v, g in itertools.groupby(data)]
    rest = [0] * (32 - len(groups))
    return {1: [v for v, _ in groups] + rest, 2: [k for _, k in groups] + rest, 3: [len(groups)]}


@rules
def base64(data, out, n):
    return {1: list(library.b64encode(bytes(data)))}


@rules
def upper_case(text):
    return {0: list(bytes(text).upper())}


@rules
def decimal(data, out):
    return {1: flat(f"{v:12d}".encode() for v in data)}


@rules
def varint(data, start, out):
    parts = [data[low:high] for low, high in zip(start, start[1:] + [len(data)])]
    return {2: [sum((v & 127) << 7 * i for i, v in enumerate(part)) for part in parts]}


@rules
def bytecode(programs, out):
    # The instruction set: push k, dup, mul, swap, sub, add, jump to k if not 0, halt, over, drop.
    binary = {2: operator.mul, 4: operator.sub, 5: operator.add}

    def run(code, pc=0, stack=()):
        while code[pc] != 7:
            op, *below = code[pc], *stack
            pc += 1
            if op in (0, 6):
                k, pc = code[pc], pc + 1
            if op == 0:
                stack = (*below, k)
            elif op in binary:
                *rest, a, b = below
                stack = (*rest, binary[op](a, b))
            elif op == 6:
                *stack, condition = below
                pc = k if condition else pc
            else:
                stack = {1: [*below, below[-1]], 3: [*below[:-2], *below[:-3:-1]], 8: [*below, *below[-2:-1]], 9: below[:-1]}[op]
        return stack[-1]
    return {1: [run(code) for code in rows(programs, 16)]}
