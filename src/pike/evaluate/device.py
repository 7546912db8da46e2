"""What the machine is: device facts for prompts, recipes and verdicts.

Knows how to ask torch, the operating system and the compilers on PATH. Initialises CUDA when it is asked about a
GPU, so only a judge process calls it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from pathlib import Path

import torch

from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.evaluate.environment import search_path
from pike.evaluate.nvml import driver_version

_MOST_UNUSED_BYTES = 1 << 30


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
    """Everything that prompts and recipes say about a device; `threads` 0 means all that this process may use."""
    count = threads or len(os.sched_getaffinity(0))
    versions = [("python", platform.python_version()), ("torch", torch.__version__)]
    compilers = tuple(name for name in ("g++", "clang++", "nvcc", "ninja") if shutil.which(name, path=search_path()))
    if importlib.util.find_spec("triton"):
        compilers += ("triton",)
        versions.append(("triton", str(getattr(__import__("triton"), "__version__", ""))))
    if device.type == "cpu":
        return DeviceFacts("cpu", cpu_name(), _host_bytes(), count, l2_bytes=_cache_bytes(), compilers=compilers,
                           versions=tuple(versions))  # fmt: skip
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


def machine_name(device: torch.device) -> str:
    """What every process on this machine calls the same device: CUDA_VISIBLE_DEVICES renumbers torch's GPUs."""
    if device.type != "cuda":
        return str(device)
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", device))  # torch before 2.4 does not tell it


def release_memory(device: torch.device) -> None:
    """Hand back a GPU's memory that torch keeps for this process, where it is much: other judges work there too."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        if unused > _MOST_UNUSED_BYTES:
            torch.cuda.empty_cache()


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


def _host_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cache_bytes() -> int:
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        return int(text.rstrip("KM")) * (1 << 20 if text.endswith("M") else 1 << 10)
    except (OSError, ValueError):
        return 0
