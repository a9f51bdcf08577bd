"""C++ names in PTX: the identifier that the source has, and the parameters' types, which say more than PTX does.

Source: Itanium C++ ABI, section 5.1 (mangling).
"""

from __future__ import annotations

import re

_SOURCE_NAME = re.compile(r"(\d{1,4})")
BUILTIN = frozenset("vwbcahstijlmxynofdegz")
LONGEST = 4096


def demangle(name: str) -> str:
    """The plain identifier inside an Itanium-mangled C++ name; any other name unchanged.

    Namespaces are dropped: `_ZN4math3dotEPKi` gives "dot". Only what names a function is read, not its parameters.
    """
    if not name.startswith("_Z"):
        return name
    at = 2
    nested = name[at:at + 1] == "N"
    at += nested
    if name[at:at + 1] == "L":  # internal linkage
        at += 1
    found = None
    while (m := _SOURCE_NAME.match(name, at)) is not None:
        end = m.end() + int(m.group(1))
        if end > len(name) or end == m.end():
            break
        found, at = name[m.end():end], end
        if not nested:
            break
        if name[at:at + 1] == "L":
            at += 1
    return found if found is not None else name


def parameter_types(name: str) -> list[str] | None:
    """Mangled types of a function's parameters, substitutions resolved and qualifiers dropped ("Pl": pointer to long), or None.

    Only plain functions of builtin types, pointers, references, named classes and substitutions are read; of others nothing is said.
    """
    found = _SOURCE_NAME.match(name[:LONGEST], 2)
    if not found or not name.startswith("_Z"):
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
    found = _SOURCE_NAME.match(text)
    if not found:
        raise ValueError(text)
    end = found.end() + int(found[0])
    if end > len(text):
        raise ValueError(text)
    known.append(text[:end])
    return known[-1], text[end:]
