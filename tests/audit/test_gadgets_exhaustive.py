"""Every part of the circuit over its whole input space, in bf16 and fp32 as the layers compute it; wide ones by hypothesis, with edges.

The default tier takes every k-th input of the space, the slow one all of them.
"""

import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).resolve().parents[1] / "circuit"))

from circuit_words import EDGES, line, result_bits, word  # noqa: E402
from gadget_layers import TOKENS, GadgetLayers, bits_of, number_of  # noqa: E402

from qgpu.circuit.adder import add, add_value  # noqa: E402
from qgpu.circuit.bitcount import bit_counts, bit_counts_value  # noqa: E402
from qgpu.circuit.compare import compare, compare_value  # noqa: E402
from qgpu.circuit.core import Circuit, Form, MemoryHead, all_of, not_  # noqa: E402
from qgpu.circuit.follow import minimum, smallest_of  # noqa: E402
from qgpu.circuit.logic import logic, logic_value, pick, pick_many  # noqa: E402
from qgpu.circuit.multiply import multiply_add, multiply_add_value  # noqa: E402
from qgpu.circuit.output import OUT_SCALE, Writer, write_items  # noqa: E402
from qgpu.circuit.records import Records, build_records, code_table  # noqa: E402
from qgpu.circuit.shift import shift, shift_value  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402
from qgpu.machine.tokens import Vocabulary  # noqa: E402

SAMPLE = 2 * TOKENS
"""Inputs of each gadget in the default tier."""


class Fields:
    """Names the bits of a counter: a whole input space as numbers. take("a", 8) is the next 8 bits."""

    def __init__(self, size: int, some: int | None) -> None:
        rng = np.random.default_rng(size)
        self.k = np.arange(size) if some is None or some >= size else np.unique(rng.integers(0, size, some))
        self.rest = self.k.copy()

    def take(self, size: int) -> np.ndarray:
        """The next digit, of `size` values."""
        self.rest, digit = np.divmod(self.rest, size)
        return digit


# ---- gadgets: build() -> (layers, ...), check(made, some): all inputs, or some -----------------------------------------
@cache
def adder(n, chunk):
    c = Circuit()
    a, b, cin, en = word(c, "a", n), word(c, "b", n), line(c, "cin"), line(c, "en")
    r1, r2 = result_bits(c, "r", n) if chunk < n else (c.bits("r", n),) * 2
    out = c.signal("carry_out")
    add(c, a, b, cin, en, r1, r2, carry_out=out, chunk=chunk)
    return GadgetLayers(c, [*a, *b, cin, en], [*r2, out], copied=True), a, b, cin, en, r2, out


def check_adder(some, n=8, chunk=8):
    made, a, b, cin, en, r, out = adder(n, chunk)
    f = Fields(1 << (2 * n + 2), some)
    x, y, carry, on = f.take(1 << n), f.take(1 << n), f.take(2), f.take(2)
    found = made.run(bits_of(a, x) | bits_of(b, y) | bits_of([cin, en], carry + 2 * on))
    assert np.array_equal(number_of(found, r), add_value(x, y, carry, on, n))
    assert np.array_equal(found[out], on * (x + y + carry >> n))


def check_rippling_adder(some):
    check_adder(some, 8, 4)


@cache
def comparison():
    c = Circuit()
    a, b, lines, rel = word(c, "a", 8), word(c, "b", 8), [line(c, n) for n in ("lt", "eq", "gt", "signed")], c.signal("rel")
    compare(c, a, b, *lines, rel)
    return GadgetLayers(c, [*a, *b, *lines], [rel]), a, b, lines, rel


def check_comparison(some):
    made, a, b, lines, rel = comparison()
    f = Fields(1 << 19, some)
    x, y, which, signed = f.take(256), f.take(256), np.array([0, 1, 2, 4])[f.take(4)], f.take(2)
    found = made.run(bits_of(a, x) | bits_of(b, y) | bits_of(lines, which + 8 * signed))
    lt, eq, gt = which & 1, which >> 1 & 1, which >> 2 & 1
    assert np.array_equal(found[rel], compare_value(x, y, lt, eq, gt, signed, 8))


@cache
def shifter(n, amount_bits):
    c = Circuit()
    a, b, lines = word(c, "a", n), word(c, "b", amount_bits), [line(c, name) for name in ("shl", "shr", "sar")]
    c.one_hot(lines)
    r = c.bits("r", n)
    shift(c, a, b, *lines, r)
    return GadgetLayers(c, [*a, *b, *lines], r), a, b, lines, r


def run_shift(made, a, b, lines, r, x, amount, which, n):
    found = made.run(bits_of(a, x) | bits_of(b, amount) | bits_of(lines, which))
    wanted = shift_value(x, amount, which & 1, which >> 1 & 1, which >> 2 & 1, n)
    assert np.array_equal(number_of(found, r), wanted)


def check_short_shift(some):
    f = Fields(1 << 18, some)
    run_shift(*shifter(8, 8), f.take(256), f.take(256), np.array([0, 1, 2, 4])[f.take(4)], 8)


def check_shift_amounts(some):
    """All amounts of 32-bit words, for one bit at each place, its complement, and edges."""
    ones = 1 << np.arange(32)
    words = np.concatenate([ones, ones ^ 0xFFFFFFFF, np.array(EDGES)])
    amounts = np.concatenate([np.arange(64), 1 << np.arange(6, 32), [0xFFFFFFFF, 0x80000001, 0x10005]])
    f = Fields(len(words) * len(amounts) * 4, some)
    run_shift(*shifter(32, 32), words[f.take(len(words))], amounts[f.take(len(amounts))], np.array([0, 1, 2, 4])[f.take(4)], 32)


@cache
def bitwise():
    c = Circuit()
    a, b, lines, r = word(c, "a", 4), word(c, "b", 4), [line(c, "xor"), line(c, "and")], c.bits("r", 4)
    logic(c, a, b, *lines, r)
    x, y, picks, p = word(c, "x", 4), word(c, "y", 4), [line(c, "px"), line(c, "py")], c.bits("p", 4)
    c.one_hot(picks)
    pick(c, x, y, *picks, p)
    many, which, out, when = word(c, "many", 5), word(c, "which", 5), c.signal("chosen"), line(c, "when")
    c.one_hot(which, when)
    pick_many(c, list(zip(many, which)), out, "one of five", when)
    made = GadgetLayers(c, [*a, *b, *lines, *x, *y, *picks, *many, *which, when], [*r, *p, out])
    return made, a, b, lines, r, x, y, picks, p, many, which, when, out


def check_bitwise(some):
    """Bitwise logic, choice of two, choice of many (any lines while it is off)."""
    made, a, b, lines, r, x, y, picks, p, many, which, when, out = bitwise()
    f = Fields(1 << 11, some)
    u, v, op, other = f.take(16), f.take(16), f.take(4), f.take(2)
    chosen = np.array([0, 1, 2])[(u + v + op) % 3]
    m, w = (u * 16 + v) % 32, np.where(other, 1 << (op + u) % 5, (u * 37 + v) % 32)
    inputs = bits_of(a, u) | bits_of(b, v) | bits_of(lines, op) | bits_of(x, u) | bits_of(y, v) | bits_of(picks, chosen)
    found = made.run(inputs | bits_of(many, m) | bits_of(which, w) | bits_of([when], other))
    assert np.array_equal(number_of(found, r), logic_value(u, v, op & 1, op >> 1))
    assert np.array_equal(number_of(found, p), np.select([chosen == 1, chosen == 2], [u, v], 0))
    assert np.array_equal(found[out], other * ((m & w) > 0))


@cache
def choices():
    c = Circuit()
    x, y = word(c, "x", 9), word(c, "y", 9)
    least = minimum(c, x, y, "least", 9)
    four = [word(c, f"t{i}.", 3) for i in range(4)]
    smallest = smallest_of(c, four, "smallest", 3)
    return GadgetLayers(c, [*x, *y, *(b for t in four for b in t)], [*least, *smallest]), x, y, least, four, smallest


def check_next_block(some):
    """The smaller of two targets of 9 bits, and the smallest of four."""
    made, x, y, least, four, smallest = choices()
    f = Fields(1 << 18, some)
    u, v = f.take(512), f.take(512)
    targets = [f.k >> 3 * i & 7 for i in range(4)]
    inputs = bits_of(x, u) | bits_of(y, v)
    for t, value in zip(four, targets):
        inputs |= bits_of(t, value)
    found = made.run(inputs)
    assert np.array_equal(number_of(found, least), np.minimum(u, v))
    assert np.array_equal(number_of(found, smallest), np.min(targets, 0))


@cache
def counts(n):
    c = Circuit()
    a, lines, r = word(c, "a", n), [line(c, name) for name in ("popc", "clz", "brev")], c.bits("r", n)
    c.one_hot(lines)
    bit_counts(c, a, *lines, r)
    return GadgetLayers(c, [*a, *lines], r), a, lines, r


def check_bit_counts(some, n=16):
    made, a, lines, r = counts(n)
    f = Fields(4 << n, some)
    x, which = f.take(1 << n), np.array([0, 1, 2, 4])[f.take(4)]
    found = made.run(bits_of(a, x) | bits_of(lines, which))
    assert np.array_equal(number_of(found, r), bit_counts_value(x, which & 1, which >> 1 & 1, which >> 2 & 1, n))


@cache
def multiplier():
    c = Circuit()
    a, b, cc, en, r = word(c, "a"), word(c, "b"), word(c, "c"), line(c, "en"), c.bits("r", 32)
    multiply_add(c, a, b, cc, en, r)
    return GadgetLayers(c, [*a, *b, *cc, en], r, heads=12, copied=True), a, b, cc, en, r


def run_multiply(x, y, z, on):
    made, a, b, cc, en, r = multiplier()
    found = made.run(bits_of(a, x) | bits_of(b, y) | bits_of(cc, z) | bits_of([en], on))
    assert np.array_equal(number_of(found, r), multiply_add_value(x, y, z, on))


def check_multiply_digits(some):
    """All pairs of bytes, at four pairs of places in turn, with addends that make digits carry."""
    f = Fields(1 << 16, some)
    x, y = f.take(256), f.take(256)
    place = (x ^ y) % 4
    left, right = np.array([0, 8, 16, 24])[place], np.array([0, 16, 8, 0])[place]
    addend = np.array([0, 0xFFFFFFFF, 0x0F0F0F0F, 0x7FFFFFFF])[(x + 3 * y) % 4]
    run_multiply(x << left, y << right, addend, np.ones(len(x), np.int64))


@cache
def decoder():
    """126 rows by 7 bits of address; 8 bits of data."""
    c = Circuit()
    address, data, write = word(c, "address", 7), word(c, "data", 8), line(c, "write")
    out = c.bits("out", 8)
    at = lambda row: [b if row >> k & 1 else not_(b) for k, b in enumerate(address)]
    c.add_head(MemoryHead("store", {r: all_of(write, *at(r)) for r in range(126)}, {r: all_of(*at(r)) for r in range(126)},
                          [Form.of(d) for d in data], [Form.of(1)] * 8, [((o, 1),) for o in out]))
    return GadgetLayers(c, [*address, *data, write], out), address, data, write, out


def check_decode(some):
    """Every address read after every row was written, and again after every second one was overwritten; no row is read where there is none."""
    made, address, data, write, out = decoder()
    where = np.concatenate([np.arange(128), np.arange(128), np.arange(0, 128, 2), np.arange(128), np.arange(127, -1, -1)])
    writes = np.concatenate([np.ones(128), np.zeros(128), np.ones(64), np.zeros(256)]).astype(np.int64)
    values = (where * 91 + 17 * np.arange(len(where)) + 5) % 256
    held, wanted = np.zeros(128, np.int64), []
    for a, w, v in zip(where, writes, values):
        if w and a < 126:
            held[a] = v
        wanted.append(held[a])
    inputs = bits_of(address, where) | bits_of(data, values) | bits_of([write], writes)
    for together in (64, 200, *((1,) if some is None else ())):
        found = made.run(inputs, together=together, one_stream=True)
        assert np.array_equal(number_of(found, out), wanted), together


@cache
def output_code():
    """The next chunk of a value as a token's code, with the tie-break that decides VAL or SVAL."""
    m, c = ARTICLE, Circuit()
    built = build_records(Circuit(), m)                       # only its codes are inputs here: names and order
    code = [c.signal(s.name, -1, 1, is_input=True) for s in built.code]
    value, chunk = word(c, "value"), word(c, "chunk", m.chunks)
    sending, store, trapped = line(c, "sending"), line(c, "store"), line(c, "trapped")
    c.one_hot(chunk)
    at_word = word(c, "at", m.window_bits - 1)
    rec = Records(code, {}, {}, value, [s.form() for s in chunk])
    writer = Writer(c, m, rec, trapped)
    front = SimpleNamespace(select_result=[[sending]], select_data=[], select_store=[store])
    write_items(writer, m, rec, front, value, at_word)
    made = GadgetLayers(c, [*code, *value, *chunk, *at_word, sending, store, trapped], writer.out)
    return made, code, value, chunk, sending, trapped, writer.out


def check_output_code(some):
    """Every chunk at every place, with rests of zeros, of ones, and with each single bit wrong."""
    made, code, value, chunk, sending, trapped, out = output_code()
    m, v = ARTICLE, Vocabulary(ARTICLE)
    size = 1 << m.chunk_bits
    f = Fields(m.chunks * size * 24 * 2, some)
    i, low, rest, trap = f.take(m.chunks), f.take(size), f.take(24), f.take(2) * (f.k % 7 == 0)
    tops = np.minimum(m.chunk_bits * (i + 1), 32)
    above = np.where(low >> (m.chunk_bits - 1) & 1, -1, 0)
    above = np.where(rest == 0, above, np.where(rest == 1, ~above, above ^ (1 << np.minimum(rest - 2, 31 - np.minimum(tops, 31)))))
    x = (low << (m.chunk_bits * i) | np.where(tops < 32, above << tops, 0)) & 0xFFFFFFFF
    table = np.asarray(code_table(m))
    inputs = bits_of(value, x) | bits_of(chunk, 1 << i) | bits_of([sending], np.ones(len(x), np.int64)) | bits_of([trapped], trap)
    inputs |= {s: table[(f.k * 31) % len(table), k].astype(np.float32) for k, s in enumerate(code)}
    found = np.stack(list(made.run(inputs).values()), 1)                # (n, codes)
    assert np.all(np.abs(found) == OUT_SCALE)
    ids = {tuple(row): k for k, row in enumerate(table.tolist())}
    for row, number, place, trapped_here in zip(np.sign(found).astype(int).tolist(), x.tolist(), i.tolist(), trap.tolist()):
        token = v.token(ids[tuple(row)])
        if trapped_here:
            assert token.kind == "TRAP"
            continue
        sent = v.value_tokens(number)
        wanted = sent[place] if place < len(sent) else None
        if wanted is not None:
            assert token == wanted, (hex(number), place)


# ---- wide operands ----------------------------------------------------------------------------------------------------
WORDS = st.one_of(st.sampled_from(EDGES), st.integers(0, 0xFFFFFFFF),
                  st.builds(lambda k, d: (1 << k) + d & 0xFFFFFFFF, st.integers(0, 32), st.integers(-2, 2)))
MANY = st.lists(st.tuples(WORDS, WORDS, WORDS, st.integers(0, 255)), min_size=TOKENS // 2, max_size=TOKENS)


def columns(rows):
    return (np.array(column, np.int64) for column in zip(*rows))


@settings(max_examples=3, deadline=None)
@given(MANY)
def test_wide_additions(rows):
    x, y, z, k = columns(rows)
    made, a, b, cin, en, r, out = adder(32, 8)
    y = np.where(k & 12 == 0, x ^ 0xFFFFFFFF, y)                              # carries that run through
    found = made.run(bits_of(a, x) | bits_of(b, y) | bits_of([cin, en], k & 3))
    assert np.array_equal(number_of(found, r), add_value(x, y, k & 1, k >> 1 & 1))
    assert np.array_equal(found[out], (k >> 1 & 1) * (x + y + (k & 1) >> 32))


@settings(max_examples=2, deadline=None)
@given(MANY)
def test_wide_multiplications(rows):
    x, y, z, k = columns(rows)
    run_multiply(x, y, z, k & 1 | k >> 1 & 1)


@settings(max_examples=3, deadline=None)
@given(MANY)
def test_wide_shifts(rows):
    x, amount, _, k = columns(rows)
    run_shift(*shifter(32, 32), x, np.where(k & 8, amount, amount & 63), np.array([0, 1, 2, 4])[k & 3], 32)


def test_the_recurrent_rule_gives_the_same():
    """Token by token onto a state instead of 512 at once."""
    made, a, b, cin, en, r, out = adder(8, 4)
    rng = np.random.default_rng(3)
    x, y, lines = rng.integers(0, 256, 90), rng.integers(0, 256, 90), rng.integers(0, 4, 90)
    inputs = bits_of(a, x) | bits_of(b, y) | bits_of([cin, en], lines)
    once, singly = made.run(inputs), made.run(inputs, together=1, one_stream=True)
    assert all(np.array_equal(once[s], singly[s]) for s in made.outputs)


def test_a_changed_weight_is_seen():
    """The harness can fail: the adder with one weight of one layer changed."""
    made, a, b, cin, en, r, out = adder(8, 8)
    f = Fields(1 << 18, SAMPLE)
    x, y = f.take(256), f.take(256)
    inputs = bits_of(a, x) | bits_of(b, y) | bits_of([cin, en], np.full(len(x), 2))
    z = made.weights.layers[0].z
    row, column = np.argwhere(z[:, made.layout.dim_of[a[3]]])[0][0], made.layout.dim_of[a[3]]
    held, z[row, column] = z[row, column], 0
    try:
        found = made.run(inputs)
        wrong = any(np.any((found[s] != 0) & (found[s] != 1)) for s in r) or not np.array_equal(number_of(found, r), x + y & 255)
    finally:
        z[row, column] = held
    assert wrong
    assert np.array_equal(number_of(made.run(inputs), r), x + y & 255)


GADGETS = [check_adder, check_rippling_adder, check_comparison, check_short_shift, check_shift_amounts, check_bitwise, check_next_block,
           check_bit_counts, check_multiply_digits, check_decode, check_output_code]
names = [g.__name__.removeprefix("check_") for g in GADGETS]


@pytest.mark.parametrize("check", GADGETS, ids=names)
def test_some_inputs(check):
    check(SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("check", GADGETS, ids=names)
def test_all_inputs(check):
    check(None)
