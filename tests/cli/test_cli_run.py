"""`run` and `kernels`: outputs, options, and where the launch comes from. The reference interpreter plays the model."""

import json
from pathlib import Path

import numpy as np
import pytest
from reference_engine import ReferenceEngine

from qgpu.machine.description import ARTICLE
from qgpu.machine.tokens import Token, Vocabulary

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
DOT = KERNELS / "dot.cu"

ADD = """// qgpu: {"block": [3], "args": [{"type": "i32", "data": [1, 2, 3]}, 10]}
__global__ void shift(int *a, int by) { a[threadIdx.x] += by; }
"""
TWO = """// qgpu: {"kernel": "one", "block": [1], "args": [{"type": "i32", "zeros": 1}]}
// qgpu: {"kernel": "two", "block": [1], "args": [{"type": "i32", "zeros": 1}]}
__global__ void one(int *a) { *a = 1; }
__global__ void two(int *a) { *a = 2; }
"""


@pytest.fixture
def add(tmp_path):
    path = tmp_path / "add.cu"
    path.write_text(ADD)
    return path


def test_json_is_one_object_and_nothing_else(qgpu_command):
    status, out, err = qgpu_command("run", DOT, "--check", "--json")
    result = json.loads(out)
    assert status == 0 and out.count("\n") == 1 and err == ""
    assert result["args"] == [[1, 2, 3], [4, 5, 6], [32]]
    assert set(result) == {"kernel", "grid", "block", "machine", "args", "tokens", "seconds", "check"}
    assert (result["kernel"], result["grid"], result["block"], result["machine"]) == ("dot", [1, 1, 1], [4, 1, 1], "article")
    assert result["tokens"]["setup"] > 0 and result["check"] == {"positions": result["tokens"]["generated"], "mismatches": 0}


def test_without_check_the_json_has_null(qgpu_command, add):
    status, out, _ = qgpu_command("run", add, "--json")
    result = json.loads(out)
    assert status == 0 and result["check"] is None and result["args"] == [[11, 12, 13], None]


def test_the_text_for_people(qgpu_command, add):
    status, out, err = qgpu_command("run", add, "--check")
    assert status == 0 and err == ""
    assert "argument 1 (i32): [11, 12, 13]" in out and "argument 2" not in out and "no mismatch" in out


def test_options_override_the_comment(qgpu_command, add):
    _, out, _ = qgpu_command("run", add, "--json", "--block", "2", "--arg", "u32:[1,2,3,4]", "--arg", "-1")
    result = json.loads(out)
    assert result["args"] == [[0, 1, 3, 4], None] and result["block"] == [2, 1, 1]


def test_a_launch_file_replaces_the_comment(qgpu_command, add, tmp_path):
    path = tmp_path / "launch.json"
    path.write_text('{"kernel": "shift", "block": [1], "args": [{"type": "i32", "data": [-5]}, 5]}')
    assert json.loads(qgpu_command("run", add, "--launch", path, "--json")[1])["args"] == [[0], None]


def test_npy_arguments(qgpu_command, add, tmp_path):
    np.save(tmp_path / "a.npy", np.array([7, 8, 9], np.int32))
    _, out, _ = qgpu_command("run", add, "--json", "--arg", f"@{tmp_path / 'a.npy'}", "--arg", "1")
    assert json.loads(out)["args"] == [[8, 9, 10], None]


def test_a_kernel_is_chosen_by_name(qgpu_command, tmp_path):
    path = tmp_path / "two.cu"
    path.write_text(TWO)
    assert json.loads(qgpu_command("run", path, "--kernel", "two", "--json")[1])["args"] == [[2]]
    status, _, err = qgpu_command("run", path)
    assert status == 2 and "2 launch comments" in err and "--kernel" in err


def test_ptx_files_run(qgpu_command, add, tmp_path):
    status, ptx, _ = qgpu_command("run", add, "--emit", "ptx")
    assert status == 0 and ptx.lstrip().startswith("//") or ".version" in ptx
    path = tmp_path / "add.ptx"
    path.write_text(ptx)
    _, out, err = qgpu_command("run", path, "--block", "3", "--arg", "[1,2,3]", "--arg", "4", "--json", "--check")
    assert json.loads(out)["args"] == [[5, 6, 7], None], err


def test_emit_blocks(qgpu_command, add):
    status, out, _ = qgpu_command("run", add, "--emit", "blocks")
    assert status == 0 and out.startswith("b0:") and "ld [" in out and "st [" in out and "add.cu:2" in out


def test_emit_tokens(qgpu_command, add):
    status, out, _ = qgpu_command("run", add, "--emit", "tokens")
    lines = out.splitlines()
    assert status == 0 and "NOP" in lines[0] and "END" in lines[-1] and "the launch ends" in lines[-1]
    assert "-- the model writes from here on --" in lines and any("becomes 12, stored by lane 1" in line for line in lines)


def test_trace(qgpu_command, add, tmp_path):
    path = tmp_path / "out.jsonl"
    status, out, _ = qgpu_command("run", add, "--trace", path, "--json")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    tokens = json.loads(out)["tokens"]
    assert status == 0 and len(records) == tokens["setup"] + tokens["generated"]
    assert sum(r["by"] == "host" for r in records) == tokens["setup"]


def test_machine_description(qgpu_command, add, tmp_path):
    path = tmp_path / "small.toml"
    path.write_text('lanes = 2\nwarps = 2\nglobal_words = 8\n')
    assert json.loads(qgpu_command("run", add, "--machine", path, "--json", "--check")[1])["machine"] == "small"


WIDE = """// qgpu: {"kernel": "wide", "grid": [2], "block": [40], "args": [{"type": "i32", "zeros": 80}], "shared_bytes": 160}
__global__ void wide(int *a)
{
    extern __shared__ int s[];
    s[threadIdx.x] = blockIdx.x;
    __syncthreads();
    a[blockIdx.x * blockDim.x + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x] + threadIdx.x;
}
"""


def test_the_preset_is_chosen_by_what_fits(qgpu_command, add, tmp_path):
    path = tmp_path / "wide.cu"
    path.write_text(WIDE)
    status, out, err = qgpu_command("run", path, "--check", "--json", "--trace", tmp_path / "trace")
    result = json.loads(out)
    assert status == 0 and (result["machine"], result["grid"], result["block"]) == ("default", [2, 1, 1], [40, 1, 1]), err
    assert result["args"] == [[*range(40), *range(1, 41)]] and result["check"]["mismatches"] == 0
    kinds = {json.loads(line)["kind"] for line in (tmp_path / "trace").read_text().splitlines()}
    assert {"GRID", "BLOCK", "INIT", "NEXT", "PARK", "END"} <= kinds
    assert json.loads(qgpu_command("run", add, "--json")[1])["machine"] == "article"
    assert json.loads(qgpu_command("run", add, "--json", "--machine", "default", "--check")[1])["machine"] == "default"
    status, out, _ = qgpu_command("run", path, "--emit", "blocks")
    assert status == 0 and out.startswith("b0:")


def test_shared_bytes_on_the_command_line(qgpu_command, tmp_path):
    path = tmp_path / "wide.cu"
    path.write_text(WIDE.replace(', "shared_bytes": 160', ""))
    assert qgpu_command("run", path, "--check")[0] == 1
    assert qgpu_command("run", path, "--check", "--shared-bytes", "160")[0] == 0


def test_a_structure_by_value(qgpu_command):
    path = KERNELS / "struct_param.cu"
    assert "3: structure of 24 bytes" in qgpu_command("kernels", path)[1]
    status, out, err = qgpu_command("run", path, "--check", "--json")
    assert status == 0 and json.loads(out)["args"][2][:4] == [3, 0, 0, 0], err


def test_kernels(qgpu_command, tmp_path):
    path = tmp_path / "two.cu"
    path.write_text(TWO + "__global__ void three(int *a, unsigned char n) { *a = n; }\n")
    status, out, _ = qgpu_command("kernels", path)
    assert status == 0 and "two(1: array), with a launch comment" in out
    assert "three(1: array, 2: number of 8 bits)\n" in out


def test_a_wrong_token_fails_the_check(qgpu_command, make_engine, add, tmp_path):
    wrong = Vocabulary(ARTICLE).id_of(Token("SVAL", (99,)))
    make_engine(lambda machine, **_: ReferenceEngine(machine, wrong={1: wrong}))
    path = tmp_path / "out.jsonl"
    status, out, err = qgpu_command("run", add, "--check", "--json", "--trace", path)
    assert status == 1 and json.loads(out)["check"]["mismatches"] >= 1
    assert "differ from the reference" in err and "SVAL 99" in err and path.exists()
    assert qgpu_command("run", add)[0] == 0  # nobody asked


def test_a_wrong_word_fails_the_check(qgpu_command, make_engine, add):
    make_engine(lambda machine, **_: ReferenceEngine(machine, wrong_word=(2, 77)))
    status, out, err = qgpu_command("run", add, "--check", "--json")
    assert status == 1 and json.loads(out)["check"]["mismatches"] == 1
    assert "argument 1" in err and "element 2" in err and "77" in err and "13" in err


def test_interruption(qgpu_command, make_engine, add):
    def interrupted(machine, **_):
        raise KeyboardInterrupt
    make_engine(interrupted)
    status, out, err = qgpu_command("run", add)
    assert (status, out, err) == (130, "", "qgpu: interrupted\n")
