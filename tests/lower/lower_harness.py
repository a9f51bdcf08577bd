"""Lower PTX and run it on the reference's machine interpreter."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ptx_programs import INPUTS, NAME, RandomProgram
from qgpu.lower import LaunchShape, Program, lower
from qgpu.machine.description import ARTICLE, Machine
from qgpu.machine.tokens import Token, Vocabulary
from qgpu.ptx import parse_ptx
from qgpu_reference.machine import MachineInterpreter
from qgpu_reference.ptx import launch as reference_launch

BASE = ARTICLE.global_base


def setup_ids(program: Program, memory: list[int]) -> list[int]:
    """The setup stream of docs/machine.md for a program and the first words of global memory."""
    m, threads = program.machine, program.launch.threads
    v = Vocabulary(m)
    tokens = [Token("NOP")] * 3
    for block, words in enumerate(program.words()):
        for number, word in enumerate(words):
            tokens += [*v.value_tokens(word), Token("PROG", (number, block))]
    tokens.append(Token("CONFIG", (-(-threads // m.warp_size), (threads - 1) % m.warp_size + 1)))
    for axis, size in enumerate(program.launch.grid):
        tokens += [*v.value_tokens(size - 1), Token("GRID", (axis,))]
    for number, word in (dict(enumerate(memory)) | program.data).items():
        tokens += [*v.value_tokens(word), Token("MEM", (number,))]
    for axis in range(3):
        tokens += [*v.value_tokens(0), Token("BLOCK", (axis,))]
    return [v.id_of(t) for t in [*tokens, Token("WARP", (0, 0, 1))]]


@dataclass
class Ran:
    """A launch: its program, the interpreter afterwards, the ids it generated."""

    program: Program
    machine: MachineInterpreter
    generated: list[int]

    def words(self, start: int, count: int) -> list[int]:
        return self.machine.memory[start:start + count]

    def tokens(self) -> list[str]:
        v = Vocabulary(self.program.machine)
        return [str(v.token(t)) for t in self.generated]


def run_ptx(text: str, arguments: list[int | bytes], threads: int | tuple[int, int, int], memory: list[int], machine: Machine = ARTICLE,
            grid: tuple[int, int, int] = (1, 1, 1), shared_bytes: int = 0) -> Ran:
    block = (threads, 1, 1) if isinstance(threads, int) else threads
    shape = LaunchShape(grid, block, arguments, shared_bytes, len(memory))
    program = lower(parse_ptx(text), None, machine, shape)
    interpreter = MachineInterpreter(machine)
    return Ran(program, interpreter, interpreter.run(setup_ids(program, [w & 0xFFFFFFFF for w in memory])))


def run_random(p: RandomProgram, machine: Machine = ARTICLE) -> list[int]:
    """The output array of a random program on the machine interpreter."""
    memory = [*p.inputs, *[0] * p.outputs]
    ran = run_ptx(p.ptx, [*p.addresses(machine.global_base), p.number], p.block, memory, machine, (p.blocks, 1, 1))
    assert ran.machine.ended == "END"
    assert ran.words(0, INPUTS) == p.inputs
    return ran.words(INPUTS, p.outputs)


def expected_random(p: RandomProgram, machine: Machine = ARTICLE) -> list[int]:
    """The output array by the reference's PTX interpreter."""
    arrays = [struct.pack(f"<{INPUTS}I", *p.inputs), bytes(4 * p.outputs), p.number]
    bases = [*p.addresses(machine.global_base), None]
    if bases[0] < 65536:  # the reference keeps the first addresses free
        bases = [b + 65536 if b is not None else None for b in bases]
    outcome = reference_launch(parse_ptx(p.ptx), NAME, p.blocks, p.block, arrays, warp_size=machine.warp_size, bases=bases)
    return list(struct.unpack(f"<{p.outputs}I", outcome.arrays[1]))


HEADER = """.version 8.0
.target sm_75
.address_size 32
.visible .entry k(.param .b32 k_param_0, .param .b32 k_param_1, .param .b32 k_param_2, .param .b32 k_param_3)
{
	.reg .pred %p<8>;
	.reg .b16 %rs<8>;
	.reg .b32 %r<32>;
	.reg .b64 %rd<8>;
"""


def three_operands(body: str) -> str:
    """A kernel over words a, b, c of each thread (in %r1, %r2, %r3; tid in %r4) that stores %r0 (parameters: arrays a, b, c, d)."""
    lines = ["mov.u32 %r4, %tid.x;", "shl.b32 %r5, %r4, 2;", "mov.b32 %r0, 0;"]
    for k in range(3):
        lines += [f"ld.param.b32 %r6, [k_param_{k}];", "add.s32 %r6, %r6, %r5;", f"ld.global.b32 %r{k + 1}, [%r6];"]
    lines += [line.strip() for line in body.split("\n")]
    lines += ["ld.param.b32 %r6, [k_param_3];", "add.s32 %r6, %r6, %r5;", "st.global.b32 [%r6], %r0;", "ret;"]
    return HEADER + "".join(f"\t{line}\n" for line in lines) + "}\n"
