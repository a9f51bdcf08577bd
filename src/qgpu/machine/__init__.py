"""The machine: its one description, instruction encoding, token records."""
