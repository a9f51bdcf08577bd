"""Matrices and transforms."""

import itertools
import math

from .registry import Rules, flat, rows

rules = Rules()


@rules
def matmul_tiled(a, b, c, n):
    columns = list(zip(*rows(b, n)))
    return {2: [sum(x * y for x, y in zip(row, column)) for row in rows(a, n) for column in columns]}


@rules
def transpose(data, out, width, height):
    return {1: flat(zip(*rows(data, width)))}


@rules
def matvec_warp(matrix, vector, out, columns):
    return {2: [sum(x * y for x, y in zip(row, vector)) for row in rows(matrix, columns)]}


@rules
def spmv_csr(start, column, value, x, y, n):
    dense = [[0] * n for _ in range(n)]
    for row in range(n):
        for k in range(start[row], start[row + 1]):
            dense[row][column[k]] = value[k]
    return {4: [sum(a * b for a, b in zip(row, x)) for row in dense]}


@rules
def determinant(matrices, out):
    def leibniz(m):
        total = 0
        for p in itertools.permutations(range(4)):
            inversions = sum(p[i] > p[j] for i in range(4) for j in range(i + 1, 4))
            total += (-1) ** inversions * math.prod(m[i][p[i]] for i in range(4))
        return total
    return {1: [leibniz(rows(m, 4)) for m in rows(matrices, 16)]}


@rules
def ntt(data):
    root = 249  # the bit-reversed order in, natural order out: X[k] = sum of x[j] root^(jk)
    return {0: [sum(x * pow(root, j * k, 257) for j, x in enumerate(data)) % 257 for k in range(16)]}


@rules
def walsh(data):
    return {0: [sum(-x if bin(i & k).count("1") % 2 else x for i, x in enumerate(data)) for k in range(32)]}
