"""A recorded launch checked against a merged checkpoint: through all its layers, over its whole vocabulary."""

import pytest
from machine_programs import random_setup
from merge_models import TINY
from small_machines import continued

from qgpu.audit.binding import bind, layers_digest
from qgpu.audit.verify import verify
from qgpu.errors import CheckError, CheckpointError
from qgpu.machine.tokens import Vocabulary
from qgpu.runtime.source import open_source
from qgpu.runtime.trace import write_trace


def test_a_merged_checkpoint(tied, tmp_path):
    folder = tied[1].folder
    made = random_setup(41, TINY, 2)
    setup, (ids, ended) = len(made), continued(TINY, made, 200)
    assert ended and len(ids) > setup + 10
    bound = bind(open_source(".version 7.0\n"), "", "none", (1, 1, 1), (1, 1, 1), 0, [], ids[:setup], layers_digest(TINY, folder))
    path = tmp_path / "t.jsonl"
    write_trace(path, TINY, ids, setup, None, bound)
    assert verify(path, model=folder).generated == len(ids) - setup
    at = setup + 3
    forged = [*ids[:at], next(i for i in range(Vocabulary(TINY).size) if i != ids[at]), *ids[at + 1:]]
    write_trace(path, TINY, forged, setup, None, bound)
    with pytest.raises(CheckError) as e:
        verify(path, model=folder)
    assert (e.value.position, e.value.expected) == (at, ids[at])
    with pytest.raises((CheckError, CheckpointError)):
        verify(path, model=tied[0])
