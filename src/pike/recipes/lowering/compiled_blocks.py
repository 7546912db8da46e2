"""Repeated blocks of a deep model, compiled once for all of them.

Compiling a captured model takes time for each of its operators, thousands in a deep transformer.
Blocks of one class in a list share their code, which torch.compile compiles once, with parameters
as arguments. What lies between blocks stays as it is, and nothing is fused across their borders. On
a GPU everything is replayed as one CUDA graph. Does not know graphs of operators.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import call_leaves, keep_checks
from pike.recipes.framework.context import COMPILER_SECONDS, RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.lowering.cuda_graph import CudaGraph, cannot_record, copies_are_small

LEAST_BLOCKS = 3
"""Fewer blocks of a class are compiled as quickly one by one."""
LEAST_SHARE = 0.25
"""A share of the judge's limit: a model that compiles faster is compiled as a whole."""


def compiled_blocks(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model with each of its repeated blocks compiled for exactly these shapes."""
    keep_checks()
    for block in repeated_blocks(model):
        block.compile(dynamic=False)
    tensors = [leaf for leaf in call_leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]
    return CudaGraph(model, args, kwargs) if any(tensor.is_cuda for tensor in tensors) else model


def repeated_blocks(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The outermost modules of which several of one class, with children, stand in one list."""
    found: list[torch.nn.Module] = []
    inside: set[torch.nn.Module] = set()
    for module in model.modules():
        if module in inside or not isinstance(module, torch.nn.ModuleList | torch.nn.Sequential):
            continue
        children = [child for child in module if any(True for _ in child.children())]
        classes = [type(child) for child in children]
        blocks = [child for child in children if classes.count(type(child)) >= LEAST_BLOCKS]
        found += blocks
        inside.update(part for block in blocks for part in block.modules())
    return found


def declines(problem: RecipeContext) -> str:
    """Declines without a compiler or repeated blocks, in small models, and where the host waits."""
    if problem.no_compiler:
        return problem.no_compiler
    if problem.graph and problem.compiling_seconds < LEAST_SHARE * problem.options.timeout_seconds:
        return "compiling the whole model takes little longer than compiling its blocks"
    if not repeated_blocks(problem.model):
        return f"the model has no list of {LEAST_BLOCKS} blocks of one class"
    return cannot_record(problem) if problem.facts.is_cuda else ""


def seconds_for_one_block(problem: RecipeContext) -> float:
    """Seconds to compile one of the repeated blocks."""
    return COMPILER_SECONDS + problem.compiling_seconds / max(len(repeated_blocks(problem.model)), 1)


RECIPE = Recipe(
    "compiled_blocks",
    "repeated blocks compiled once for all of them, replayed as one CUDA graph on a GPU",
    RecipeStage.LOWER,
    compiled_blocks,
    declines,
    edits_weights=True,
    own_modules=True,
    records=True,
    prior_cpu=0.3,
    prior_cuda=0.85,
    suits=copies_are_small,
    blamed_for=("dynamo", "inductor", "capture", "capturing", "CUDA graph", "cudaError"),
    seconds=seconds_for_one_block,
)
