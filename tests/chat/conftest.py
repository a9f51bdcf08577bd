"""Devices for calculations: on the reference interpreter, which is quick, and on the compiled weights; merged models for the chat."""

import functools
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "runtime"), str(HERE.parent / "merge")]

from reference_engine import ReferenceEngine  # noqa: E402
from scripted import merged_base, merged_tiny  # noqa: E402

from qgpu.chat.device import Device  # noqa: E402
from qgpu.machine.description import ARTICLE  # noqa: E402


@pytest.fixture
def device():
    """Calculations on the reference interpreter in the model's place: the host's side alone is judged."""
    return Device(lambda: ReferenceEngine(ARTICLE), check=False)


@functools.cache
def compiled_device():
    from qgpu.engine import make_engine
    return Device(functools.cache(lambda: make_engine(ARTICLE)), check=True)


@pytest.fixture
def circuit():
    """Calculations on the compiled weights of `article`, every launch checked."""
    return compiled_device()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A merged folder whose machine compiles in two seconds; small kernels fit it."""
    return merged_tiny(tmp_path_factory)


@pytest.fixture(scope="session")
def article(tmp_path_factory):
    """A merged folder with the machine `article`, in the layers' shape of a 2B model."""
    from merge_models import ARTICLE_CONFIG
    return merged_base(tmp_path_factory.mktemp("chat_article"), ARTICLE_CONFIG, ARTICLE)
