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

BASE = 65536


def setup_ids(program: Program, memory: list[int]) -> list[int]:
    """The setup stream of docs/machine.md for a program and the first words of global memory."""
    m, threads = program.machine, program.launch.threads
    v = Vocabulary(m)
    tokens = [Token("NOP")] * 3
    for block, words in enumerate(program.words()):
        for number, word in enumerate(words):
            tokens += [*v.value_tokens(word), Token("PROG", (number, block))]
    tokens.append(Token("CONFIG", (-(-threads // m.lanes), (threads - 1) % m.lanes + 1)))
    for number, word in enumerate(memory):
        tokens += [*v.value_tokens(word), Token("MEM", (number,))]
    return [v.id_of(t) for t in [*tokens, Token("WARP", (0,))]]


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


def run_ptx(text: str, arguments: list[int], threads: int, memory: list[int], machine: Machine = ARTICLE) -> Ran:
    program = lower(parse_ptx(text), None, machine, LaunchShape((1, 1, 1), (threads, 1, 1), arguments))
    interpreter = MachineInterpreter(machine)
    return Ran(program, interpreter, interpreter.run(setup_ids(program, [w & 0xFFFFFFFF for w in memory])))


def run_random(p: RandomProgram, machine: Machine = ARTICLE) -> list[int]:
    """The output array of a random program on the machine interpreter."""
    ran = run_ptx(p.ptx, [*p.addresses, p.number], p.threads, p.inputs, machine)
    assert ran.machine.ended == "END"
    assert ran.words(0, INPUTS) == p.inputs
    return ran.words(INPUTS, p.outputs)


def expected_random(p: RandomProgram) -> list[int]:
    """The output array by the reference's PTX interpreter."""
    arrays = [struct.pack(f"<{INPUTS}I", *p.inputs), bytes(4 * p.outputs), p.number]
    outcome = reference_launch(parse_ptx(p.ptx), NAME, 1, p.threads, arrays, warp_size=4, bases=[*p.addresses, None])
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
