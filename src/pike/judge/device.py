"""The device: what it is, its memory, and whether anything else runs on it.

Initialises CUDA when asked about a GPU, so only a judge process calls it.
"""

import gc
import importlib.util
import os
import platform
import re
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.judge.process.environment import search_path
from pike.judge.timing.nvml import driver_version

_UNITS = (
    *(("avx2", "AVX2"), ("avx512f", "AVX-512"), ("avx512_vnni", "AVX512-VNNI"), ("avx512_bf16", "AVX512-BF16")),
    *(("amx_bf16", "AMX-BF16"), ("amx_int8", "AMX-INT8"), ("asimd", "NEON"), ("sve", "SVE"), ("i8mm", "I8MM")),
)
_MOST_UNUSED_BYTES = 1 << 30
_QUIET_SECONDS, _PROBE_PAUSE_SECONDS, _PROBES = 5.0, 0.1, 9
_QUIET_PROBE_SECONDS = 5e-4
"""A kernel of one number takes some 20 us on an idle device. Beside a slow kernel of another
process an empty transfer took 2.3 ms instead of 0.03 (docs/experiments/2026-11-22-h200-half.md)."""


def resolve(name: str) -> torch.device:
    """The torch device for `auto`, `cpu`, `cuda` or `cuda:N`.

    Raises:
        UserError: the name is unknown or that GPU does not exist here.
    """
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()):
        raise UserError(f"Unknown device '{name}'; use auto, cpu, cuda or cuda:N")
    if kind == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(index or 0) >= count:
        raise UserError(f"Device '{name}' is not here: torch sees {count} CUDA devices; use --device cpu or auto")
    return torch.device(f"cuda:{int(index or 0)}")


def facts(device: torch.device, threads: int = 0) -> DeviceFacts:
    """The facts about a device; `threads` 0 means all that this process may use."""
    count = threads or len(os.sched_getaffinity(0))
    versions = [("python", platform.python_version()), ("torch", torch.__version__)]
    compilers = tuple(name for name in ("g++", "clang++", "nvcc", "ninja") if shutil.which(name, path=search_path()))
    if "nvcc" in compilers and hasattr(torch.cuda, "_compile_kernel"):  # NVRTC is PyTorch's, its headers the toolkit's
        compilers += ("nvrtc",)
    if importlib.util.find_spec("triton"):
        compilers += ("triton",)
        versions.append(("triton", str(getattr(__import__("triton"), "__version__", ""))))
    if device.type == "cpu":
        return DeviceFacts("cpu", cpu_name(), host_bytes(), count, l2_bytes=_cache_bytes(), compilers=compilers,
                           versions=tuple(versions), vector_units=_vector_units())  # fmt: skip
    found = torch.cuda.get_device_properties(device)
    versions.append(("cuda", str(torch.version.cuda)))
    if driver := driver_version():
        versions.append(("driver", driver))
    return DeviceFacts(
        device=str(device),
        name=found.name,
        memory_bytes=found.total_memory,
        threads=count,
        capability=f"{found.major}.{found.minor}",
        multiprocessors=found.multi_processor_count,
        l2_bytes=int(getattr(found, "L2_cache_size", 0)),
        shared_bytes_per_block=int(getattr(found, "shared_memory_per_block_optin", 0)),
        registers_per_block=int(getattr(found, "regs_per_multiprocessor", 0)),
        compilers=compilers,
        versions=tuple(versions),
    )


def _vector_units() -> tuple[str, ...]:
    """The CPU's vector and matrix instructions that matter here, as Linux names them."""
    try:
        flags = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return ()
    have = set(flags[1].split()) if flags else set()
    return tuple(name for flag, name in _UNITS if flag in have)


def machine_name(device: torch.device) -> str:
    """A name for all processes of this machine: CUDA_VISIBLE_DEVICES renumbers GPUs."""
    if device.type != "cuda":
        return str(device)
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", device))  # torch before 2.4 has none


def number(device: torch.device) -> int:
    """The number of a GPU on this machine, where CUDA_VISIBLE_DEVICES tells: it renumbers torch's."""
    index, names = device.index or 0, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return int(names[index]) if names[index:] and names[index].strip().isdigit() else index


def release_memory(device: torch.device) -> None:
    """Hand back the GPU memory that torch caches for this process, if it is much."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        if unused > _MOST_UNUSED_BYTES:
            torch.cuda.empty_cache()


def release_all_memory(device: torch.device) -> None:
    """Hand back all of a GPU's memory that this process no longer uses."""
    if device.type == "cuda":
        gc.collect()  # models refer to themselves in cycles
        torch.cuda.empty_cache()


def is_quiet(device: torch.device, patience_seconds: float = _QUIET_SECONDS) -> bool:
    """Wait until no other process's kernels run on a GPU; False if patience ends first.

    A paused process does not stop the kernels that it queued. While a long one runs, the device
    switches contexts every few milliseconds, and a kernel of microseconds takes that long.
    """
    if device.type != "cuda":
        return True
    value = torch.zeros(1, device=device)

    def probe() -> float:
        began = time.perf_counter()
        value.add_(1.0)
        torch.cuda.synchronize(device)
        return time.perf_counter() - began

    return becomes_quiet(probe, patience_seconds)


def becomes_quiet(probe: Callable[[], float], patience_seconds: float) -> bool:
    """Whether probes become as short as on an idle device before patience ends.

    Args:
        probe: runs a kernel of one number and returns the seconds that it took.
        patience_seconds: for how long to go on probing; the first probes are always made.
    """
    deadline = time.monotonic() + patience_seconds
    while statistics.median(probe() for _ in range(_PROBES)) > _QUIET_PROBE_SECONDS:
        if time.monotonic() > deadline:
            return False
        time.sleep(_PROBE_PAUSE_SECONDS)
    return True


def label(known: DeviceFacts) -> str:
    """The device as a verdict names it."""
    return known.name if known.is_cuda else f"cpu ({known.name}, {known.threads} threads)"


def cpu_name() -> str:
    """The processor's model name, or its architecture where the system does not tell."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def host_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cache_bytes() -> int:
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        return int(text.rstrip("KM")) * (1 << 20 if text.endswith("M") else 1 << 10)
    except (OSError, ValueError):
        return 0
