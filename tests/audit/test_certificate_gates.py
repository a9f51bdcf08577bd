"""Gates: what an operation's line keeps 0 and what hangs on it, and proofs that split on one."""

from __future__ import annotations

import pytest

from qgpu.audit.exclusion import Exclusion
from qgpu.audit.facts import Facts
from qgpu.audit.gates import Gates
from qgpu.audit.claims import Head
from qgpu.audit.prover import Between, Prover
from qgpu.audit.shared import check_factor, check_shared

ONE = (1, {})


def unit(const=0, weight=1, **terms):
    """A term over named variables, put in by `Lane.terms`."""
    return weight, const, terms


class Lane:
    """Two operations: `mul` through a digit in two levels, another one under either of two lines."""

    def __init__(self, facts, lines=None):
        self.facts, bit = facts, lambda n: facts.var(n, 0, 1)
        self.v = lines or {n: bit(n) for n in ("mul", "add", "sub")}
        self.v = dict(self.v) | {n: bit(n) for n in ("a", "b", "across", "other")}
        self.v["digit"], self.v["low"] = facts.var("digit", 0, 15), facts.var("low", 0, 7)
        self.define("digit", unit(-1, 15, mul=1, a=1))
        self.define("across", unit(-14, digit=1))
        self.define("low", unit(digit=1), unit(-7, -8, digit=1), unit(-8, 8, digit=1))
        self.define("other", unit(-1, add=1, sub=1, b=1))

    def form(self, const, terms):
        return const, {self.v[n]: k for n, k in terms.items()}

    def define(self, name, *units):
        self.facts.defs[self.v[name]] = [(w, self.form(c, t), ONE) for w, c, t in units]

    def result(self):
        """Whether low or across is on, by steps, and the other operation: 2 where both are."""
        low, across, other = (self.v[n] for n in ("low", "across", "other"))
        return [(0.5, (1, {low: 1, across: 1}), (0, {low: 1, across: 1})), (-0.5, (0, {low: 1, across: 1}), (-1, {low: 1, across: 1})),
                (-1, (-1, {low: 1, across: 1}), ONE), (1, (0, {other: 1}), ONE)]


def lanes(*apart, count=1):
    facts, out = Facts(), []
    for _ in range(count):
        out.append(Lane(facts, out and {n: out[0].v[n] for n in ("mul", "add", "sub")}))
    v = out[0].v
    for x, y in apart:
        facts.apart([v[x], v[y]])
    return facts, out[0] if count == 1 else out


def test_what_hangs_on_a_line_and_what_it_keeps_0():
    facts, lane = lanes(("mul", "add"), ("mul", "sub"))
    gates, v = Gates(facts), lane.v
    assert v["mul"] in gates.of(v["digit"]) & gates.of(v["low"]) & gates.of(v["across"])
    assert gates.of(v["other"]) == gates.of(v["a"]) == frozenset()             # either of two lines will do; none
    assert gates.off(v["other"], v["mul"]) and not gates.off(v["low"], v["mul"]) and gates.off(v["low"], v["add"])
    assert gates.apart(v["low"], v["other"]) and Exclusion(facts).excludes(v["across"], v["other"])
    assert not gates.apart(v["low"], v["across"]) and not gates.apart(v["a"], v["other"])


@pytest.mark.parametrize("apart", [[], [("mul", "add")], [("mul", "sub")], [("add", "sub")]], ids=str)
def test_one_line_that_is_not_excluded_is_enough_against_it(apart):
    facts, lane = lanes(*apart)
    gates, v = Gates(facts), lane.v
    assert not gates.off(v["other"], v["mul"]) and not gates.apart(v["low"], v["other"])
    assert not Exclusion(facts).excludes(v["low"], v["other"])


def test_a_term_that_another_line_lets_in_does_not_hang():
    facts, lane = lanes(("mul", "add"), ("mul", "sub"))
    lane.define("low", unit(digit=1), unit(-1, b=1, a=1))
    assert Gates(facts).of(lane.v["low"]) == frozenset() and not Gates(facts).off(lane.v["low"], lane.v["add"])


def test_a_term_whose_forms_are_never_both_on_is_0():
    facts, lane = lanes(("mul", "add"), ("mul", "sub"))
    a, b, add = lane.v["a"], lane.v["b"], lane.v["add"]
    facts.defs[lane.v["other"]] = [(0.25, (-3, {a: 3, b: 3, add: 2}), (6, {a: -3, b: -3, add: -1}))]    # both on only where add is
    assert Gates(facts).off(lane.v["other"], lane.v["mul"]) and add in Gates(facts).of(lane.v["other"])


def test_a_sum_is_split_by_a_line_that_it_does_not_name():
    bit = Between(0, 1)
    facts, lane = lanes(("mul", "add"), ("mul", "sub"))
    assert Prover(facts).prove(bit, lane.result())
    assert not Prover(facts).prove(Between(0, 0), lane.result())
    facts, lane = lanes(("mul", "add"))
    assert not Prover(facts).prove(bit, lane.result())


def test_a_repeated_proof_looks_for_its_line_again():
    facts, (first, second, third) = lanes(("mul", "add"), ("mul", "sub"), count=3)
    third.define("other", unit(-1, b=1, a=1))                                  # no line in it
    prover, goal = Prover(facts), Between(0, 1)
    assert [prover.prove(goal, x.result()) for x in (first, second, third)] == [True, True, False]
    assert prover.repeated == 1


def test_constants_that_make_up_0():
    facts, lane = lanes(("mul", "add"), ("mul", "sub"))
    digit, v = lane.v["digit"], lane.v
    below = lambda c: (-1, ONE, (c, {digit: -1}))                              # -(c - digit) below c
    facts.defs[v["low"]] = [(3, ONE, ONE), below(4), (1, ONE, (1, {digit: -1}))]
    assert v["mul"] in Gates(facts).of(v["low"]) and Gates(facts).off(v["low"], v["add"])
    facts.defs[v["low"]][0] = (4, ONE, ONE)                                    # 1 where nothing else is on
    assert v["mul"] not in Gates(facts).of(v["low"]) and not Gates(facts).off(v["low"], v["add"])
    facts.on[v["low"]] = [(3, ONE, ONE), below(4), (1, ONE, (1, {digit: -1}))]
    del facts.defs[v["low"]]                                                   # a read: of its rows one at least is on
    assert v["mul"] not in Gates(facts).of(v["low"])


def test_inequalities_that_contradict_one_another():
    facts = Facts()
    x, y = facts.var("x", 0, 400), facts.var("y", 0, 400)
    full, found = [(-65534, {x: 1, y: 256}), (65536, {x: -1, y: -256})], Exclusion(facts)      # x + 256 y is 65535
    assert found.apart([*full, (-255, {y: 1})])                                                  # y is 256 or more
    assert not found.apart([*full, (-254, {y: 1})])                                              # 255 fits
    assert found.apart([*full, (-254, {y: 1}), (32385, {x: 1, y: -128})])                        # and x 256 or more where y is 255
    assert not found.apart([*full, (-254, {y: 1}), (32386, {x: 1, y: -128})])                    # x 255 fits


def test_rows_that_are_read_together():
    facts = Facts()
    told, w, g, x = (facts.var(n, 0, 1) for n in ("told", "warp", "group", "x"))
    conj = lambda *vs: (1 - sum(k > 0 for _, k in vs), dict(vs))
    keys = {2 * i + j: conj((told, 1), (w, 2 * i - 1), (g, 2 * j - 1)) for i in (0, 1) for j in (0, 1)} | {4: conj((told, -1))}
    queries = {2 * i + j: conj((w, 2 * i - 1)) for i in (0, 1) for j in (0, 1)} | {4: ONE}
    values = [conj((told, 1), (x, 1), (g, 2 * j - 1)) for j in (0, 1)]
    head = Head("rows", True, gate=((1, ()),) * 2, value_tap=(0, 0))

    def check(k=keys, q=queries, v=values, first=0):
        return check_shared(head, facts, Exclusion(facts), k, q, k[4], v, {told: first})

    assert check() == ([], [[queries[0], queries[2]], [queries[1], queries[3]]])
    assert check(first=1)[0] and check(q=queries | {2: queries[0]})[0] and check(q=queries | {4: conj((w, 1))})[0]
    assert check(k=keys | {0: conj((w, -1))})[0] and check(v=[conj((x, 1)), values[1]])[0]
    assert all(map(check_factor, range(1, 20)))
