"""A live view of the machine: scheduler, lanes, program, registers, memory, token stream."""
