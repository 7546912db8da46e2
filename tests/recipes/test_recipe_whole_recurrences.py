"""`whole_recurrences`: recurrent layers of every kind stay whole under a compiler and in 16 bits."""

from __future__ import annotations

import pytest
import torch
from recipe_harness import CPU, CUDA, HALF, Case, source_task

from pike.recipes.capture.graph import nodes_calling
from pike.recipes.layout.whole_recurrences import RECIPE, recurrent_layers
from pike.recipes.search.explored import explore

NET = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.{layer}
        self.head = nn.Linear(12, 3)
    def forward(self, x):
        y, state = self.layer(x)
        return self.head(y[..., :12]), state
def get_inputs():
    return [torch.randn(3, 5, 8)]
def get_init_inputs():
    return []
"""
LAYERS = (
    "LSTM(8, 12, num_layers=3, batch_first=True)",
    "LSTM(8, 16, proj_size=12, bidirectional=True)",
    "GRU(8, 12, num_layers=2, batch_first=True, bidirectional=True, bias=False)",
    "RNN(8, 12)",
    "RNN(8, 12, nonlinearity='relu', dropout=0.5, num_layers=2)",
)


def case_of(layer: str) -> Case:
    return Case.of(source_task(NET.format(layer=layer)))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_one_operator_with_the_same_answers(layer: str, tmp_path) -> None:
    case = case_of(layer)
    inputs = case.reference.draw(3)
    for names in (("whole_recurrences",), ("whole_recurrences", "trace_frozen")):
        error, own = case.errors(case.build(tmp_path, *names), inputs)
        assert error <= 2 * own + 1e-7


def test_an_unrolled_layer_is_no_candidate() -> None:
    found = explore(case_of("LSTM(8, 12, num_layers=3, batch_first=True)").problem(CUDA, HALF))
    assert not found.declined["whole_recurrences"]
    assert all("whole_recurrences" in names for names in found.space.ranked)
    first = next(names for names in found.space.ranked if {"half", "cuda_graph"} <= set(names))
    assert first.index("half") < first.index("whole_recurrences") < first.index("cuda_graph")
    assert found.space.completed(("half", "cuda_graph")) in found.space.ranked, "what won before it was there"


@pytest.mark.parametrize("layer", LAYERS)
def test_the_compiler_leaves_the_operator_whole(layer: str) -> None:
    """What inductor would see: its examples have the strides that the operator gives."""
    problem = case_of(layer).problem(CPU)
    graph = RECIPE.transform(problem.model, problem.args, problem.kwargs)
    assert not recurrent_layers(graph) and not nodes_calling(graph, "lstm", "gru", "rnn_tanh", "rnn_relu")
    mode = next(iter(graph.graph.nodes)).meta["val"].fake_mode
    with mode, torch.no_grad():
        empty = torch.utils._pytree.tree_leaves(graph(mode.from_tensor(problem.args[0])))
    full = torch.utils._pytree.tree_leaves(graph(*problem.args))
    assert [(one.shape, one.stride(), one.dtype) for one in empty] == [
        (one.shape, one.stride(), one.dtype) for one in full
    ]


def test_models_without_a_recurrence_are_left() -> None:
    problem = Case.of(
        source_task(NET.format(layer="LSTM(8, 12)").replace("self.layer(x)", "(x.repeat(1, 1, 2), x)"))
    ).problem(CPU)
    assert RECIPE.declines(problem) == "the model has no recurrent layer"
