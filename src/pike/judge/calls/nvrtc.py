"""CUDA C++ to machine code by NVRTC, the run-time compiler that comes with torch.

Knows its library, through ctypes. Does not know what the judge's own kernels do.
"""

import ctypes
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from pike.core.errors import InfraError

_CIPHER = Path(__file__).parents[1] / "child" / "memory" / "cipher.cu"


@functools.cache
def cipher_kernels(capability: str) -> bytes:
    """The kernels of `cipher.cu` as a cubin for a compute capability, for example `90`.

    Raises:
        InfraError: there is no NVRTC here, or it cannot compile for this device.
    """
    nvrtc, program = _library(), ctypes.c_void_p()
    _checked(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), _CIPHER.read_bytes(), b"cipher.cu", 0, None, None))
    options = [f"--gpu-architecture=sm_{capability}".encode(), b"--std=c++17"]
    code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if code:
        raise InfraError(f"NVRTC cannot compile for sm_{capability}: {_text(nvrtc, program, 'ProgramLog')}")
    cubin = _bytes(nvrtc, program, "CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin


def _bytes(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t(0)
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    return _bytes(nvrtc, program, what).rstrip(b"\0").decode(errors="replace").strip()[:1000]


def _checked(nvrtc: Any, code: int) -> None:
    if code:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise InfraError(f"NVRTC failed: {nvrtc.nvrtcGetErrorString(code).decode()}")


@functools.cache
def _library() -> ctypes.CDLL:
    name = f"libnvrtc.so.{str(torch.version.cuda).partition('.')[0]}"
    for path in (name, *(str(folder / name) for folder in _folders())):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise InfraError(f"{name} is not here; it comes with torch's CUDA build (package nvidia-cuda-nvrtc)")


def _folders() -> Iterator[Path]:
    yield from sorted(Path(torch.__file__).parents[1].glob("nvidia/*/lib"))
    yield Path(torch.__file__).parent / "lib"
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if home:
            yield Path(home) / "lib64"
