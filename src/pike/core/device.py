"""What the machine is, as far as prompts, recipes and verdicts need it.

Knows names and limits as plain numbers. Does not know how they are found (`evaluate.device`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The device that candidates run on.

    Attributes:
        device: the torch device, `cpu` or `cuda:N`.
        name: what the maker calls it.
        memory_bytes: device memory (host memory for a CPU).
        threads: CPU threads that both sides use.
        capability: CUDA compute capability, for example `9.0`; empty on a CPU.
        multiprocessors: streaming multiprocessors, 0 on a CPU.
        l2_bytes: L2 cache on a GPU, last-level cache on a CPU where known, else 0.
        shared_bytes_per_block: the most shared memory one CUDA block may use, 0 on a CPU.
        registers_per_block: 32-bit registers of one CUDA block, 0 on a CPU.
        compilers: what can be compiled here, for example (`g++`, `nvcc`, `triton`).
        versions: (name, version) pairs: python, torch, cuda, triton, driver.
    """

    device: str
    name: str
    memory_bytes: int = 0
    threads: int = 1
    capability: str = ""
    multiprocessors: int = 0
    l2_bytes: int = 0
    shared_bytes_per_block: int = 0
    registers_per_block: int = 0
    compilers: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()

    @property
    def is_cuda(self) -> bool:
        """Whether candidates run on an NVIDIA GPU."""
        return self.device.startswith("cuda")
