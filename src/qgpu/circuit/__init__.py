"""Named signals, units, heads, and the circuits of the machine."""
