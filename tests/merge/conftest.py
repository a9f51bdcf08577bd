"""Merged models that several test files look at, made once; a circuit is compiled once for each choice of dims."""

import functools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from merge_models import CONFIG, TINY, make_base  # noqa: E402

from qgpu.merge import build, merge  # noqa: E402

build.compile_placed = functools.cache(build.compile_placed)


@pytest.fixture(scope="session")
def tied(tmp_path_factory):
    """(base folder, MergeResult): tied head, one row of zeros, a tokenizer."""
    root = tmp_path_factory.mktemp("tied")

    def blank(tensors):
        tensors["model.embed_tokens.weight"][33] = 0

    base = make_base(root / "base", tokenizer=True, edit=blank)
    return base, merge(base, root / "merged", TINY)


@pytest.fixture(scope="session")
def multimodal(tmp_path_factory):
    """(base folder, MergeResult): the release's layout in three shards, a head of its own."""
    import dataclasses
    root = tmp_path_factory.mktemp("multimodal")
    base = make_base(root / "base", dataclasses.replace(CONFIG, tie_word_embeddings=False), multimodal=True, shards=3)
    return base, merge(base, root / "merged", TINY)
