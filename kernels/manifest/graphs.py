"""Graphs, points and dynamic programming."""

import bisect
import itertools

from .registry import Rules, quotient, rows

rules = Rules()


@rules
def floyd_warshall(distance):
    n, far = 6, 10**6
    best = rows(distance, n)
    for _ in range(n):  # one more edge allowed in each round
        best = [[min([best[i][j]] + [best[i][k] + distance[n * k + j] for k in range(n)]) for j in range(n)] for i in range(n)]
    assert all(v == far or v < far // 2 for row in best for v in row)
    return {0: [v for row in best for v in row]}


@rules
def bfs(start, neighbour, level, source, n):
    level = [-1] * n
    level[source], queue = 0, [source]
    for v in queue:
        for u in neighbour[start[v]:start[v + 1]]:
            if level[u] < 0:
                level[u] = level[v] + 1
                queue.append(u)
    return {2: level}


@rules
def union_find(start, end, component, edges, nodes):
    groups = [{v} for v in range(nodes)]
    for a, b in zip(start, end):
        joined = [g for g in groups if a in g or b in g]
        groups = [g for g in groups if g not in joined] + [set().union(*joined)]
    return {2: [min(next(g for g in groups if v in g)) for v in range(nodes)]}


@rules
def bellman_ford(start, end, weight, distance, edges, nodes):
    best = [10**6] * nodes
    best[0], changed = 0, True
    while changed:
        changed = False
        for a, b, w in zip(start, end, weight):
            if best[a] < 10**6 and best[a] + w < best[b]:
                best[b], changed = best[a] + w, True
    return {3: best}


@rules
def triangles(row, count):
    edge = lambda a, b: row[a] >> b & 1
    return {1: [sum(edge(a, b) & edge(b, c) & edge(a, c) for a, b, c in itertools.combinations(range(len(row)), 3))]}


@rules
def list_ranking(following, rank, n):
    def distance(v):
        return 0 if following[v] == v else 1 + distance(following[v])
    return {1: [distance(v) for v in range(n)]}


@rules
def nearest(points, centres, label, n):
    def squared(p, q):
        return (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2
    centres = rows(centres, 2)
    return {2: [min(range(n), key=lambda k: (squared(p, centres[k]), k)) for p in rows(points, 2)]}


@rules
def kmeans_step(data, centre, n, clusters):
    label = [min(range(clusters), key=lambda k: abs(v - centre[k])) for v in data]
    members = [[v for v, own in zip(data, label) if own == k] for k in range(clusters)]
    return {1: [quotient(sum(m), len(m)) if m else c for m, c in zip(members, centre)]}


@rules
def edit_distance(a, b, out, n, m):
    row = list(range(m + 1))
    for i, x in enumerate(a, 1):
        last, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y)))
    return {2: [row[-1]]}


@rules
def knapsack(weight, value, best, items):
    choices = [[i for i in range(items) if mask >> i & 1] for mask in range(1 << items)]
    worth = [(sum(weight[i] for i in c), sum(value[i] for i in c)) for c in choices]
    return {2: [max(v for w, v in worth if w <= capacity) for capacity in range(32)]}


@rules
def increasing(data, out, n):
    tails = []  # patience: the smallest end of an increasing run of each length
    for v in data:
        k = bisect.bisect_left(tails, v)
        tails[k:k + 1] = [v]
    return {1: [len(tails)]}


@rules
def queens(solutions, n):
    return {0: [sum(len({r + c for r, c in enumerate(p)}) == len({r - c for r, c in enumerate(p)}) == n
                    for p in itertools.permutations(range(n)))]}
