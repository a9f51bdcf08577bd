"""What the machine's named signals must hold, from the reference interpreter's state: records, place, targets, items, what comes next.

The interpreter (reference/machine.py) shares no code with the circuit. This file says, by name, which of its state a signal mirrors;
`architecture_stage` does so for the stages, `rows` for memory. A signal that is not named here is an internal wire.
"""

from __future__ import annotations

from qgpu_reference.block import word_of
from qgpu_reference.machine import MachineInterpreter
from qgpu_reference.passes import Execution
from qgpu_reference.tokens import Record, decode, value_of

from ..circuit.records import code_table
from ..machine.description import AXES, WORD, Machine
from .architecture_stage import declare_stages, stage_row
from .columns import Columns

CASES = ("fall", "taken", "both")
CODE_SCALE = 1 << 40


def numbered(name: str, n: int) -> list[str]:
    """name0, name1, ..."""
    return [f"{name}{k}" for k in range(n)]


class Architecture:
    """Follows a stream on the interpreter (`judge`) and collects, token by token, what signals must hold.

    last: the pass of the last EXEC or NEXT. due: items of that pass, ("s", stage from 1, lane), ("data", 0, lane), ("store", 0, lane).
    since: items completed since. header: words of the block that ran last, as header words 0 and 1.
    """

    def __init__(self, m: Machine) -> None:
        self.m, self.judge, self.codes = m, MachineInterpreter(m), code_table(m)
        self.columns = Columns()
        self.last: Execution | None = None
        self.due: list[tuple[str, int, int]] = []
        self.since: int | None = None
        self.header = (0, 0)
        self.running = False
        self.history: list[tuple[Record, int]] = []              # the last tokens, newest last, with their ids
        self.chunks: list[int] = []
        self.group_before = 0
        self.next_code: list[str] = []
        self.latched: dict[str, int] = {}
        self._declare()

    # ---- names ------------------------------------------------------------------------------------------------------
    def _declare(self) -> None:
        m, bits, plain = self.m, self.columns.bits, self.columns.plain
        names = [f"kind.{k}" for k, _ in self.judge.sizes.kinds]
        width = len(self.codes[0])
        names += numbered("payload", width - len(names) - 1) + ["on"]
        self.code, self.next_code = [f"code.{n}" for n in names], [f"tail.next.{n}" for n in names]
        for name in self.code:
            plain(name)
        for name in self.next_code:
            plain(name, None)
        for t in range(1, m.chunks):
            plain(f"record.val_before{t}")
            bits(f"chunk_before{t}", numbered(f"record.chunk_before{t}.", m.chunk_bits))
        bits("value", numbered("record.value", WORD), None)
        bits("next_chunk", numbered("record.next_chunk", m.chunks))
        for name in ("run", "is_last_warp", "beyond", "at_last", "after_control", "starts", "clears", "done"):
            plain(f"front.{name}")
        plain("front.running.0")
        bits("warp", numbered("front.warp.", m.warp_bits + 2))
        bits("next_warp", numbered("front.next_warp", m.warp_bits))
        bits("config", numbered("front.config.", m.warp_bits + m.group_bits + m.lanes))
        bits("block", numbered("front.block.", m.block_bits))
        bits("group", numbered("front.group.", m.group_bits))
        bits("group_before", numbered("front.group_before", m.group_bits))
        bits("written_group", numbered("front.written_group", m.group_bits))
        for axis in AXES:
            for name, dot in (("grid", "."), ("index", "."), ("next", "")):
                bits(f"{name}_{axis}", numbered(f"front.{name}_{axis}{dot}", m.chunk_bits - 1))
            plain(f"front.is_last_{axis}")
            plain(f"front.after_block_{axis}")
        most = m.stages * m.lanes + 2 * m.lanes
        plain("front.count_power")
        bits("count", numbered("front.count", most + 1)[1:])
        for name, (_, _, n) in m.header_fields.items():
            bits(f"header {name}", numbered(f"front.{name}_", n))
            bits(f"held {name}", numbered(f"front.held.{name}_", n))
        for lane in range(m.lanes):
            for name in ("new_target", "target", "written"):
                bits(f"{name}{lane}", numbered(f"front.{name}{lane}.", m.target_bits))
        groups, items = range(m.groups), [f"s{s}_l{lane}" for s in range(1, m.stages + 1) for lane in range(m.lanes)]
        for field, name in (("retarget", "front.retarget"), ("active", "front.active"), ("storing", "front.storing"),
                            ("has_store", "front.has_store"), ("ran", "front.ran"), ("select_data", "front.select_data"),
                            ("select_store", "front.select_store"), ("write_lane", "front.write_lane"), ("took", "tail.took")):
            bits(field, numbered(name, m.lanes))
        for field in ("item", "has_item", "select", "finished"):
            bits(field, [f"front.{field}_{i}" for i in items])
        bits("write_dest", numbered("front.write_dest", m.register_bits))
        bits("ballot_write", [f"front.ballot_write{g}" for g in groups])
        bits("ballot", numbered("front.ballot", m.warp_size))
        bits("tail.value", numbered("tail.value", WORD))
        bits("tail.word", numbered("tail.word", m.window_bits - 1))
        for case in CASES:
            bits(f"if_{case}", numbered(f"tail.if_{case}.", m.target_bits))
            bits(f"next_if_{case}", numbered(f"tail.next_if_{case}.", m.target_bits))
        for name in ("next_barrier", "has_next_group", "resume", "start", "next_init", "parks", "moves", "to_warp", "to_round",
                     "to_block", "to_end", "trapped"):
            plain(f"tail.{name}")
        bits("next_group", numbered("tail.next_group", m.group_bits))
        bits("init_group", numbered("tail.init_group", m.group_bits))
        bits("bad_stage", numbered("tail.bad_stage", m.stages + 1)[1:])
        bits("later", [f"tail.later{g}" for g in groups])
        bits("runs", [f"tail.runs{g}" for g in groups])
        for g in groups:
            bits(f"group{g}_target", numbered(f"tail.group{g}_target", m.target_bits))
        declare_stages(self.columns, m)

    # ---- one token --------------------------------------------------------------------------------------------------
    def feed(self, token_id: int) -> None:
        """Step the interpreter and note what every signal holds at this token. Raises FaultError for a token that cannot stand here."""
        judge, m = self.judge, self.m
        record, group = decode(judge.sizes, token_id), judge.group
        before = self.history[-1][0].kind if self.history else ""
        judge.feed(token_id)
        run = record.kind in ("EXEC", "NEXT")
        row: dict[str, int | float | None] = dict(zip(self.code, self.codes[token_id]))
        self._values(row, record)
        held = self.header                                       # of the last run before this token
        finished = self._progress(row, record)
        self._place(row, record, before, group, run)
        self._targets(row, record, held, group, run)
        self._items(row, finished, held, run)
        self._next(row, record, run)
        self.columns.add(row)
        self.history = [*self.history, (record, token_id)][-m.chunks:]

    def _values(self, row: dict, record: Record) -> None:
        """The chunks of the value being sent, and of the tokens before."""
        m, kinds = self.m, len(self.judge.sizes.kinds)
        for t, (old, token_id) in enumerate(reversed(self.history[-(m.chunks - 1):] if m.chunks > 1 else []), 1):
            row[f"record.val_before{t}"] = int(old.kind == "VAL")
            row[f"chunk_before{t}"] = sum(1 << j for j in range(m.chunk_bits) if self.codes[token_id][kinds + j] > 0)
        row["next_chunk"] = 1
        if record.kind == "VAL":
            self.chunks.append(record.payload)
            row["next_chunk"] = 1 << len(self.chunks)
        elif record.kind == "SVAL":
            row["value"] = value_of(self.judge.sizes, [*self.chunks, record.payload])
        if record.kind != "VAL":
            self.chunks = []

    def _progress(self, row: dict, record: Record) -> tuple[str, int, int] | None:
        """Count items; returns the one whose value this token completes."""
        finished = None
        if record.kind in ("EXEC", "NEXT"):
            self.last, self.since, self.running = self.judge.last_exec, 0, True
            words = self.judge.program[self.judge.block]
            self.header = (words[0], words[1])
            live, lanes = self.last.program.live, self.last.lanes
            self.due = [("s", s, lane) for s, on in enumerate(live, 1) if on for lane in lanes]
            if self.last.program.store_stage is not None:
                self.due += [(what, 0, lane) for lane in lanes for what in ("data", "store")]
        elif record.kind in ("SVAL", "MEM") and self.since is not None:
            if self.running and record.kind == "SVAL" and self.since < len(self.due) and self.due[self.since][0] == "s":
                finished = self.due[self.since]
            self.since += 1
        if record.kind in ("PARK", "WARP", "INIT", "BLOCK", "CONFIG"):
            self.running = False
        most = self.m.stages * self.m.lanes + 2 * self.m.lanes
        if self.since is not None:
            row["front.count_power"] = 128 * 2.0 ** -self.since
            row["count"] = 1 << self.since - 1 if 1 <= self.since <= most else 0          # beyond: smaller than every threshold
        return finished

    def _place(self, row: dict, record: Record, before: str, group: int, run: bool) -> None:
        """Warp, group, block, thread block."""
        m, judge = self.m, self.judge
        last_warp = max(judge.warps - 1, 0)
        last_group, last_lane = divmod(judge.last_threads - 1, m.lanes) if judge.last_threads else (0, m.lanes - 1)
        missing = sum(1 << lane for lane in range(last_lane + 1, m.lanes))
        wb = m.warp_bits
        row |= {"front.run": int(run), "front.running.0": int(self.running), "block": judge.block, "group": judge.group,
                "warp": judge.warp | judge.parked << wb | judge.first << wb + 1, "next_warp": judge.warp + 1,
                "config": last_warp | last_group << wb | missing << wb + m.group_bits,
                "front.is_last_warp": int(judge.warp == last_warp), "front.at_last": int(judge.group == last_group),
                "front.beyond": int(judge.group > last_group), "group_before": group,
                "written_group": group if run else judge.group, "front.after_control": int(before in ("PARK", "WARP"))}
        for a, axis in enumerate(AXES):
            at, last = judge.index[a], judge.grid[a] - 1
            row |= {f"grid_{axis}": last, f"index_{axis}": at, f"front.is_last_{axis}": int(at == last),
                    f"next_{axis}": 0 if at == last else at + 1,
                    f"front.after_block_{axis}": int(before == "BLOCK" and self.history[-1][0].payload == a)}

    def _targets(self, row: dict, record: Record, held: tuple[int, int], group: int, run: bool) -> None:
        """Header, targets by lane, ballots."""
        m, judge = self.m, self.judge
        told = record.kind in ("EXEC", "NEXT", "PARK")
        starts = record.kind == "INIT" or record.kind == "WARP" and judge.first
        written = group if run else judge.group
        now, told_group = judge.targets[judge.warp][judge.group], judge.targets[judge.warp][written]
        row["front.starts"] = int(starts)
        moved = [starts or told and record.outcome[lane] > 0 for lane in range(m.lanes)]
        row["retarget"] = sum(1 << lane for lane in range(m.lanes) if moved[lane])
        for lane in range(m.lanes):
            row[f"target{lane}"], row[f"written{lane}"] = now[lane], told_group[lane]
            row[f"new_target{lane}"] = told_group[lane] if moved[lane] else 0
        for name, (word, low, n) in m.header_fields.items():
            row[f"header {name}"] = self.header[word] >> low & (1 << n) - 1 if run else 0
            row[f"held {name}"] = held[word] >> low & (1 << n) - 1
        program = self.last.program if run else None
        clears = record.kind == "EXEC" and program.clear
        voted = told and row["held vote"] and not clears
        row |= {"front.clears": int(clears), "ballot": judge.ballots[judge.warp],
                "ballot_write": sum(1 << g for g in range(m.groups) if clears or voted and g == written)}
        for g in range(m.groups):
            row[f"group{g}_target"] = min(judge.targets[judge.warp][g])

    def _items(self, row: dict, finished, held: tuple[int, int], run: bool) -> None:
        """What is to be sent, whose turn it is, where a value goes."""
        m, last = self.m, self.last
        if last is None:
            return
        at = lambda items: sum(1 << (s - 1) * m.lanes + lane for _, s, lane in items)
        results = [i for i in self.due if i[0] == "s"]
        stores = sum(1 << lane for what, _, lane in self.due if what == "store")
        active = sum(1 << lane for lane in last.lanes)
        if run:
            row |= {"item": at(results), "storing": stores, "active": active}
        row |= {"has_item": at(results), "has_store": stores, "ran": active}
        chooses = last.program.branch or last.program.vote
        took = [lane for lane in last.lanes if chooses and last.stages[-1].result[lane] & 1]
        row["took"] = sum(1 << lane for lane in took)
        if finished is not None:
            _, stage, lane = finished
            word, low, n = m.header_fields[f"dest{stage}"]
            row |= {"finished": at([finished]), "write_dest": held[word] >> low & (1 << n) - 1, "write_lane": 1 << lane}
        if not self.running or self.since > len(self.due):
            return
        if self.since == len(self.due):
            row["front.done"] = 1
            return
        what, stage, lane = turn = self.due[self.since]
        if what == "s":
            row |= {"select": at([turn]), "tail.value": last.stages[stage - 1].result[lane]}
        elif what == "data":
            row |= {"select_data": 1 << lane, "tail.value": last.stages[last.program.store_stage].c[lane]}
        else:
            row |= {"select_store": 1 << lane, "tail.word": self.store_word(lane)}

    def store_word(self, lane: int) -> int:
        """The word number that a lane of the last pass stores at, as a MEM record's bits have it, whether it is good or not."""
        last = self.last
        return self.word_bits(last.stages[last.program.store_stage].result[lane])

    def word_bits(self, address: int) -> int:
        """A word's number in its window, and above it whether that is shared memory's."""
        n = self.m.window_bits
        return address >> 2 & (1 << n - 2) - 1 | (address >> n + 1 & 1) << n - 2

    def _next(self, row: dict, record: Record, run: bool) -> None:
        """What follows: the warp's next block in each case, next group, control records, the next token itself."""
        m, judge, last = self.m, self.judge, self.last
        groups, exit_target = judge.targets[judge.warp], m.exit_target
        if run:
            stage_row(row, self)
            bad = {s for s, (trace, i) in enumerate(zip(last.stages, last.program.instructions)) for lane in last.lanes
                   if i.lines & {"ld", "st"} and word_of(judge.sizes, trace.a[lane] + trace.b[lane] & 0xFFFFFFFF) is None}
            row |= {"bad_stage": sum(1 << s for s in bad), "tail.trapped": int(bool(bad)), "runs": 1 << judge.group}
            others = [t for g, lanes in enumerate(groups) for lane, t in enumerate(lanes) if g != judge.group or not last.active[lane]]
            fall, taken = last.program.fall, last.program.taken
            later = [g for g in range(judge.group + 1, m.groups) if judge.block in groups[g]]
            cases = {"fall": [*others, fall], "taken": [*others, taken], "both": [*others, fall, taken]}
            row |= {f"if_{case}": min(targets) for case, targets in cases.items()}
            self.latched = {f"next_if_{case}": min(targets) for case, targets in cases.items()}
            self.latched |= {"tail.next_barrier": int(last.program.barrier), "tail.has_next_group": int(bool(later)),
                             "next_group": later[0] if later else 0}
            row["later"] = 1 << later[0] if later else 0
        row |= self.latched
        smallest = min(map(min, groups))
        warp, first = record.kind == "WARP", judge.first
        gone = smallest == exit_target
        moves = record.kind == "PARK" or warp and not first and gone
        parks = judge.parked or record.kind == "PARK" and not gone
        last_group = judge.group == m.groups - 1
        end = all(i + 1 == size for i, size in zip(judge.index, judge.grid))
        last_warp = judge.warp == max(judge.warps - 1, 0)
        row |= {"tail.resume": int(warp and not first and not gone), "tail.moves": int(moves), "tail.parks": int(parks),
                "tail.start": int(warp and first if m.groups == 1 else record.kind == "INIT" and last_group),
                "tail.next_init": int(m.groups > 1 and (warp and first or record.kind == "INIT" and not last_group)),
                "init_group": judge.group + 1, "tail.to_warp": int(moves and not last_warp),
                "tail.to_round": int(moves and last_warp and parks), "tail.to_block": int(moves and last_warp and not parks and not end),
                "tail.to_end": int(moves and last_warp and not parks and end)}
        if judge.expected is not None:
            row |= {name: CODE_SCALE * then + now for name, then, now in
                    zip(self.next_code, self.codes[judge.expected], (row[name] for name in self.code))}
