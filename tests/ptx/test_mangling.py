"""Parameter types from mangled names."""

import pytest

from qgpu.ptx.mangling import parameter_types


@pytest.mark.parametrize("name, types", [
    ("_Z3dotPKiS0_Pi", ["Pi", "Pi", "Pi"]),
    ("_Z3addPlPKlm", ["Pl", "Pl", "m"]),
    ("_Z3addPKlS0_PlS1_", ["Pl", "Pl", "Pl", "Pl"]),
    ("_Z1fPVKmS0_x", ["Pm", "Pm", "x"]),
    ("_Z1fPVKmPKmS2_", ["Pm", "Pm", "Pm"]),
    ("_Z1fPPlS0_S_", ["PPl", "PPl", "Pl"]),
    ("_Z4none2S1PS_S0_", ["2S1", "P2S1", "P2S1"]),
    ("_Z5emptyv", []),
    ("_Z1fIiEvPT_", None),
    ("_ZN4math3dotEPKl", None),
    ("_Z1fS5_", None),
    ("_Z1fP", None),
    ("_Z9999f", []),
    ("add", None),
    ("_Z1f" + "P" * 100_000 + "l", None),
])
def test_types(name, types):
    assert parameter_types(name) == types
