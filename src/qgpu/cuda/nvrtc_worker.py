"""NVRTC in a process of its own, so that a time limit can end it: run by path, imports nothing of qgpu.

    python nvrtc_worker.py LIBRARY --version
    python nvrtc_worker.py LIBRARY SOURCE OUTPUT OPTION...

Prints NVRTC's log; exit status 0 if PTX was written.
"""

import ctypes
import sys


def main(argv):
    nvrtc = ctypes.CDLL(argv[0])
    if argv[1:] == ["--version"]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        print(f"NVRTC {major.value}.{minor.value}")
        return 0
    source_name, output_name, options = argv[1], argv[2], [o.encode() for o in argv[3:]]
    with open(source_name, "rb") as file:
        source = file.read()
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, source_name.encode(), 0, None, None)
    if status == 0:
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        print(fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode("utf-8", "replace").strip())
    if status:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        print(nvrtc.nvrtcGetErrorString(status).decode())
        return 1
    ptx = fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    with open(output_name, "wb") as file:
        file.write(ptx)
    return 0


def fetch(get_size, get_text, program):
    """The bytes of one of NVRTC's texts, without the closing NUL."""
    size = ctypes.c_size_t()
    get_size(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    get_text(program, text)
    return text.value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
