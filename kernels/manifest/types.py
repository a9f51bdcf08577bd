"""Types: bits, bytes, shorts, 64 bits, vectors, structures, functions."""

import datetime
import itertools
import struct

from .registry import Rules, flat, quotient, rows, signed

rules = Rules()


@rules
def bit_tricks(data, ones, zeros, first, reversed_, swapped, halves):
    text = [f"{v:032b}" for v in data]
    return {1: [t.count("1") for t in text], 2: [(t + "1").index("1") for t in text],
            3: [("1" + t)[::-1].index("1") % 32 + 1 if "1" in t else 0 for t in text],
            4: [int(t[::-1], 2) for t in text], 5: [int.from_bytes(v.to_bytes(4, "little"), "big") for v in data],
            6: [int(t[16:] + t[:16], 2) for t in text]}


@rules
def morton(x, y, code, back):
    return {2: [int("".join(b + a for a, b in zip(f"{u:016b}", f"{v:016b}")), 2) for u, v in zip(x, y)], 3: x}


@rules
def gray_code(data, code, decoded):
    def decode(v):
        return int("".join(str(sum(map(int, t)) % 2) for t in itertools.accumulate(f"{v:032b}")), 2)
    return {1: [v ^ v // 2 for v in data], 2: [decode(v) for v in data]}


@rules
def hamming(words, distance):
    return {1: [(a ^ b).bit_count() for a in words for b in words]}


@rules
def int8_dot(a, b, total):
    return {2: [t + sum(x * y for x, y in zip(u, v)) for t, u, v in zip(total, rows(a, 8), rows(b, 8))]}


@rules
def audio_mix(left, right, out, gain, other_gain):
    return {2: [min(max((x * gain + y * other_gain) // 256, -32768), 32767) for x, y in zip(left, right)]}


@rules
def vector_load(a, b, wide, total, difference):
    return {3: [x + y for x, y in zip(a, b)], 4: [signed(x - y, 64) for x, y in rows(wide, 2)]}


@rules
def particles(records, n, size, steps):
    def fly(position, speed):
        for _ in range(steps):
            position += 20 * speed
            if not 0 <= position < size:
                position, speed = (-position if position < 0 else 2 * (size - 1) - position), -speed
        return position, speed
    out = []
    for x, y, vx, vy in struct.iter_unpack("<iihh", struct.pack(f"<{len(records)}i", *records)):
        (x, vx), (y, vy) = fly(x, vx), fly(y, vy)
        out += struct.unpack("<3i", struct.pack("<iihh", x, y, vx, vy))
    return {0: out}


@rules
def struct_param(data, out, parameter):
    scale, stretch, shift, steps, offset = struct.unpack("<iihB5xq", bytes(parameter))

    def image(v):
        for i in range(steps):
            v = (stretch if i % 2 else scale) * v + shift
        return signed(v) + offset
    return {1: [image(v) for v in data], 2: None}


@rules
def calendar(days, date, weekday):
    dates = [datetime.date(1970, 1, 1) + datetime.timedelta(days=d) for d in days]
    return {1: [int(d.strftime("%Y%m%d")) for d in dates], 2: [d.isoweekday() % 7 for d in dates]}


@rules
def double_dabble(data, bcd):
    return {1: [int(str(v), 16) for v in data]}


@rules
def moving_average(data, out, n, window):
    parts = [data[max(0, i - window // 2):i + window // 2 + 1] for i in range(n)]
    return {1: [quotient(sum(p), len(p)) for p in parts]}


@rules
def adpcm(codes, samples):
    sizes = [7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107,
             118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724]

    def decode(data):
        value, index = 0, 20
        for code in flat((byte % 16, byte // 16) for byte in data):
            step, size = sizes[index], code % 8
            change = step // 8 + sum(step >> 2 - bit for bit in range(3) if size >> bit & 1)
            value = min(max(value + (-change if code > 7 else change), -32768), 32767)
            index = min(max(index + (2 * size - 6 if size > 3 else -1), 0), 48)
            yield value
    return {1: flat(decode(part) for part in rows(codes, 8))}


@rules
def generic_pointer(data, out):
    squares = [v * v for v in data]
    return {1: [sum(squares[t // 2:][:1 + t % 8]) if t % 2 else sum(data[t::2][:1 + t % 8]) for t in range(16)]}


@rules
def gather(table, index, out, n):
    return {2: [table[k] for k in index]}


@rules
def fixed_gain(sample, gain, out, number, tenth):
    return {2: [x * y // 2**32 for x, y in zip(sample, gain)], 4: [v // 10 for v in number]}


@rules
def bit_fields(data, moved, field):
    text = [f"{v:032b}" for v in data]
    return {1: [int(t[27:] + t[23:27] + t[11:23], 2) for t in text], 2: [signed(int(t[4:15], 2), 11) for t in text]}
