"""Bad input: every case ends in a message that names the place and what to change, and in its exit status."""

import pytest

KERNEL = "__global__ void add(int *a, const int *b, int n) {{ int i = threadIdx.x; {body} }}\n"
GOOD = "if (i < n) a[i] += b[i];"
LAUNCH = ("--block", "4", "--arg", "[1,2,3,4]", "--arg", "[5,6,7,8]", "--arg", "4")
A, B, N = (("--arg", value) for value in ("[1,2,3,4]", "[5,6,7,8]", "4"))

# body, options, exit status, what the message says
CASES = {
    "syntax error": ("a[i] = ;", LAUNCH, 1, ["bad.cu:1", "expected expression"]),
    "unknown name": ("a[i] = c[i];", LAUNCH, 1, ["bad.cu:1", "undeclared identifier"]),
    "unknown kernel": (GOOD, ("--kernel", "sub", *LAUNCH), 2, ["no kernel named sub", "add"]),
    "too few arguments": (GOOD, ("--block", "4", *A, *B), 2, ["takes 3 arguments, and 2 are given", "--arg"]),
    "too many arguments": (GOOD, (*LAUNCH, "--arg", "1"), 2, ["takes 3 arguments, and 4 are given"]),
    "number for array": (GOOD, ("--block", "4", "--arg", "1", *B, *N), 2, ["argument 1 of add", "takes an array"]),
    "array for number": (GOOD, ("--block", "4", *A, *B, *B), 2, ["argument 3 of add", "takes a number"]),
    "float": (GOOD, ("--block", "4", *A, *B, "--arg", "4.0"), 2, ["--arg 3", "'4.0' is not an integer"]),
    "float in array": (GOOD, ("--block", "4", "--arg", "[1.5]", *B, *N), 2, ["--arg 1", "'1.5' is not an integer"]),
    "value beyond type": (GOOD, ("--block", "4", "--arg", "u8:[256]", *B, *N), 2, ["--arg 1", "u8 cannot hold"]),
    "value beyond parameter": (GOOD, ("--block", "4", *A, *B, "--arg", "5000000000"), 2, ["argument 3 of add", "does not fit"]),
    "wide array for long": ("} __global__ void wide(long *p) { *p += 1;", ("--kernel", "wide", "--block", "1", "--arg", "i64:[5]"), 2,
                            ["argument 1 of wide", "array of long", "32 bits", "long long"]),
    "unknown type": (GOOD, ("--block", "4", "--arg", "f32:[1]", *B, *N), 2, ["--arg 1", "unknown array type 'f32'", "i32"]),
    "no block": (GOOD, LAUNCH[2:], 2, ["no block size", "--block"]),
    "block too large": (GOOD, (*LAUNCH, "--block", "257"), 2, ["fits none of the machines article, default", "article: a block of 257 threads",
                                                               "8 warps of 4 lanes", "default: a block of 257", "8 warps of 32 lanes"]),
    "block too large for article": (GOOD, (*LAUNCH, "--block", "33", "--machine", "article"), 2, ["block of 33 threads", "32 threads"]),
    "block of zero": (GOOD, (*LAUNCH, "--block", "0"), 2, ["--block", "at least 1", "write 4,1,1"]),
    "block of words": (GOOD, (*LAUNCH, "--block", "four"), 2, ["--block", "not a size"]),
    "grid too large": (GOOD, (*LAUNCH, "--grid", "2,1025"), 2, ["grid of 2,1025,1 is too large", "1024 thread blocks"]),
    "array too large": (GOOD, ("--block", "4", "--arg", "zeros(4096)", *B, *N), 2, ["article: the arrays need 4100 words", "126",
                                                                                    "default: the arrays need 4100 words", "4096"]),
    "array too large for article": (GOOD, ("--machine", "article", "--block", "4", "--arg", "zeros(127)", *B, *N), 2, ["131 words", "126"]),
    "structure": ("} struct S { int x, y; }; __global__ void two(S s, int *a) { *a = s.y;",
                  ("--kernel", "two", "--block", "1", "--arg", "[1]", "--arg", "[1]"), 2, ["argument 1 of two", "structure of 8 bytes", "array of 4 bytes"]),
    "huge array": (GOOD, ("--block", "4", "--arg", "zeros(999999999999)", *B, *N), 2, ["--arg 1", "impossible"]),
    "missing npy": (GOOD, ("--block", "4", "--arg", "@no.npy", *B, *N), 2, ["--arg 1", "no.npy", "no such file"]),
    "floating point": ("float x = b[i]; a[i] = x * 1.5f;", LAUNCH, 1, ["bad.cu:1", "cvt"]),
    "shared memory": ("__shared__ int s[4]; s[i] = b[i]; __syncthreads(); a[i] = s[3 - i];", (*LAUNCH, "--machine", "article"), 2,
                      ["16 bytes of shared memory", "article"]),
    "too much shared memory": ("__shared__ int s[1025]; s[i] = b[i]; __syncthreads(); a[i] = s[3 - i];", LAUNCH, 2,
                               ["4100 bytes of shared memory", "default", "4096"]),
    "dynamic shared memory": ("extern __shared__ int s[]; s[i] = b[i]; __syncthreads(); a[i] = s[3 - i];", (*LAUNCH, "--shared-bytes", "4100"), 2,
                              ["4100 bytes of shared memory", "default"]),
    "no shared memory": ("extern __shared__ int s[]; s[i] = b[i]; __syncthreads(); a[i] = s[3 - i];", (*LAUNCH, "--check"), 1,
                         ["bad.cu:1", "out of bounds", "kernel add, block (0, 0, 0), thread (0, 0, 0)"]),
    "uninitialised shared memory": ("__shared__ int s[8]; s[i] = b[i]; __syncthreads(); a[i] = s[i + 4];", (*LAUNCH, "--check"), 1, ["bad.cu:1", "uninitialised"]),
    "wide vote": ("a[i] = __ballot_sync(~0u, b[i]);", (*LAUNCH, "--block", "8", "--machine", "article"), 1, ["bad.cu:1", "warp", "4 lanes"]),
    "lost threads": ("if (i) __syncthreads(); else while (((volatile int *)a)[0] == 1); a[i] = 1;", (*LAUNCH, "--max-tokens", "4000", "--check"),
                     1, ["bad.cu:1", "did not end within 4,000", "endless loop"]),
    "race in shared memory": ("__shared__ int s[4]; s[i] = b[i]; a[i] = s[i ^ 1];", (*LAUNCH, "--race-check"), 1,
                              ["bad.cu:1", "race: shared 4-byte", "kernel add, block (0, 0, 0), thread (", "no barrier lies between"]),
    "race of two blocks": ("a[i] += b[i];", (*LAUNCH, "--grid", "2", "--race-check"), 1,
                           ["bad.cu:1", "race: global 4-byte", "block (1, 0, 0), thread (0, 0, 0)", "thread blocks run in any order"]),
    "divergent barrier": ("if (i & 1) __syncthreads(); else { a[i] = 1; __syncthreads(); a[i] = 2; }", (*LAUNCH, "--check"), 1,
                          ["bad.cu:1", "barrier"]),
    "endless loop": ("while (b[i] != 0) a[i] += 1;", (*LAUNCH, "--max-tokens", "500"), 1,
                     ["did not end within 500", "bad.cu:1", "--max-tokens"]),
    "out of bounds": ("a[i + 1000] = 1;", LAUNCH, 1, ["bad.cu:1", "out of bounds", "kernel add, block (0, 0, 0), thread (0, 0, 0)", "3984 bytes past the end of the array of argument 1"]),
    "out of bounds in a later block": ("if (blockIdx.y) a[i + 5000] = 1;", (*LAUNCH, "--grid", "1,2"), 1,
                                       ["bad.cu:1", "out of bounds", "block (0, 1, 0), thread (0, 0, 0)"]),
    "misaligned": ("*(int *)((char *)a + 1 + 4 * i) = 1;", LAUNCH, 1, ["bad.cu:1", "misaligned", "thread (0, 0, 0)"]),
    "null": ("*(int *)(b[i] - i - 5) = 1;", LAUNCH, 1, ["bad.cu:1", "at 0x0", "thread (0, 0, 0)"]),
    "into the next array": ("a[i + 4] = 1;", (*LAUNCH, "--check"), 1, ["bad.cu:1", "out of bounds", "thread (0, 0, 0)"]),
    "include": ("a[i] = 1; }\n#include \"/etc/passwd\"\nvoid f() {", LAUNCH, 1, ["bad.cu:2", "header"]),
    "front-end": (GOOD, (*LAUNCH, "--frontend", "gcc"), 2, ["no front-end is called 'gcc'", "zig"]),
    "machine": (GOOD, (*LAUNCH, "--machine", "big"), 2, ["--machine", "article"]),
    "machine file": (GOOD, (*LAUNCH, "--machine", "no.toml"), 2, ["no.toml", "cannot read"]),
    "launch file": (GOOD, ("--launch", "no.json"), 2, ["no.json", "no such launch file"]),
    "emit and json": (GOOD, (*LAUNCH, "--emit", "blocks", "--json"), 2, ["--emit", "--json"]),
    "emit and check": (GOOD, (*LAUNCH, "--emit", "ptx", "--check", "--trace", "t"), 2, ["--emit ptx runs nothing", "--check and --trace"]),
    "unknown option": (GOOD, (*LAUNCH, "--fast"), 2, ["--fast"]),
    "token limit": (GOOD, (*LAUNCH, "--max-tokens", "0"), 2, ["--max-tokens", "at least 1"]),
    "trace into nowhere": (GOOD, (*LAUNCH, "--trace", "no/such/folder/x"), 2, ["no/such/folder/x: cannot write the trace", "no such folder"]),
    "model folder": (GOOD, (*LAUNCH, "--model", "no/such"), 2, ["no/such: there is no such folder", "qgpu export"]),
    "full without a model": (GOOD, (*LAUNCH, "--full"), 2, ["--full", "--model DIR"]),
    "launch comment of another kernel": ('} // \n// qgpu: {"kernel": "add", "block": [4]}\nvoid f() {', ("--kernel", "sub"), 2,
                                         ["no block size", "for add, not for sub"]),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_launches(qgpu_command, tmp_path, monkeypatch, name):
    body, options, wanted, says = CASES[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.cu").write_text(KERNEL.format(body=body))
    status, out, err = qgpu_command("run", "bad.cu", *options)
    assert status == wanted, err
    for text in says:
        assert text in err, err
    assert out == "" and len(err.splitlines()) <= 30


FILES = {
    "empty.cu": (b"", 2, ["no kernel"]),
    "no_kernel.cu": (b"int f() { return 1; }\n", 2, ["no kernel"]),
    "binary.cu": (bytes(range(256)), 2, ["binary.cu", "UTF-8"]),
    "broken.ptx": (b".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry k() { add.s32 %r1 }\n", 1, ["broken.ptx", "4"]),
    "not.ptx": (b"hello\n", 1, ["not.ptx"]),
    "comment.cu": (b'// qgpu: {"block": [1}\n__global__ void k() {}\n', 2, ["comment.cu:1", "launch comment"]),
    "key.cu": (b'// qgpu: {"blocks": [1]}\n__global__ void k() {}\n', 2, ["key.cu:1", "unknown key 'blocks'"]),
    "shared.cu": (b'// qgpu: {"block": [1], "shared_bytes": -64}\n__global__ void k() {}\n', 2, ["shared.cu:1", "shared_bytes"]),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files(qgpu_command, tmp_path, monkeypatch, name):
    content, wanted, says = FILES[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    status, out, err = qgpu_command("run", name, *(() if b"qgpu:" in content else ("--block", "1")))
    assert status == wanted, err
    assert all(text in err for text in says) and out == "", err


@pytest.mark.parametrize("file", ["missing.cu", ".", "", "bad\0name.cu"])
def test_bad_paths(qgpu_command, tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    for command in ("run", "kernels"):
        status, out, err = qgpu_command(command, file)
        assert status == 2 and out == "" and err.startswith("qgpu: ")


@pytest.mark.parametrize("words", [(), ("fly",), ("run",), ("run", "x.cu", "--engine", "torch"), ("run", "x.cu", "--arg")])
def test_bad_commands(qgpu_command, words):
    status, out, err = qgpu_command(*words)
    assert status == 2 and out == "" and "usage:" in err


def test_an_unknown_option_is_refused_beside_its_commands_usage(qgpu_command):
    status, out, err = qgpu_command("run", "x.cu", "--chek")
    assert status == 2 and out == "" and "unrecognized arguments: --chek" in err and "usage: qgpu run" in err and "--check" in err
    status, out, err = qgpu_command("--check", "run", "x.cu")
    assert status == 2 and out == "" and "unrecognized arguments: --check; options stand behind the command: qgpu run" in err


def test_a_trace_that_has_no_folder_is_refused_before_the_launch(qgpu_command, make_engine, tmp_path):
    (tmp_path / "k.cu").write_text(KERNEL.format(body=GOOD))
    make_engine(lambda machine, **_: pytest.fail("the launch has begun"))
    status, _, err = qgpu_command("run", tmp_path / "k.cu", *LAUNCH, "--trace", tmp_path / "no" / "t.jsonl")
    assert status == 2 and "no such folder" in err
