"""What a well-formed program word never says: the certificate's assumption about programs, from docs/machine.md sections 3 and 4.

The host writes the program; nothing in the checkpoint can keep it from writing nonsense, and nonsense makes sums that the certificate
does not bound. qgpu's own assembler (`machine.encoding`) writes no such word. Signals are found by their names in the map.
"""

from __future__ import annotations

from ..machine.description import OPERATIONS, SPECIALS, Machine

OPERATION = "an instruction has one operation"
RELATIONS = ("lt", "eq", "gt")
COMPANIONS = {"xor": {"and"}, "and": {"xor"}, "add": {"ld", "st"}, "ld": {"add"}, "st": {"add"},
              "set": {*RELATIONS, "signed"}, "minmax": {*RELATIONS, "signed"}, "signed": {*RELATIONS, "set", "minmax"},
              **{r: {"set", "minmax", "signed", *RELATIONS} for r in RELATIONS}}
"""Lines of an operation word that may be 1 together."""


def exclusive_bits(m: Machine) -> list[tuple[str, list[str]]]:
    """(rule, names): at most one of these bits of a program is 1."""
    out: list[tuple[str, list[str]]] = []
    stages = range(1, m.stages + 1)
    for s in stages:
        for i, a in enumerate(OPERATIONS):
            out += [(OPERATION, [f"s{s}.op_{a}", f"s{s}.op_{b}"]) for b in OPERATIONS[:i]
                    if b not in COMPANIONS.get(a, ())]
        for o in "abc":
            lines = [f"s{s}.{n}" for n in m.operand_fields() if n.startswith(f"{o}_")]
            lines += [f"s{s}.{n}" for n in SPECIALS if n.startswith(f"{o}_")]
            out.append(("an operand has one source", lines))
            if not m.register_classes:                     # the register's number is a source too
                out += [("an operand has one source", [f"s{s}.r{o}_{k}", *lines]) for k in range(m.register_bits)]
    out.append(("a block has one store", [f"s{s}.op_st" for s in stages]))
    out.append(("a block that votes does not branch", ["front.branch_0", "front.vote_0"]))
    return out


def exclusive_while(m: Machine) -> list[tuple[str, str, list[str]]]:
    """(rule, bit, names): while the bit is 1, at most one of the names is."""
    return [("a lane takes the value of one lane", f"s{s}.op_shfl", [f"s{s}.imm{m.lanes * d + k}" for k in range(m.lanes)])
            for s in range(1, m.stages + 1) for d in range(m.lanes)]
