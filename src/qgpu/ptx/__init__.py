"""PTX text to dataclasses with source positions, and the table of opcodes."""

from qgpu.ptx.parser import parse_ptx

__all__ = ["parse_ptx"]
