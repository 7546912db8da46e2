"""How many bytes and operations a second a device can do at most, measured in the judge.

A ceiling is the best of several of torch's own kernels. Does not know what a task needs
(`roofline`), which also allows for the part that torch leaves unused.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from pike.judge.timing.cores import torch_threads

_TRIES, _MOST_SECONDS = 5, 0.3
_SIDE = {"cuda": 8192, "cpu": 512}
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 512 << 20
_CPU_CACHES = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations a second in matrix products; an addition and a multiplication count as two."""

    float32: float
    tf32: float
    half: float

    @property
    def most(self) -> float:
        """The rate of the fastest arithmetic."""
        return max(self.float32, self.tf32, self.half)

    def larger(self, other: Rates) -> Rates:
        """The larger of two measurements, for each arithmetic."""
        return Rates(max(self.float32, other.float32), max(self.tf32, other.tf32), max(self.half, other.half))


class MeasuredCeilings:
    """Measures a device with `threads` CPU threads; the caller holds its lock exclusively.

    Every measurement may raise `torch.OutOfMemoryError`.
    """

    def __init__(self, device: torch.device, threads: int) -> None:
        self._device, self._threads = device, threads

    def bytes_per_second(self) -> float:
        """The best of copying (counts twice), reading and filling memory beyond the caches."""
        size = self._buffer_bytes()
        with self._threaded():
            source = torch.ones(size // 4, device=self._device)
            target = torch.empty_like(source)
            copied = self._best_seconds(lambda: target.copy_(source))
            read = self._best_seconds(lambda: source.sum())
            filled = self._best_seconds(lambda: target.fill_(1.0))
        return max(2 * size / copied, size / read, size / filled)

    def rates(self) -> Rates:
        """Square matrix products at each precision."""
        side = _SIDE[self._device.type]
        operations = 2.0 * side**3
        with self._threaded():
            seconds = {
                kind: self._product_seconds(side, kind) for kind in (torch.float32, torch.float16, torch.bfloat16)
            }
            with _tf32(self._device):
                tf32 = self._product_seconds(side, torch.float32)
        half = min(seconds[torch.float16], seconds[torch.bfloat16])
        return Rates(operations / seconds[torch.float32], operations / tf32, operations / half)

    def cache_bytes(self) -> int:
        """The L2 cache of a GPU, or all second- and third-level caches of a CPU."""
        if self._device.type == "cuda":
            return int(getattr(torch.cuda.get_device_properties(self._device), "L2_cache_size", 0))
        return host_cache_bytes()

    def _buffer_bytes(self) -> int:
        size = min(max(4 * self.cache_bytes(), _LEAST_BYTES), _MOST_BYTES)
        if self._device.type == "cuda":
            size = min(size, torch.cuda.mem_get_info(self._device)[0] // 4)
        return size

    def _product_seconds(self, side: int, kind: torch.dtype) -> float:
        one, other = (torch.randn(side, side, device=self._device).to(kind) for _ in range(2))
        result = torch.empty_like(one)
        return self._best_seconds(lambda: torch.mm(one, other, out=result))

    def _best_seconds(self, work: Callable[[], object]) -> float:
        """The shortest of some tries after a warm-up; a slow device gets fewer."""
        began, best = time.perf_counter(), float("inf")
        for number in range(_TRIES + 1):
            self._settle()
            started = time.perf_counter()
            work()
            self._settle()
            best = min(best, time.perf_counter() - started)
            if number and time.perf_counter() - began > _MOST_SECONDS:
                break
        return best

    def _settle(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    @contextmanager
    def _threaded(self) -> Iterator[None]:
        try:
            with torch_threads(self._threads):
                yield
        finally:
            if self._device.type == "cuda":
                torch.cuda.empty_cache()  # the children need the memory


@contextmanager
def _tf32(device: torch.device) -> Iterator[None]:
    """While inside, float32 products may use TF32; a CPU has none."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = device.type == "cuda"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def host_cache_bytes(folder: Path = _CPU_CACHES) -> int:
    """All second- and third-level caches of this machine, each counted once; 0 if unknown."""
    found: dict[tuple[int, str], int] = {}
    for place in folder.glob("cpu[0-9]*/cache/index[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            level, size = int((place / "level").read_text()), (place / "size").read_text().strip()
            if level >= 2:
                shared = (place / "shared_cpu_list").read_text().strip()
                found[level, shared] = int(size.rstrip("KM")) * (1 << 20 if size.endswith("M") else 1 << 10)
    return sum(found.values())
