"""Every signal of every layer against the interpreter: right weights differ nowhere, a single wrong weight is found where it is."""

from pathlib import Path

import pytest
from audit_machines import GROUPED, SMALL, random_stream, spot_of, weights, with_change

from qgpu.audit.against import Against, compare_launch, refuse
from qgpu.audit.checkpoint import FileTensors
from qgpu.audit.folder import weights_of
from qgpu.audit.launches import launches_of
from qgpu.audit.signals import SignalMap, map_of
from qgpu.compile.export import export_checkpoint
from qgpu.engine.sparse import SparseEngine
from qgpu.errors import CheckError, CheckpointError, FaultError, UsageError
from qgpu.machine.description import ARTICLE
from qgpu.machine.tokens import Token, Vocabulary

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


def against(w, m=None):
    return Against(SparseEngine(w), m)


@pytest.fixture(scope="module")
def small():
    return against(weights(SMALL))


def compared(a, ids):
    a.begin()
    a.feed(ids)
    return a.result


@pytest.mark.parametrize("seed", range(2))
def test_right_weights_differ_nowhere(small, seed):
    ids, _ = random_stream(SMALL, seed)
    r = compared(small, ids)
    assert r.different == 0 and r.first is None and r.tokens == len(ids)
    values = len(ids) * (len(weights(SMALL).layers) + 1) * SMALL.hidden
    assert r.by_interpreter + r.by_integers + r.empty == values and r.rows > 1000      # every dim of every boundary
    assert r.by_interpreter > r.by_integers > 0


def test_most_signals_mirror_the_machine_s_state(small):
    """Fetched words, operands, carries, results, targets and items by name; wires of multipliers and shifters by integers."""
    r = compared(small, random_stream(SMALL, 1)[0])
    names = small.map.names
    mirrored, wires = ({names[s] for s in part} for part in (r.signals["interpreter"], r.signals["integers"] - r.signals["interpreter"]))
    for name in ("code.kind.EXEC", "record.value31", "front.active1", "front.target1.2", "s1.op_add", "s2.imm5", "s1.a0.7", "s2.b1.31",
                 "s1.l0.add.add.carry8", "s1.l1.compare.compare.order24", "s2.l1.r17", "store.data0.3", "tail.took1", "tail.next.kind.END",
                 "tail.if_both.0", "front.held.fall_1", "s1.l0.holds", "tail.value12"):
        assert name in mirrored, name
    for name in ("s1.l0.shift.shift.u3", "s2.l0.mul.multiply.open5"):
        assert name in wires, name
    assert not {n for n in wires if n.startswith(("code.", "record.chunk", "front.t", "front.h"))}


@pytest.mark.parametrize("name, matrix", [("record.value3", "out"), ("s1.a0.0", "out"), ("front.active0", "z")])
def test_a_wrong_weight_is_located(name, matrix):
    """The unit's output weight loses its sign; or a gate is turned: the first difference is that signal, in that layer."""
    w, m = weights(SMALL), map_of(weights(SMALL))
    layer, head, value, dim = spot_of(m, name)
    unit = head * SMALL.head_dim + value
    z = w.layers[layer - 1].z
    row, col = (dim, unit) if matrix == "out" else (unit, next(c for r, c in zip(z.rows, z.cols) if r == unit))
    bad = against(with_change(w, layer, matrix, row, col, lambda x: -x), m)
    for seed in range(4):
        try:
            r = compared(bad, random_stream(SMALL, seed)[0])
        except FaultError:
            r = bad.result
        if r.first is not None:
            break
    assert r.first is not None and (r.first.layer, r.first.signal, r.first.dim) == (layer, name, dim)
    assert r.first.expected != r.first.found and r.different > 0
    with pytest.raises(CheckError, match=name.replace(".", r"\.")):
        refuse(r)


def test_the_first_difference_names_lane_and_token():
    w, m = weights(SMALL), map_of(weights(SMALL))
    layer, head, value, dim = spot_of(m, "front.active1")
    bad = against(with_change(w, layer, "out", dim, head * SMALL.head_dim + value, lambda x: 2 * x), m)
    first = compared(bad, random_stream(SMALL, 0)[0]).first
    assert (first.lane, first.expected, first.found, first.way) == (1, 1.0, 2.0, "interpreter") and first.token.startswith("EXEC")
    assert "lane 1" in str(first) and "expected 1, found 2" in str(first)


def test_a_dim_that_should_be_empty_is_looked_at():
    """A stray weight writes to a dim that holds nothing there."""
    w, m = weights(SMALL), map_of(weights(SMALL))
    layer, head, value, dim = spot_of(m, "front.run")
    free = next(d for d in range(SMALL.hidden) if d not in {row[0] for row in m.boundaries[layer]} | set(w.constants) | set(w.reserved))
    bad = with_change(w, layer, "out", dim, head * SMALL.head_dim + value, lambda x: x)
    bad.layers[layer - 1].out.put(free, head * SMALL.head_dim + value, 2.0 ** 23)
    first = compared(against(bad, m), random_stream(SMALL, 0)[0]).first
    assert (first.layer, first.dim, first.way, first.signal) == (layer, free, "empty", "no signal")


def test_memory_rows_are_looked_at():
    """A row that is damaged in the recurrent state, never read: only the rows say so."""
    a = against(weights(SMALL))
    ids, _ = random_stream(SMALL, 0)
    a.begin()
    a.feed(ids[:10])
    layer, state = a.where["s1.l0.memory0"]
    a.engine.states[state][7, 2 + 31] = 1
    a.feed(ids[10:11])
    assert a.result.first.way == "row" and a.result.first.layer == layer and "s1.l0.memory0 row 7 bit 31" == a.result.first.signal


def test_a_token_that_cannot_stand_there_is_refused(small):
    small.begin()
    with pytest.raises(FaultError, match="token 3"):
        small.feed([0, 0, 0, Vocabulary(SMALL).id_of(Token("END"))])
    assert small.result.tokens == 3 and small.result.first is None


def test_integers_start_anew_with_every_stream(small):
    ids, _ = random_stream(SMALL, 2)
    assert compared(small, ids).as_dict() == compared(small, ids).as_dict()


def test_batches_do_not_matter(small, monkeypatch):
    """Taps look back over the border of a batch."""
    ids, _ = random_stream(SMALL, 3)
    whole = compared(small, ids)
    monkeypatch.setattr("qgpu.audit.against.BATCH", 23)
    split = compared(small, ids)
    assert split.different == 0 and (split.by_interpreter, split.by_integers, split.empty) == (whole.by_interpreter, whole.by_integers, whole.empty)


def test_foreign_maps_are_refused():
    data = map_of(weights(SMALL)).data
    with pytest.raises(CheckpointError, match="no signal map"):
        SignalMap({**data, "format": 99})
    with pytest.raises(CheckpointError, match="damaged"):
        SignalMap({k: v for k, v in data.items() if k != "layers"})


def test_a_file_without_a_launch_is_refused(tmp_path):
    (tmp_path / "bare.cu").write_text("__global__ void f() {}\n")
    with pytest.raises(UsageError, match="no launch comment"):
        next(launches_of(tmp_path / "bare.cu"))


@pytest.mark.slow
def test_a_folder_s_own_tensors_are_run(tmp_path):
    """An export differs nowhere; one bf16 number changed in its file is found."""
    folder = export_checkpoint(SMALL, tmp_path / "out", compiled=weights(SMALL))
    ids, _ = random_stream(SMALL, 0)
    w, m = weights_of(folder)
    assert compared(against(w, m), ids).different == 0
    layer, head, value, dim = spot_of(m, "s1.a0.0")
    path, _, _, at, _ = FileTensors(folder).entries[f"model.layers.{layer - 1}.linear_attn.out_proj.weight"]
    with open(path, "r+b") as f:
        f.seek(at + 2 * (dim * SMALL.heads * SMALL.head_dim + head * SMALL.head_dim + value) + 1)
        sign = f.read(1)[0]
        f.seek(-1, 1)
        f.write(bytes([sign ^ 0x80]))
    w, m = weights_of(folder)
    first = compared(against(w, m), ids).first
    assert (first.layer, first.signal) == (layer, "s1.a0.0")
    (folder / "model-00001-of-00004.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(CheckpointError):
        weights_of(folder)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_groups_classes_and_shared_memory(seed):
    ids, _ = random_stream(GROUPED, seed, 200)
    r = compared(against(weights(GROUPED)), ids)
    assert r.different == 0 and r.by_interpreter + r.by_integers + r.empty == len(ids) * (len(weights(GROUPED).layers) + 1) * GROUPED.hidden


@pytest.mark.slow
def test_the_ptx_line_of_a_difference():
    """A launch of the article machine whose stage 4 is told to add with -1: the first difference names block, stage and line."""
    w, m = weights(ARTICLE), map_of(weights(ARTICLE))
    ready = next(launches_of(KERNELS / "dot.cu", ARTICLE))
    layer, head, value, dim = spot_of(m, "s4.op_add")
    bad = against(with_change(w, layer, "out", dim, head * ARTICLE.head_dim + value, lambda x: -x), m)
    first = compare_launch(bad, ready, 100).first
    assert (first.layer, first.signal, first.expected, first.found) == (layer, "s4.op_add", 1, -1)
    assert "stage 4" in first.place and "dot.cu:" in first.place and "PTX line" in first.place
