"""One source gives one set of weights and one signal map, wherever objects lie in memory and however strings are hashed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import hashlib, sys
kept = [bytearray(64 + i % 500) for i in range(int(sys.argv[1]))]       # moves what is allocated after it
sys.path.insert(0, sys.argv[2])
from small_machines import GROUPED
from qgpu.compile.compiler import compile_machine
from qgpu.compile.tensors import Coo
from qgpu.machine.description import ARTICLE
w = compile_machine({"grouped": GROUPED, "article": ARTICLE}[sys.argv[3]]).weights
h = hashlib.sha256(w.packed_map + w.codes.tobytes() + repr((w.code_dims, w.constants, w.reserved)).encode())
for layer in w.layers:
    for name, part in sorted(vars(layer).items()):
        if isinstance(part, Coo):
            h.update(repr((name, part.shape, part.rows, part.cols, part.vals)).encode())
print(h.hexdigest())
"""


@pytest.mark.parametrize("machine", [pytest.param("grouped"), pytest.param("article", marks=pytest.mark.slow)])
def test_hash_seeds_and_addresses_change_nothing(machine):
    generators = Path(__file__).resolve().parents[1] / "generators"
    digests = {subprocess.run([sys.executable, "-c", SCRIPT, str(3000 * seed), str(generators), machine], check=True, capture_output=True,
                              text=True, env={**os.environ, "PYTHONHASHSEED": str(seed)}).stdout for seed in (1, 2)}
    assert len(digests) == 1 and len(digests.pop()) == 65
