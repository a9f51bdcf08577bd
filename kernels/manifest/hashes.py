"""Checksums, hashes, ciphers and random numbers."""

import binascii
import hashlib
import struct
import zlib

from .registry import Rules, flat, rows, unsigned

rules = Rules()


def rotate(x, n, bits=32):
    return unsigned(x << n, bits) | x >> bits - n


@rules
def crc32(messages, out, length):
    return {1: [zlib.crc32(bytes(m)) for m in rows(messages, length)]}


@rules
def crc16(messages, out, length):
    return {1: [binascii.crc_hqx(bytes(m), 0xFFFF) for m in rows(messages, length)]}


@rules
def adler32(data, out, n):
    return {1: [zlib.adler32(bytes(data))]}


@rules
def fnv1a(strings, out, length):
    def digest(text):
        h = 14695981039346656037
        for byte in text:
            h = (h ^ byte) * 1099511628211 % 2**64
        return h
    return {1: [digest(s) for s in rows(strings, length)]}


@rules
def murmur3(keys, seeds, out):
    def finish(h):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            h = (h ^ h >> shift) * factor % 2**32
        return h

    def digest(words, h):
        for word in words:
            h = (rotate(h ^ rotate(word * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32, 13) * 5 + 0xE6546B64) % 2**32
        return finish(h ^ 4 * len(words))
    return {2: [digest(pair, seed) for pair, seed in zip(rows(keys, 2), seeds)]}


@rules
def siphash(key, messages, out):
    def digest(message):
        v = [k ^ int.from_bytes(text, "big") for k, text in zip(key * 2, (b"somepseu", b"dorandom", b"lygenera", b"tedbytes"))]

        def half(a, b, c, d, s, t):
            v[a], v[c] = unsigned(v[a] + v[b], 64), unsigned(v[c] + v[d], 64)
            v[b], v[d] = rotate(v[b], s, 64) ^ v[a], rotate(v[d], t, 64) ^ v[c]
            v[a] = rotate(v[a], 32, 64)

        def rounds(count):
            for _ in range(count):
                half(0, 1, 2, 3, 13, 16)
                half(2, 1, 0, 3, 17, 21)
        padded = bytes(message) + bytes(7 - len(message) % 8) + bytes([len(message)])
        for (m,) in struct.iter_unpack("<Q", padded):
            v[3] ^= m
            rounds(2)
            v[0] ^= m
        v[2] ^= 0xFF
        rounds(4)
        return v[0] ^ v[1] ^ v[2] ^ v[3]
    return {2: [digest(m) for m in rows(messages, 15)]}


@rules
def sha256(block, state):
    data = struct.pack(">16I", *block)  # one padded block: the message's length in bits is its last eight bytes
    message = data[:int.from_bytes(data[-8:], "big") // 8]
    return {1: list(struct.unpack(">8I", hashlib.sha256(message).digest()))}


@rules
def chacha20(state, out):
    v = list(state)

    def quarter(a, b, c, d):
        for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            v[x] = unsigned(v[x] + v[y])
            v[z] = rotate(v[z] ^ v[x], n)
    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return {1: [unsigned(a + b) for a, b in zip(v, state)]}


@rules
def xtea(data, key):
    def encipher(x, y):
        for r in range(32):
            low, high = r * 0x9E3779B9 % 2**32, (r + 1) * 0x9E3779B9 % 2**32
            x = (x + (((y * 16 ^ y // 32) + y) ^ (low + key[low % 4]))) % 2**32
            y = (y + (((x * 16 ^ x // 32) + x) ^ (high + key[high // 2048 % 4]))) % 2**32
        return x, y
    return {0: flat(encipher(*pair) for pair in rows(data, 2))}


@rules
def gf256(a, b, out):
    def product(x, y):
        p = 0
        for i in range(8):
            p ^= (x << i) * (y >> i & 1)
        for i in range(14, 7, -1):
            p ^= (0x11B << i - 8) * (p >> i & 1)
        return p
    return {2: [product(x, y) for x, y in zip(a, b)]}


@rules
def xoshiro(states, out, n):
    numbers, after = [], []
    for s in rows(states, 4):
        for _ in range(n):
            numbers.append(rotate(s[1] * 5 % 2**32, 7) * 9 % 2**32)
            a, b, c, d = s
            s = [a ^ d ^ b, b ^ c ^ a, c ^ a ^ b * 512 % 2**32, rotate(d ^ b, 11)]
        after += s
    return {0: after, 1: numbers}


@rules
def pcg32(states, out, n):
    numbers, after = [], []
    for s in states:
        for _ in range(n):
            x = (s ^ s >> 18) // 2**27 % 2**32
            numbers.append(rotate(x, (32 - (s >> 59)) % 32))
            s = (s * 6364136223846793005 + 1442695040888963407) % 2**64
        after.append(s)
    return {0: after, 1: numbers}


@rules
def lcg_jump(out, seed):
    stream = [seed]
    while len(stream) <= 15000:
        stream.append((stream[-1] * 1664525 + 1013904223) % 2**32)
    return {0: stream[:15001:1000]}


@rules
def monte_carlo(hits, throws, seed):
    total = 0
    for thread in range(128):
        state = seed + 2654435769 * thread
        for _ in range(throws):
            state = unsigned(state * 1664525 + 1013904223)
            total += (state // 2**22) ** 2 + (state // 2**12 % 1024) ** 2 < 2**20
    return {0: [total]}
