"""The languages in which a candidate can write kernels on a machine.

Knows compilers and device kinds. Does not know templates or roles.
"""

from dataclasses import dataclass

from pike.core.device import DeviceFacts

_CPP_COMPILERS = frozenset({"g++", "clang++", "c++", "gcc", "clang", "icpx"})


@dataclass(frozen=True, slots=True)
class KernelLanguages:
    """The ways of writing kernels that work on this machine.

    Attributes:
        nvrtc: CUDA kernels compile inside the process, by `torch.cuda._compile_kernel`.
        cpp_compiler: a C++ compiler exists, even if `cpp` is False because ninja is missing.
    """

    cuda: bool
    nvrtc: bool
    triton: bool
    cpp: bool
    cpp_compiler: bool


def kernel_languages(device: DeviceFacts) -> KernelLanguages:
    """The languages of a device; inline C++ needs a compiler and ninja, CUDA also nvcc."""
    names = frozenset(device.compilers)
    compiler = bool(names & _CPP_COMPILERS)
    cpp = compiler and "ninja" in names
    return KernelLanguages(
        cuda=device.is_cuda and cpp and "nvcc" in names,
        nvrtc=device.is_cuda and "nvrtc" in names,
        triton=device.is_cuda and "triton" in names,
        cpp=cpp,
        cpp_compiler=compiler,
    )
