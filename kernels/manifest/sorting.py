"""Sorting and searching."""

import bisect

from .registry import Rules, flat, rows

rules = Rules()


@rules
def bitonic_sort(data):
    return {0: sorted(data)}


@rules
def sort_pairs(data):
    return {0: sorted(data)}


@rules
def odd_even_sort(data, n):
    return {0: sorted(data)}


@rules
def radix_sort(data):
    return {0: sorted(data)}


@rules
def rank_sort(data, out, n):
    return {1: sorted(data)}


@rules
def merge(a, b, out, n, m):
    return {2: sorted(a + b)}


@rules
def insertion_sort(data):
    return {0: flat(sorted(part) for part in rows(data, 8))}


@rules
def binary_search(table, keys, place, n):
    return {2: [bisect.bisect_left(table, key) for key in keys]}
