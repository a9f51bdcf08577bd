"""The kernels of kernels/, lowered for `default` and run by the machine interpreter, leave what their launch comments expect."""

from __future__ import annotations

import json
import pathlib

import pytest
from lower_harness import setup_ids
from qgpu.cuda.frontends import available
from qgpu.lower import LaunchShape, lower
from qgpu.machine.description import DEFAULT
from qgpu.runtime.source import open_source, to_module, to_ptx
from qgpu_reference.machine import MachineInterpreter

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels"
FILES = sorted(KERNELS.glob("*.cu"))
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}
# One for each part of the lowering: shared memory, shuffles, votes, atomics, calls, division, spills of bytes, grids, local arrays.
FAST = {"reduce_shared", "shuffles", "votes", "histogram", "atomic_product", "divide", "base64", "grid3d", "hanoi", "struct_param",
        "early_exit_barrier", "crc32", "vector_load"}


def contents(argument: dict) -> bytes:
    size = BYTES[argument["type"][1:]]
    values = argument.get("data") or [0] * argument["zeros"]
    return b"".join((v & (1 << 8 * size) - 1).to_bytes(size, "little") for v in values)


def numbers(data: bytes, kind: str) -> list[int]:
    size = BYTES[kind[1:]]
    return [int.from_bytes(data[k:k + size], "little", signed=kind[0] == "i") for k in range(0, len(data), size)]


@pytest.mark.skipif(not available(), reason="no CUDA front-end here")
@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem, marks=[] if p.stem in FAST else [pytest.mark.slow]) for p in FILES])
def test_kernel(path: pathlib.Path) -> None:
    source = open_source(path)
    line = next(x for x in path.read_text("utf-8").splitlines() if x.startswith("// qgpu: "))
    launch = json.loads(line.removeprefix("// qgpu: "))
    module = to_module(source, to_ptx(source))
    m, parameters = DEFAULT, module.kernel(launch["kernel"]).params
    values: list[int | bytes] = []
    memory = bytearray()
    places: dict[int, int] = {}
    for k, (parameter, argument) in enumerate(zip(parameters, launch["args"], strict=True)):
        if isinstance(argument, int):
            values.append(argument)
        elif parameter.is_array:
            values.append(contents(argument))
        else:
            memory += bytes(-len(memory) % 8)
            places[k] = len(memory)
            values.append(m.global_base + len(memory))
            memory += contents(argument)
    memory += bytes(-len(memory) % 4)
    words = [int.from_bytes(memory[k:k + 4], "little") for k in range(0, len(memory), 4)]
    shape = LaunchShape(tuple(launch["grid"]), tuple(launch["block"]), values, launch.get("shared_bytes", 0), len(words))
    program = lower(module, launch["kernel"], m, shape)
    machine = MachineInterpreter(m)
    machine.run(setup_ids(program, words))
    assert machine.ended == "END"
    after = b"".join(w.to_bytes(4, "little") for w in machine.memory[:len(words)])
    for k, expected in enumerate(launch["expect"]):
        if expected is not None and k in places:
            argument = launch["args"][k]
            found = numbers(after[places[k]:places[k] + len(contents(argument))], argument["type"])
            assert found == expected, f"argument {k + 1}"
