"""Reading traces back, and what is said of files that are none."""

import json
import tracemalloc

import numpy as np
import pytest
from monitor_streams import ids_of, trace_of

from qgpu.errors import UsageError
from qgpu.machine.description import ARTICLE, DEFAULT, Machine, as_dict
from qgpu.monitor import traces
from qgpu.monitor.traces import machine_of, read_trace
from qgpu.runtime.trace import write_trace


@pytest.fixture
def written(tmp_path):
    def write(name="loop", change=lambda records: records):
        trace = trace_of(name)
        path = tmp_path / f"{name}.jsonl"
        write_trace(path, trace.machine, trace.ids, trace.setup, trace.places)
        lines = change([json.loads(line) for line in path.read_text().splitlines()])
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path
    return write


@pytest.mark.parametrize("name", ["loop", "barrier", "trap"])
def test_what_was_written_is_read(written, name):
    assert read_trace(written(name)) == trace_of(name) or name == "trap"
    found = read_trace(written(name), ids_of(name)[0])
    assert (found.machine, found.ids, found.setup) == (trace_of(name).machine, trace_of(name).ids, trace_of(name).setup)


def without_machine(records):
    del records[0]["machine"]
    return records


@pytest.mark.parametrize("name", ["loop", "barrier"])
def test_the_presets_are_tried_where_a_trace_names_no_machine(written, name):
    assert read_trace(written(name, without_machine)).machine == ids_of(name)[0]


def test_another_machine(written, tmp_path):
    other = Machine("other", warps=4)
    with pytest.raises(UsageError, match="of machine 'article', not of 'default'"):
        read_trace(written(), DEFAULT)
    with pytest.raises(UsageError, match="is not what machine 'other' calls GRID"):
        read_trace(written(change=without_machine), other)

    def of_default(records):
        records[0]["machine"] = as_dict(DEFAULT)
        return records
    with pytest.raises(UsageError, match="not what machine 'default' calls"):
        read_trace(written(change=of_default))

    def unknown(records):
        for record in without_machine(records):
            record["id"] += 5 * (record["kind"] == "CONFIG")
        return records
    with pytest.raises(UsageError, match="another machine than the presets article, default"):
        read_trace(written(change=unknown))


def edit(at, **keys):
    def change(records):
        records[at].update(keys)
        return records
    return change


@pytest.mark.parametrize("change, message", [
    (lambda r: r[:5] + r[6:], "position 6, where 5 comes next"),
    (lambda r: r[:-3] + r[-2:], "comes next"),
    (lambda r: [], "no token in this trace"),
    (lambda r: [3], "no token's record"),
    (lambda r: [[]], "no token's record"),
    (edit(4, id="x"), "no token's record"),
    (edit(4, id=True), "no token's record"),
    (edit(4, id=10 ** 30), "is not what machine"),
    (edit(4, id=-1), "is not what machine"),
    (edit(4, by="me"), "no token's record"),
    (edit(4, kind="JUMP"), "no token is called 'JUMP'"),
    (edit(4, kind=None), "no token is called"),
    (edit(4, kind="SVAL", fields=[9999]), "is not what machine"),
    (edit(-1, by="host"), "after one of the model's"),
    (edit(0, machine={"name": "m", "lanes": 3}), "the trace's machine is none"),
    (edit(0, machine={"name": "m", "lanes": "4"}), "machine's lanes cannot be"),
    (edit(0, machine={"name": "m", "size": 4}), "no field 'size'"),
    (edit(0, machine=7), "set of fields"),
    (edit(0, machine={"lanes": 4}), "needs a name"),
])
def test_what_is_no_trace(written, change, message):
    with pytest.raises(UsageError, match=message) as caught:
        read_trace(written(change=change))
    assert "loop.jsonl" in caught.value.where


def test_a_file_that_breaks_off_is_read_up_to_there(written):
    path = written()
    data = path.read_bytes()
    path.write_bytes(data[:len(data) - 700])
    found = read_trace(path)
    whole = trace_of("loop")
    assert found.cut and found.ids == whole.ids[:len(found.ids)] and len(whole.ids) - 8 < len(found.ids) < len(whole.ids)
    path.write_bytes(data.replace(b'"kind": "EXEC"', b'"kind": "EX', 1))
    with pytest.raises(UsageError, match="not JSON"):
        read_trace(path)


@pytest.mark.parametrize("data", [b"", b"\0\1\2" * 100, b"\xff\xfe{}", b"[" * 60_000, b"{" + b"x" * 200_000, b"not a trace\n", np.ones(9).tobytes()])
def test_files_of_other_kinds(tmp_path, data):
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(UsageError):
        read_trace(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="cannot read the trace"):
        read_trace(tmp_path / "none")
    with pytest.raises(UsageError, match="cannot read the trace"):
        read_trace(tmp_path)


def test_limits(written, monkeypatch):
    path = written()
    monkeypatch.setattr(traces, "MOST_TOKENS", 100)
    with pytest.raises(UsageError, match="more than 100 tokens"):
        read_trace(path)
    path.write_bytes(b'{"id": ' + b" " * 50_000_000)
    tracemalloc.start()
    with pytest.raises(UsageError, match="too long"):
        read_trace(path)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_machines_by_their_fields():
    for machine in (ARTICLE, DEFAULT, Machine("own", stages=3, stage_mul=(2,))):
        assert machine_of(json.loads(json.dumps(as_dict(machine)))) == machine
