"""What the device offers, in the words of a prompt.

Knows device facts and turns them into rows and switches. Does not know templates or roles.
"""

from __future__ import annotations

from dataclasses import dataclass

from pike.core.device import DeviceFacts

_CPP_COMPILERS = frozenset({"g++", "clang++", "c++", "gcc", "clang", "icpx"})
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Means:
    """Which ways of writing own kernels work on this machine.

    Attributes:
        cuda: inline CUDA C++.
        triton: Triton kernels.
        cpp: inline C++.
        cpp_compiler: a C++ compiler exists, even if `cpp` is False for want of ninja.
    """

    cuda: bool
    triton: bool
    cpp: bool
    cpp_compiler: bool


def means_of(device: DeviceFacts) -> Means:
    """The means on a device; an inline extension needs a C++ compiler and ninja, with CUDA nvcc as well."""
    names = frozenset(device.compilers)
    compiler = bool(names & _CPP_COMPILERS)
    cpp = compiler and "ninja" in names
    return Means(
        cuda=device.is_cuda and cpp and "nvcc" in names,
        triton=device.is_cuda and "triton" in names,
        cpp=cpp,
        cpp_compiler=compiler,
    )


def device_rows(device: DeviceFacts) -> tuple[tuple[str, str], ...]:
    """Name and value of everything known about the device; what is unknown (0, empty) is left out."""
    kind = f"NVIDIA GPU, {device.name}" if device.is_cuda else f"CPU, {device.name}"
    rows = [("Device", kind)]
    if device.capability:
        arch = device.capability.replace(".", "")
        rows.append(("Compute capability", f"{device.capability} (sm_{arch})"))
    if device.multiprocessors:
        rows.append(("Streaming multiprocessors", str(device.multiprocessors)))
    if not device.is_cuda:
        rows.append(("Threads", str(device.threads)))
    if device.memory_bytes:
        rows.append(("Memory", f"{device.memory_bytes / _GIB:.1f} GiB"))
    if device.l2_bytes:
        cache = "L2 cache" if device.is_cuda else "Last-level cache"
        rows.append((cache, f"{device.l2_bytes / (1 << 20):.1f} MiB"))
    if device.shared_bytes_per_block:
        rows.append(("Shared memory of one block, at most", f"{device.shared_bytes_per_block} bytes"))
    if device.registers_per_block:
        rows.append(("32-bit registers of one block, at most", str(device.registers_per_block)))
    if device.versions:
        rows.append(("Versions", ", ".join(f"{name} {version}" for name, version in device.versions)))
    return tuple(rows)
