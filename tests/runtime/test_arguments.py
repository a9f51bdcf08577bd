"""Arguments: both notations, every type, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from qgpu.errors import UsageError
from qgpu.runtime.arguments import TYPES, from_json, from_text, to_json, type_name

HERE = "--arg 1"


@pytest.mark.parametrize("text, dtype, values", [
    ("[1,2,3]", "int32", [1, 2, 3]),
    (" [ -1 , +2,0x10 ] ", "int32", [-1, 2, 16]),
    ("[]", "int32", []),
    ("zeros(3)", "int32", [0, 0, 0]),
    ("u8:[0,255]", "uint8", [0, 255]),
    ("i64: [-9223372036854775808]", "int64", [-2**63]),
    ("u64:zeros( 2 )", "uint64", [0, 0]),
])
def test_array_texts(text, dtype, values):
    array = from_text(text, HERE)
    assert array.dtype == dtype and array.tolist() == values


@pytest.mark.parametrize("text, value", [("3", 3), (" -7 ", -7), ("0xff", 255), ("u8:200", 200), ("+5", 5)])
def test_scalar_texts(text, value):
    result = from_text(text, HERE)
    assert type(result) is int and result == value


@pytest.mark.parametrize("text, says", [
    ("1.5", "not an integer"), ("1e3", "not an integer"), ("", "not an integer"), ("[1,,2]", "not an integer"),
    ("[1,2", "not an integer"), ("[1.0]", "not an integer"), ("zeros(-1)", "not an integer"), ("zeros(99999999999)", "impossible"),
    ("f32:[1]", "unknown array type"), ("u8:[256]", "u8 cannot hold"), ("u8:-1", "u8 cannot hold"),
    ("[3000000000]", "use type u32"), ("@", "no such file"), ("@/", "no such file"), ("@missing.npy", "no such file"),
    ("__import__('os')", "not an integer"), ("9" * 5000, "not an integer"), ("[[1]]", "not an integer"), ("true", "not an integer"),
    ("٣", "not an integer"),
])
def test_refused_texts(text, says):
    with pytest.raises(UsageError) as e:
        from_text(text, HERE)
    assert says in str(e.value) and HERE in str(e.value) and len(str(e.value)) < 500


@given(st.text(max_size=30))
def test_any_text_is_an_argument_or_a_usage_error(text):
    try:
        value = from_text(text, HERE)
    except UsageError:
        return
    assert isinstance(value, (int, np.ndarray))


@given(st.text(alphabet="0123456789x-+[],: ui8zeros()@.", max_size=24))
def test_texts_near_the_grammar(text):
    try:
        value = from_text(text, HERE)
    except UsageError:
        return
    assert isinstance(value, int) or type_name(value) in TYPES


@given(st.sampled_from(sorted(TYPES)).flatmap(lambda name: st.tuples(st.just(name), st.lists(
    st.integers(int(np.iinfo(TYPES[name]).min), int(np.iinfo(TYPES[name]).max)), max_size=8))))
def test_text_and_json_give_the_same_array(case):
    name, values = case
    text = from_text(f"{name}:{values}", HERE)
    json = from_json({"type": name, "data": values}, "args")
    assert text.dtype == json.dtype == TYPES[name]
    assert to_json(text) == to_json(json) == values


@pytest.mark.parametrize("value, says", [
    (1.0, "1.0 is not an integer"), (True, "not an argument"), (None, "not an argument"), ("3", "not an argument"), ([1], "not an argument"),
    ({}, '"data" or "zeros"'), ({"type": "i32", "data": [1], "zeros": 1}, '"data" or "zeros"'),
    ({"type": "f32", "data": [1]}, "unknown array type"), ({"type": "i32", "data": [1.0]}, "element 0 is 1.0"),
    ({"type": "i32", "data": [True]}, "element 0 is True"), ({"type": "i8", "data": [0, 128]}, "element 1 is 128"),
    ({"type": "i32", "data": 3}, "not a list"), ({"type": "i32", "zeros": -1}, "impossible"), ({"type": "i32", "zeros": 1.5}, "not a count"),
    ({"type": "i32", "date": [1]}, "unknown key 'date'"), ({"type": ["i32"], "data": [1]}, "unknown array type"),
])
def test_refused_json(value, says):
    with pytest.raises(UsageError) as e:
        from_json(value, "launch.json, argument 2")
    assert says in str(e.value) and "launch.json, argument 2" in str(e.value)


def test_files(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([[1, -2], [3, 4]], ">i2"))
    array = from_text(f"@{path}", HERE)
    assert array.dtype == np.int16 and array.dtype.isnative and array.tolist() == [1, -2, 3, 4]
    assert from_text(f"@{path}", HERE).flags.writeable
    np.save(path, np.arange(6, dtype=np.int32).reshape(2, 3).T)
    assert from_text(f"@{path}", HERE).tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("content", [
    np.array([1.5]), np.array(["x"]), np.array([True]), np.array([{}], dtype=object), np.array([1 + 2j]),
], ids=["float", "text", "bool", "object", "complex"])
def test_refused_files(tmp_path, content):
    path = tmp_path / "a.npy"
    np.save(path, content, allow_pickle=True)
    with pytest.raises(UsageError, match="a.npy"):
        from_text(f"@{path}", HERE)


def test_broken_files(tmp_path):
    good = tmp_path / "good.npy"
    np.save(good, np.arange(100, dtype=np.int32))
    data = good.read_bytes()
    for cut in (0, 5, 20, len(data) - 1):
        path = tmp_path / f"cut{cut}.npy"
        path.write_bytes(data[:cut])
        with pytest.raises(UsageError):
            from_text(f"@{path}", HERE)
    np.savez(tmp_path / "many.npz", a=np.arange(3))
    with pytest.raises(UsageError, match="several arrays"):
        from_text(f"@{tmp_path / 'many.npz'}", HERE)
