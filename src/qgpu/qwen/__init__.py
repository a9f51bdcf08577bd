"""A Qwen3.5 forward pass without a framework."""

from qgpu.qwen.load import load
from qgpu.qwen.model import Model
from qgpu.qwen.sampling import Sampling

__all__ = ["Model", "Sampling", "load"]
