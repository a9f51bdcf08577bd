"""Parameter types out of a C++ name, where they say more than PTX does: that a pointer is one to `long`.

Source: Itanium C++ ABI, section 5.1 (mangling). Only plain functions are read: builtin types, pointers, references, qualifiers,
named classes and substitutions. Of any other name nothing is said.
"""

from __future__ import annotations

import re

BUILTIN = frozenset("vwbcahstijlmxynofdegz")
LONGEST = 4096


def parameter_types(name: str) -> list[str] | None:
    """Mangled types of a function's parameters, substitutions resolved and qualifiers dropped ("Pl": pointer to long), or None."""
    found = re.match(r"_Z(\d{1,4})", name[:LONGEST])
    if not found:
        return None
    text = name[found.end() + int(found[1]):LONGEST]
    known: list[str] = []
    types: list[str] = []
    try:
        while text:
            one, text = _type(text, known)
            types.append(one)
    except (ValueError, IndexError, RecursionError):
        return None
    return [] if types == ["v"] else types


def _type(text: str, known: list[str]) -> tuple[str, str]:
    """The first type of text, and what follows it. Raises ValueError or IndexError where it is none of those above."""
    head, rest = text[0], text[1:]
    if head in BUILTIN:
        return head, rest
    if head in "PROKVr":
        inner, rest = _type(rest, known)
        qualifier = head in "KVr"
        while qualifier and text[1] in "KVr":                          # qualifiers are one component together
            text = text[1:]
            known.pop()
        known.append(inner if qualifier else head + inner)
        return known[-1], rest
    if head == "S":
        found = re.match(r"S([0-9A-Z]*)_", text)
        if not found:
            raise ValueError(text)
        return known[int(found[1], 36) + 1 if found[1] else 0], text[found.end():]
    found = re.match(r"\d{1,4}", text)
    if not found:
        raise ValueError(text)
    end = found.end() + int(found[0])
    if end > len(text):
        raise ValueError(text)
    known.append(text[:end])
    return known[-1], text[end:]
