"""Writes docs/layers.md: every layer of the article machine, its heads and units, what it computes.

    python tools/layers.py            write docs/layers.md
    python tools/layers.py --check    exit 1 where docs/layers.md is not what would be written
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from qgpu.compile.cache import compiled_weights
from qgpu.compile.compiler import CircuitWeights
from qgpu.compile.export import attention_tensors, layer_tensors
from qgpu.compile.tensors import CONST_DIMS, CompiledLayer
from qgpu.machine.description import ARTICLE

TARGET = Path(__file__).resolve().parent.parent / "docs" / "layers.md"
PARTS = {"add": "addition", "shift": "shift", "multiply": "multiply-add", "compare": "comparison", "logic": "bitwise logic"}
WHOLE = {"record": "last tokens, value sent", "front": "scheduling", "tail": "next token", "clear": "clearing dims"}

INTRO = """# Layers of the article machine

Written by `python tools/layers.py`; a test compares it with the compiler. One row a layer, lowest first. *Units* are value dims that
compute relu(f) relu(g) in logic heads, {room} to a head; a memory head is an addressed store and takes a whole head. *Dims* are residual
dims in use after the layer, of {hidden}. Stage s of the machine is written s1 to s{stages}; a number after a comma is its units.

"""


def stage_words(name: str) -> str:
    """`s2.l0.mul.multiply` as `s2 multiply-add`; groups outside the stages by their own words."""
    found = re.fullmatch(r"s(\d+)(.*)", name)
    if not found:
        return WHOLE.get(name, name)
    last = found[2].rsplit(".", 1)[-1]
    if last in PARTS:
        return f"s{found[1]} {PARTS[last]}"
    return f"s{found[1]} choice, addresses, stores" if found[2] else f"s{found[1]} operands, shuffle"


def work_words(layer: CompiledLayer) -> str:
    """What the layer's units compute, largest part first."""
    total: Counter[str] = Counter()
    for name, count in layer.groups.items():
        total[stage_words(name)] += count
    return "; ".join(f"{name}, {count}" for name, count in sorted(total.items(), key=lambda x: (-x[1], x[0])))


def head_words(layer: CompiledLayer) -> str:
    """Memory heads by name; heads that differ in lane alone are written once."""
    names = [k for k in layer.head_kinds if k != "logic"]
    total: dict[str, int] = {}
    for name in names:
        short = re.sub(r"^s(\d+)\.port_(.)\d+$", r"s\1 registers, port \2", name)
        short = re.sub(r"^s(\d+)\.l\d+\.memory$", r"s\1 global memory", short)
        short = re.sub(r"^(?:front|s\d+)\.rom(\d+)$", r"ROM word \1", short)
        short = re.sub(r"^front\.targets\d+$", "lane targets", short)
        short = re.sub(r"^tail\.latch_(s\d+|data|word).*$", r"tail latch \1", short).replace("front.", "front ").replace("tail.", "tail ")
        total[short] = total.get(short, 0) + 1
    return ", ".join(name + (f" x{count}" if count > 1 else "") for name, count in total.items()) or "-"


def parameters(w: CircuitWeights) -> tuple[int, int]:
    """Parameters of one circuit layer, and of the whole checkpoint (its embedding is its head)."""
    m = w.machine
    layer = sum(t.size for t in layer_tensors(m, w.layers[0]).values())
    top = sum(t.size for t in attention_tensors(m).values())
    return layer, layer * len(w.layers) + top + m.hidden + len(w.codes) * m.hidden


def document(w: CircuitWeights) -> str:
    """The whole page."""
    m = w.machine
    rows = ["| layer | heads | memory heads | units | dims | nonzeros | units by part |", "|--:|--:|---|--:|--:|--:|---|"]
    for i, layer in enumerate(w.layers, 1):
        rows.append(f"| {i} | {len(layer.head_kinds)} | {head_words(layer)} | {layer.units} | {layer.peak} | {layer.nonzeros:,} | "
                    f"{work_words(layer)} |")
    layer_size, size = parameters(w)
    nonzeros = sum(layer.nonzeros for layer in w.layers)
    conv = sum(int((layer.conv != 0).sum()) for layer in w.layers)
    memory = sum(k != "logic" for layer in w.layers for k in layer.head_kinds)
    heads = sum(len(layer.head_kinds) for layer in w.layers)
    totals = [
        "", "## Totals", "", "| | |", "|---|--:|",
        f"| circuit layers | {len(w.layers)} |",
        f"| heads used, of {m.heads} a layer | {heads} of {m.heads * len(w.layers)} |",
        f"| memory heads | {memory} |",
        f"| units (clearing dims: {sum(layer.groups.get('clear', 0) for layer in w.layers):,}) | {sum(layer.units for layer in w.layers):,} |",
        f"| residual dims in use, at most | {max(layer.peak for layer in w.layers):,} of {m.hidden:,} |",
        f"| parameters of a circuit layer (its MLP is {layer_tensors(m, w.layers[0])['mlp.gate_proj.weight'].shape[0]} wide, zeros) | {layer_size:,} |",
        f"| parameters of the exported checkpoint (with an empty attention layer on top, {len(w.codes):,} tokens) | {size:,} |",
        f"| nonzeros of the circuit layers (projections, convolution) | {nonzeros:,} |",
        f"| of these, taps of the convolution that pass a channel on | {conv:,} |",
    ]
    return INTRO.format(room=m.head_dim - CONST_DIMS, hidden=f"{m.hidden:,}", stages=m.stages) + "\n".join(rows + totals) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="write docs/layers.md, or check it")
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(arguments).check
    text = document(compiled_weights(ARTICLE))
    if check:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print("docs/layers.md is current" if same else "docs/layers.md is not current: run python tools/layers.py")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
