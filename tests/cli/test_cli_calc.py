"""`qgpu calc` in this process, with the reference interpreter in the model's place; once on the compiled weights."""

import io
import json

import pytest

from qgpu.cli import main


def test_value_and_summary(qgpu_command):
    status, out, err = qgpu_command("calc", "[1, 2, 3] @ [4, 5, 6]")
    assert status == 0 and out.splitlines()[0] == "32" and "1 launch (dot) on article" in out and "checked" in out and err == ""


def test_notes(qgpu_command):
    assert qgpu_command("calc", "mean([3, 8, 1, 9])", "--no-check")[1].startswith("[5, 1]    quotient (rounded down), remainder\n")
    assert "checked" not in qgpu_command("calc", "1 + 1", "--no-check")[1]
    assert qgpu_command("calc", "7")[1] == "7\n"
    assert qgpu_command("calc", "--", "-2 * 3")[1].startswith("-6\n")


@pytest.mark.parametrize("machine", ["article", "default"])
def test_json(machine, qgpu_command):
    status, out, _ = qgpu_command("calc", "sum([1, 2]) * 4", "--json", "--machine", machine)
    data = json.loads(out)
    assert status == 0 and data["value"] == 12 and data["machine"] == machine and data["note"] is None
    assert [one["kernel"] for one in data["launches"]] == ["sum", "multiply"]
    assert all(one["check"] == {"positions": one["tokens"]["generated"], "mismatches": 0} for one in data["launches"])


@pytest.mark.parametrize("expression, status, what", [
    ("7 / 2", 2, "a // b"), ("2 ** 31", 1, "2 ** 31 does not fit in 32 bits"), ("3.5", 2, "not a whole number"), ("foo(1)", 2, "no function 'foo'"),
    ("(" * 8_000, 2, "levels deep"), ("\ud800", 2, "U+D800"), ("", 2, "no expression")])
def test_errors(expression, status, what, qgpu_command):
    found, out, err = qgpu_command("calc", expression)
    assert found == status and what in err and out == ""
    found, out, err = qgpu_command("calc", expression, "--json")
    error = json.loads(out)["error"]
    assert found == status and set(error) == {"what", "where", "why", "fix"} and error["what"] in err


def test_from_standard_input(qgpu_command, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("sum(range(1, 11))\n"))
    assert qgpu_command("calc", "-")[1].startswith("55\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("1" * 10_000_000))
    status, _, err = qgpu_command("calc", "-")
    assert status == 2 and "characters" in err


def test_on_the_compiled_weights(capsys):
    assert main(["calc", "[1, 2, 3] @ [4, 5, 6]", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["value"] == 32 and data["launches"][0]["check"]["mismatches"] == 0
