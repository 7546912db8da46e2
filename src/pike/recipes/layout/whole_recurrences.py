"""Recurrent layers as one call of cuDNN or oneDNN, which a compiler would unroll step by step.

Knows PyTorch's LSTM, GRU and plain recurrences. Each becomes an operator that compilers leave
alone, so lower precision, CUDA graphs and what surrounds it can be combined with it. Its weights
are laid into one piece of memory, because cuDNN otherwise copies them together at every call. Comes
after the precision is settled, which stores weights anew.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import (
    add_tensor,
    capture_graph,
    example_of,
    finish_edit,
    nodes_calling,
    operand,
    tensor_at,
)
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.kernels.operator import define_operator

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def whole_recurrences(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Every recurrent layer as an operator of its own, with weights in one piece of memory."""
    graph = capture_graph(model, args, kwargs)
    for layer in recurrent_layers(graph):
        weights = [tensor_at(graph, weight) for weight in layer.args[2]]
        stored = [weight.clone() for weight in weights if weight is not None and weight.is_cuda]
        if len(stored) == len(weights):
            flat = in_one_piece(layer, stored)
            layer.update_arg(2, [add_tensor(graph, "recurrence", weight, layer) for weight in flat])
        layer.target = recurrence_operator(layer.target)
    finish_edit(graph)
    return graph


def recurrent_layers(graph: torch.fx.GraphModule) -> list[Any]:
    """The recurrent layers on whole batches; packed sequences have another overload."""
    layers: list[Any] = nodes_calling(graph, *RECURRENT)
    return [layer for layer in layers if layer.target._overloadname == "input"]


def in_one_piece(layer: Any, weights: list[torch.Tensor]) -> list[torch.Tensor]:
    """The weights as views of one tensor, as `torch.nn.RNNBase.flatten_parameters` lays them."""
    biased, layers, _, _, both, batch_first = layer.args[3:9]
    states = operand(layer, 1)
    hidden, projected = example_of(states[-1] if isinstance(states, list) else states).shape[-1], 0
    if isinstance(states, list) and example_of(states[0]).shape[-1] != hidden:
        projected = example_of(states[0]).shape[-1]
    mode = ("rnn_relu", "rnn_tanh", "lstm", "gru").index(layer.target.overloadpacket.__name__)  # as cuDNN counts them
    each = (4 if biased else 2) + bool(projected)
    with torch.no_grad(), torch.cuda.device(weights[0].device):
        torch._cudnn_rnn_flatten_weight(
            weights, each, weights[0].shape[1], mode, hidden, projected, layers, batch_first, both
        )
    return weights


def recurrence_operator(kind: Any) -> Any:
    """One of PyTorch's recurrent layers as an operator that compilers leave alone."""
    name = kind.overloadpacket.__name__
    schema = str(kind._schema).partition("(")[2]
    return define_operator(
        f"pike_recurrences::{name}", f"({schema}", kind, empty_lstm if name == "lstm" else empty_states
    )


def empty_lstm(inputs: torch.Tensor, states: Any, *others: Any) -> Any:
    """Empty results of an LSTM: all hidden states, the last one, and the last cell state."""
    return *empty_states(inputs, states[0], *others), torch.empty_like(states[1])


def empty_states(inputs: torch.Tensor, state: torch.Tensor, *others: Any) -> Any:
    """Empty results of a recurrence: all hidden states, and the last one."""
    both, batch_first = others[-2:]
    steps, batch = inputs.shape[:2] if not batch_first else (inputs.shape[1], inputs.shape[0])
    hidden = inputs.new_empty(steps, batch, state.shape[-1] * (2 if both else 1))
    return hidden.transpose(0, 1) if batch_first else hidden, torch.empty_like(state)


RECIPE = Recipe(
    "whole_recurrences",
    "recurrent layers kept whole, weights in one piece",
    RecipeStage.LAYOUT,
    whole_recurrences,
    lambda problem: problem.lacks(recurrent_layers, "the model has no recurrent layer"),
    foundation=True,
    prior_cuda=0.05,
    blamed_for=("pike_recurrences", "cudnn_rnn", "RNN weights"),
)
