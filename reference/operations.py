"""Operations of one lane as the judge reads them: which lines mean something together, and what they give.

docs/machine.md section 4.
"""

from __future__ import annotations

from collections.abc import Callable

from .tokens import MASK, Sizes

LINES = ("add", "sub", "xor", "and", "lt", "eq", "gt", "signed", "set", "minmax", "sel", "ld", "st", "mul", "shl", "shr",
         "sar", "shfl", "popc", "clz", "brev", "mulhi")
RELATIONS = frozenset(("lt", "eq", "gt"))
UNITS = {"stage_load": (("ld",), "load"), "stage_mul": (("mul",), "multiply"), "stage_shift": (("shl", "shr", "sar"), "shift"),
         "stage_bits": (("popc", "clz", "brev"), "count bits"), "stage_mulhi": (("mulhi",), "give the upper half of a product")}
"""Size that names the stages of a unit -> the lines that need it, and what a stage without it cannot do."""


def signed(word: int) -> int:
    """A 32-bit word as a two's-complement number."""
    return word - (1 << 32) if word & 0x80000000 else word


SIMPLE: dict[frozenset[str], Callable[[int, int, int], int]] = {
    frozenset(lines.split()): apply for lines, apply in {
        "": lambda a, b, c: 0,
        "add": lambda a, b, c: a + b & MASK,
        "sub": lambda a, b, c: a - b & MASK,
        "xor": lambda a, b, c: a ^ b,
        "and": lambda a, b, c: a & b,
        "xor and": lambda a, b, c: a | b,
        "sel": lambda a, b, c: a if c & 1 else b,
        "mul": lambda a, b, c: a * b + c & MASK,
        "mulhi": lambda a, b, c: a * b >> 32,
        "shl": lambda a, b, c: a << b & MASK if b < 32 else 0,
        "shr": lambda a, b, c: a >> b if b < 32 else 0,
        "sar": lambda a, b, c: signed(a) >> min(b, 31) & MASK,
        "popc": lambda a, b, c: a.bit_count(),
        "clz": lambda a, b, c: 32 - a.bit_length(),
        "brev": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
        "add st": lambda a, b, c: a + b & MASK,
    }.items()}
MORE = (frozenset(("add", "ld")), frozenset(("shfl",)))
"""Lines whose result needs more than the lane's own operands."""


def check_lines(sizes: Sizes, lines: frozenset[str], stage: int) -> str:
    """Why a stage (from 1) cannot have these lines together, or ""."""
    if lines not in SIMPLE and lines not in MORE:
        rest = lines - RELATIONS - {"signed"}
        if rest not in ({"set"}, {"minmax"}) or not lines & RELATIONS:
            return f"has the operation lines {' '.join(sorted(lines))}"
    for size, (needing, what) in UNITS.items():
        if lines.intersection(needing) and stage not in getattr(sizes, size):
            return f"cannot {what}"
    return ""


def operation(lines: frozenset[str]) -> Callable[[int, int, int], int] | None:
    """The result of one lane from its operands A, B, C; None for ld and shfl, which need more."""
    if lines in MORE:
        return None
    if lines in SIMPLE:
        return SIMPLE[lines]
    less, equal, greater = (relation in lines for relation in ("lt", "eq", "gt"))
    number = signed if "signed" in lines else int

    def holds(a: int, b: int) -> bool:
        a, b = number(a), number(b)
        return less and a < b or equal and a == b or greater and a > b

    if "set" in lines:
        return lambda a, b, c: int(holds(a, b))
    return lambda a, b, c: a if holds(a, b) else b
