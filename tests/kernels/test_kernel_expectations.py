"""kernels/: every file has a launch, a rule and a line in docs/kernels.md, and its `expect` is what its rule derives.

No kernel is run here: this holds the launch comments to what the kernels are meant to compute, and to the sizes of the machine
they are meant for.
"""

import importlib.util
import math
import re
from pathlib import Path

import manifest
import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = [pytest.param(kernel, id=kernel.name) for kernel in manifest.KERNELS]
ARTICLE = [pytest.param(kernel, id=kernel.name) for kernel in manifest.KERNELS if kernel.machine == "article"]
KEYS = {"kernel", "grid", "block", "shared_bytes", "args", "expect"}


def words(kernel):
    """32-bit words of the arrays, each starting at a fresh word."""
    sizes = {"8": 4, "16": 2, "32": 1}
    total = 0
    for argument, values in zip(kernel.launch["args"], kernel.arguments()):
        if isinstance(values, list):
            bits = argument["type"][1:]
            total += 2 * len(values) + 1 if bits == "64" else -(-len(values) // sizes[bits])
    return total


def test_every_kernel_has_a_rule_and_every_rule_a_kernel():
    assert manifest.WITHOUT_RULE == [] and manifest.WITHOUT_FILE == []
    assert len(manifest.KERNELS) >= 60 and len(ARTICLE) >= 16
    assert sum(len(group.rules.functions) for group in manifest.GROUPS) == len(manifest.KERNELS)


@pytest.mark.parametrize("kernel", CASES)
def test_launch_comment(kernel):
    launch = kernel.launch
    assert set(launch) <= KEYS and launch["kernel"] == kernel.name
    assert len(launch["grid"]) == len(launch["block"]) == 3
    for argument, values in zip(launch["args"], kernel.arguments(), strict=True):
        if isinstance(values, list):
            low, high = manifest.RANGE[argument["type"]]
            assert all(low <= v < high for v in values)
        else:
            assert -(2**31) <= values < 2**32


@pytest.mark.parametrize("kernel", CASES)
def test_expectation(kernel):
    """The comment lists at least what changes, and what it lists is right."""
    before, after = kernel.arguments(), kernel.expected()
    for argument, old, new, listed in zip(kernel.launch["args"], before, after, kernel.launch["expect"], strict=True):
        assert listed is None or listed == new
        assert listed is not None or new is None or new == old
        if new is not None:
            low, high = manifest.RANGE[argument["type"]]
            assert len(new) == len(old) and all(type(v) is int and low <= v < high for v in new)
    assert any(new is not None and new != old for old, new in zip(before, after)), "the launch changes nothing"


@pytest.mark.parametrize("kernel", ARTICLE)
def test_fits_the_machine_article(kernel):
    launch = kernel.launch
    assert launch["grid"] == [1, 1, 1] and "shared_bytes" not in launch
    assert launch["block"][1:] == [1, 1] and 1 <= launch["block"][0] <= 32
    assert words(kernel) <= 126
    assert {a["type"] for a in launch["args"] if not isinstance(a, int)} <= {"i32", "u32"}


@pytest.mark.parametrize("kernel", CASES)
def test_fits_256_threads_and_4096_words(kernel):
    launch = kernel.launch
    assert math.prod(launch["block"]) <= 256 and math.prod(launch["grid"]) <= 16
    assert words(kernel) <= 1024 and launch.get("shared_bytes", 0) <= 4096


@pytest.mark.parametrize("kernel", CASES)
def test_source(kernel):
    text = kernel.path.read_text(encoding="utf-8")
    assert re.fullmatch(r"[A-Z].*[.]", kernel.summary), "the first comment is a sentence"
    assert text.isascii() and text.endswith("}\n")
    assert all(len(line) <= 130 for line in text.splitlines() if not line.startswith("// qgpu:"))
    assert len(re.findall(r"__global__", text)) == 1


def test_the_table_of_kernels_is_up_to_date():
    spec = importlib.util.spec_from_file_location("kernel_table", ROOT / "tools" / "kernel_table.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8") == tool.table(), "run: python tools/kernel_table.py"


def test_rules_can_tell_wrong_from_right():
    """A rule is a function of the inputs: other inputs, other results."""
    kernel = next(k for k in manifest.KERNELS if k.name == "sha256")
    first, *rest = kernel.arguments()[0]
    assert manifest.hashes.sha256([first ^ 1 << 24, *rest], [])[1] != kernel.expected()[1]
