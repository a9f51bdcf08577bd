"""`parse_ptx` on the shapes that compilers really write, and on text that is wrong in one place."""

import pytest

from qgpu.errors import PtxError, UsageError
from qgpu.ptx import parse_ptx
from qgpu.ptx.mangling import demangle
from qgpu.ptx.model import Addr, ArgList, Imm, Instruction, Label, Pair, Reg, Sink, SourceLine, Special, Symbol, Vector

HEADER = ".version 8.8\n.target sm_75\n.address_size 32\n"
REGS = ".reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n"


def kernel(body, params="", before=""):
    return parse_ptx(f"{HEADER}{before}\n.visible .entry k({params})\n{{\n{REGS}{body}\n}}\n", "t.ptx").kernel("k")


def one(line, **more):
    """The only instruction of a kernel with this line."""
    (instruction,) = kernel(line, **more).instructions
    return instruction


def test_header_and_names():
    module = parse_ptx(HEADER + ".visible .entry _Z3dotPKiS0_Pi() { ret; }\n.weak .entry plain() { ret; }")
    assert (module.version, module.target, module.address_size) == ((8, 8), "sm_75", 32)
    assert module.kernel("dot") is module.kernels["_Z3dotPKiS0_Pi"] is module.kernel("_Z3dotPKiS0_Pi")
    assert module.kernel("plain").short_name == "plain"
    with pytest.raises(UsageError, match="dot, plain"):
        module.kernel("other")
    with pytest.raises(UsageError, match="--kernel"):
        module.kernel()


@pytest.mark.parametrize(("mangled", "plain"), [
    ("_Z3dotPKiS0_Pi", "dot"), ("_ZN12_GLOBAL__N_11kEPi", "k"), ("_ZN4math6vector3addEi", "add"), ("_Z4scanIiEvPT_", "scan"),
    ("_ZL4fileiPi", "file"), ("dot", "dot"), ("_Z", "_Z"), ("_Z99x", "_Z99x"), ("_Z0", "_Z0"),
])
def test_demangle(mangled, plain):
    assert demangle(mangled) == plain


def test_parameters():
    k = kernel("ret;", ".param .u32 .ptr .align 1 a, .param .u64 .ptr .global .align 4 b, .param .align 8 .b8 s[12],\n.param .u8 c, .param .b16 d")
    a, b, s, c, d = k.params
    assert (a.type, a.size, a.offset, a.is_pointer_hint, a.pointer_space, a.pointer_align) == ("u32", 4, 0, True, None, 1)
    assert (b.type, b.offset, b.align, b.pointer_space, b.pointer_align) == ("u64", 8, 8, "global", 4)
    assert (s.type, s.size, s.align, s.offset, s.is_array) == ("b8", 12, 8, 16, True)
    assert (c.offset, d.offset, d.align) == (28, 30, 2)
    assert not c.is_pointer_hint


def test_register_ranges_and_plain_registers():
    k = kernel(".reg .b32 x, y;\nmov.b32 x, y;")
    assert k.regs["%r0"] == k.regs["%r8"] == k.regs["x"] == "b32" and "%r9" not in k.regs
    assert (k.regs["%p3"], k.regs["%rs0"], k.regs["%rd3"]) == ("pred", "b16", "b64")


@pytest.mark.parametrize(("text", "value"), [
    ("12", 12), ("-1", -1), ("0x1F", 31), ("0XffU", 255), ("017", 15), ("0b101", 5), ("0B11U", 3), ("7U", 7), ("0U", 0),
    ("4294967295", 2**32 - 1), ("-9223372036854775808", -(2**63)), ("~5", -6), ("(1+2*3)", 7), ("((8-2)<<1)", 12), ("(-7/2)", -3), ("!0", 1),
])
def test_integer_literals(text, value):
    assert one(f"mov.b32 %r1, {text};").operands[1] == Imm(value)


def test_float_literals_are_bit_patterns():
    assert one("mov.f32 %r1, 0f3F800000;").operands[1] == Imm(0x3F800000, "f32")
    assert one("mov.f32 %r1, -0F3F800000;").operands[1] == Imm(0xBF800000, "f32")
    assert one("mov.f64 %rd1, 0d3FF0000000000000;").operands[1] == Imm(0x3FF0000000000000, "f64")
    assert one("mov.f64 %rd1, 1.5;").operands[1] == Imm(0x3FF8000000000000, "f64")


def test_operand_shapes():
    assert one("ld.global.b32 %r1, [%r2+-4];").operands == (Reg("%r1"), Addr(Reg("%r2"), -4))
    assert one("ld.global.b32 %r1, [%r2-4];").operands[1] == Addr(Reg("%r2"), -4)
    assert one("ld.global.u32 %r1, [64];").operands[1] == Addr(None, 64)
    assert one("ld.shared.b32 %r1, [s+12];", before=".shared .b32 s[4];").operands[1] == Addr(Symbol("s"), 12)
    assert one("mov.b32 %r1, s+8;", before=".shared .b32 s[4];").operands[1] == Symbol("s", 8)
    assert one("mov.b64 {_, %r1}, %rd1;").operands[0] == Vector((Sink(), Reg("%r1")))
    assert one("ld.global.v2.b32 {%r1, %r2}, [%r3];").operands[0] == Vector((Reg("%r1"), Reg("%r2")))
    assert one("shfl.sync.down.b32 %r1|%p1, %r2, 2, 7199, -1;").operands == (
        Pair(Reg("%r1"), Reg("%p1")), Reg("%r2"), Imm(2), Imm(7199), Imm(-1))
    assert one("shfl.sync.up.b32 _|%p1, %r2, 2, 0, -1;").operands[0] == Pair(Sink(), Reg("%p1"))
    assert one("selp.b32 %r1, %r2, 5, !%p1;").operands[3] == Reg("%p1", negated=True)
    assert one("mov.u32 %r1, %tid.x;").operands[1] == Special("%tid.x")
    assert one("mov.u32 %r1, %lanemask_lt;").operands[1] == Special("%lanemask_lt")
    assert one("mov.u32 %r1, WARP_SZ;").operands[1] == Special("WARP_SZ")
    assert one("atom.global.add.u32 _, [%r2], 1;").operands[0] == Sink()
    assert one("tex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [t, {%r4}];", before=".global .b64 t;").operands[1] == ArgList(
        (Addr(Symbol("t")), Vector((Reg("%r4"),))))


def test_guards_labels_and_positions():
    k = kernel("@%p1 bra $L__BB0_2;\n  @!%p2 bra.uni $L__BB0_2;\n$L__BB0_2:\nret;")
    yes, no, ret = k.instructions
    assert (yes.guard.reg, yes.guard.negated) == (Reg("%p1"), False)
    assert (no.guard.reg, no.guard.negated, no.modifiers) == (Reg("%p2"), True, ("uni",))
    assert [type(s) for s in k.body] == [Instruction, Instruction, Label, Instruction]
    first = HEADER.count("\n") + 3 + REGS.count("\n") + 1
    assert (yes.pos.line, yes.pos.column, no.pos.line, no.pos.column) == (first, 1, first + 1, 3)
    assert ret.pos.line == first + 3
    assert no.text == "@!%p2 bra.uni $L__BB0_2"


def test_text_of_an_instruction_is_one_line_without_comments():
    i = one("add.s32   %r1,\n   %r2, // first\n  /* and */ 3;")
    assert i.text == "add.s32 %r1, %r2, 3"


@pytest.mark.parametrize(("text", "kind"), [
    ("add.s32 %r1, %r2, 1;", "b32"), ("add.u64 %rd1, %rd2, 1;", "b64"), ("ld.global.u32 %r1, [%r2];", "b32"), ("ld.global.s8 %r1, [%r2];", "s8"),
    ("ld.global.u8 %r1, [%r2];", "b8"), ("st.global.s16 [%r2], %rs1;", "b16"), ("mul.wide.s32 %rd1, %r1, 4;", "s32"), ("mul.hi.u32 %r1, %r2, 4;", "u32"),
    ("mul.lo.u32 %r1, %r2, 4;", "b32"), ("setp.lt.s32 %p1, %r1, 4;", "s32"), ("setp.ne.s32 %p1, %r1, 4;", "b32"), ("shr.s32 %r1, %r2, 1;", "s32"),
    ("min.u32 %r1, %r2, 3;", "u32"), ("cvt.u32.s64 %r1, %rd1;", "s64"), ("xor.pred %p1, %p2, %p3;", "pred"), ("add.sat.s32 %r1, %r1, 1;", "s32"), ("ret;", None),
])
def test_type_drops_a_sign_that_changes_nothing(text, kind):
    i = one(text)
    assert i.type == kind
    assert i.raw_type == (i.types[-1] if i.types else None)


def test_module_variables_and_initialisers():
    module = parse_ptx(HEADER + """
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
.visible .global .align 4 .u32 grid[2][3] = {{1, 2}, {4, -1, 6}};
.extern .shared .align 16 .b8 dynamic[];
.global .u32 plain, other = 7;
.global .align 8 .u64 pointers[2] = {grid, generic(table)+4};
.global .b8 bytes[2] = {0xFF(grid), 0xFF00(grid)};
.global .b16 counted[] = {1, 2, 3};
.global .f32 half = 0f3F000000;
.global .attribute(.managed) .u32 managed;
""")
    g = module.globals
    assert g["table"].space == "const" and g["table"].size == 16 and g["table"].init == bytes([1, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(7)
    numbers = [int.from_bytes(g["grid"].init[i:i + 4], "little") for i in range(0, 24, 4)]
    assert numbers == [1, 2, 0, 4, 2**32 - 1, 6] and g["grid"].dims == (2, 3)
    assert g["dynamic"].is_extern and g["dynamic"].dims == (0,) and g["dynamic"].size == 0 and g["dynamic"].init is None
    assert g["plain"].init is None and g["other"].init == b"\7\0\0\0"
    assert [(a.offset, a.symbol, a.width) for a in g["pointers"].init_addresses] == [
        (0, Symbol("grid"), 8), (8, Symbol("table", 4, generic=True), 8)]
    assert [(a.offset, a.shift) for a in g["bytes"].init_addresses] == [(0, 0), (1, 1)]
    assert (g["counted"].dims, g["counted"].size) == ((3,), 6)
    assert g["half"].init == bytes.fromhex("0000003f")
    assert "managed" in g


def test_variables_in_a_body():
    k = kernel(".shared .align 4 .b8 s[16];\n.local .align 8 .b8 __local_depot0[24];\nmov.b32 %r1, s;\nmov.b32 %r2, __local_depot0;")
    assert k.shared["s"].size == 16
    assert (k.locals["__local_depot0"].size, k.locals["__local_depot0"].align) == (24, 8)


def test_call_sequence_scopes_get_unique_names():
    k = kernel("""
{ // callseq 0
.reg .b32 temp_param_reg;
.param .b32 param0;
.param .b32 retval0;
st.param.b32 [param0+0], %r1;
call.uni (retval0),
f,
(
param0
);
ld.param.b32 %r2, [retval0+0];
}
{
.param .b64 param0;
st.param.b64 [param0], %rd1;
call g, (param0);
}
call h;
""", before=".func (.param .b32 r) f(.param .b32 a);\n.func g(.param .b64 a);\n.extern .func h();")
    assert k.call_params["param0"].size == 4 and k.call_params["param0$1"].size == 8
    calls = [i for i in k.instructions if i.opcode == "call"]
    assert calls[0].operands == (ArgList((Symbol("retval0"),)), Symbol("f"), ArgList((Symbol("param0"),)))
    assert calls[1].operands == (Symbol("g"), ArgList((Symbol("param0$1"),)))
    assert calls[2].operands == (Symbol("h"),)
    assert calls[0].text == "call.uni (retval0), f, ( param0 )"


def test_scoped_labels_and_registers_of_inline_assembly():
    block = "{\n.reg .pred q;\n.reg .b32 t;\nLOOP:\nadd.s32 t, %r1, 1;\nsetp.lt.s32 q, t, 9;\n@q bra LOOP;\n@q bra OUT;\n}\n"
    k = kernel(block + block + "OUT:\nret;")
    labels = [s.name for s in k.body if isinstance(s, Label)]
    assert labels == ["LOOP", "LOOP$1", "OUT"]
    targets = [i.operands[0].name for i in k.instructions if i.opcode == "bra"]
    assert targets == ["LOOP", "OUT", "LOOP$1", "OUT"]
    assert k.regs["t"] == k.regs["t$1"] == "b32"
    assert [i.guard.reg.name for i in k.instructions if i.guard] == ["q", "q", "q$1", "q$1"]


def test_branch_table():
    k = kernel("brx.idx %r1, table;\ntable: .branchtargets A, B, A;\nA:\nret;\nB:\nexit;")
    assert k.branch_targets == {"table": ("A", "B", "A")}
    assert k.instructions[0].operands == (Reg("%r1"), Symbol("table"))


def test_lines_of_the_cuda_source():
    k = parse_ptx(HEADER + """
.visible .entry k()
.maxntid 128, 1, 1
.minnctapersm 2
{
.reg .b32 %r<3>;
mov.b32 %r1, 0;
.loc 1 4 7 // dot.cu:4:7
mov.b32 %r1, 1;
.pragma "nounroll";
.loc 1 0 7
mov.b32 %r1, 2;
.loc 2 90 1, function_name $L__info_string0, inlined_at 1 6 3
mov.b32 %r1, 3;
.loc 1 8 1
mov.b32 %r1, 4;
}
.section .debug_str { $L__info_string0: .b8 97, 98, 0 }
.file 1 "dot \\"x\\".cu"
.file 2 "/include/header.h", 123, 456
""").kernel()
    name = 'dot "x".cu'
    assert [i.cu_line for i in k.instructions] == [None, SourceLine(name, 4), SourceLine(name, 4), SourceLine(name, 6), SourceLine(name, 8)]
    assert k.directives == {"maxntid": (128, 1, 1), "minnctapersm": (2,)}
    assert k.instructions[1].where.startswith(f"{name}:4 (PTX line ")
    assert k.line_map[k.instructions[4].pos.line] == SourceLine(name, 8)


def test_functions():
    module = parse_ptx(HEADER + """
.func (.param .b32 func_retval0) f(.param .b32 a, .param .b64 b) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; st.param.b32 [func_retval0], %r1; ret; }
.extern .func (.param .b32 r) vprintf(.param .b64 x, .param .b64 y);
.func (.reg .u32 out) old(.reg .u32 in) { add.u32 out, in, 1; ret; }
.visible .func stop() .noreturn { trap; }
""")
    f = module.functions["f"]
    assert [p.name for p in f.returns] == ["func_retval0"] and [p.offset for p in f.params] == [0, 8]
    assert module.functions["vprintf"].is_declaration and not module.functions["vprintf"].body
    assert module.functions["old"].regs == {"out": "u32", "in": "u32"}
    assert "noreturn" in module.functions["stop"].directives


WRONG = {
    "no header": ("mov.b32 %r1, 0;", "1:1", "version"),
    "semicolon missing": ("mov.b32 %r1, 0\nret;", None, "expected ','"),
    "undeclared register": ("add.s32 %r1, %r2, %r99;", None, "%r99 is not declared"),
    "undeclared variable": ("mov.b32 %r1, nothing;", None, "nothing is not declared"),
    "no such label": ("bra $L9;", None, "no label \\$L9"),
    "label twice": ("A:\nA:\nret;", None, "stands twice"),
    "register twice": (".reg .b32 %r1;", None, "declared twice"),
    "guard is no predicate": ("@%r1 ret;", None, "no predicate register"),
    "bad type": (".reg .b33 %x;", None, "unknown type .b33"),
    "too many registers": (".reg .b32 %x<4000000000>;", None, "more than"),
    "bad number": ("mov.b32 %r1, 0x1FFFFFFFFFFFFFFFF;", None, "not a number"),
    "bad octal": ("mov.b32 %r1, 09;", None, "not a number"),
    "stray character": ("mov.b32 %r1, `;", None, "unexpected '`'"),
    "open comment": ("ret; /* never", None, "never closed"),
    "open address": ("ld.global.b32 %r1, [%r2;", None, "expected ']'"),
    "body ends early": ("{ ret;", None, "ends too early"),
    "unknown directive": (".nonsense 3;", None, "unknown directive"),
    "too many values": (".shared .b8 s[2] = {1, 2, 3};", None, "more initial values"),
    "variable too large": (".shared .b8 s[99999999999];", None, "too large"),
    "deep parentheses": ("mov.b32 %r1, " + "(" * 5000 + "1" + ")" * 5000 + ";", None, "too deeply nested"),
    "deep scopes": ("{" * 5000, None, "too deeply nested"),
    "division by zero": ("mov.b32 %r1, (1/0);", None, "division by zero"),
    "vector in vector": ("mov.b32 {{%r1}}, 0;", None, "unexpected"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_text_names_the_place(case):
    body, place, message = WRONG[case]
    with pytest.raises(PtxError, match=message) as caught:
        if case == "no header":
            parse_ptx(body, "t.ptx")
        else:
            kernel(body)
    assert caught.value.where.startswith("t.ptx:")
    if place:
        assert caught.value.where == f"t.ptx:{place}"
    assert len(str(caught.value)) < 600


def test_place_of_an_error_is_exact():
    with pytest.raises(PtxError) as caught:
        parse_ptx(HEADER + ".entry k() {\n  .reg .b32 %r<2>;\n\tmov.b32 %r1, %r7;\n}", "x/y.ptx")
    assert caught.value.where == "x/y.ptx:6:15"
    assert "mov.b32 %r1, %r7;" in caught.value.why
