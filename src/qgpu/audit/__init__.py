"""Exactness proved from a checkpoint, every signal held to an interpreter, every unit in words."""
