"""Rotations by complex numbers become cosines and sines, which compilers can fuse.

Knows the graph: pairs of reals seen as complex numbers, multiplied by others, seen as pairs again
(rotary position embeddings, Su et al. 2021, arXiv:2104.09864, as Llama's reference code writes
them). Inductor leaves operators on complex numbers as they are, each with its own pass over memory.
The four products and two sums are those of the complex product.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import call_before, calls, capture_graph, finish_edit, nodes_calling, operand
from pike.recipes.framework.recipe import Recipe, RecipeStage


def real_rotations(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Write every complex product between pairs of reals in real numbers."""
    aten = torch.ops.aten
    graph = capture_graph(model, args, kwargs)
    for end, pairs, rotation in complex_rotations(graph):
        even, odd = (call_before(end, aten.select.int, pairs, -1, index) for index in (0, 1))
        turns = call_before(end, aten.view_as_real.default, rotation)
        cosine, sine = (call_before(end, aten.select.int, turns, -1, index) for index in (0, 1))
        products = [
            call_before(end, aten.mul.Tensor, one, other)
            for one, other in ((even, cosine), (odd, sine), (even, sine), (odd, cosine))
        ]
        real = call_before(end, aten.sub.Tensor, products[0], products[1])
        imaginary = call_before(end, aten.add.Tensor, products[2], products[3])
        turned = call_before(end, aten.stack.default, [real, imaginary], -1)
        turned.meta.update(end.meta)
        end.replace_all_uses_with(turned)
    finish_edit(graph)
    return graph


def complex_rotations(graph: torch.fx.GraphModule) -> list[tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node]]:
    """The last operator of each rotation, the pairs that it turns, and the complex factors."""
    found = []
    for end in nodes_calling(graph, "view_as_real"):
        product = operand(end, 0)
        if not calls(product, "mul") or not all(isinstance(value, torch.fx.Node) for value in product.args):
            continue
        for first, second in (product.args, reversed(product.args)):
            if calls(first, "view_as_complex") and not calls(second, "conj", "_conj"):
                found.append((end, operand(first, 0), second))
                break
    return found


RECIPE = Recipe(
    "real_rotations",
    "rotations by complex numbers written out in reals",
    RecipeStage.REWRITE,
    real_rotations,
    lambda problem: problem.lacks(complex_rotations, "nothing is rotated by complex numbers"),
    prior_cpu=0.1,
    prior_cuda=0.15,
    blamed_for=("view_as_real", "complex"),
)
