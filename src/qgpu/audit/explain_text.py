"""Explanations in sentences."""

from __future__ import annotations

WIDTH = 12
"""Inputs, outputs, readers and rows that are shown of long lists."""


def more(items: list, shown: int = WIDTH) -> list[str]:
    """What to say of the rest of a list."""
    return [f"    ... and {len(items) - shown} more (--json shows all)"] if len(items) > shown else []


def signal_line(s: dict) -> str:
    """A signal with its dim, range and meaning."""
    return f"{s['name']} (dim {s['dim']}, {s['range'][0]}..{s['range'][1]}): {s['meaning']}"


def users_line(users: list[dict]) -> str:
    """Layers with how many units and which heads."""
    parts = []
    for u in users[:WIDTH]:
        units, what = u["units"], []
        if units:
            rest = f" and {len(units) - 6} more" if len(units) > 6 else ""
            what.append(f"unit{'s' * (len(units) > 1)} {', '.join(map(str, units[:6]))}{rest}")
        what += [f"head {h['head']} {h['name']}" for h in u["heads"][:3]] + ([f"{len(u['heads']) - 3} more heads"] if len(u["heads"]) > 3 else [])
        parts.append(f"layer {u['layer']} ({', '.join(what)})")
    return "; ".join(parts) + (f"; {len(users) - WIDTH} more layers" if len(users) > WIDTH else "") if parts else "nobody"


def unit_text(u: dict) -> str:
    """A unit."""
    back = f", the first factor as it was {u['tap']} token{'s' * (u['tap'] > 1)} before" if u["tap"] else ""
    lines = [f"layer {u['layer']}, unit {u['unit']}: value dim {u['value_dim']} of head {u['head']}", f"  {u['part']}: {u['what']}",
             f"  h = relu({u['f']}) * relu({u['g']}){back}", "  reads" if u["inputs"] else "  reads nothing: a constant"]
    lines += [f"    {signal_line(s)}" for s in u["inputs"][:WIDTH]] + more(u["inputs"])
    for s in u["outputs"]:
        lines += [f"  adds {s['weight']:g} h to {signal_line(s)}"] + ([f"    read by {users_line(s['read by'])}"] if s["read by"] else [])
    return "\n".join([*lines, "  hooks: " + "; ".join(f"{k} {v}" for k, v in u["hooks"].items())])


def head_text(h: dict) -> str:
    """A head."""
    if h["kind"] == "logic":
        units = h["units"]
        return "\n".join([f"layer {h['layer']}, head {h['head']}: {len(units)} units; {h['note']}"]
                         + [f"  unit {u['unit']}: {u['part']}: {u['what']}; relu({u['f']}) * relu({u['g']})" for u in units[:WIDTH]] + more(units))
    lines = [f"layer {h['layer']}, head {h['head']}: {h['name']}, a memory head", f"  {h['note']}"]
    if h["halved where"]:
        lines.append(f"  every row is halved where {h['halved where']} is 1")
    lines.append(f"  {len(h['rows'])} rows" + (f"; keys look {h['key_tap']} token back" if h["key_tap"] else ""))
    for r in h["rows"][:WIDTH]:
        lines += [f"    row {r['row']}, {r['name']}"]
        lines += [f"      {verb} where {r[key]} is 1" for verb, key in (("written", "written where"), ("read", "read where")) if r[key]]
    lines += more(h["rows"]) + [f"  {len(h['values'])} value dims"]
    for v in h["values"][:WIDTH]:
        back = f" ({v['tap']} token before)" if v["tap"] else ""
        gate = "" if v["gate"] == "1" else f" times relu({v['gate']})"
        lines.append(f"    {v['value_dim']}: writes {v['written']}{back}; adds what it reads{gate} to "
                     + ", ".join(s["name"] for s in v["outputs"]) + f": {v['outputs'][0]['meaning']}")
    return "\n".join([*lines, *more(h["values"]), f"  read by {users_line(h['read by'])}",
                      "  hooks: " + "; ".join(f"{k} {v}" for k, v in h["hooks"].items())])


def signal_text(s: dict) -> str:
    """A signal."""
    lines = [signal_line(s), f"  {s['kind']}; complete after layer {s['complete after layer']}"
             + (f", in its dim after layers {s['held after layers'][0]} to {s['held after layers'][1]}" if s["held after layers"] else "")]
    if s["continues"]:
        lines.append(f"  continues {s['continues']}")
    if s["continued as"]:
        lines.append(f"  continued as {', '.join(s['continued as'])}")
    lines += [f"  written by {users_line(s['written by']) if s['written by'] else 'the embedding'}", f"  read by {users_line(s['read by'])}"]
    return "\n".join(lines + [f"  hooks: {h}" for h in s["hooks"]])


def dim_text(d: dict) -> str:
    """A dim."""
    if "always" in d:
        return f"dim {d['dim']}: {d['always']}"
    show = lambda r: "nothing: 0" if r is None else f"{r['name']}, {r['holds'][0]}..{r['holds'][1]}: {r['meaning']}"
    lines = [f"layer {d['layer']}, dim {d['dim']}", f"  before: {show(d['before'])}", f"  after:  {show(d['after'])}", "  over all layers:"]
    for s in d["all"]:
        first, last = s["after layers"]
        lines.append(f"    after layer{f's {first} to {last}' if last > first else f' {first}'}: {s['name']}: {s['meaning']}")
    return "\n".join([*lines, *([] if d["all"] else ["    nothing"]), "  hooks: " + "; ".join(d["hooks"])])


def layer_text(x: dict) -> str:
    """A layer."""
    lines = [f"layer {x['layer']}: {len(x['heads'])} heads, {x['units']} units, {x['dims']} dims in use after it"]
    lines += [f"  head {h['head']}: {h['name']}: {h['note']}" for h in x["heads"]]
    return "\n".join(lines + [f"  {count} units: {part}" for part, count in sorted(x["parts"].items(), key=lambda p: (-p[1], p[0]))])
