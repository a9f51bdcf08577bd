"""Launching kernels: arguments, token stream, results, traces."""
