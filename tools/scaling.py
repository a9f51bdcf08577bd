"""Writes docs/scaling.md: machines around `article`, one size changed at a time, and `default`, each compiled and measured.

    python tools/scaling.py [--seconds S] [--results FILE] [--only TEXT] [--page]

Takes many minutes: a machine that is not in the cache is compiled, with all checks. --results keeps what is measured in a JSON file
and takes from it what is there, so that a run can be continued; the page is written when all points
are there, or with --page. The sentences between the tables are in this file, and speak of measured
numbers: read them again when the numbers change.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from layers import parameters  # noqa: E402

import qgpu  # noqa: E402
from qgpu.compile.cache import compiled_weights  # noqa: E402
from qgpu.engine.sparse import SparseEngine  # noqa: E402
from qgpu.errors import QgpuError  # noqa: E402
from qgpu.files import new_file  # noqa: E402
from qgpu.machine.description import ARTICLE, DEFAULT, WORD, Machine  # noqa: E402
from qgpu.runtime.launchfile import find_launch_comments  # noqa: E402

TARGET = HERE.parent / "docs" / "scaling.md"
KERNEL = HERE.parent / "kernels" / "collatz.cu"
LAYERS = 400
"""Layer budget of every point: what the technique takes, not what a preset allows."""


def with_stages(n: int) -> Machine:
    """article with n stages: every stage loads, odd ones shift, even ones multiply (the only stage of one does all)."""
    every = range(1, n + 1)
    return replace(ARTICLE, stages=n, stage_load=tuple(every), stage_mul=tuple(s for s in every if s % 2 == 0) or (1,),
                   stage_shift=tuple(s for s in every if s % 2))


AXES: dict[str, list[tuple[int, Machine]]] = {
    "lanes": [(n, replace(ARTICLE, lanes=n)) for n in (1, 2, 4, 8)],
    "registers": [(n, replace(ARTICLE, registers=n)) for n in (7, 15, 31)],
    "blocks": [(n, replace(ARTICLE, blocks=n)) for n in (16, 32, 64, 126)],
    "global words": [(n, replace(ARTICLE, global_words=n)) for n in (32, 126, 512, 2048)],
    "stages": [(n, with_stages(n)) for n in range(1, 7)],
}


def points() -> dict[str, Machine]:
    """Name -> machine, each once; `article` stands in every axis."""
    found = {"article": ARTICLE, "default": DEFAULT}
    for axis, values in AXES.items():
        found |= {f"{axis} {n}": m for n, m in values if m != ARTICLE}
    return {name: replace(m, max_layers=LAYERS) if name not in ("article", "default") else m for name, m in found.items()}


# ---- one point ------------------------------------------------------------------------------------------------------
def measure(machine: Machine, seconds: float) -> dict:
    """What the compiler makes of a machine, or why it refuses; the speed of the sparse engine, or why the kernel does not fit."""
    if machine.lanes ** 2 > WORD:
        return {"refused": f"shfl's table of {machine.lanes} x {machine.lanes} lanes is longer than an immediate of {WORD} bits"}
    try:
        w = compiled_weights(machine)
    except QgpuError as e:
        return {"refused": " ".join(str(e).split())}
    layer, size = parameters(w)
    out = {"layers": len(w.layers), "heads": sum(len(x.head_kinds) for x in w.layers),
           "memory_heads": sum(k != "logic" for x in w.layers for k in x.head_kinds),
           "full": sum(len(x.head_kinds) == machine.heads for x in w.layers), "units": sum(x.units for x in w.layers),
           "parameters": size, "nonzeros": sum(x.nonzeros for x in w.layers), "peak": max(x.peak for x in w.layers),
           "vocabulary": len(w.codes)}
    try:
        out |= speed(SparseEngine(w), machine, seconds)
    except QgpuError as e:
        out["no_kernel"] = " ".join(str(e).split())
    return out


def speed(engine: SparseEngine, machine: Machine, seconds: float) -> dict:
    """Generated tokens of a launch of KERNEL, and tokens a second of processor time; every token compared with the interpreters'."""
    spec = find_launch_comments(KERNEL.read_text(encoding="utf-8"), KERNEL.name)[0]
    result = qgpu.launch(KERNEL, spec.kernel, spec.grid, spec.block, spec.args, check=True, machine=machine, engine=engine)
    setup, generated = result.tokens[:result.setup], result.tokens[result.setup:]
    done, spent = 0, 0.0
    while spent < seconds:
        engine.reset()
        token = engine.feed(setup)
        start = time.process_time()
        for wanted in generated[:-1]:
            if token != wanted:
                raise SystemExit(f"{machine.name}: token {token} instead of {wanted}")
            token = engine.feed([token])
        spent += time.process_time() - start
        done += len(generated) - 1
    return {"tokens": len(generated), "speed": done / spent}


# ---- the page -------------------------------------------------------------------------------------------------------
HEAD = ("layers", "full layers", "heads", "units", "dims", "parameters", "nonzeros", "tokens", "tokens/s")


def row(name: str, r: dict | None) -> str:
    """A point as a row of its table."""
    if r is None:
        return f"| {name} | not measured |" + " |" * (len(HEAD) - 1)
    if "refused" in r:
        return f"| {name} | refused: {r['refused']} |" + " |" * (len(HEAD) - 1)
    cells = [r["layers"], r["full"], r["heads"], f"{r['units']:,}", f"{r['peak']:,}", f"{r['parameters'] / 1e6:,.0f} M",
             f"{r['nonzeros']:,}", *([f"{r['tokens']:,}", f"{r['speed']:,.0f}"] if "speed" in r else ["-", "does not fit"])]
    return "| " + " | ".join([name, *map(str, cells)]) + " |"


def table(title: str, rows: list[str]) -> str:
    return "\n".join([f"| {title} | " + " | ".join(HEAD) + " |", "|--:|" + "--:|" * len(HEAD), *rows])


def document(results: dict[str, dict]) -> str:
    """The whole page."""
    parts = [INTRO.format(kernel=KERNEL.stem, layers=LAYERS, hidden=f"{ARTICLE.hidden:,}", heads=ARTICLE.heads)]
    for axis, values in AXES.items():
        rows = [row(str(n), results.get("article" if m == ARTICLE else f"{axis} {n}")) for n, m in values]
        parts.append(f"## {axis[0].upper()}{axis[1:]}\n\n{table(axis, rows)}\n\n{REMARKS[axis]}")
    parts.append("## The presets\n\n" + table("preset", [row(n, results.get(n)) for n in ("article", "default")]) + "\n\n" + REMARKS["presets"])
    parts.append("## What gives way first\n\n" + VERDICT)
    return "\n\n".join(p.strip() for p in parts) + "\n"


INTRO = """# How the machine scales

Written by `python tools/scaling.py`: the machine `article` with one size changed at a time, and `default`, each compiled with all of the
compiler's checks. The layer budget is lifted to {layers} here, so that a table shows what the technique takes and not what a preset
allows; residual dims ({hidden}) and heads a layer ({heads}) are those of every preset. *Full layers* have no head to spare. *Dims* are
residual dims in use at most. *Tokens* are those generated by kernels/{kernel}.cu, each compared with the interpreters'; *tokens/s* are
of the sparse engine, a second of processor time of one core.
"""
REMARKS = {
    "lanes": """Lanes run side by side: twice the lanes are twice the units and close to twice the dims, in almost the same number of layers.
Tokens a launch become fewer, because one EXEC token stands for all lanes, but values still come one token at a time. Eight lanes
are more than the instruction set can say: the table of a shuffle no longer fits its immediate word. By the growth from two lanes to four,
eight would want over 3,000 dims, too.""",
    "registers": """A register is a row of a memory head, not a dim. Fifteen for each of eight warps are 120 rows, one head; with 31 each
of the 48 register ports takes a second head, which is one more layer.""",
    "blocks": """The program is read by address from memory heads. Up to 126 blocks (the rows of a head) the layers stay exactly the same;
only the vocabulary grows, which names a block in its tokens. More blocks are refused by the description: a second bank of heads would
be needed for each program word.""",
    "global words": """Words are rows of memory heads, 126 to a head: every further bank is one more head for each lane of each loading
stage, and layers to put them in. 512 words still stay within `article`'s 40 layers; 2048 take 54, since every one of four stages
loads for four lanes. `default` has 5120 words of memory, global and shared: it loads in one stage of four, and its registers have three ports by class.""",
    "stages": """Stages stand one upon another, so each costs layers, heads and dims, and saves tokens: fewer blocks are executed for the same work.
In return every token takes longer. Six stages do not fit: at layer 35 more signals are alive at once than there are dims.""",
    "presets": """`default` has 65 layers where `article` has 35. Its dims stay under 2,048 because a warp of 32 is 8 groups of the same 4 lanes, one
after another: groups add rows and tokens, not dims. What it has more of is memory heads (510 against 109): 40 times the words, twice
the registers and eight times the threads. Layers are what it pays with.""",
}
VERDICT = """Width before depth. Lanes are what the technique does not scale in: dims and units double with them, and the residual stream is full
between four lanes and eight; even before that, the shuffle's immediate word has no room for eight. Registers, blocks and threads are
rows, which cost next to nothing until a bank of 126 is full. Words of memory cost heads and layers, a bank at a time, times the
stages that load; stages cost layers in proportion, and dims: the sixth is one too many for a stream of 2,048.

Speed falls with units and memory heads more than with parameters: the sparse engine looks only at what can add something at a token.
`default` has 1.9 times the parameters of `article`, four times the nonzeros, and 0.7 times the tokens a second."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="compile and measure machines of many sizes, write docs/scaling.md")
    parser.add_argument("--seconds", type=float, default=3.0, help="processor time of each speed measurement (default: 3)")
    parser.add_argument("--results", type=Path, help="JSON file of measured points, kept up to date")
    parser.add_argument("--only", default="", help="measure only points whose name contains this")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from --results, gaps marked")
    options = parser.parse_args(arguments)
    results = json.loads(options.results.read_text()) if options.results and options.results.exists() else {}
    for name, machine in points().items():
        if options.page or name in results or options.only not in name:
            continue
        start = time.monotonic()
        results[name] = measure(machine, options.seconds)
        print(f"{name}: {results[name]} ({time.monotonic() - start:.0f} s)", flush=True)
        if options.results:
            file, path = new_file(options.results.resolve().parent)
            with file:
                file.write(json.dumps(results, indent=1).encode())
            os.replace(path, options.results)
    missing = [name for name in points() if name not in results]
    if missing:
        print("not measured: " + ", ".join(missing))
    if missing and not options.page:
        return 1
    TARGET.write_text(document(results), encoding="utf-8")
    print(f"wrote {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
