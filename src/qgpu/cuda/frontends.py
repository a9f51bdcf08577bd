"""The compilers that turn .cu into PTX without a GPU: which are there, and how each is called.

`zig` is clang from the PyPI package `ziglang`, which the extra `qgpu[cuda]` installs; `clang` is any clang with the NVPTX
target; `nvcc` is the CUDA toolkit; `nvrtc` is NVIDIA's run-time compiler, from PyPI or a toolkit. The first two give the
smallest PTX (32-bit addresses, rolled loops) and agree to the byte.
"""

from __future__ import annotations

import ctypes.util
import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from qgpu.cuda.source import DEVICE_HEADERS, HOST_HEADERS

ORDER = ("zig", "clang", "nvcc", "nvrtc")
HERE = Path(__file__).parent

# A lane may hand a value that it never set to a shuffle or a device function, so arguments must not count as defined (noundef).
CLANG_FLAGS = (
    "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_75", "-nocudainc", "-nocudalib", "-nostdinc",
    "--target=x86_64-unknown-linux-gnu", "-m32", "-Xclang", "-malign-double", "-std=gnu++17",
    "-Xclang", "-target-feature", "-Xclang", "+ptx64", "-Wno-unknown-cuda-version", "-w",
    "-S", "-O2", "-fno-unroll-loops", "-fno-vectorize", "-fno-slp-vectorize", "-fno-jump-tables",
    "-fwrapv", "-fno-finite-loops", "-Xclang", "-no-enable-noundef-analysis", "-mllvm", "-replexitval=never",
    "-gline-tables-only", "-fno-color-diagnostics", "-ferror-limit=8", "-fconstexpr-steps=1000000",
    "-fconstexpr-backtrace-limit=2", "-ftemplate-backtrace-limit=2",
    "-include", "qgpu_cuda.h", "-isystem", "headers", "-ivfsoverlay", "overlay.json",
)
NVCC_FLAGS = ("-ptx", "-arch=compute_75", "-std=c++17", "-lineinfo", "-w", "--expt-relaxed-constexpr")
NVRTC_FLAGS = ("-arch=compute_75", "-std=c++17", "-lineinfo", "-w", "-default-device")
# NVIDIA's compilers unroll unless each loop says otherwise; a macro does not expand itself again.
ROLLED = '-Dfor=_Pragma("unroll 1") for'


@dataclass(frozen=True)
class FrontEnd:
    """A compiler that is there. `program` starts its command line; `version` goes into the cache key."""

    name: str
    version: str
    program: tuple[str, ...]

    def flags(self, source: str) -> tuple[str, ...]:
        """The options for this source, all of which go into the cache key."""
        if self.name in ("zig", "clang"):
            return CLANG_FLAGS
        rolled = () if re.search(r"\bunroll\b", source) else (ROLLED,)
        return (NVCC_FLAGS if self.name == "nvcc" else NVRTC_FLAGS) + rolled

    def headers(self) -> str:
        """Text of qgpu's own headers where this front-end uses them (for the cache key)."""
        if self.name in ("zig", "clang"):
            return "".join((HERE / name).read_text("utf-8") for name in ("qgpu_cuda.h", "qgpu_host.h"))
        return ""

    def prepare(self, folder: Path, source_name: str) -> None:
        """Put into `folder` what the compiler needs beside the source."""
        headers = folder / "headers"
        if self.name == "nvrtc":
            headers.mkdir()
            for name in DEVICE_HEADERS + HOST_HEADERS:
                (headers / name).write_text(NVRTC_TYPES, "utf-8")
        if self.name in ("zig", "clang"):
            headers.mkdir()
            for name in ("qgpu_cuda.h", "qgpu_host.h"):
                shutil.copyfile(HERE / name, folder / name)
            for name in DEVICE_HEADERS + HOST_HEADERS:
                (headers / name).write_text('#include "../qgpu_host.h"\n' if name in HOST_HEADERS else "\n", "utf-8")
            (folder / "overlay.json").write_text(json.dumps(_overlay(folder, source_name)), "utf-8")

    def command(self, source_name: str, output_name: str, source: str, defines: tuple[str, ...]) -> list[str]:
        """The argument list; it runs in the folder that `prepare` filled."""
        flags = [*self.flags(source), *(f"-D{d}" for d in defines)]
        if self.name == "nvrtc":
            return [*self.program, source_name, output_name, "-I=headers", *flags]
        return [*self.program, *flags, "-o", output_name, source_name]


# NVRTC knows CUDA's types but no standard header; these are the exact-width names.
NVRTC_TYPES = """#pragma once
#ifndef QGPU_NVRTC_TYPES
#define QGPU_NVRTC_TYPES
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef unsigned long long uint64_t;
#endif
"""


def _overlay(folder: Path, source_name: str) -> dict:
    """A virtual file system for clang in which only these files exist: nothing else on the disk can be opened."""
    names = [source_name, "qgpu_cuda.h", "qgpu_host.h", *(f"headers/{n}" for n in DEVICE_HEADERS + HOST_HEADERS)]
    real = folder.resolve()
    roots = [{"type": "file", "name": str(root / name), "external-contents": str(real / name)}
             for root in {folder, real} for name in names]
    return {"version": 0, "fallthrough": "false", "use-external-names": "false", "roots": roots}


def find(name: str) -> FrontEnd | None:
    """The front-end of that name, or None where it is not installed."""
    return {"zig": _zig, "clang": _clang, "nvcc": _nvcc, "nvrtc": _nvrtc}[name]()


def available() -> list[FrontEnd]:
    """Every front-end on this machine, in the order in which they are tried."""
    return [found for name in ORDER if (found := find(name)) is not None]


@functools.lru_cache(maxsize=1)
def _zig() -> FrontEnd | None:
    try:
        spec = importlib.util.find_spec("ziglang")
        version = importlib.metadata.version("ziglang")
    except (ImportError, ValueError, importlib.metadata.PackageNotFoundError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if numbers < (0, 16):
        return None
    binary = Path(next(iter(spec.submodule_search_locations))) / ("zig.exe" if os.name == "nt" else "zig")
    program = (str(binary),) if binary.is_file() else (sys.executable, "-I", "-m", "ziglang")
    return FrontEnd("zig", f"ziglang {version}", (*program, "clang"))


@functools.lru_cache(maxsize=1)
def _clang() -> FrontEnd | None:
    for name in ("clang", *(f"clang-{n}" for n in range(30, 12, -1))):
        path = shutil.which(name)
        if path is None or "nvptx" not in _output([path, "--print-targets"]):
            continue
        version = _output([path, "--version"]).splitlines()
        number = re.search(r"version (\d+)", version[0]) if version else None
        if number and int(number.group(1)) >= 13:
            return FrontEnd("clang", version[0].strip(), (path,))
    return None


@functools.lru_cache(maxsize=1)
def _nvcc() -> FrontEnd | None:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    path = shutil.which("nvcc") or next(
        (p for h in homes if h and (p := shutil.which("nvcc", path=str(Path(h) / "bin")))), None)
    if path is None:
        return None
    release = re.search(r"release \S+ (V\S+)", _output([path, "--version"]))
    return FrontEnd("nvcc", f"nvcc {release.group(1)}", (path,)) if release else None


@functools.lru_cache(maxsize=1)
def _nvrtc() -> FrontEnd | None:
    worker = str(HERE / "nvrtc_worker.py")
    for library in _nvrtc_libraries():
        program = (sys.executable, "-I", worker, library)
        version = _output([*program, "--version"]).strip()
        if re.fullmatch(r"NVRTC \d+\.\d+", version) and float(version.split()[1]) >= 11.0:
            return FrontEnd("nvrtc", version, program)
    return None


def _nvrtc_libraries() -> list[str]:
    """Paths that may be NVRTC: PyPI's packages first, then a toolkit, then the loader's own search."""
    found: list[str] = []
    try:
        spec = importlib.util.find_spec("nvidia")
        for root in (spec.submodule_search_locations or []) if spec else []:
            for pattern in ("*/lib/libnvrtc.so.*", "*/bin/**/nvrtc64_*_0.dll"):
                found += sorted(str(p) for p in Path(root).glob(pattern))
    except (ImportError, ValueError):
        pass
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        for pattern in ("lib64/libnvrtc.so", "bin/**/nvrtc64_*_0.dll"):
            found += sorted(str(p) for p in Path(home).glob(pattern)) if home else []
    if loader := ctypes.util.find_library("nvrtc"):
        found.append(loader)
    return [p for p in found if "alt" not in Path(p).name]


def _output(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, check=False).stdout
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
