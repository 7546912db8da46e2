"""What the machine is: device facts for prompts, recipes and verdicts.

Knows how to ask torch, the operating system and the compilers on PATH. Initialises CUDA when it is asked about a
GPU, so only a judge process calls it.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import platform
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.evaluate.environment import search_path
from pike.evaluate.nvml import driver_version

_MOST_UNUSED_BYTES = 1 << 30
_ROOM_SECONDS, _ROOM_PAUSE_SECONDS, _ROOM_SHARE = 180.0, 0.2, 0.6
"""How long an evaluation that found no memory waits until so much of a device's is free, and how often it asks. After
that it has everybody wait for the slowest compiler at work, which cost six judges 16 % of their time when this was a
minute (docs/log.md, 2026-11-23, late)."""
_QUIET_SECONDS, _PROBE_PAUSE_SECONDS, _PROBES = 10.0, 0.1, 9
_QUIET_PROBE_SECONDS = 5e-4
"""A kernel of one number takes some 20 us with the device to oneself; beside a slow kernel of another process an empty
hand-over took 2.3 ms in place of 0.03 (docs/log.md, 2026-11-22)."""


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


def hand_back_memory(device: torch.device) -> None:
    """Hand back all of a GPU's memory that nothing in this process needs any more."""
    if device.type == "cuda":
        gc.collect()  # models hold themselves in cycles
        torch.cuda.empty_cache()


def holds_memory(device: torch.device) -> bool:
    """Whether torch keeps any of a GPU's memory for this process."""
    return device.type == "cuda" and torch.cuda.memory_reserved(device) > 0


def has_room(device: torch.device, is_in_vain: Callable[[], bool], patience_seconds: float = _ROOM_SECONDS) -> bool:
    """Wait until most of a GPU's memory is free; False where it is not when patience ends, and without a GPU.

    Args:
        device: whose memory.
        is_in_vain: whether nobody is there who might hand some back.
        patience_seconds: how long to wait.
    """
    if device.type != "cuda":
        return False

    def most_is_free() -> bool:
        free, total = torch.cuda.mem_get_info(device)
        return free >= _ROOM_SHARE * total

    return _soon(lambda: most_is_free() or is_in_vain(), patience_seconds, _ROOM_PAUSE_SECONDS) and most_is_free()


def is_quiet(device: torch.device, patience_seconds: float = _QUIET_SECONDS) -> bool:
    """Wait until nobody else's kernels run on a GPU; False where they still do when patience ends.

    A process that stands still keeps what it queued: a kernel of seconds goes on, and the device changes between its
    context and ours every few milliseconds, so that a kernel of microseconds takes that long.
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
    """Whether the median of a few probes is soon as short as on a device of one's own.

    Args:
        probe: does next to nothing and returns the seconds that it took.
        patience_seconds: for how long to go on asking.
    """

    def is_short() -> bool:
        return statistics.median(probe() for _ in range(_PROBES)) <= _QUIET_PROBE_SECONDS

    return _soon(is_short, patience_seconds, _PROBE_PAUSE_SECONDS)


def _soon(is_true: Callable[[], bool], patience_seconds: float, pause_seconds: float) -> bool:
    """Whether something is true before patience ends; it is asked at least once."""
    deadline = time.monotonic() + patience_seconds
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_seconds)
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


def _host_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cache_bytes() -> int:
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        return int(text.rstrip("KM")) * (1 << 20 if text.endswith("M") else 1 << 10)
    except (OSError, ValueError):
        return 0
