"""Circuits to Qwen3.5 tensors: layer schedule, residual dims, weights."""
