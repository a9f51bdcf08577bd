"""qgpu: a small SIMT GPU whose every weight is computed, inside the forward pass of Qwen3.5 layers."""

__version__ = "0.1.0"
