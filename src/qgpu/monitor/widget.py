"""The panel as a Textual widget: `Monitor(View(...))` in any Textual app shows and controls one view."""

from __future__ import annotations

import os

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.events import Key
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from .panes import LEGEND, PANES, TITLES, Line, clip
from .replay import JUMPS, Player
from .view import View

TICK, TICK_ALONE = 0.1, 0.5
"""Seconds between two looks at the stream: where there is a second processor, and where a launch would have to wait for the panel."""

STYLES = {"": "", "on": "bold #7ee787", "lit": "bold #f2cc60", "dim": "dim", "head": "#79c0ff", "bad": "bold #ff7b72"}
WITH_HEX = ("stages", "registers", "memory")
WIDE, TALL = 150, 45
NARROW = 90
LONGEST_PLACE = 20

KEYS = (
    "space       pause; go on, live or at the chosen speed",
    "right left  one token on, back            page down, page up  100 tokens on, back",
    "n p         next pass, pass before        home end            first token of the model, newest",
    "+ -         faster, slower                x                   hexadecimal or decimal",
    "g           jump to: a token's number, +N, -N, b7 (block 7 runs next), w2 (warp 2's next turn),",
    "            m12, s12 (next store to global, shared word 12), start, end",
    "v           read what the stream does not say of the stages between the layers, or no longer",
    "q           close the panel; a launch goes on                 ctrl+c  stop the launch, too",
)


KEY_LINE = "space pause  \u2190 \u2192 step  n p pass  + - speed  g jump  v values  ? help"


def styled(lines: list[Line]) -> Text:
    """The lines as one renderable."""
    text = Text(no_wrap=True, end="")
    for i, line in enumerate(lines):
        if i:
            text.append("\n")
        for part, style in line:
            text.append(part, STYLES[style])
    return text


def _processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pane(Widget):
    """One pane: what its function of qgpu.monitor.panes gives for the view's state and the pane's size."""

    def __init__(self, name: str, view: View) -> None:
        super().__init__(id=name)
        self.view, self.draw, self.border_title = view, PANES[name], TITLES[name]
        self.lines: list[Line] = []

    def look(self) -> bool:
        """Draw anew where something changed. Returns whether it did."""
        lines = self._lines()
        if lines == self.lines:
            return False
        self.lines = lines
        self.refresh()
        return True

    def _lines(self) -> list[Line]:
        state = self.view.state
        if state is None or not (self.size.width and self.size.height):
            return []
        options = {"hexadecimal": self.view.hexadecimal} if self.id in WITH_HEX else {}
        if self.id == "stages":
            options["signals"] = self.view.stage_values()
        width, height = self.size
        return [clip(line, width) for line in self.draw(state, width, height, **options)[:height]]

    def on_resize(self) -> None:
        self.look()

    def render(self) -> Text:
        return styled(self.lines)


class Help(ModalScreen):
    """Keys and marks."""

    CSS = """
    Help { align: center middle; }
    Help > Static { width: auto; height: auto; max-width: 100%; border: round $primary; padding: 0 1; }
    """
    BINDINGS = [Binding("escape,q,question_mark,h,space,enter", "dismiss", "close")]

    def compose(self) -> ComposeResult:
        text = Text("\n".join((*KEYS, "", *LEGEND)))
        box = Static(text)
        box.border_title = "keys and marks"
        yield box


class Monitor(Widget, can_focus=True):
    """Scheduler, program, stages, registers, memory and tokens of a View, with the keys to walk through it.

    It asks the view for news ten times a second (twice on a single processor) and redraws only panes that changed.
    It fits any size from about 60 by 20; below 90 columns the program and memory are left out, from 150 by 45 on everything gets more room.
    """

    DEFAULT_CSS = """
    Monitor { layout: vertical; height: 1fr; width: 1fr; }
    Monitor Pane { border: round $primary; height: 1fr; width: 1fr; }
    Monitor #head, Monitor #line, Monitor #keys { height: 1; width: 100%; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    Monitor #keys { color: $text-muted; }
    Monitor #top { height: 10; }
    Monitor #stages { height: 8; }
    Monitor #bottom { height: 1fr; }
    Monitor #scheduler { width: 51; }
    Monitor #registers { width: 40; }
    Monitor #tokens { width: 26; }
    Monitor.-wide #scheduler { width: 62; }
    Monitor.-wide #registers { width: 62; }
    Monitor.-wide #tokens { width: 78; }
    Monitor.-narrow #rom, Monitor.-narrow #memory { display: none; }
    Monitor.-narrow #scheduler { width: 1fr; }
    """

    BINDINGS = [
        Binding("space", "toggle"),
        Binding("right,l", "step(1)"),
        Binding("left", "step(-1)"),
        Binding("pagedown", "step(100)"),
        Binding("pageup", "step(-100)"),
        Binding("n,down", "pass(False)"),
        Binding("p,up", "pass(True)"),
        Binding("plus,equals_sign", "faster(1)"),
        Binding("minus", "faster(-1)"),
        Binding("home", "to_start"),
        Binding("end", "to_end"),
        Binding("x", "hexadecimal"),
        Binding("v", "values"),
        Binding("question_mark,h", "help"),
    ]

    def __init__(self, view: View, *, more_keys: str = "", id: str | None = None) -> None:
        """more_keys: what the app around it adds to the line of keys."""
        super().__init__(id=id)
        self.typed: str | None = None  # what has been typed of a place to jump to
        self.view, self.key_line = view, f"{KEY_LINE}  {more_keys}".rstrip()

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        with Horizontal(id="top"):
            yield Pane("scheduler", self.view)
            yield Pane("rom", self.view)
        yield Pane("stages", self.view)
        with Horizontal(id="bottom"):
            yield Pane("registers", self.view)
            yield Pane("memory", self.view)
            yield Pane("tokens", self.view)
        yield Static(id="line", markup=False)
        yield Static(self.key_line, id="keys", markup=False)

    def on_mount(self) -> None:
        self.set_interval(TICK if _processors() > 1 else TICK_ALONE, self.tick)
        self.tick()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE and self.size.height >= TALL, "-wide")
        self.set_class(self.size.width < NARROW, "-narrow")

    def tick(self) -> None:
        """Look at the stream and show what changed."""
        self.view.tick()
        self.show()

    def show(self) -> None:
        """Bring everything on the screen up to date."""
        view, state = self.view, self.view.state
        head = self.query_one("#head", Static)
        text = f"[{view.mode}]  {view.headline()}"
        if getattr(head, "said", None) != text:
            head.said = text
            head.update(text, layout=False)
        line = self.query_one("#line", Static)
        text = view.line() if self.typed is None else f"jump to: {self.typed}_   {JUMPS}"
        if getattr(line, "said", None) != text:
            line.said = text
            line.update(text, layout=False)
        if state is not None:
            m, n = state.machine, state.narrator
            if self.has_class("-wide"):
                self.query_one("#top").styles.height = 20
            else:
                self.query_one("#top").styles.height = max(6, min(8, n.warps + 3)) + 2
            self.query_one("#stages").styles.height = 4 + m.stages
            group = f", group {n.group}" if m.groups > 1 else ""
            place = n.lines.get(n.block, "")
            self.query_one("#stages").border_title = f"stages: warp {n.warp}{group}" + (f", {place}" if place else "")
            self.query_one("#registers").border_title = f"registers: warp {n.warp}{group}"
            index, grid = (",".join(map(str, xyz)) for xyz in (n.index, n.grid))
            self.query_one("#scheduler").border_title = f"scheduler: block {index} of {grid}, {n.threads} threads"
        for pane in self.query(Pane):
            pane.look()

    def _do(self, notice: str | None = "") -> None:
        """After a key: the state goes where the cursor is, as far as a moment allows."""
        self.view.notice = notice or ""
        player = self.view.player
        if player is not None:
            player.replay.go(player.cursor, 0.1)
        self.show()

    def _with(self, act) -> None:
        """Do something with the player, if there is a stream."""
        player: Player | None = self.view.player
        if player is not None:
            self._do(act(player))

    def action_toggle(self) -> None:
        self._with(Player.toggle)

    def action_step(self, tokens: int) -> None:
        self._with(lambda player: player.step(tokens))

    def action_pass(self, back: bool) -> None:
        self._with(lambda player: player.step_pass(back))

    def action_faster(self, steps: int) -> None:
        self._with(lambda player: player.faster(steps) or f"plays {player.speed:,} tokens a second")

    def action_to_end(self) -> None:
        self._with(Player.to_end)

    def action_to_start(self) -> None:
        self._with(Player.start)

    def action_hexadecimal(self) -> None:
        self.view.hexadecimal = not self.view.hexadecimal
        self.show()

    def action_values(self) -> None:
        self._with(lambda player: self.view.toggle_values())

    def action_help(self) -> None:
        self.app.push_screen(Help())

    def on_key(self, event: Key) -> None:
        """g asks for a place to jump to; what is typed then is no command. In here, and not by a binding, since keys that come
        quickly one after another must find the question open."""
        if self.typed is None:
            if event.key != "g":
                return
            self.typed = ""
        elif event.key == "enter":
            text, self.typed = self.typed, None
            self._with(lambda player: player.jump(text) if text.strip() else "")
        elif event.key == "escape":
            self.typed = None
        elif event.key == "backspace":
            self.typed = self.typed[:-1]
        elif event.is_printable and len(self.typed) < LONGEST_PLACE:
            self.typed += event.character or ""
        event.stop()
        self.show()
