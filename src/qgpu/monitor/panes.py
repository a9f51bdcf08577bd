"""The panel's panes as lines of marked text, each from a state and a size. Marks, not colours, carry the meaning; styles come on top.

A line is a list of (text, style) with the styles "" (plain), "on" (runs, current), "lit" (just written), "dim", "head" and "bad".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..machine.description import Machine
from ..machine.encoding import Block, Result, print_instruction
from .state import ABSENT, BARRIER, DONE, FRESH, RUNS, SAME, WAITS, State

Line = list[tuple[str, str]]

LIT, CURRENT, FROM_LAYERS = "*", ">", "~"
UNKNOWN, TO_COME, INACTIVE, UNWRITTEN = "?", "_", ".", "."

STYLE_OF_LANE = {RUNS: "on", SAME: "on", WAITS: "", BARRIER: "bad", DONE: "dim", ABSENT: "dim", FRESH: "dim"}

LEGEND = (
    f"lanes   {RUNS} runs                    {SAME} same block, in a group that does not run now",
    f"        {WAITS} waits at another block  {BARRIER} waits at a barrier   {DONE} at the exit",
    f"        {ABSENT} no thread               {FRESH} its warp has not started",
    f"values  {LIT} just written   {TO_COME} the stream says it next   {UNKNOWN} the stream never says it",
    f"        {FROM_LAYERS} read between the layers, which run over the stream once more (key v)",
    f"        {INACTIVE} the lane is not active; this stream has not written the register or word",
    f"tokens  {CURRENT} the current one; outcome by lane: T branch taken, F not taken, . not active",
)


def plain(lines: Iterable[Line]) -> list[str]:
    """The lines without styles."""
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def clip(line: Line, width: int) -> Line:
    """The line's first `width` characters."""
    out, left = [], width
    for text, style in line:
        if left <= 0:
            break
        out.append((text[:left], style))
        left -= len(text)
    return out


def number(value: int, hexadecimal: bool = False) -> str:
    """A 32-bit word as a signed number, or in hexadecimal."""
    return f"{value:x}" if hexadecimal else str(value - (1 << 32) if value >> 31 else value)


def target(machine: Machine, block: int) -> str:
    return "exit" if block == machine.exit_target else f"b{block}"


def window(rows: int, at: int, height: int) -> range:
    """Which of `rows` rows are shown in `height` lines so that row `at` is among them, in the middle where possible."""
    first = max(0, min(at - height // 2, rows - height))
    return range(first, min(rows, first + height))


def scheduler(state: State, width: int, height: int) -> list[Line]:
    """A line a warp: state, block, lanes by group. Below, where room is left: where the current warp's lanes want to go."""
    m, n = state.machine, state.narrator
    gap = " " if width >= 17 + m.groups * (m.lanes + 1) and m.groups > 1 else ""
    lines: list[Line] = []
    for warp in range(n.warps):
        status, current = state.warps[warp], warp == n.warp and n.running
        block = f"b{n.block}" if status == "runs" and n.block is not None and warp == n.warp else ""
        style = "on" if current else ""
        line: Line = [(f"{CURRENT if current else ' '}w{warp} {status:<7} {block:<5}", style)]
        for group in range(m.groups):
            signs = "".join(state.lane(warp, group, lane) for lane in range(m.lanes))
            line += [(sign, STYLE_OF_LANE[sign]) for sign in signs] + [(gap, "")]
        lines.append(line)
    room = height - len(lines)
    if room >= 2 and n.running:
        lines.append([(f" lanes of warp {n.warp} by the block they go to", "head")])
        for block, masks in list(state.at(n.warp).items())[:room - 1]:
            here = block == n.block and state.warps[n.warp] == "runs"
            lines.append([(f" {CURRENT if here else ' '}{target(m, block):<15}{gap.join(masks)}", "on" if here else "")])
    if height - len(lines) >= 1 and any(state.ballots):
        bits = f"{state.ballots[n.warp]:0{m.warp_size}b}"[::-1]
        lines.append([(f"  ballot         {gap.join(bits[g * m.lanes:(g + 1) * m.lanes] for g in range(m.groups))}", "")])
    return lines[:height]


def goes(machine: Machine, block: Block) -> str:
    """Where a block goes: "-> b4", or "? b3 : b4", with its flags."""
    where = f"? {target(machine, block.taken)} : {target(machine, block.fall)}" if block.branch else f"-> {target(machine, block.fall)}"
    return where + "".join(f" {flag}" for flag in ("barrier", "vote", "clear") if getattr(block, flag))


def instructions(machine: Machine, block: Block) -> list[str]:
    """A block's instructions by stage, without their stage's name; "" for an empty stage."""
    out = []
    for stage, ins in enumerate(block.stages, 1):
        out.append("" if ins is None else print_instruction(machine, stage, ins, block.dest[stage - 1])[4:].split("  ;")[0].rstrip())
    return out


def rom(state: State, width: int, height: int) -> list[Line]:
    """A line a program block: how often it ran, its place in the source, its instructions, where it goes. The running one is marked."""
    m, n = state.machine, state.narrator
    numbers = sorted(n.program)
    at = numbers.index(n.block) if n.block in numbers else 0
    places = {b: n.lines.get(b, "") for b in numbers}
    if len({place.partition(":")[0] for place in places.values() if place}) == 1 and width < 100:
        places = {b: place.partition(":")[2] for b, place in places.items()}
    placed = max(map(len, places.values()), default=0)
    lines: list[Line] = []
    for k in window(len(numbers), at, height):
        b = numbers[k]
        block, current = state.block(b), b == n.block
        runs = f"x{state.passes[b]}" if b in state.passes else ""
        line: Line = [(f"{CURRENT if current else ' '}b{b:<4}{runs:>6} ", "on" if current else ""),
                      (f"{places[b]:<{placed}} ", "on" if current else "dim")]
        if block is None:
            line.append(("words that encode no block", "bad"))
        else:
            full = "; ".join(text.removeprefix("- = ") for text in instructions(m, block) if text)
            room = width - sum(len(text) for text, _ in line)
            after = goes(m, block)
            short = " ".join(text.split(" = ")[-1].split()[0] for text in instructions(m, block) if text)
            cut = short[:max(0, room - len(after) - 4)].rstrip() + " .."
            body = next((b for b in (full, short) if len(b) + len(after) + 2 <= room), cut)
            line += [(f"{body}  " if body else "", "on" if current else ""), (after, "head")]
        lines.append(clip(line, width))
    return lines


def _columns(cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> Line:
    return [(f" {cell:>{width}}", style) for cell, width, style in zip(cells, widths, styles)]


def _on(m: Machine, active: set[int]) -> list[str]:
    """Styles of the lanes' heads."""
    return ["on" if lane in active else "dim" for lane in range(m.lanes)]


def stages(state: State, width: int, height: int, hexadecimal: bool = False, signals: Mapping[tuple[int, int], int] = {}) -> list[Line]:
    """The running block: a line a stage with its instruction and its result by lane; then what is stored, and where it goes.

    signals: (stage, lane) -> result, as read from the layers, for what the stream has not said.
    """
    m, n = state.machine, state.narrator
    block = state.block(n.block) if n.block is not None else None
    if block is None:
        return [[("no block has run in this turn" if n.block is None else f"block {n.block}: words that encode no block", "dim")]]
    active, pending = set(state.active), state.pending()
    stored = next((ins.c.stage for ins in block.stages if ins is not None and "st" in ins.lines and isinstance(ins.c, Result)), 0)
    thread = (n.warp * m.groups + n.group) * m.lanes
    texts = instructions(m, block)

    def cell(stage: int, lane: int, value: int | None, due: int | None) -> tuple[str, str]:
        """due: the stage as which the stream says this value (0: a store's data), None where it does not."""
        if lane not in active:
            return INACTIVE, "dim"
        if value is not None:
            return number(value, hexadecimal) + LIT, "lit"
        if (stage, lane) in signals:
            return number(signals[stage, lane], hexadecimal) + FROM_LAYERS, ""
        return (TO_COME, "") if (due, lane) in pending else (UNKNOWN, "dim")
    rows: list[tuple[str, list[tuple[str, str]]]] = []
    for stage, text in enumerate(texts, 1):
        ins = block.stages[stage - 1]
        if ins is None:
            cells = [("", "")] * m.lanes
        elif "st" in ins.lines:
            cells = [_address(m, state.words.get(lane), lane, active) or cell(stage, lane, None, 0) for lane in range(m.lanes)]
        else:
            due = stage if block.dest[stage - 1] else 0 if stage == stored else None
            cells = [cell(stage, lane, state.results.get((stage, lane), state.data.get(lane) if stage == stored else None), due)
                     for lane in range(m.lanes)]
        rows.append((f"s{stage}  {text or '(empty)'}", cells))
    if block.has_store:
        rows.append(("    stored data", [cell(0, lane, state.data.get(lane), 0) for lane in range(m.lanes)]))
    heads = [f"lane {lane} t{thread + lane}" for lane in range(m.lanes)]
    if width < 40 + m.lanes * 13:
        heads = [f"l{lane} t{thread + lane}" for lane in range(m.lanes)]
    left = max([len(text) for text, _ in rows] + [min(34, width // 3)])
    each = [max([len(heads[lane])] + [len(cells[lane][0]) for _, cells in rows]) for lane in range(m.lanes)]
    where = f"block {n.block} {goes(m, block)}"
    lines: list[Line] = [[(f"{where:<{left}.{left}}", "head"), *_columns(heads, each, _on(m, active))]]
    for text, cells in rows:
        lines.append([(f"{text:<{left}}", ""), *_columns([c for c, _ in cells], each, [s for _, s in cells])])
    return [clip(line, width) for line in lines[:height]]


def _address(m: Machine, word: int | None, lane: int, active: set[int]) -> tuple[str, str] | None:
    """A store's address, which the stream says as a word's number; None before it does."""
    if word is None or lane not in active:
        return None
    space, n = ("g", word) if word < m.global_words else ("s", word - m.global_words)
    return f"{space}[{n}]{LIT}", "lit"


def registers(state: State, width: int, height: int, hexadecimal: bool = False) -> list[Line]:
    """A line a register that the stream has written in this group, by lane; those that the running pass wrote are marked."""
    m, n = state.machine, state.narrator
    here = (n.warp, n.group)
    known, values = state.known[here], state.registers[here]
    shown = [r for r in range(1, m.registers + 1) if known[:, r].any()]
    if not shown:
        return [[("no register of this group is written", "dim")]]
    lit = {(lane, r) for w, g, lane, r in state.lit_registers if (w, g) == here}

    def table(hexadecimal: bool) -> tuple[list[list[str]], list[int]]:
        cells = [[(number(int(values[lane, r]), hexadecimal) if known[lane, r] else UNWRITTEN) + (LIT if (lane, r) in lit else " ")
                  for lane in range(m.lanes)] for r in shown]
        return cells, [max(len(f"lane{lane} "), *(len(row[lane]) for row in cells)) for lane in range(m.lanes)]
    cells, widths = table(hexadecimal)
    if 4 + sum(widths) + m.lanes > width and not hexadecimal:
        cells, widths = table(True)
        hexadecimal = True
    active = set(state.active)
    heads = [f"lane{lane} " for lane in range(m.lanes)]
    lines: list[Line] = [[("hex " if hexadecimal else "    ", "dim"), *_columns(heads, widths, _on(m, active))]]
    at = max((i for i, r in enumerate(shown) if any((lane, r) in lit for lane in range(m.lanes))), default=0)
    for i in window(len(shown), at, height - 1):
        styles = ["lit" if (lane, shown[i]) in lit else "" if known[lane, shown[i]] else "dim" for lane in range(m.lanes)]
        lines.append([(f"r{shown[i]:<3}", "head"), *_columns(cells[i], widths, styles)])
    return [clip(line, width) for line in lines]


def memory(state: State, width: int, height: int, hexadecimal: bool = False) -> list[Line]:
    """Words that the stream has written, g for global and s for shared memory, by rows; those of the last storing pass are marked."""
    m = state.machine
    for across in (16, 8, 4, 2):
        rows = sorted({_row_of(m, int(w), across) for w in (state.stored >= 0).nonzero()[0]})
        if not rows:
            return [[("no word of memory is written", "dim")]]
        lit_rows = [i for i, (space, row) in enumerate(rows) if any(_row_of(m, w, across) == (space, row) for w in state.lit_words)]
        lines: list[list[tuple[str, str]]] = []
        labels = []
        for i in window(len(rows), lit_rows[-1] if lit_rows else 0, height):
            space, row = rows[i]
            base, end = (m.global_words, m.words) if space else (0, m.global_words)
            cells = []
            for w in range(base + row * across, min(base + (row + 1) * across, end)):
                lit = w in state.lit_words
                text = (number(int(state.memory[w]), hexadecimal) if state.stored[w] >= 0 else UNWRITTEN) + (LIT if lit else " ")
                cells.append((text, "lit" if lit else "" if state.stored[w] >= 0 else "dim"))
            lines.append(cells)
            labels.append(f"{'gs'[space]}{row * across}")
        label = max(map(len, labels))
        each = max(len(text) for cells in lines for text, _ in cells)
        if label + across * (each + 1) <= width or across == 2:
            break
    return [clip([(f"{name:<{label}}", "head"), *((f" {text:>{each}}", style) for text, style in cells)], width)
            for name, cells in zip(labels, lines)]


def _row_of(m: Machine, word: int, across: int) -> tuple[int, int]:
    """(0 global, 1 shared; row) of a word where rows have so many."""
    return (0, word // across) if word < m.global_words else (1, (word - m.global_words) // across)


def tokens(state: State, width: int, height: int) -> list[Line]:
    """The last tokens, the current one at the bottom; with their meanings where there is room."""
    said = list(state.said)[-height:]
    digits = len(str(state.position))
    lines: list[Line] = []
    for i, token in enumerate(said):
        current = i == len(said) - 1
        by = "host " if token.position < state.setup else "model"
        line: Line = [(f"{CURRENT if current else ' '}{token.position:>{digits}} ", "on" if current else "dim"), (f"{by} ", "dim"),
                      (f"{token.name:<14}", "on" if current else "")]
        if width >= 60:
            line.append((f" {token.meaning}", "on" if current else "dim"))
        lines.append(clip(line, width))
    return lines


PANES: dict[str, Callable[..., list[Line]]] = {
    "scheduler": scheduler, "rom": rom, "stages": stages, "registers": registers, "memory": memory, "tokens": tokens}
"""Pane by name. stages, registers and memory also take `hexadecimal`, stages `signals`."""

TITLES = {"scheduler": "scheduler", "rom": "program", "stages": "stages", "registers": "registers", "memory": "memory",
          "tokens": "token stream"}
