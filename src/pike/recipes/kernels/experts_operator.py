"""The kernel of experts' products as an operator of PyTorch, and PyTorch's own where it has one.

Knows which numbers PyTorch multiplies for all experts at once, and what the kernel computes where
there is no GPU. Does not know the kernel (`experts_kernel`), where it runs (`tensor_cores`), nor
how experts are found (`routing`).
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.kernels.experts_kernel import multiply_experts
from pike.recipes.kernels.operator import define_operator

BY_PYTORCH = torch.bfloat16
BY_KERNEL = (torch.float32, torch.float16)


def grouped_product(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The product of each row with its expert's weights, without asking the host for sizes.

    Args:
        rows: (rows, inputs), sorted by expert.
        weights: (experts, outputs, inputs).
        ends: (experts,) int32, where each expert's rows end.

    Returns:
        (rows, outputs).

    Raises:
        RuntimeError: there is no such product for these bits.
    """
    if rows.dtype == weights.dtype == BY_PYTORCH:
        short = -rows.shape[1] % (16 // rows.element_size())  # rows must begin at multiples of 16 bytes
        if short:
            rows, weights = torch.nn.functional.pad(rows, (0, short)), torch.nn.functional.pad(weights, (0, short))
        product: torch.Tensor = torch._grouped_mm(rows, weights.mT, offs=ends)
        return product
    if rows.dtype != weights.dtype or rows.dtype not in BY_KERNEL:
        raise RuntimeError(f"there is no product for all experts at once of {rows.dtype} and {weights.dtype}")
    result: torch.Tensor = experts_operator()(rows, weights, ends, "bf16x6")
    return result


def kernel_calls(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The products of a graph that the kernel computes; the last argument is the arithmetic."""
    return [node for node in graph.graph.nodes if getattr(node.target, "namespace", "") == "pike_experts"]


def run_products(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor, arithmetic: str) -> torch.Tensor:
    """`grouped_product` by the kernel; expert by expert where there is no GPU.

    Rows of other numbers than the weights, as autocast makes them, become such as those.
    """
    output, rows = empty_products(rows, weights, ends, arithmetic), rows.to(weights.dtype)
    if rows.is_cuda:
        with torch.cuda.device(rows.device):
            multiply_experts(rows.contiguous(), weights.contiguous(), ends, output, arithmetic)
        return output
    begin = 0
    for weight, end in zip(weights, ends.tolist(), strict=True):
        torch.mm(rows[begin:end], weight.t(), out=output[begin:end])
        begin = end
    return output


def empty_products(rows: torch.Tensor, weights: torch.Tensor, _ends: torch.Tensor, _arithmetic: str) -> torch.Tensor:
    """An empty result of `run_products`."""
    return weights.new_empty(rows.shape[0], weights.shape[1])


def experts_operator() -> Any:
    """`run_products` as an operator."""
    schema = "(Tensor rows, Tensor weights, Tensor ends, str arithmetic) -> Tensor"
    return define_operator("pike_experts::multiply", schema, run_products, empty_products)
