"""Float32 products on tensor cores, as sums of products of shorter numbers.

Knows what Triton calls these products and which of them a precision allows. Does not know kernels
(`attention_kernel`, `convolution_kernel`, `experts_kernel`).
"""

from __future__ import annotations

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import Precision

EXACT, SHORT = "bf16x6", "bf16x3"
"""The arithmetic that keeps float32's bits, and the one that keeps at least TensorFloat-32's."""
FIRST_TRITON = (3, 6)
"""The first version of Triton whose compiler knows these products."""


def no_tf32(facts: DeviceFacts) -> str:
    """Why a device has no units for TensorFloat-32, empty where it has."""
    if facts.is_cuda and int(facts.capability.partition(".")[0] or 0) >= 8:
        return ""
    return "TensorFloat-32 needs an NVIDIA GPU of compute capability 8.0"


def no_kernel(facts: DeviceFacts) -> str:
    """Why kernels with such products do not run on a device, empty where they do."""
    if no_tf32(facts):
        return no_tf32(facts)
    version = dict(facts.versions).get("triton", "").split(".")[:2]
    is_new = tuple(int(part) if part.isdigit() else 0 for part in version) >= FIRST_TRITON
    if "triton" in facts.compilers and is_new:
        return ""
    return f"the kernel needs triton {'.'.join(map(str, FIRST_TRITON))} or newer"


def arithmetic_of(precision: Precision) -> str:
    """How a kernel may multiply float32 numbers at a precision."""
    return EXACT if precision is Precision.SAME else SHORT
