"""A model with one of its parts dropped: what it then returns.

Knows how to silence or bypass a submodule for one call, by hooks. Does not know what the results are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from pike.evaluate.child.layout import flatten_output, put_together, take_apart
from pike.evaluate.reference import Inputs

Outputs = Callable[[Inputs], list[torch.Tensor] | None]
"""What a model without a part returns; None where it fails."""


def mutants(model: nn.Module, inputs: Inputs, device: torch.device) -> Iterator[tuple[str, Outputs]]:
    """The model without one leaf module, for each that does something on `inputs`.

    Yields:
        What was dropped, and a function that runs the model without it on any inputs.
    """
    leaves = {name: part for name, part in model.named_modules() if name and not any(part.children())}
    for name, (works, bypasses) in _observed(model, leaves, inputs, device).items():
        if works:
            yield f"without '{name}' (zeros instead)", _without(model, leaves[name], device, bypass=False)
        if bypasses:
            yield f"without '{name}' (its input instead)", _without(model, leaves[name], device, bypass=True)


def _observed(
    model: nn.Module, leaves: dict[str, nn.Module], inputs: Inputs, device: torch.device
) -> dict[str, tuple[bool, bool]]:
    """Of each leaf that is called with a tensor and returns one: does it return anything but zeros, and may its input
    stand in for that? Dropout and other identities may not: without them nothing is missing."""
    seen: dict[str, tuple[bool, bool]] = {}
    handles = []
    for name, part in leaves.items():
        before: list[torch.Tensor] = []

        def keep(_: nn.Module, args: tuple[Any, ...], before: list[torch.Tensor] = before) -> None:
            before[:] = [args[0].clone()] if args and isinstance(args[0], torch.Tensor) else []

        def look(
            _: nn.Module, args: tuple[Any, ...], output: Any, name: str = name, before: list[torch.Tensor] = before
        ) -> None:
            if not before or not isinstance(output, torch.Tensor):
                return
            fits = before[0].shape == output.shape and before[0].dtype == output.dtype
            same = fits and torch.equal(before[0], output)
            works, bypasses = seen.get(name, (False, True))
            seen[name] = works or bool(output.any()), bypasses and fits and not _is_same_object(same, args[0], output)

        handles += [part.register_forward_pre_hook(keep), part.register_forward_hook(look)]
    try:
        _run(model, inputs, device)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _is_same_object(same: bool, given: torch.Tensor, output: torch.Tensor) -> bool:
    """An identity hands its input on; something that computes and happens to return equal values does not."""
    return same and given.untyped_storage().data_ptr() == output.untyped_storage().data_ptr()


def _without(model: nn.Module, part: nn.Module, device: torch.device, bypass: bool) -> Outputs:
    def run(inputs: Inputs) -> list[torch.Tensor] | None:
        stash: list[torch.Tensor] = []

        def keep(_: nn.Module, args: tuple[Any, ...]) -> None:
            stash[:] = [args[0].clone()]  # a part may work in place

        def replace(_: nn.Module, __: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
            return stash[0] if bypass else torch.zeros_like(output)

        handles = [part.register_forward_pre_hook(keep), part.register_forward_hook(replace)]
        try:
            return _run(model, inputs, device)
        except Exception:  # a model without one of its parts may raise anything
            return None
        finally:
            for handle in handles:
                handle.remove()

    return run


def _run(model: nn.Module, inputs: Inputs, device: torch.device) -> list[torch.Tensor]:
    tensors, structure = take_apart((inputs.args, inputs.kwargs))
    args, kwargs = put_together(structure, [tensor.to(device, copy=True) for tensor in tensors])
    with torch.no_grad():
        return [leaf.to(device) for leaf, _ in flatten_output(model(*args, **kwargs))]
