"""A model with one of its parts dropped.

Silences or bypasses a submodule by hooks. Does not know what the results are compared with.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from pike.judge.reference.forward import Trial, run
from pike.judge.reference.reference import Inputs

Outputs = Callable[[Inputs], list[torch.Tensor] | None]
"""Runs a model without one part; returns None if it fails."""


def mutants(model: nn.Module, trial: Trial) -> Iterator[tuple[str, Outputs]]:
    """The model without one leaf module, for each that does something on the trial's example.

    Yields:
        The name of the dropped part, and a function that runs the model without it.
    """
    leaves = {name: part for name, part in model.named_modules() if name and not any(part.children())}
    for name, (works, bypasses) in _observed(model, leaves, trial).items():
        if works:
            yield f"without '{name}' (zeros instead)", _without(model, leaves[name], trial, bypass=False)
        if bypasses:
            yield f"without '{name}' (its input instead)", _without(model, leaves[name], trial, bypass=True)


def _observed(model: nn.Module, leaves: dict[str, nn.Module], trial: Trial) -> dict[str, tuple[bool, bool]]:
    """For each leaf from tensor to tensor: whether it works, and its input may stand in.

    A leaf works if it returns anything but zeros. The input of dropout and other identities may not
    stand in, because nothing would be missing.
    """
    seen: dict[str, tuple[bool, bool]] = {}
    hooks = ExitStack()
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
            # An identity returns its input itself, and not only equal values.
            shared = args[0].untyped_storage().data_ptr() == output.untyped_storage().data_ptr()
            same = shared and fits and torch.equal(before[0], output)
            works, bypasses = seen.get(name, (False, True))
            seen[name] = works or bool(output.any()), bypasses and fits and not same

        hooks.enter_context(part.register_forward_pre_hook(keep))
        hooks.enter_context(part.register_forward_hook(look))
    with hooks:
        run(model, trial.example, trial.device)
    return seen


def _without(model: nn.Module, part: nn.Module, trial: Trial, bypass: bool) -> Outputs:
    def outputs(inputs: Inputs) -> list[torch.Tensor] | None:
        stash: list[torch.Tensor] = []

        def keep(_: nn.Module, args: tuple[Any, ...]) -> None:
            stash[:] = [args[0].clone()]  # a part may work in place

        def replace(_: nn.Module, __: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
            return stash[0] if bypass else torch.zeros_like(output)

        try:
            with part.register_forward_pre_hook(keep), part.register_forward_hook(replace):
                return trial.forward(model)(inputs)
        except Exception:  # a model without one of its parts may raise anything
            return None

    return outputs
