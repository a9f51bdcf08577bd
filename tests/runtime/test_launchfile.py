"""Launch files and comments: strict, and precise about what is wrong."""

import json

import pytest
from hypothesis import given, strategies as st

from qgpu.errors import UsageError
from qgpu.runtime.launchfile import find_launch_comments, parse_dimensions, parse_launch, read_launch_file

GOOD = {"kernel": "dot", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u8", "data": [1, 255]}, 3], "shared_bytes": 0}


def test_a_file(tmp_path):
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(GOOD))
    spec = read_launch_file(path)
    assert (spec.kernel, spec.grid, spec.block) == ("dot", (1, 1, 1), (4, 1, 1))
    assert spec.args[0].dtype == "uint8" and spec.args[0].tolist() == [1, 255] and spec.args[1] == 3


def test_what_is_left_out_stays_open():
    spec = parse_launch({}, "x")
    assert spec.kernel is spec.grid is spec.block is spec.args is None


@pytest.mark.parametrize("change, says", [
    ({"kernl": "dot"}, "unknown key 'kernl'"), ({"kernel": 3}, '"kernel" is not a name'), ({"grid": [1, 2, 3, 4]}, "one to three"),
    ({"block": [0]}, "at least 1"), ({"block": [4.0]}, "at least 1"), ({"block": True}, "at least 1"), ({"args": {}}, "not a list"),
    ({"args": [1, 2.0]}, "argument 2"), ({"shared_bytes": -1}, "shared_bytes"), ({"expect": [None, None]}, "unknown key 'expect'"),
])
def test_wrong_keys(tmp_path, change, says):
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(UsageError) as e:
        read_launch_file(path)
    assert says in str(e.value) and "launch.json" in str(e.value)


@pytest.mark.parametrize("text, says", [
    ("{", "not JSON"), ("[]", "a JSON object"), ('{"kernel": "a", "kernel": "b"}', "twice"), ('{"args": [NaN]}', "NaN"),
    ('{"args": [1e999]}', "not an integer"), ("[" * 100000, "launch.json"), ('{"args": [%s]}' % ("9" * 5000), "launch.json"),
    ("\xff", "launch.json"), ("", "not JSON"),
])
def test_wrong_texts(tmp_path, text, says):
    path = tmp_path / "launch.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as e:
        read_launch_file(path)
    assert says in str(e.value)


def test_missing_file(tmp_path):
    with pytest.raises(UsageError, match="no such launch file"):
        read_launch_file(tmp_path / "no.json")
    with pytest.raises(UsageError):
        read_launch_file("bad\0name")


def test_comments():
    text = "\n".join([
        "// about this kernel", f"// qgpu: {json.dumps(GOOD)}", "__global__ void dot() {}",
        "  //qgpu: {\"kernel\": \"more\",", "  //   \"block\": [2]}", "// and so on", 'const char *s = "// qgpu: {";'])
    first, second = find_launch_comments(text, "dot.cu")
    assert first.kernel == "dot" and first.where == "dot.cu:2"
    assert second.kernel == "more" and second.block == (2, 1, 1) and second.where == "dot.cu:4"
    assert find_launch_comments("int x; // qgpu: no", "x.cu") == []


def test_expectations_in_comments():
    (spec,) = find_launch_comments('// qgpu: {"args": [{"type": "i32", "zeros": 1}, 3], "expect": [[5], null]}', "x.cu")
    assert spec.expect == [[5], None]
    for wrong in ("[[5]]", "[[5], 3]", "[[1.5], null]", "3"):
        with pytest.raises(UsageError, match="x.cu:1"):
            find_launch_comments('// qgpu: {"args": [{"type": "i32", "zeros": 1}, 3], "expect": %s}' % wrong, "x.cu")


def test_wrong_comments():
    with pytest.raises(UsageError, match="x.cu:2") as e:
        find_launch_comments('int x;\n// qgpu: {"kernel": }\n// more words\nint y;', "x.cu")
    assert "cannot be read" in str(e.value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
                        st.sampled_from(["kernel", "grid", "block", "args", "type", "data", "zeros", "shared_bytes", "x"]), inner, max_size=4),
                    max_leaves=12))
def test_any_value_is_a_launch_or_a_usage_error(value):
    try:
        parse_launch(value, "x")
    except UsageError:
        pass


@pytest.mark.parametrize("text, value", [("4", (4, 1, 1)), ("4,2", (4, 2, 1)), (" 1, 2 ,3", (1, 2, 3))])
def test_dimensions(text, value):
    assert parse_dimensions(text, "--block") == value


@pytest.mark.parametrize("text", ["", "0", "-1", "1,2,3,4", "a", "1.0", "99999999999", "٣", "1,"])
def test_wrong_dimensions(text):
    with pytest.raises(UsageError, match="--block"):
        parse_dimensions(text, "--block")
