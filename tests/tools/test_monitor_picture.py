"""The README's picture can be made: a real launch, drawn."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import monitor_picture  # noqa: E402


def words(path):
    """The picture's text."""
    return "".join("".join(node.itertext()) for node in ElementTree.parse(path).iter() if node.tag.endswith("text")).replace("\xa0", " ")


@pytest.mark.slow
def test_the_picture_is_of_a_launch(tmp_path):
    path = tmp_path / "panel.svg"
    assert monitor_picture.main([str(path)]) == 0
    text = words(path)
    assert "collatz on article" in text and re.search(r">w0 runs +b1 +oo##", text) and "set.ne" in text


def test_the_readmes_picture_is_one():
    path = monitor_picture.HERE / "docs" / "monitor.svg"
    text = words(path)
    assert "docs/monitor.svg" in (monitor_picture.HERE / "README.md").read_text(encoding="utf-8")
    assert "collatz on article" in text and "scheduler" in text and "token stream" in text
    assert "url(" not in re.sub(r"url\(#", "", path.read_text(encoding="utf-8"))  # nothing is fetched
