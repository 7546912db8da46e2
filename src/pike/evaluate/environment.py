"""What a child finds in its environment: an allow-list, and every cache and home in its own folder.

Knows which variables compilers and devices need, and where caches lie. Does not know how a child is started.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ALLOWED_ENVIRONMENT = (
    "PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CC", "CXX", "CUDA_HOME", "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "OMP_NUM_THREADS",
    "TRITON_INTERPRET", "TORCH_CUDA_ARCH_LIST",
)  # fmt: skip


_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"
"""Inductor's compile workers of one child; whoever runs many judges side by side sets it lower."""

KEPT_CACHES = ("inductor", "triton", "extensions")
"""Folders for compilers, which a candidate that is judged again may find as it left them (`caches`)."""


def search_path() -> str:
    """PATH with this Python's own programs first (ninja lives there)."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def child_environment(folder: Path, kept_caches: Path | None = None) -> dict[str, str]:
    """An allow-list; every cache and home lies in the child's own folder, so nothing survives it.

    Args:
        folder: the child's own.
        kept_caches: where the folders of `KEPT_CACHES` lie; None for the child's own folder as well.
    """
    kept = {name: os.environ[name] for name in _ALLOWED_ENVIRONMENT if name in os.environ}
    caches = folder / "caches"
    for part in ("tmp", "shm", "cuda"):
        (caches / part).mkdir(parents=True)
    compiled = kept_caches or caches
    for part in KEPT_CACHES:
        (compiled / part).mkdir(exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    return kept | {
        "PATH": search_path(),
        "HOME": str(folder),
        "TMPDIR": str(caches / "tmp"),
        "XDG_CACHE_HOME": str(caches / "tmp"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path and os.path.isdir(path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Whether glibc hands freed buffers back to the system after each call is settled by chance, process by
        # process, and costs up to a quarter of a call; both sides keep theirs.
        "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "PYTHONSAFEPATH": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(compiled / "inductor"),
        _THREADS: os.environ.get(_THREADS) or str(min(cores, 8) if cores >= 8 else 1),
        "TRITON_CACHE_DIR": str(compiled / "triton"),
        "TORCH_EXTENSIONS_DIR": str(compiled / "extensions"),
        "CUDA_CACHE_PATH": str(caches / "cuda"),
    }
