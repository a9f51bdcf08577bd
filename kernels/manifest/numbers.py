"""Number theory, long integers and puzzles."""

import functools
import math

from .registry import Rules, quotient, unsigned

rules = Rules()


def join(words):
    """32-bit words, lowest first, as one integer."""
    return sum(w << 32 * i for i, w in enumerate(words))


def split(value, count):
    return [value >> 32 * i & 0xFFFFFFFF for i in range(count)]


@rules
def modpow(base, exponent, modulus, out):
    return {3: [pow(b, e, m) for b, e, m in zip(base, exponent, modulus)]}


@rules
def montgomery(a, b, out):
    return {2: [x * y % 4294967291 for x, y in zip(a, b)]}


@rules
def divide(a, b, q, r, uq, ur):
    pairs = list(zip(a, b))
    return {2: [quotient(x, y) for x, y in pairs], 3: [x - y * quotient(x, y) for x, y in pairs],
            4: [unsigned(x) // unsigned(y) for x, y in pairs], 5: [unsigned(x) % unsigned(y) for x, y in pairs]}


@rules
def divide_long(a, b, q, r):
    return {2: [quotient(x, y) for x, y in zip(a, b)], 3: [unsigned(x, 64) % unsigned(y, 64) for x, y in zip(a, b)]}


@rules
def mod_inverse(a, modulus, out):
    return {2: [pow(x, -1, m) if math.gcd(x, m) == 1 else 0 for x, m in zip(a, modulus)]}


@rules
def binary_gcd(a, b, out):
    return {2: [math.gcd(x, y) for x, y in zip(a, b)]}


@rules
def sieve(primes, n):
    prime = [k > 1 and all(k % d for d in range(2, k)) for k in range(n)]
    return {0: [sum(prime[32 * w + b] << b for b in range(32)) for w in range(n // 32)]}


@rules
def collatz_longest(best):
    @functools.cache
    def length(x):
        return 0 if x == 1 else 1 + length(x // 2 if x % 2 == 0 else 3 * x + 1)
    start = max(range(1, 33), key=lambda x: (length(x), x))
    return {0: [length(start) * 65536 + start]}


@rules
def bigint_add(a, b, total):
    return {2: split(join(a) + join(b), 33)}


@rules
def bigint_multiply(a, b, product, n):
    return {2: split(join(a) * join(b), 2 * n)}


@rules
def pascal(out, row):
    return {0: [math.comb(row, k) for k in range(16)]}


@rules
def josephus(n, k, survivor):
    def last(people, step):
        circle = list(range(people))
        at = 0
        while len(circle) > 1:
            at = (at + step - 1) % len(circle)
            del circle[at]
        return circle[0]
    return {2: [last(p, s) for p, s in zip(n, k)]}


@rules
def ackermann(m, n, out):
    closed = {0: lambda n: n + 1, 1: lambda n: n + 2, 2: lambda n: 2 * n + 3, 3: lambda n: 2 ** (n + 3) - 3}
    return {2: [closed[x](y) for x, y in zip(m, n)]}


@rules
def hanoi(moves):
    def tower(discs, a, b, c):
        return [] if discs == 0 else tower(discs - 1, a, c, b) + [a, b] + tower(discs - 1, c, b, a)
    return {0: tower(5, 0, 2, 1)}


@rules
def sqrt_fixed(data, out):
    return {1: [math.isqrt(v * 65536) for v in data]}


@rules
def cordic(theta, sine, cosine):
    def turn(rest):
        """The same rotations as products of complex numbers: x + iy times 1 +- i 2^-k, each part rounded down."""
        x, y = round(32768 * math.prod(1 / math.sqrt(1 + 4**-k) for k in range(14))), 0
        for k in range(14):
            way = 1 if rest >= 0 else -1
            x, y = x - way * (y // 2**k), y + way * (x // 2**k)
            rest -= way * round(32768 * math.atan(2**-k))
        return y, x
    pairs = [turn(t) for t in theta]
    for t, (y, x) in zip(theta, pairs):
        assert abs(y - 32768 * math.sin(t / 32768)) < 24 and abs(x - 32768 * math.cos(t / 32768)) < 24
    return {1: [y for y, _ in pairs], 2: [x for _, x in pairs]}

