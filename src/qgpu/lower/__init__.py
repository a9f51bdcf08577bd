"""PTX to machine blocks, in ordered passes."""
