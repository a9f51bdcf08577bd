"""Running threads: warps in lockstep on the smallest place, blocks to their barriers, and what can go wrong with both.

The threads of a warp that stand deepest in calls and, among these, at the smallest place in the program run together,
so diverging threads come together again by themselves. A warp runs until none of its threads can go on or until it goes
round a loop that changes nothing; then the next warp has its turn. All of it is deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from qgpu.errors import FaultError

from .ptx_memory import Memory, Region, Space, Version
from .ptx_program import Program, enter
from .ptx_races import RaceWatch
from .ptx_thread import BARRIER, EXITED, RUNNING, SYNC, Step, Thread, Trouble
from .ptx_values import Undefined
from .ptx_warp import reduce_votes


class Launch:
    """One launch: what all blocks share."""

    def __init__(self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], *, warp_size: int,
                 max_steps: int, shared_bytes: int, total_shared: int, spaces: dict[str, Space],
                 parameters: dict[str, Region], clock: Version, races: RaceWatch | None = None,
                 turn: Callable[[int], object] | None = None) -> None:
        self.program, self.grid, self.block = program, grid, block
        self.warp_size, self.max_steps = warp_size, max_steps
        self.shared_bytes, self.total_shared = shared_bytes, total_shared
        self.spaces, self.parameters, self.clock = spaces, parameters, clock
        self.lane_mask = (1 << warp_size) - 1
        self.races, self.turn = races, turn
        self.steps = 0

    def fault(self, step: Step | None, block: "Block", thread: Thread | None, what: str, why: str = "", fix: str = "") -> FaultError:
        """The error of a launch: what, in which kernel, block and thread, at which place."""
        place = f"kernel {self.program.kernel.short_name}, block {block.index}"
        if thread is not None:
            place += f", thread {thread.index}"
        return FaultError(f"{what} ({place})", where=step.instruction.where if step else "", why=why, fix=fix)


class Warp:
    """Up to `warp_size` threads that run together."""

    def __init__(self, block: "Block", number: int) -> None:
        self.block, self.number = block, number
        self.threads: list[Thread] = []
        self.went_back = False  # a branch of the step just run may close a loop

    def runnable(self) -> bool:
        return any(t.state == RUNNING for t in self.threads)

    def run(self) -> bool:
        """Run until no thread can go on (False), or until a loop repeats without any change (True)."""
        launch, steps = self.block.launch, self.block.launch.program.steps
        loop = LoopWatch(self)
        while True:
            running = [t for t in self.threads if t.state == RUNNING]
            if not running:
                if self.complete_collectives():
                    continue
                return False
            depth = max(len(t.frames) for t in running)
            deepest = [t for t in running if len(t.frames) == depth]
            pc = min(t.pc for t in deepest)
            group = [t for t in deepest if t.pc == pc]
            others = [t.pc for t in deepest if t.pc != pc]
            stop = min(others, default=len(steps))
            self.went_back = False
            while True:  # a straight line: the same threads, step after step
                step = steps[pc]
                launch.steps += len(group)
                if launch.steps > launch.max_steps:
                    raise launch.fault(step, self.block, group[0], f"the kernel did not end within {launch.max_steps} steps",
                                       "an endless loop, or more work than the limit allows", "raise the step limit")
                pc += 1
                if self._step(step, group, pc) or pc >= stop:
                    break
            if not step.control:
                for t in group:
                    t.pc = pc
            elif self.went_back and loop.repeats():
                return True

    def _step(self, step: Step, group: list[Thread], following: int) -> bool:
        """Run one step for the threads whose guard holds. True if their places are no longer one."""
        try:
            if step.control:
                for t in group:
                    t.pc = following
            lanes = group
            if step.guard:
                name, wanted = step.guard
                lanes = []
                for t in group:
                    value = t.regs.get(name)
                    if value is None or isinstance(value, Undefined):
                        origin = value.origin if value else f"register {name}, which is uninitialised"
                        raise Trouble(t, f"the condition of {step.instruction.text or step.instruction.name} is undefined",
                                      f"it uses {origin}", "give every value before it is used")
                    if value == wanted:
                        lanes.append(t)
            if lanes:
                step.execute(lanes)
        except Trouble as e:
            raise self.block.launch.fault(step, self.block, e.thread, e.what, e.why, e.fix) from None
        return step.control

    def complete_collectives(self) -> bool:
        """Let those warp operations go on whose members have all come or exited. True if any did."""
        done = False
        for key in {t.waiting.key: None for t in self.threads if t.state == SYNC}:
            here = {t.lane: t for t in self.threads if t.state == SYNC and t.waiting.key == key}
            mask = key[1]
            if any(t.state != EXITED and t.lane not in here and mask >> t.lane & 1 for t in self.threads):
                continue
            results = next(iter(here.values())).waiting.combine(here)
            if self.block.launch.races is not None and key[0].startswith("bar.warp"):
                self.block.launch.races.meet(here.values())
            for lane, thread in here.items():
                thread.release(results[lane])
            done = True
        return done


class LoopWatch:
    """Notices that a warp is back in a state it was in before: nothing it does can then ever end.

    Compares with a saved state, renewed after 1, 2, 4, ... turns, so any cycle is found within about twice its length.
    """

    def __init__(self, warp: Warp) -> None:
        self.warp, self.turns, self.renew, self.saved = warp, 0, 1, None

    def _state(self) -> tuple:
        return (self.warp.block.launch.clock.count,
                [(t.pc, t.state, t.regs, [(f.return_pc, f.regs) for f in t.frames]) for t in self.warp.threads])

    def repeats(self) -> bool:
        """Whether the present state is the saved one."""
        self.turns += 1
        now = self._state()
        if self.saved == now:
            return True
        if self.turns == self.renew:
            self.renew *= 2
            self.saved = (now[0], [(pc, state, dict(regs), [(r, dict(g)) for r, g in frames])
                                   for pc, state, regs, frames in now[1]])
        return False


class Block:
    """One thread block: its warps, shared memory and barriers."""

    def __init__(self, launch: Launch, index: tuple[int, int, int], shared: Space) -> None:
        self.launch, self.index = launch, index
        self.warps: list[Warp] = []
        self.arrived: dict[int, list[tuple[Thread, int | None]]] = {}  # bar.arrive: barrier -> (thread, count)
        width, height, depth = launch.block
        number = 0
        for z in range(depth):
            for y in range(height):
                for x in range(width):
                    if number % launch.warp_size == 0:
                        self.warps.append(Warp(self, len(self.warps)))
                    warp = self.warps[-1]
                    spaces = launch.spaces | {"shared": shared, "local": Space("local", 16), "param": Space("param", 16)}
                    thread = Thread((x, y, z), number % launch.warp_size, warp, Memory(spaces, launch.clock))
                    for region in launch.parameters.values():
                        spaces["param"].add(region)
                    thread.symbols = enter(thread, launch.program.kernel, launch.parameters)
                    thread.pc = launch.program.functions[launch.program.kernel.name].entry
                    warp.threads.append(thread)
                    number += 1
        if launch.turn is not None:
            for warp in self.warps:
                warp.threads.sort(key=lambda t: launch.turn(t.lane))

    @property
    def threads(self) -> list[Thread]:
        return [t for warp in self.warps for t in warp.threads]

    def run(self) -> None:
        """Run all threads to their exit. Raises FaultError for a deadlock, a barrier misused or a loop without end."""
        while any(t.state != EXITED for t in self.threads):
            before = self.launch.clock.count
            turning = [warp for warp in self.warps if warp.runnable() and warp.run()]
            if self._complete_barriers() or any(w.runnable() for w in self.warps if w not in turning):
                continue  # a counted barrier may have freed a warp that had its turn already
            if not turning:
                if any(t.state != EXITED for t in self.threads):
                    raise self._deadlock()
            elif self.launch.clock.count == before:
                raise self._endless(turning[0])

    def _step_of(self, thread: Thread) -> Step:
        at = thread.waiting.pc if thread.waiting else thread.pc
        return self.launch.program.steps[at]

    def _endless(self, warp: Warp) -> FaultError:
        going = [t for t in warp.threads if t.state == RUNNING]
        first = min(going, key=lambda t: (-len(t.frames), t.pc))
        still = [t for t in going if t.pc != first.pc]
        why = "nothing that the loop does changes any register or memory again, and no other warp can run"
        if still:
            places = self._step_of(still[0]).instruction.where
            why += (f"; {len(still)} threads of the same warp wait behind the loop, at {places}: "
                    "threads of one warp take turns here, so a lock that one of them holds is never released")
        return self.launch.fault(self._step_of(first), self, first, "endless loop", why,
                                 "let threads of a warp not wait for one another in a loop")

    def _deadlock(self) -> FaultError:
        waiting = [t for t in self.threads if t.state in (BARRIER, SYNC)]
        instructions = [self._step_of(t).instruction for t in waiting]
        places = Counter(f"{i.text or i.name} at {i.where}" for i in instructions)
        why = "; ".join(f"{n} threads wait in {place}" for place, n in places.items())
        return self.launch.fault(self._step_of(waiting[0]), self, waiting[0], "deadlock: no thread can go on", why,
                                 "let all threads of the block reach the same barriers, and all of a mask the same operation")

    # ---- barriers -------------------------------------------------------------------------------------------------
    def complete_counted_barriers(self) -> None:
        """Open barriers with a thread count as soon as so many threads have come."""
        for number in range(16):
            waiting = [t for t in self.threads if t.state == BARRIER and t.waiting.number == number and t.waiting.count]
            arrived = self.arrived.get(number, [])
            counts = {t.waiting.count for t in waiting} | {count for _, count in arrived}
            if len(counts) == 1 and len(waiting) + len(arrived) >= counts.pop():
                self._open(waiting, number)

    def _complete_barriers(self) -> bool:
        """Open barriers at which every thread of the block that has not exited waits. True if one opened."""
        alive = [t for t in self.threads if t.state != EXITED]
        waiting = [t for t in alive if t.state == BARRIER and t.waiting.count is None]
        if not alive or len(waiting) != len(alive) or len({t.waiting.number for t in waiting}) != 1:
            return False
        self._open(waiting, waiting[0].waiting.number)
        return True

    def _open(self, waiting: list[Thread], number: int) -> None:
        arrived = self.arrived.pop(number, [])
        if self.launch.races is not None:
            self.launch.races.meet([*waiting, *(t for t, _ in arrived if t not in waiting)], waiting)
        for warp in self.warps:
            places = {t.waiting.pc: t for t in warp.threads if t in waiting and t.waiting.key[1]}
            if len(places) > 1:
                first, second, *_ = places.values()
                raise self.launch.fault(
                    self._step_of(second), self, second, "barrier divergence: threads of one warp wait in different instructions",
                    f"another thread of the warp, {first.index}, waits at {self._step_of(first).instruction.where}",
                    "let all threads of a warp reach the same __syncthreads()")
        kinds = {t.waiting.key[2] for t in waiting}
        if len(kinds) > 1:
            raise self.launch.fault(self._step_of(waiting[0]), self, waiting[0], "threads reach one barrier with different operations")
        votes = [t.waiting.operands[0] for t in waiting if t.waiting.operands]
        for thread in waiting:
            reduction = thread.waiting.key[2]
            thread.release((reduce_votes(reduction, votes),) if reduction else ())
