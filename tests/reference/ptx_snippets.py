"""Small PTX kernels for the tests of the PTX interpreter."""

from __future__ import annotations

import struct

from qgpu.ptx import parse_ptx
from qgpu_reference.ptx import launch

REGISTERS = """
    .reg .pred %p<40>; .reg .b16 %rs<20>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
"""


def module(body, params="", before="", bits=64):
    """A module with one kernel `k`. params: PTX parameter list; before: module-level text."""
    return parse_ptx(f""".version 8.0
.target sm_80
.address_size {bits}
{before}
.visible .entry k({params})
{{{REGISTERS}
{body}
}}
""", "k.ptx")


def run(body, args=(), *, block=1, grid=1, params=None, before="", bits=64, **options):
    """Launch a kernel whose parameters are p0, p1, ...: pointers for arrays, .u32 for ints. Returns the outcome."""
    if params is None:
        params = ", ".join(f".param .{'u32' if isinstance(a, int) else f'u{bits}'} p{i}" for i, a in enumerate(args))
    return launch(module(body, params, before, bits), "k", grid, block, list(args), **options)


def words(data):
    """Unsigned 32-bit words of bytes."""
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def u32(*values):
    """Bytes of 32-bit words, from signed or unsigned numbers."""
    return struct.pack(f"<{len(values)}I", *(v & 0xFFFFFFFF for v in values))


# out[tid] in %rd2 (pointer p0), tid in %r0: the start of most kernels below.
OUT = """
    ld.param.u64 %rd1, [p0];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, 4;
    add.u64 %rd2, %rd1, %rd2;
"""


def per_thread(body, threads=1, before="", initial=None, **options):
    """Run a kernel in which each thread stores one word at [%rd2]; returns the words."""
    array = u32(*(initial if initial is not None else [0] * threads))
    return words(run(OUT + body + "\nret;", [array], block=threads, before=before, **options).arrays[0])


def evaluate(instruction, result, sources, cases):
    """Run one instruction on many operand tuples, one thread each; returns the raw results.

    instruction: PTX with %d for the destination and %a, %b, %c, %e for the operands. result, sources: "b16", "b32", "b64"
    or "pred". Operands travel as 8 bytes each.
    """
    prefix = {"b16": "%rs", "b32": "%r", "b64": "%rd", "pred": "%p"}
    text, body = instruction, []
    for k, (name, kind) in enumerate(zip(("%a", "%b", "%c", "%e"), sources)):
        register = f"{prefix[kind]}{k + 15}"
        if kind == "pred":
            body.append(f"ld.global.b32 %r39, [%rd3+{8 * k}]; setp.ne.b32 {register}, %r39, 0;")
        else:
            body.append(f"ld.global.{kind} {register}, [%rd3+{8 * k}];")
        text = text.replace(name, register)
    text = text.replace("%d", f"{prefix[result]}14")
    if result == "pred":
        store = "selp.b32 %r38, 1, 0, %p14; st.global.b32 [%rd4], %r38;"
    else:
        store = f"st.global.{result} [%rd4], {prefix[result]}14;"
    kernel = f"""
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.s32 %r0, %r1, 32, %r0;
    mul.wide.u32 %rd3, %r0, {8 * len(sources)}; add.u64 %rd3, %rd3, %rd1;
    mul.wide.u32 %rd4, %r0, 8; add.u64 %rd4, %rd4, %rd2;
    {' '.join(body)}
    {text}
    {store}
    ret;"""
    cases = list(cases)
    padded = cases + [cases[-1]] * (-len(cases) % 32)
    data = b"".join(struct.pack(f"<{len(sources)}Q", *case) for case in padded)
    out = run(kernel, [data, bytes(8 * len(padded))], block=32, grid=len(padded) // 32).arrays[1]
    return list(struct.unpack(f"<{len(padded)}Q", out))[:len(cases)]
