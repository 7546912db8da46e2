"""Float32 products on tensor cores, as sums of products of shorter numbers: where that runs, and with how many bits.

Knows what Triton calls these products and which of them a problem's terms allow. Does not know kernels
(`attention_kernel`, `convolution_kernel`).
"""

from __future__ import annotations

from pike.core.evaluation import Precision
from pike.recipes.recipe import Problem
from pike.recipes.tf32 import no_tf32

EXACT, SHORT = "bf16x6", "bf16x3"
"""The arithmetic of products that keep float32's bits, and of those that may keep as few as TensorFloat-32's."""
FIRST_TRITON = (3, 6)
"""Its compiler knows these products."""


def no_kernel(problem: Problem) -> str:
    """Why kernels with such products do not run on a problem's device, empty where they do."""
    if no_tf32(problem):
        return no_tf32(problem)
    version = dict(problem.facts.versions).get("triton", "").split(".")[:2]
    is_new = tuple(int(part) if part.isdigit() else 0 for part in version) >= FIRST_TRITON
    if "triton" in problem.facts.compilers and is_new:
        return ""
    return f"the kernel needs triton {'.'.join(map(str, FIRST_TRITON))} or newer"


def arithmetic_of(problem: Problem) -> str:
    """How a kernel may multiply float32 numbers under a problem's terms; 16-bit ones it multiplies as they are."""
    return EXACT if problem.options.precision is Precision.SAME else SHORT
