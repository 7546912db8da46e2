"""The machine, as far as prompts, recipes and verdicts need it.

Knows names and limits as plain numbers. Does not know how they are found (`judge`).
"""

from dataclasses import dataclass, field

from pike.core.errors import UserError

_TENSOR_CORES = ((7, 0, "FP16"), (7, 5, "INT8"), (8, 0, "BF16"), (8, 0, "TF32"), (8, 9, "FP8"), (10, 0, "FP4"))
"""The first compute capability whose tensor cores multiply each type (CUDA C++ Programming Guide)."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The device that candidates run on.

    Attributes:
        device: the torch device, `cpu` or `cuda:N`.
        name: the maker's name for it.
        memory_bytes: device memory (host memory for a CPU).
        threads: CPU threads that both sides use.
        capability: CUDA compute capability, for example `9.0`; empty on a CPU.
        multiprocessors: streaming multiprocessors, 0 on a CPU.
        l2_bytes: L2 cache on a GPU, last-level cache on a CPU where known, else 0.
        shared_bytes_per_block: the most shared memory one CUDA block may use, 0 on a CPU.
        registers_per_block: 32-bit registers of one CUDA block, 0 on a CPU.
        vector_units: what a CPU multiplies vectors and matrices with, for example `AVX2`; empty
            where unknown.
        compilers: the compilers that work here, for example (`g++`, `nvcc`, `triton`).
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
    vector_units: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_cuda(self) -> bool:
        """Whether candidates run on an NVIDIA GPU."""
        return self.device.startswith("cuda")

    @property
    def units(self) -> tuple[str, ...]:
        """Vector units of a CPU, or the types that a GPU's tensor cores multiply."""
        if not self.capability:
            return self.vector_units
        major, _, minor = self.capability.partition(".")
        have = (int(major), int(minor or 0))
        kinds = [kind for *least, kind in _TENSOR_CORES if have >= tuple(least)]
        return (f"tensor cores for {' '.join(kinds)}",) if kinds else ()

    def require_same(self, now: "DeviceFacts") -> None:
        """Refuse to go on with a run of this device on another one.

        Raises:
            UserError: they have other names.
        """
        if self.name != now.name:
            raise UserError(
                f"The run began on {self.name} and this machine judges on {now.name}, and times on them do not "
                "compare: continue it there, or have its candidates judged there (pike bundle)"
            )
