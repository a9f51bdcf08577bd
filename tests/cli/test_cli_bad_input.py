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
    "unknown type": (GOOD, ("--block", "4", "--arg", "f32:[1]", *B, *N), 2, ["--arg 1", "unknown array type 'f32'", "i32"]),
    "no block": (GOOD, LAUNCH[2:], 2, ["no block size", "--block"]),
    "block too large": (GOOD, (*LAUNCH, "--block", "33"), 2, ["block of 33 threads", "32 threads"]),
    "block of zero": (GOOD, (*LAUNCH, "--block", "0"), 2, ["--block", "at least 1"]),
    "block of words": (GOOD, (*LAUNCH, "--block", "four"), 2, ["--block", "not a size"]),
    "several blocks": (GOOD, (*LAUNCH, "--grid", "2"), 2, ["grid", "1,1,1"]),
    "array too large": (GOOD, ("--block", "4", "--arg", "zeros(127)", *B, *N), 2, ["131 words", "126"]),
    "huge array": (GOOD, ("--block", "4", "--arg", "zeros(999999999999)", *B, *N), 2, ["--arg 1", "impossible"]),
    "missing npy": (GOOD, ("--block", "4", "--arg", "@no.npy", *B, *N), 2, ["--arg 1", "no.npy", "no such file"]),
    "floating point": ("float x = b[i]; a[i] = x * 1.5f;", LAUNCH, 1, ["bad.cu:1", "cvt"]),
    "shared memory": ("__shared__ int s[4]; s[i] = b[i]; __syncthreads(); a[i] = s[3 - i];", LAUNCH, 1, ["shared"]),
    "atomics": ("atomicAdd(a, b[i]);", LAUNCH, 1, ["bad.cu:1", "atom"]),
    "bytes in memory": ("((char *)a)[i] = b[i];", LAUNCH, 1, ["bad.cu:1", "st"]),
    "endless loop": ("while (b[i] != 0) a[i] += 1;", (*LAUNCH, "--max-tokens", "500"), 1,
                     ["did not end within 500", "bad.cu:1", "--max-tokens"]),
    "out of bounds": ("a[i + 1000] = 1;", LAUNCH, 1, ["bad.cu:1", "out of bounds", "thread (0, 0, 0)", "3984 bytes past the end of the array of argument 0"]),
    "misaligned": ("*(int *)((char *)a + 1 + 4 * i) = 1;", LAUNCH, 1, ["bad.cu:1", "misaligned", "thread (0, 0, 0)"]),
    "null": ("*(int *)(b[i] - i - 5) = 1;", LAUNCH, 1, ["bad.cu:1", "at 0x0", "thread (0, 0, 0)"]),
    "into the next array": ("a[i + 4] = 1;", (*LAUNCH, "--check"), 1, ["bad.cu:1", "out of bounds", "thread (0, 0, 0)"]),
    "include": ("a[i] = 1; }\n#include \"/etc/passwd\"\nvoid f() {", LAUNCH, 1, ["bad.cu:2", "header"]),
    "front-end": (GOOD, (*LAUNCH, "--frontend", "gcc"), 1, ["no front-end is called 'gcc'", "zig"]),
    "machine": (GOOD, (*LAUNCH, "--machine", "big"), 2, ["--machine", "article"]),
    "machine file": (GOOD, (*LAUNCH, "--machine", "no.toml"), 2, ["no.toml", "cannot read"]),
    "launch file": (GOOD, ("--launch", "no.json"), 2, ["no.json", "no such launch file"]),
    "emit and json": (GOOD, (*LAUNCH, "--emit", "blocks", "--json"), 2, ["--emit", "--json"]),
    "unknown option": (GOOD, (*LAUNCH, "--fast"), 2, ["--fast"]),
    "token limit": (GOOD, (*LAUNCH, "--max-tokens", "0"), 2, ["--max-tokens", "at least 1"]),
    "trace into nowhere": (GOOD, (*LAUNCH, "--trace", "no/such/folder/x"), 2, ["cannot write the trace"]),
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
    "shared.cu": (b'// qgpu: {"block": [1], "shared_bytes": 64}\n__global__ void k() {}\n', 2, ["shared memory"]),
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
