"""Long random runs on the sparse engine, every token compared.

    python tools/soak.py [--machine NAME|FILE.toml] [--positions N] [--seed S] [--state FILE] [--statements K]

Seed after seed: a random kernel (tests/generators) is lowered for the machine and launched, in one token stream after the launch
before it as often as after a reset. Every token that the engine writes is compared with the machine interpreter's, all words of
memory with the machine interpreter's at the end, and the kernel's arrays with what the PTX interpreter leaves. A position is one
token that the engine wrote and that was compared; setup tokens come on top.

With --state a run that was stopped goes on where it was. The run ends at the first mismatch with exit status 1, naming seed and
position, and a state that holds a mismatch keeps giving status 1. Kernels that the machine has no room for are counted and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "generators"))

import ptx_programs  # noqa: E402
import simt_programs  # noqa: E402

from qgpu.compile.cache import source_digest  # noqa: E402
from qgpu.engine import make_engine  # noqa: E402
from qgpu.errors import LoweringError, QgpuError, UsageError  # noqa: E402
from qgpu.files import new_file  # noqa: E402
from qgpu.lower import LaunchShape, lower  # noqa: E402
from qgpu.machine.description import PRESETS, Machine, as_dict, load_machine  # noqa: E402
from qgpu.machine.tokens import Vocabulary  # noqa: E402
from qgpu.ptx import parse_ptx  # noqa: E402
from qgpu.runtime.setup import setup_tokens  # noqa: E402
from qgpu_reference.machine import MachineInterpreter  # noqa: E402
from qgpu_reference.ptx import launch as reference_launch  # noqa: E402

MAKERS = {4: ptx_programs.seeded_program, 32: simt_programs.seeded_simt_program}
"""Generator by warp size."""
LOWEST_BASE = 65536
"""The PTX interpreter keeps addresses below this free; random kernels do not depend on where their arrays lie."""


class Mismatch(Exception):
    """Engine and interpreters differ."""


@dataclass
class Job:
    """A random kernel made ready: its setup, its arrays at the start and as the PTX interpreter leaves them (32-bit words)."""

    seed: int
    setup: list[int]
    reset: bool
    expected: list[int]


def job_of(machine: Machine, seed: int, statements: int) -> Job:
    """The kernel of a seed. Raises LoweringError where the machine has no room for it."""
    rng = random.Random(f"soak {seed}")
    p = MAKERS[machine.warp_size](seed, rng.randrange(statements // 2, statements + 1))
    parameters = [*p.addresses(machine.global_base), p.number]
    words = [w & 0xFFFFFFFF for w in [*p.inputs, *[0] * p.outputs]]
    program = lower(parse_ptx(p.ptx), None, machine, LaunchShape((p.blocks, 1, 1), p.block, parameters, 0, len(words)))
    setup = setup_tokens(machine, dict(enumerate(program.words())), (p.blocks, 1, 1), program.launch.threads,
                         dict(enumerate(words)) | program.data)
    arrays = [struct.pack(f"<{len(p.inputs)}I", *words[:len(p.inputs)]), bytes(4 * p.outputs), p.number]
    shift = LOWEST_BASE if machine.global_base < LOWEST_BASE else 0
    outcome = reference_launch(parse_ptx(p.ptx), ptx_programs.NAME, p.blocks, p.block, arrays, warp_size=machine.warp_size,
                               bases=[*(a + shift for a in parameters[:2]), None])
    expected = [w for a in outcome.arrays[:2] for w in struct.unpack(f"<{len(a) // 4}I", a)]
    return Job(seed, setup, rng.randrange(2) == 0, expected)


class Stream:
    """An engine and the interpreter that judges it, fed the same tokens."""

    def __init__(self, machine: Machine, engine) -> None:
        self.machine, self.engine, self.judge = machine, engine, MachineInterpreter(machine)
        self.names = Vocabulary(machine)
        self.reset()

    def reset(self) -> None:
        self.engine.reset()
        self.judge.reset()

    def run(self, job: Job) -> int:
        """Launch; how many tokens were compared. Raises Mismatch."""
        if job.reset:
            self.reset()
        for token in job.setup:
            self.judge.feed(token)
        found, done = self.engine.feed(job.setup), 0
        while True:
            wanted = self.judge.expected
            if found != wanted:
                raise Mismatch(f"position {done} after the setup: {self.names.token(found)} instead of {self.names.token(wanted)}")
            self.judge.feed(found)
            done += 1
            if not self.judge.running:
                break
            found = self.engine.feed([found])
        if self.judge.ended != "END":
            raise Mismatch(f"position {done} after the setup: ended by {self.judge.ended}")
        self.compare(self.engine.read_global(self.machine.words), self.judge.memory, "machine interpreter")
        self.compare(self.judge.memory[:len(job.expected)], job.expected, "PTX interpreter")
        return done

    @staticmethod
    def compare(found: list[int], wanted: list[int], by: str) -> None:
        """Raise Mismatch at the first word that differs."""
        if len(found) != len(wanted):
            raise Mismatch(f"{len(found)} words of memory, {by} has {len(wanted)}")
        for k, (a, b) in enumerate(zip(found, wanted)):
            if a != b:
                raise Mismatch(f"after the launch: word {k} is {a:#x}, by the {by} {b:#x}")


# ---- state ----------------------------------------------------------------------------------------------------------
def new_state(machine: Machine, seed: int, statements: int) -> dict:
    """Nothing done yet."""
    return {"machine": as_dict(machine), "source": source_digest(), "first_seed": seed, "next_seed": seed, "statements": statements,
            "positions": 0, "setup_tokens": 0, "programs": 0, "left_out": 0, "resets": 0, "seconds": 0.0, "mismatches": []}


def load_state(path: Path, fresh: dict) -> dict:
    """The state in a file, or a fresh one. Raises UsageError for one of another run."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return fresh
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read the state: {e}", where=str(path)) from None
    if not isinstance(state, dict) or set(state) != set(fresh):
        raise UsageError("not a state of this tool", where=str(path))
    for key in ("machine", "source", "first_seed", "statements"):
        if state[key] != fresh[key]:
            raise UsageError(f"the state has another {key}", where=str(path), fix="give the same options, or another --state")
    return state


def save_state(path: Path | None, state: dict) -> None:
    """Written whole or not at all."""
    if path is None:
        return
    file, name = new_file(path.resolve().parent)
    with file:
        file.write((json.dumps(state, indent=1) + "\n").encode())
    os.replace(name, path)


def soak(stream: Stream, state: dict, positions: int, path: Path | None = None, tell: Callable[[str], None] = print) -> int:
    """Go on from a state until that many positions are compared; the exit status."""
    told = time.monotonic()
    fresh = True
    while state["positions"] < positions:
        seed, start = state["next_seed"], time.monotonic()
        state["next_seed"] += 1
        wrong = None
        try:
            job = job_of(stream.machine, seed, state["statements"])
            if fresh:
                job.reset, fresh = True, False
            state["positions"] += stream.run(job)
            state["programs"] += 1
            state["setup_tokens"] += len(job.setup)
            state["resets"] += job.reset
        except LoweringError as e:
            state["left_out"] += 1
            tell(f"seed {seed} left out: {e.what}")
        except (Mismatch, QgpuError) as e:
            wrong = f"{type(e).__name__}: {e}"
            state["mismatches"].append({"seed": seed, "position": state["positions"], "what": wrong})
        state["seconds"] = round(state["seconds"] + time.monotonic() - start, 3)
        save_state(path, state)
        if wrong:
            tell(f"seed {seed}, after {state['positions']:,} positions: {wrong}")
            break
        if time.monotonic() - told > 10:
            told = time.monotonic()
            tell(f"seed {seed}: {state['positions']:,} of {positions:,} positions, {state['programs']} launches")
    tell(f"{stream.machine.name}: seeds {state['first_seed']} to {state['next_seed'] - 1}, {state['positions']:,} positions compared, "
         f"{len(state['mismatches'])} mismatches; {state['programs']} launches ({state['resets']} after a reset, "
         f"{state['left_out']} kernels left out for want of room), {state['setup_tokens']:,} setup tokens, {state['seconds']:,.0f} s")
    return 1 if state["mismatches"] else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="long random runs, every token compared")
    parser.add_argument("--machine", default="default", help="preset or description file (default: default)")
    parser.add_argument("--positions", type=int, default=250_000, help="tokens to compare in all (default: 250000)")
    parser.add_argument("--seed", type=int, default=1, help="first seed (default: 1)")
    parser.add_argument("--statements", type=int, default=20, help="most statements of a random kernel (default: 20)")
    parser.add_argument("--state", type=Path, help="file to go on from and to keep up to date")
    options = parser.parse_args(arguments)
    try:
        machine = PRESETS.get(options.machine) or load_machine(options.machine)
        if machine.warp_size not in MAKERS:
            raise UsageError(f"no random kernels for warps of {machine.warp_size}", fix="machines with warps of 4 or 32")
        if options.positions < 1 or options.statements < 2:
            raise UsageError("--positions must be at least 1, --statements at least 2")
        state = new_state(machine, options.seed, options.statements)
        if options.state:
            state = load_state(options.state, state)
        return soak(Stream(machine, make_engine(machine)), state, options.positions, options.state, lambda s: print(s, flush=True))
    except QgpuError as e:
        print(e, file=sys.stderr)
        return e.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
