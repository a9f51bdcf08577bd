"""What each operation gives for constants, and bounds of what a value can be."""

from __future__ import annotations

from .ir import CTA, MASK, TID, Op, Value


def to_signed(v: int) -> int:
    return v - (1 << 32) if v >> 31 else v


def parameter_word(space: bytes, at: int) -> int:
    """The 32-bit word at a byte of the parameter space; beyond its end, zeros."""
    return int.from_bytes(space[at:at + 4], "little")


def holds(relation: frozenset[str], a: int, b: int, signed: bool) -> bool:
    if signed:
        a, b = to_signed(a), to_signed(b)
    return ("lt" if a < b else "eq" if a == b else "gt") in relation


def evaluate(op: Op, args: list[int]) -> int | None:
    """The value of a pure operation on constants; None where it has none (division by 0, memory)."""
    a, b, c = (list(args) + [0, 0, 0])[:3]
    match op.kind:
        case "add":
            return (a + b) & MASK
        case "sub":
            return (a - b) & MASK
        case "mul":
            return (a * b + c) & MASK
        case "and":
            return a & b
        case "or":
            return a | b
        case "xor":
            return a ^ b
        case "shl":
            return (a << b) & MASK if b < 32 else 0
        case "shr":
            return a >> b if b < 32 else 0
        case "sar":
            return (to_signed(a) >> min(b, 31)) & MASK
        case "set":
            return int(holds(op.relation, a, b, op.signed))
        case "minmax":
            return a if holds(op.relation, a, b, op.signed) else b
        case "sel":
            return a if c & 1 else b
        case "popc":
            return a.bit_count()
        case "clz":
            return 32 - a.bit_length()
        case "brev":
            return int(f"{a:032b}"[::-1], 2)
        case "mulhi":
            product = to_signed(a) * to_signed(b) if op.signed else a * b
            return (product >> 32) & MASK
        case "div" | "rem":
            if b == 0:
                return None
            x, y = (to_signed(a), to_signed(b)) if op.signed else (a, b)
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return (quotient if op.kind == "div" else x - quotient * y) & MASK
    return None


def bounds(v: Value, threads: int, depth: int = 6) -> tuple[int, int]:
    """Smallest and largest value that v can have, unsigned, for threads 0 .. threads-1 of a block."""
    if isinstance(v, int):
        return v, v
    if v is TID:
        return 0, threads - 1
    top = (0, MASK)
    if v in CTA:
        return 0, (1 << 15) - 1  # what the widest chunk of a token counts to
    if depth == 0 or not isinstance(v, Op):
        return top

    def of(k: int) -> tuple[int, int]:
        return bounds(v.args[k], threads, depth - 1)
    match v.kind:
        case "set":
            return 0, 1
        case "and":
            return 0, min(of(0)[1], of(1)[1])
        case "or" | "xor":
            return 0, (1 << max(of(0)[1].bit_length(), of(1)[1].bit_length())) - 1
        case "add":
            (a, b), (c, d) = of(0), of(1)
            return (a + c, b + d) if b + d <= MASK else top
        case "mul":
            (a, b), (c, d), (e, f) = of(0), of(1), of(2)
            return (a * c + e, b * d + f) if b * d + f <= MASK else top
        case "shl" if isinstance(v.args[1], int) and v.args[1] < 32:
            a, b = of(0)
            n = v.args[1]
            return (a << n, b << n) if b << n <= MASK else top
        case "shr":
            a, b = of(0)
            n = v.args[1]
            return (a >> n, b >> n) if isinstance(n, int) and n < 32 else (0, b)
        case "sel":
            (a, b), (c, d) = of(0), of(1)
            return min(a, c), max(b, d)
        case "minmax":
            (a, b), (c, d) = of(0), of(1)
            return min(a, c), max(b, d)
        case "shfl":
            return of(0)
        case "popc" | "clz":
            return 0, 32
        case "mulhi" if not v.signed:
            return of(0)[0] * of(1)[0] >> 32, of(0)[1] * of(1)[1] >> 32
        case "div" if not v.signed and isinstance(v.args[1], int) and v.args[1]:
            return of(0)[0] // v.args[1], of(0)[1] // v.args[1]
        case "rem" if not v.signed and isinstance(v.args[1], int) and v.args[1]:
            return 0, min(of(0)[1], v.args[1] - 1)
    return top


def is_bool(v: Value, depth: int = 4) -> bool:
    """Whether v is surely 0 or 1."""
    if isinstance(v, int):
        return v in (0, 1)
    if not isinstance(v, Op) or depth == 0:
        return False
    match v.kind:
        case "set":
            return True
        case "and":
            return any(is_bool(a, depth - 1) for a in v.args)
        case "or" | "xor":
            return all(is_bool(a, depth - 1) for a in v.args)
        case "sel":
            return all(is_bool(a, depth - 1) for a in v.args[:2])
        case "phi":
            return all(a is v or is_bool(a, depth - 1) for a in v.args)
    return False
