"""A recorded launch is accepted, and every forgery of it is found: at the very position where it parts from what was recorded."""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "runtime"), str(ROOT / "engine")]

from engine_machines import SMALL, weights  # noqa: E402
from machine_programs import random_setup  # noqa: E402
from reference_engine import ReferenceEngine  # noqa: E402
from small_machines import continued  # noqa: E402

import qgpu  # noqa: E402
from qgpu.audit.binding import bind, ids_digest, layers_digest, text_digest  # noqa: E402
from qgpu.audit.digest import checkpoint_digest, weights_digest  # noqa: E402
from qgpu.audit.recorded import read_recorded  # noqa: E402
from qgpu.audit.verify import verify  # noqa: E402
from qgpu.compile.export import export_checkpoint  # noqa: E402
from qgpu.errors import CheckError, UsageError  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402
from qgpu.machine.tokens import Vocabulary  # noqa: E402
from qgpu.runtime.launchfile import LaunchSpec  # noqa: E402
from qgpu.runtime.prepare import block_places  # noqa: E402
from qgpu.runtime.source import open_source, to_ptx  # noqa: E402
from qgpu.runtime.trace import write_trace  # noqa: E402

TEXT = """
__global__ void mix(int *out, const int *a, int n)
{
    int i = threadIdx.x, x = a[i];
    for (int k = 0; k < n; k++)
        x = (x & 1) ? 3 * x + i : x >> 1;
    out[i] = x;
}
"""
SOURCE = open_source(TEXT)
ARGS = ([0] * 6, [7, 40, 0x12345, -9, 1 << 30, 27], 5)
V = Vocabulary(ARTICLE)


class Original:
    """An honest trace: its ids, its setup's length, what it is bound to."""

    def __init__(self):
        args = [np.array(a, np.int32) if isinstance(a, list) else a for a in ARGS]
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        result = qgpu.launch(SOURCE, "mix", 1, 6, args, engine=ReferenceEngine(ARTICLE), machine=ARTICLE)
        self.ids, self.setup, self.places = result.tokens, result.setup, block_places(result.program.blocks)
        self.launch = bind(SOURCE, to_ptx(SOURCE), "mix", (1, 1, 1), (6, 1, 1), 0, before, self.ids[:self.setup], layers_digest(ARTICLE))

    def write(self, path, ids=None, setup=None, **changes):
        """A consistent trace of these ids: only what `changes` says of "launch" is other than recorded."""
        write_trace(path, ARTICLE, self.ids if ids is None else ids, self.setup if setup is None else setup, self.places,
                    self.launch | changes)
        return path


@pytest.fixture(scope="module")
def original():
    return Original()


def kind_of(token_id):
    return V.token(token_id).kind


def other_payload(token_id, rng):
    """Another token of the same kind, or any other where the kind has one token only."""
    kind = kind_of(token_id)
    first, count = (V.base[kind], V.counts[kind]) if V.counts[kind] > 1 else (0, V.size)
    return rng.choice([i for i in {rng.randrange(first, first + count) for _ in range(9)} if i != token_id])


# ---- forgeries: (ids, where they first differ) of an honest stream ---------------------------------------------------
def flip(ids, setup, rng):
    at = rng.randrange(setup, len(ids))
    return [*ids[:at], other_payload(ids[at], rng), *ids[at + 1:]]


def swap(ids, setup, rng):
    a, b = sorted(rng.sample(range(setup, len(ids)), 2))
    return [*ids[:a], ids[b], *ids[a + 1:b], ids[a], *ids[b + 1:]]


def drop(ids, setup, rng):
    at = rng.randrange(setup, len(ids))
    return [*ids[:at], *ids[at + 1:]]


def insert(ids, setup, rng):
    at = rng.randrange(setup, len(ids) + 1)
    return [*ids[:at], rng.choice([rng.randrange(V.size), rng.choice(ids[setup:])]), *ids[at:]]


def truncate(ids, setup, rng):
    return ids[:rng.randrange(setup + 1, len(ids))]


def repeat(ids, setup, rng):
    a = rng.randrange(setup, len(ids) - 1)
    b = rng.randrange(a + 1, len(ids))
    return [*ids[:b], *ids[a:b], *ids[b:]]


STREAMS = (flip, swap, drop, insert, truncate, repeat)


def setup_word(kind):
    """Forges one value that the host sends before a token of this kind: an input word (MEM) or a program word (PROG)."""
    def forge(ids, setup, rng):
        at = rng.choice([p for p in range(1, setup) if kind_of(ids[p]) == kind and kind_of(ids[p - 1]) == "SVAL"])
        return [*ids[:at - 1], other_payload(ids[at - 1], rng), *ids[at:]]
    return forge


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def check_stream_forgery(original, path, forge, rng):
    ids = forge(original.ids, original.setup, rng)
    if ids == original.ids:
        return False
    where = first_difference(ids, original.ids)
    with pytest.raises(CheckError) as e:
        verify(original.write(path, ids))
    assert e.value.position == where, (forge.__name__, str(e.value))
    if where < len(original.ids):
        assert e.value.expected == original.ids[where]
        assert str(V.token(original.ids[where])) in e.value.what and "expected: " in e.value.why and "found: " in e.value.why
    return True


def check_setup_forgery(original, path, kind, rng):
    """Found by the digest that the trace names; where that is forged too, by the source, at the token."""
    ids = setup_word(kind)(original.ids, original.setup, rng)
    with pytest.raises(CheckError, match="the setup is not the one that was recorded"):
        verify(original.write(path, ids))
    path = original.write(path, ids, setup_sha256=ids_digest(ids[:original.setup]))
    with pytest.raises(CheckError, match="the setup is not the expected one"):
        verify(path, setup_sha256=original.launch["setup_sha256"])
    with pytest.raises(CheckError) as e:
        verify(path, source=SOURCE)
    assert e.value.position == first_difference(ids, original.ids) and e.value.expected == original.ids[e.value.position]


def some_forgeries(original, tmp_path, count, seed):
    rng, path, done = random.Random(seed), tmp_path / "t.jsonl", 0
    while done < count:
        which = done % (len(STREAMS) + 3)
        if which < len(STREAMS):
            done += check_stream_forgery(original, path, STREAMS[which], rng)
            continue
        if which == len(STREAMS):
            with pytest.raises(CheckError, match="other layers than these"):
                verify(original.write(path, checkpoint=f"{rng.getrandbits(256):064x}"))
        else:
            check_setup_forgery(original, path, ("MEM", "PROG")[which - len(STREAMS) - 1], rng)
        done += 1


def test_forgeries(original, tmp_path):
    some_forgeries(original, tmp_path, 27, 1)


@pytest.mark.slow
def test_two_hundred_forgeries(original, tmp_path):
    some_forgeries(original, tmp_path, 200, 2)


def test_an_honest_trace(original, tmp_path):
    path = original.write(tmp_path / "t.jsonl")
    verdict = verify(path)
    assert (verdict.positions, verdict.generated, verdict.derived) == (len(original.ids), len(original.ids) - original.setup, False)
    assert verdict.speed > 0 and verdict.checkpoint == original.launch["checkpoint"] and verdict.generated > 80
    assert verify(path, source=SOURCE, setup_sha256=original.launch["setup_sha256"].upper()).derived
    launch = LaunchSpec("here", "mix", None, (6, 1, 1), [np.array(a, np.int32) if isinstance(a, list) else a for a in ARGS])
    assert verify(path, source=SOURCE, launch=launch).derived
    recorded = read_recorded(path)
    assert recorded.ids == original.ids and recorded.setup == original.setup
    assert set(recorded.places.values()) <= set(original.places.values())


def test_another_launch_than_the_one_asked_for(original, tmp_path):
    path = original.write(tmp_path / "t.jsonl")
    args = [np.array(a, np.int32) if isinstance(a, list) else a for a in ARGS]
    args[1][2] += 1
    with pytest.raises(CheckError) as e:
        verify(path, source=SOURCE, launch=LaunchSpec("here", "mix", None, (6, 1, 1), args))
    assert e.value.position < original.setup and "(global word 8 (address 544) becomes 74566)" in e.value.why
    with pytest.raises(CheckError):
        verify(path, source=open_source(TEXT.replace("3 * x", "5 * x")))
    with pytest.raises(CheckError, match="says grid 2,1,1") as e:     # the setup is right, what the trace says of it is not
        verify(original.write(path, grid=[2, 1, 1]), source=SOURCE, launch=LaunchSpec("here", "mix", None, (6, 1, 1), [
            np.array(a, np.int32) if isinstance(a, list) else a for a in ARGS]))
    with pytest.raises(CheckError, match="says ptx"):
        verify(original.write(path, ptx=text_digest("")), source=SOURCE)


def test_more_after_the_end(original, tmp_path):
    end = original.ids[-1]
    for extra in ([end], [0], original.ids[original.setup:]):
        with pytest.raises(CheckError) as e:
            verify(original.write(tmp_path / "t.jsonl", [*original.ids, *extra]))
        assert e.value.position == len(original.ids)


def test_records_that_contradict_their_tokens(original, tmp_path):
    path = original.write(tmp_path / "t.jsonl")
    lines = path.read_text().splitlines()
    at = original.setup + 4

    def forged(number, **changes):
        record = json.loads(lines[number]) | changes
        path.write_text("\n".join([*lines[:number], json.dumps(record), *lines[number + 1:]]) + "\n")
        return path

    for changes, says in (({"meaning": "all is well"}, "meaning"), ({"fields": [9, 9]}, "fields"), ({"by": "host"}, "by"),
                          ({"kind": "END"}, "kind"), ({"position": at + 1}, "position"), ({"id": V.size}, "no token"), ({"extra": 1}, "extra")):
        with pytest.raises(CheckError, match=says) as e:
            verify(forged(at, **changes))
        assert e.value.where == f"{path}:{at + 1}"
    with pytest.raises(CheckError, match="by is"):                            # the model's tokens passed off as the host's
        verify(original.write(path, setup=original.setup + 1))
    dropped, repeated = [*lines[:at], *lines[at + 1:]], [*lines[:at], lines[at], *lines[at:]]
    for order in (dropped, repeated, [*lines[:at], lines[at + 1], lines[at], *lines[at + 2:]]):
        path.write_text("\n".join(order) + "\n")
        with pytest.raises(CheckError, match="where [0-9]+ comes next"):
            verify(path)
    path.write_text("\n".join(lines)[:-9])
    with pytest.raises(CheckError, match="not JSON"):
        verify(path)


def test_a_setup_that_no_host_writes(original, tmp_path):
    ids = [*original.ids[:original.setup - 1], V.base["PARK"], *original.ids[original.setup - 1:]]
    setup = original.setup + 1
    with pytest.raises(CheckError, match="no host writes PARK"):
        verify(original.write(tmp_path / "t.jsonl", ids, setup, setup_sha256=ids_digest(ids[:setup])))


def test_what_is_no_trace(original, tmp_path):
    path = tmp_path / "t.jsonl"
    with pytest.raises(UsageError, match="cannot read"):
        verify(path)
    for text, says in (("", "no token"), ("hello\n", "not JSON"), ("[1]\n", "no token's record"), ('{"id": 0}\n', "bound to")):
        path.write_text(text)
        with pytest.raises(UsageError, match=says):
            verify(path)
    original.write(path)
    lines = path.read_text().splitlines()
    for change, says in (({"machine": {"name": "x"}}, "machine is none"), ({"launch": {}}, "no usable 'format'"),
                         ({"launch": original.launch | {"format": 2}}, "format 2"), ({"machine": {"lanes": "4"}}, "machine is none")):
        path.write_text("\n".join([json.dumps(json.loads(lines[0]) | change), *lines[1:]]) + "\n")
        with pytest.raises(UsageError, match=says):
            verify(path)


# ---- checkpoints ----------------------------------------------------------------------------------------------------
def test_against_a_checkpoints_own_files(tmp_path):
    """Prefill by Qwen's forward pass; one digest for the compiled weights and for the files."""
    folder = export_checkpoint(SMALL, tmp_path / "model", compiled=weights(SMALL))
    digest = checkpoint_digest(folder)
    assert digest == weights_digest(weights(SMALL))
    made = random_setup(31, SMALL, 3)
    setup, (ids, ended) = len(made), continued(SMALL, made, 150)
    assert ended
    bound = bind(SOURCE, "", "none", (1, 1, 1), (1, 1, 1), 0, [], ids[:setup], digest)
    path = tmp_path / "t.jsonl"
    write_trace(path, SMALL, ids, setup, None, bound)
    assert verify(path, model=folder).generated == len(ids) - setup
    at = setup + 5
    ids[at] = next(i for i in range(Vocabulary(SMALL).size) if i != ids[at])
    write_trace(path, SMALL, ids, setup, None, bound)
    with pytest.raises(CheckError) as e:
        verify(path, model=folder)
    assert e.value.position == at
    shard = next(folder.glob("model-00001*.safetensors"))                     # one weight changed in the files
    data = bytearray(shard.read_bytes())
    data[-1001] ^= 0x40
    shard.write_bytes(data)
    with pytest.raises(CheckError, match="other layers than these"):
        verify(path, model=folder)
