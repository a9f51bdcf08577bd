"""PTX text to dataclasses with source positions, and the table of opcodes."""

from qgpu.ptx.opcodes import FAMILIES, Unsupported, check_supported, family_of, find_unsupported, registers
from qgpu.ptx.parser import parse_ptx

__all__ = ["FAMILIES", "Unsupported", "check_supported", "family_of", "find_unsupported", "parse_ptx", "registers"]
