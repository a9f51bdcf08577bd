"""The trace says what each token means; its bookkeeping is held to the reference interpreter's state."""

import json

import numpy as np
import pytest
from reference_engine import ReferenceEngine

import qgpu
from qgpu.errors import UsageError
from qgpu.machine.description import ARTICLE, DEFAULT
from qgpu.machine.encoding import Block, Instruction, Register, Result, Source, encode
from qgpu.machine.tokens import Token, Vocabulary
from qgpu.runtime.setup import setup_tokens
from qgpu.runtime.trace import Narrator, records, write_trace
from qgpu.runtime.whereabouts import whereabouts
from qgpu_reference.machine import MachineInterpreter

BASE = ARTICLE.global_base
# Block 0: r1 = 4 * tid + base; r2 = [r1]; bit 0 of r2 branches to block 1, else block 2.
# Block 1: [r1] = r2 * -1000, then block 2. Block 2: exit.
PROGRAM = (
    Block((Instruction(frozenset({"shl"}), Source.TID, Source.IMMEDIATE, immediate=2),
           Instruction(frozenset({"add"}), Result(1), Source.IMMEDIATE, immediate=BASE),
           Instruction(frozenset({"add", "ld"}), Result(2)),
           Instruction(frozenset({"add"}), Result(3))), (0, 1, 2, 0), 2, 1, True),
    Block((None, Instruction(frozenset({"mul"}), Register(2), Source.IMMEDIATE, immediate=-1000 & 0xFFFFFFFF),
           Instruction(frozenset({"add", "st"}), Register(1), c=Result(2))), (0, 0, 0), 2),
    Block((), (), ARTICLE.exit_target),
)


@pytest.fixture(scope="module")
def stream():
    setup = setup_tokens(ARTICLE, {b: encode(ARTICLE, block) for b, block in enumerate(PROGRAM)}, (1, 1, 1), 5,
                         dict(enumerate([3, 4, 5000, 7, 8])))
    return setup + MachineInterpreter(ARTICLE).run(setup), len(setup)


def test_meanings(stream):
    ids, setup = stream
    found = list(records(ARTICLE, ids, setup, {1: "k.cu:9"}))
    assert [r["position"] for r in found] == list(range(len(ids))) and [r["id"] for r in found] == ids
    assert [r["by"] for r in found] == ["host"] * setup + ["model"] * (len(ids) - setup)
    text = [r["meaning"] for r in found]
    for expected in (
            "a value = 5000", "global word 2 (address 520) becomes 5000", "5 threads in 2 warps, 1 of them in the last",
            "warp 0 starts, threads 0 to 3",
            "the grid has 1 thread blocks along y", "the thread block's index along z becomes 0", "block 0 runs for lanes 0, 1, 2, 3 of warp 0",
            "stage 2 result of lane 1 (thread 1), register r1 = 516", "stage 3 result of lane 2 (thread 2), register r2 = 5000",
            "block 1 runs for lanes 0, 3 of warp 0, k.cu:9; lanes 1, 2 go on to block 2; lanes 0, 3 branch to block 1",
            "bits 0 to 10 of store data of lane 3 (thread 3); more follow",
            "store data of lane 3 (thread 3) = -7000 (0xffffe4a8)", "global word 3 (address 524) becomes -7000 (0xffffe4a8), stored by lane 3",
            "warp 1 starts, threads 4 to 4", "block 0 runs for lane 0 of warp 1", "warp 1 ends; lane 0 goes on to the exit", "the launch ends"):
        assert expected in text, expected
    assert not any("out of place" in t for t in text)


def test_every_register_value_is_the_interpreters(stream):
    ids, setup = stream
    judge = MachineInterpreter(ARTICLE)
    seen = 0
    for record in records(ARTICLE, ids, setup):
        judge.feed(record["id"])
        if ", register r" in record["meaning"] and record["kind"] == "SVAL":
            head, value = record["meaning"].split(" = ")
            register, lane = int(head.split(" r")[-1]), int(head.split("lane ")[1].split()[0])
            assert judge.registers[judge.warp][judge.group][lane][register] == int(value.split()[0]) & 0xFFFFFFFF
            seen += 1
    assert seen == 10


WARPS = """
__global__ void warps(int *a, const int *b)
{
    __shared__ int s[40];
    int i = threadIdx.x, block = blockIdx.x + 2 * blockIdx.z;
    if (i == 39) return;
    s[i] = b[i] + block;
    __syncthreads();
    unsigned even = __ballot_sync(__activemask(), !(s[38 - i] & 1));
    a[39 * block + i] = (i & 1) ? s[38 - i] * 3 : (int)even;
}
"""


@pytest.fixture(scope="module")
def whole():
    """A launch on the machine `default`: partial warp, barrier, shared memory, ballot, several blocks."""
    a = np.zeros(4 * 39, np.int32)
    return qgpu.launch(WARPS, None, (2, 1, 2), 40, [a, np.arange(40, dtype=np.int32) ** 2], machine=DEFAULT,
                       engine=ReferenceEngine(DEFAULT), check=True)


def test_the_narrator_knows_the_interpreters_state(whole):
    judge, narrator, vocabulary = MachineInterpreter(DEFAULT), Narrator(DEFAULT), Vocabulary(DEFAULT)
    for position, token in enumerate(whole.tokens):
        judge.feed(token)
        text = narrator.meaning(vocabulary.token(token))
        assert "out of place" not in text
        if position >= whole.setup:
            assert (narrator.warp, narrator.group, narrator.index) == (judge.warp, judge.group, judge.index)
            if narrator.block is not None:
                assert narrator.targets[narrator.warp] == judge.targets[judge.warp]
        if position % 100 == 99 and judge.running:
            at = whereabouts(DEFAULT, whole.tokens[:position + 1])
            assert (at.index, at.warp) == (tuple(judge.index), judge.warp) or not position >= whole.setup
            if at.block is not None:
                assert (at.block, at.group) == (judge.block, judge.group)
    assert narrator.grid == [2, 1, 2] and not narrator.running


def test_meanings_on_the_whole_machine(whole):
    text = [r["meaning"] for r in records(DEFAULT, whole.tokens, whole.setup)]
    for expected in (
            "40 threads in 2 warps, 8 of them in the last", "the grid has 2 thread blocks along z", "warp 0 starts, threads 0 to 3",
            "group 7 of warp 0 starts, threads 28 to 31", "group 2 of warp 1 starts, no thread", "warp 0 waits at the barrier",
            "warp 1 starts, threads 32 to 35; a warp before it waits at a barrier", "warp 0 goes on",
            "the next thread block's index along x = 1", "the thread block's index along x becomes 1",
            "the next thread block's index along y = 0", "the thread block's index along z becomes 1", "the launch ends"):
        assert any(t == expected or t.startswith(expected + ";") for t in text), expected
    for part in ("of group 3 of warp 0", "lane 2 of group 1 (thread 38)", "shared word 38 (address 32920) becomes", ", stored by lane 3",
                 "vote 1 and go on to block", "votes 1 and goes on to block", "of group 1 go on to the exit"):
        assert any(part in t for t in text), part


def test_streams_that_break_the_rules_are_described(stream):
    ids, setup = stream
    vocabulary = Vocabulary(ARTICLE)
    bad = ids[:setup] + [vocabulary.id_of(t) for t in (
        Token("SVAL", (5,)), Token("MEM", (3,)), Token("EXEC", (31, (2, 2, 2, 2))), Token("TRAP"), Token("END"))]
    text = [r["meaning"] for r in records(ARTICLE, bad, setup)][setup:]
    assert "out of place" in text[0] and "out of place" in text[1] and "no lane" in text[2]


def test_the_file_is_complete_or_absent(stream, tmp_path):
    ids, setup = stream
    path = tmp_path / "trace.jsonl"
    write_trace(path, ARTICLE, ids, setup)
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ids
    with pytest.raises(UsageError, match="outside the machine's vocabulary"):
        write_trace(tmp_path / "bad.jsonl", ARTICLE, [*ids, -1], setup)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.jsonl"]
    with pytest.raises(UsageError, match="cannot write the trace"):
        write_trace(tmp_path / "no" / "trace.jsonl", ARTICLE, ids, setup)
    with pytest.raises(UsageError, match="not a file"):
        write_trace(tmp_path, ARTICLE, ids, setup)
