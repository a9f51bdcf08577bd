"""CUDA source to PTX: compilers, flags, cache."""
