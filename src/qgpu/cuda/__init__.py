"""CUDA C++ to PTX without a GPU: front-ends, headers, a cache by content."""

from qgpu.cuda.driver import CudaResult, compile_cuda
from qgpu.cuda.frontends import available

__all__ = ["CudaResult", "available", "compile_cuda"]
