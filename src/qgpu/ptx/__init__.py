"""PTX text to dataclasses with source positions, and the table of opcodes."""
