"""The environment of a child: an allow-list, and every cache and home in its own folder.

Knows the variables of compilers and devices. Does not know how a child is started.
"""

import os
import sys
from pathlib import Path

_ALLOWED_ENVIRONMENT = (
    "PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CC", "CXX", "CUDA_HOME", "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "OMP_NUM_THREADS",
    "TRITON_INTERPRET", "TORCH_CUDA_ARCH_LIST",
)  # fmt: skip
_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"
"""Inductor's compile workers of one child; a pool of many judges sets it lower."""

KEPT_CACHES = ("inductor", "triton", "extensions")
"""Folders of compilers' caches, which may outlive a child (`caches`)."""


def search_path() -> str:
    """PATH with this Python's own programs first (ninja lives there)."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def shared_environment() -> dict[str, str]:
    """The environment variables that all children of this process have in common."""
    kept = {name: os.environ[name] for name in _ALLOWED_ENVIRONMENT if name in os.environ}
    cores = len(os.sched_getaffinity(0))
    return kept | {
        "PATH": search_path(),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path and os.path.isdir(path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        # By chance, glibc returns freed buffers to the system after each call in some processes and not in others,
        # which costs up to a quarter of a call. Both sides keep theirs.
        "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "PYTHONSAFEPATH": "1",
        _THREADS: os.environ.get(_THREADS) or str(min(cores, 8) if cores >= 8 else 1),
    }


def child_environment(folder: Path, kept_caches: Path | None = None) -> dict[str, str]:
    """The environment variables of a child with this folder; `KEPT_CACHES` may lie elsewhere."""
    caches = folder / "caches"
    for part in ("tmp", "shm", "cuda"):
        (caches / part).mkdir(parents=True)
    compiled = kept_caches or caches
    for part in KEPT_CACHES:
        (compiled / part).mkdir(exist_ok=True)
    return shared_environment() | {
        "HOME": str(folder),
        "TMPDIR": str(caches / "tmp"),
        "XDG_CACHE_HOME": str(caches / "tmp"),
        "TORCHINDUCTOR_CACHE_DIR": str(compiled / "inductor"),
        "TRITON_CACHE_DIR": str(compiled / "triton"),
        "TORCH_EXTENSIONS_DIR": str(compiled / "extensions"),
        "CUDA_CACHE_PATH": str(caches / "cuda"),
    }
