"""The judge: pure-Python semantics of PTX and of the machine, sharing nothing with compiler or circuit."""
