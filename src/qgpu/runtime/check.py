"""A launch against the reference: every token against the machine interpreter, the memory against the PTX interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qgpu_reference.machine import check_stream
from qgpu_reference.ptx import MAX_STEPS
from qgpu_reference.ptx import launch as reference_launch

from ..errors import CheckError, FaultError
from ..machine.description import Machine
from ..machine.tokens import Vocabulary
from .arguments import Argument
from .layout import WORD_BYTES, from_words, to_bytes
from .prepare import Prepared

FAR, MOST_ADDRESS = 1 << 24, 0xE000_0000
"""The PTX interpreter's arrays lie so many bytes apart, the first one so far from null, and all below this address."""

CUDA_WARP = 32
STEPS_TO_EXPLAIN = 200_000
"""Instructions of the PTX interpreter that go into saying why a launch did not end."""


@dataclass
class Check:
    """positions: generated tokens compared. words: of memory compared. mismatches: tokens and array elements that differ."""

    positions: int = 0
    mismatches: int = 0
    words: int = 0


def check_tokens(check: Check, machine: Machine, ids: Sequence[int], setup: int, *, complete: bool) -> None:
    """Replay a stream on the machine interpreter. complete: the stream went on to its end.

    Raises CheckError at the first token that differs, after counting all of them.
    """
    check.positions = len(ids) - setup
    found = check_stream(machine, ids, setup)
    if not complete:
        found = [difference for difference in found if difference[2] is not None]
    check.mismatches += len(found)
    if not found:
        return
    vocabulary = Vocabulary(machine)
    name = lambda token: "nothing" if token is None else str(vocabulary.token(token))
    position, expected, written = found[0]
    raise CheckError(f"{len(found)} of {check.positions} tokens differ from the reference interpreter's",
                     where=f"token {position} (number {position - setup + 1} of the model's)",
                     why=f"the model wrote {name(written)}, the interpreter {name(expected)}",
                     fix="this is a fault of the model or of qgpu; --trace FILE records the stream")


def check_memory(check: Check, ready: Prepared, arguments: Sequence[Argument], memory: Sequence[int], max_steps: int | None) -> None:
    """Run the launch on the PTX interpreter, from the arguments as they are, and compare the arrays with the machine's memory.

    Raises FaultError where the kernel itself is at fault, CheckError at the first element that differs.
    """
    expected = run_reference(ready, arguments, max_steps)
    differs = _differences(ready, expected, memory)
    if differs:  # a kernel may look at its pointers: then only the machine's own addresses give the same
        differs = _differences(ready, run_reference(ready, arguments, max_steps, machine_addresses=True), memory)
    other_order = ""
    if differs:  # CUDA leaves open which thread's atomic comes first: the machine goes through the groups of a warp, lane by lane
        lanes = ready.machine.lanes
        turned = run_reference(ready, arguments, max_steps, turn=lambda lane: (lane % lanes, lane))
        if _differences(ready, turned, memory):
            turned = run_reference(ready, arguments, max_steps, turn=lambda lane: -lane)
            other_order = _order_matters(expected, turned)
        else:
            differs = []
    check.words = sum(p.words for p in ready.layout.placed)
    check.mismatches += len(differs)
    if differs:
        number, at, found, wanted = differs[0]
        raise CheckError("the memory after the launch differs from the PTX interpreter's", where=f"argument {number}, element {at}",
                         why=f"the machine holds {found}, the interpreter {wanted}" + other_order,
                         fix="let the result not depend on which thread comes first" if other_order
                         else "this is a fault of the model or of qgpu; --trace FILE records the stream")


def _order_matters(expected: Sequence[np.ndarray | None], turned: Sequence[np.ndarray | None]) -> str:
    """What to say where the interpreter itself ends with other arrays once its lanes take turns the other way round."""
    number = next((k for k, (a, b) in enumerate(zip(expected, turned), 1) if a is not None and not np.array_equal(a, b)), None)
    if number is None:
        return ""
    return f"; with its lanes in reverse order the interpreter's own argument {number} changes: the result depends on the order of threads"


def _differences(ready: Prepared, expected: Sequence[np.ndarray | None], memory: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """(argument from 1, element, the machine's value, the expected one) for every array element that differs."""
    out = []
    for p in ready.layout.placed:
        wanted = expected[p.index].reshape(-1)
        found = from_words(memory[p.word:p.word + p.words], wanted)
        out += [(p.index + 1, int(at), int(found[at]), int(wanted[at])) for at in np.flatnonzero(found != wanted)]
    return out


def explain_trap(ready: Prepared, arguments: Sequence[Argument], max_steps: int | None = None) -> None:
    """Run the launch on the PTX interpreter, which names line, kernel, block, thread and address of a bad access in a FaultError."""
    run_reference(ready, arguments, max_steps)
    run_reference(ready, arguments, max_steps, machine_addresses=True)


def why_endless(ready: Prepared, arguments: Sequence[Argument], max_steps: int | None = None) -> str:
    """Why a launch did not end, by what the PTX interpreter makes of it; "" where that tells nothing."""
    try:
        run_reference(ready, arguments, min(STEPS_TO_EXPLAIN, max_steps or STEPS_TO_EXPLAIN))
    except FaultError as error:
        return f"the PTX interpreter says: {error.where}: {error.what}" + (f": {error.why}" if error.why else "")
    if ready.threads <= ready.machine.warp_size:
        return ""
    return ("the PTX interpreter ends it: either the limit is too low, or a loop waits for a thread of another warp, "
            "which never has its turn here: a warp runs until it ends or waits at a barrier")


def check_races(ready: Prepared, arguments: Sequence[Argument], max_steps: int | None = None) -> None:
    """Run the launch on the PTX interpreter, which judges by barrier epochs. Raises FaultError where two accesses race."""
    run_reference(ready, arguments, max_steps, races=True)


def run_reference(ready: Prepared, arguments: Sequence[Argument], max_steps: int | None, *,
                  machine_addresses: bool = False, races: bool = False,
                  turn: Callable[[int], object] | None = None) -> list[np.ndarray | None]:
    """The arrays after the launch as the PTX interpreter has them; None for scalars and structures.

    Its arrays lie far apart, so that an access beyond one of them is seen; machine_addresses: where the machine has them.
    turn: sort key of the lanes of a warp, in whose order they take turns.
    Raises FaultError where the kernel is at fault, naming line, kernel, block, thread and address.
    """
    distance = min(FAR, MOST_ADDRESS // (len(ready.layout.placed) + 1) // 256 * 256)
    bases: list[int | None] = [None] * len(arguments)
    for k, p in enumerate(ready.layout.placed):
        if p.nbytes or machine_addresses:  # an empty array's address is that of the next one's there
            bases[p.index] = ready.machine.global_base + (WORD_BYTES * p.word if machine_addresses else (k + 1) * distance)
    given = [to_bytes(a) if isinstance(a, np.ndarray) else a for a in arguments]
    # Threads that fit into one warp of the machine are one warp of CUDA's; otherwise the machine's own width decides the order.
    warp_size = CUDA_WARP if ready.threads <= ready.machine.warp_size else ready.machine.warp_size
    outcome = reference_launch(ready.module, ready.kernel.name, ready.grid, ready.block, given,
                               max_steps=MAX_STEPS if max_steps is None else max_steps, bases=bases, warp_size=warp_size,
                               shared_bytes=ready.shared_bytes, races=races, turn=turn)
    return [np.frombuffer(bytes(data), a.dtype.newbyteorder("<")).reshape(a.shape) if data is not None else None
            for a, data in zip(arguments, outcome.arrays)]
