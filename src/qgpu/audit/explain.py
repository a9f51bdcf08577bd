"""Explains a compiled circuit from its signal map: what a unit, head, dim or signal of a layer computes, from what, and who reads it.

Layers are numbered from 1, as in docs/layers.md; units of a layer from 0, through its logic heads in order; dims are residual dims.
Every function returns plain objects for JSON; `explain_text` puts them in sentences.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import cached_property

from ..compile.tensors import CONST_DIMS
from ..compile.words import HOOKS, meaning, note_words, part_words, row_words
from ..errors import UsageError
from .signals import Form, SignalMap, is_clear, reads_of, written_by


class Explainer:
    """Answers about one map. Raises UsageError for a layer, unit, head, dim or signal that is not there."""

    def __init__(self, m: SignalMap) -> None:
        self.map = m

    # ---- pieces -----------------------------------------------------------------------------------------------------
    def formula(self, form: Form) -> str:
        """A form as a sum of signals, codes (+1, -1) as they are."""
        terms = []
        for s, k in form[1:]:
            size = "" if abs(k) == 1 else f"{abs(k):g} "
            terms.append(f"{'-' if k < 0 else '+'} {size}{self.map.names[s]}")
        if form[0] or not terms:
            terms.append(f"{'-' if form[0] < 0 else '+'} {abs(form[0]):g}")
        text = " ".join(terms)
        return text[2:] if text.startswith("+ ") else "-" + text[2:]

    def brief(self, s: int) -> dict:
        """A signal's name, dim, range and meaning."""
        m = self.map
        return {"name": m.names[s], "dim": m.dim[s], "range": [m.lo[s], m.hi[s]], "meaning": meaning(m.names[s])}

    @cached_property
    def users(self) -> tuple[dict[int, list], dict[int, list]]:
        """(writers, readers): signal -> [(layer, "unit" or "head", number)]."""
        writers: dict[int, list] = {}
        readers: dict[int, list] = {}
        for number in range(1, len(self.map.layers) + 1):
            for at, unit in enumerate(self.units(number)):
                if not is_clear(unit):
                    for s in {s for s, _ in unit["outs"]}:
                        writers.setdefault(s, []).append((number, "unit", at))
                    for s in reads_of(unit["f"]) | reads_of(unit["g"]):
                        readers.setdefault(s, []).append((number, "unit", at))
            for h, head in enumerate(self.map.layers[number - 1]):
                if head["kind"] == "memory":
                    for s in written_by(head):
                        writers.setdefault(s, []).append((number, "head", h))
                    for s in set().union(*(reads_of(f) for f in forms_of(head))):
                        readers.setdefault(s, []).append((number, "head", h))
        return writers, readers

    def used_by(self, users: list) -> list[dict]:
        """Users by layer: its units (numbers) and heads (names)."""
        out: dict[int, dict] = {}
        for layer, kind, number in users:
            entry = out.setdefault(layer, {"layer": layer, "units": [], "heads": []})
            if kind == "unit":
                entry["units"].append(number)
            else:
                entry["heads"].append({"head": number, "name": self.map.layers[layer - 1][number]["name"]})
        return [out[layer] for layer in sorted(out)]

    def readers(self, s: int) -> list[dict]:
        """Who reads a signal."""
        return self.used_by(self.users[1].get(s, []))

    def layer_heads(self, layer: int) -> list[dict]:
        """The heads of a layer. Raises UsageError."""
        if not 1 <= layer <= len(self.map.layers):
            raise UsageError(f"there is no layer {layer}", where="--layer",
                             fix=f"machine {self.map.machine.name} has layers 1 to {len(self.map.layers)}")
        return self.map.layers[layer - 1]

    def units(self, layer: int) -> list[dict]:
        """All units of a layer, in the order of their numbers."""
        return [u for head in self.map.layers[layer - 1] if head["kind"] == "logic" for u in head["units"]]

    # ---- answers ----------------------------------------------------------------------------------------------------
    def layer(self, layer: int) -> dict:
        """What a layer holds: heads, and its units counted by what they do."""
        heads, parts = self.layer_heads(layer), {}
        for unit in self.units(layer):
            where = part_words(unit["group"])
            parts[where] = parts.get(where, 0) + 1
        return {"layer": layer, "heads": [{"head": h, "name": head["name"], "note": head.get("note") or f"{len(head['units'])} units"}
                                          for h, head in enumerate(heads)],
                "units": len(self.units(layer)), "parts": parts, "dims": len(self.map.boundaries[layer])}

    def unit(self, layer: int, number: int) -> dict:
        """One unit: its place, formula, inputs, outputs and their readers."""
        heads, left = self.layer_heads(layer), number
        for h, head in enumerate(heads):
            n = len(head["units"]) if head["kind"] == "logic" else 0
            if 0 <= left < n:
                return self._unit(layer, number, h, left, head["units"][left])
            left -= n
        total = len(self.units(layer))
        raise UsageError(f"layer {layer} has no unit {number}", where="--unit",
                         fix=f"its units are numbered 0 to {total - 1}" if total else "it has none")

    def _unit(self, layer: int, number: int, h: int, j: int, unit: dict) -> dict:
        inputs = sorted(reads_of(unit["f"]) | reads_of(unit["g"]))
        clears = is_clear(unit)
        what = f"frees dim {self.map.dim[unit['outs'][0][0]]}: takes away what is no longer read" if clears else note_words(unit["note"])
        outs = [{**self.brief(s), "weight": w, "read by": [] if clears else self.readers(s)} for s, w in unit["outs"]]
        return {"layer": layer, "unit": number, "head": h, "value_dim": CONST_DIMS + j, "part": part_words(unit["group"]), "what": what,
                "f": self.formula(unit["f"]), "g": self.formula(unit["g"]), "tap": unit["tap"], "inputs": [self.brief(s) for s in inputs],
                "outputs": outs, "hooks": hooks(layer, h, CONST_DIMS + j)}

    def head(self, layer: int, h: int) -> dict:
        """One head: a memory's rows, values and outputs, or the units of a logic head."""
        heads = self.layer_heads(layer)
        if not 0 <= h < len(heads):
            raise UsageError(f"layer {layer} has no head {h} in use", where="--head", fix=f"its heads in use are numbered 0 to {len(heads) - 1}")
        head = heads[h]
        if head["kind"] == "logic":
            first = sum(len(x["units"]) for x in heads[:h] if x["kind"] == "logic")
            return {"layer": layer, "head": h, "kind": "logic", "note": "one row, rewritten at every token: each value dim is a unit",
                    "units": [self._unit(layer, first + j, h, j, u) for j, u in enumerate(head["units"])]}
        rows = [{"row": int(r), "name": row_words(head, int(r)), "written where": self.formula(head["key"][r]) if r in head["key"] else "",
                 "read where": self.formula(head["query"][r]) if r in head["query"] else ""} for r in {**head["key"], **head["query"]}]
        values = [{"value_dim": CONST_DIMS + j, "written": self.formula(f), "tap": tap, "gate": self.formula(g),
                   "outputs": [{**self.brief(s), "weight": w} for s, w in outs]}
                  for j, (f, tap, g, outs) in enumerate(zip(head["value"], head["value_tap"], head["gate"], head["outs"]))]
        reads = self.used_by([u for s in sorted(written_by(head)) for u in self.users[1].get(s, [])])
        return {"layer": layer, "head": h, "kind": "memory", "name": head["name"], "note": head["note"], "key_tap": head["key_tap"],
                "halved where": self.formula(head["halve"]) if head["halve"] else "", "rows": rows, "values": values,
                "read by": [{"layer": r["layer"], "units": sorted(set(r["units"])), "heads": unique(r["heads"])} for r in reads],
                "hooks": hooks(layer, h, None)}

    def signal(self, name: str) -> dict:
        """One signal: where it lives, from which layer to which, who writes and reads it."""
        s = self.map.number(name)
        if s is None:
            close = [n for n in self.map.names if name in n][:5] or difflib.get_close_matches(name, self.map.names, 5)
            raise UsageError(f"no signal is called {name!r}", where="--signal",
                             fix=f"such as {', '.join(close)}" if close else "the prefixes are code, record, front, s1 to s4, store and tail")
        spans = [b for b, rows in enumerate(self.map.boundaries) if any(r[1] == s for r in rows)]
        base = self.map.base[s]
        later = [t for t in self.map.continuations.get(s, []) if self.map.base[t] == s]
        return {**self.brief(s), "kind": self.map.kind[s], "held after layers": [spans[0], spans[-1]] if spans else None,
                "complete after layer": self.map.complete[s], "continues": None if base is None else self.map.names[base],
                "continued as": [self.map.names[t] for t in later], "written by": self.used_by(self.users[0].get(s, [])), "read by": self.readers(s),
                "hooks": [f"blocks.{spans[0]}.hook_resid_pre[:, {self.map.dim[s]}] to blocks.{spans[-1]}"] if spans else []}

    def dim(self, layer: int, d: int) -> dict:
        """What a residual dim holds before a layer and after it, and in all layers."""
        self.layer_heads(layer)
        hidden, fixed = self.map.machine.hidden, self.map.data["residual"]
        if not 0 <= d < hidden:
            raise UsageError(f"there is no dim {d}", where="--dim", fix=f"the residual stream has dims 0 to {hidden - 1}")
        if d in fixed["constants"]:
            return {"layer": layer, "dim": d, "always": "2^20 on machine tokens: constant dims keep the norm still, and read as 1 they are the bias"}
        if d in [x for x, _ in fixed["silence"]]:
            return {"layer": layer, "dim": d, "always": "0 on machine tokens and not on text: heads read it with 2^100 and fall silent there"}
        held = [next((r for r in rows if r[0] == d), None) for rows in self.map.boundaries]
        spans: list[dict] = []
        for b, r in enumerate(held):
            if r is None:
                continue
            if spans and spans[-1]["name"] == self.map.names[r[1]] and spans[-1]["after layers"][1] == b - 1:
                spans[-1]["after layers"][1] = b
            else:
                spans.append({**self.brief(r[1]), "after layers": [b, b]})
        show = lambda r: None if r is None else {**self.brief(r[1]), "holds": [r[2], r[3]]}
        return {"layer": layer, "dim": d, "before": show(held[layer - 1]), "after": show(held[layer]), "all": spans,
                "hooks": [f"blocks.{layer - 1}.hook_resid_pre[:, {d}]", f"blocks.{layer - 1}.hook_resid_post[:, {d}]"]}

    def everything(self) -> Iterator[dict]:
        """One object for every layer: its heads with all units and rows."""
        for number in range(1, len(self.map.layers) + 1):
            yield {**self.layer(number), "heads": [self.head(number, h) for h in range(len(self.map.layers[number - 1]))]}

    def signals(self) -> list[dict]:
        """All signals."""
        return [self.signal(name) for name in self.map.names]


def forms_of(head: dict) -> list[Form]:
    """All forms of a memory head."""
    forms = [*head["key"].values(), *head["query"].values(), *head["value"], *head["gate"], head["halve"], head["constant"]]
    return [f for f in forms if f is not None]


def unique(heads: list[dict]) -> list[dict]:
    """Each head once."""
    return list({h["head"]: h for h in heads}.values())


def hooks(layer: int, h: int, value_dim: int | None) -> dict[str, str]:
    """Names of a unit's or a memory head's numbers in qgpu.qwen.hooks."""
    names = {k: text.format(i=layer - 1, b=layer).split(" (")[0].split(":")[0] for k, text in HOOKS["qgpu.qwen.hooks"].items()}
    if value_dim is None:
        return {k: f"{names[k]}[{'' if k == 'row' else ':, '}{h}]" for k in ("row written", "row read", "row")}
    return {k: f"{names[k]}[:, {h}, {value_dim}]" for k in ("unit f", "unit g", "unit h")}
