"""`compiled_blocks`: which blocks it finds, that they are compiled once, and what it does not go together with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from recipe_harness import CPU, CUDA, Case, source_task
from torch import nn

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import EvaluateOptions
from pike.recipes.framework.context import RecipeContext
from pike.recipes.lowering.compiled_blocks import repeated_blocks
from pike.recipes.registry import BY_NAME
from pike.recipes.search.composition import broken_rule, legal_compositions

DEEP = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), nn.Linear(width, width)
    def forward(self, x, scale):
        return x + torch.relu(self.layer(self.norm(x))) * scale
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(24) for _ in range(5))
        self.head = nn.Linear(24, 3)
    def forward(self, x):
        scale = x.mean(-1, keepdim=True)
        for block in self.blocks:
            x = block(x, scale)
        return self.head(x)
def get_inputs():
    return [torch.randn(6, 24)]
def get_init_inputs():
    return []
"""


def problem(case: Case, facts, seconds: float = 900.0) -> RecipeContext:
    return case.problem(facts, EvaluateOptions(timeout_seconds=seconds))


def test_the_outermost_repeated_blocks_are_found() -> None:
    def block() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    inner = nn.ModuleList([nn.Sequential(block(), block(), block()) for _ in range(3)])
    assert repeated_blocks(inner) == list(inner), "not the blocks inside of blocks"
    assert repeated_blocks(nn.ModuleList([block(), block()])) == [], "too few"
    assert repeated_blocks(nn.ModuleList([nn.Linear(2, 2) for _ in range(9)])) == [], "layers are no blocks"
    stages = nn.Sequential(nn.Linear(2, 2), *[block() for _ in range(3)])
    assert repeated_blocks(stages) == list(stages)[1:]


@pytest.mark.slow
def test_blocks_share_one_compilation_and_give_the_same_answers(tmp_path: Path) -> None:
    case = Case.of(source_task(DEEP))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    few = EvaluateOptions(timeout_seconds=1.0)
    candidate = case.loaded(case.compose("compiled_blocks", options=few), tmp_path)
    inputs = case.reference.draw(2)
    error, own = case.errors(candidate, inputs)
    assert error <= 2 * own + 5e-7
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1, "five blocks, one compilation"
    assert not any(hasattr(block, "_orig_mod") for block in case.reference.model.modules())
    assert case.reference.model.blocks[0]._compiled_call_impl is None, "the original's own blocks stay as they were"


def test_it_needs_the_models_own_modules() -> None:
    assert "own modules" in broken_rule(("fold_constants", "compiled_blocks"))
    assert broken_rule(("compiled_blocks", "full_float32")) == ""
    legal = legal_compositions(
        ["fuse_linears", "half", "fold_constants", "compiled_graph", "compiled_blocks", "freeze"]
    )
    assert [names for names in legal if "compiled_blocks" in names] == [("compiled_blocks",)]


@pytest.mark.parametrize("name", ["inductor", "compiled_graph", "freeze", "max_autotune"])
def test_what_would_outlast_the_limit_is_declined_and_blocks_are_not(name: str) -> None:
    case = Case.of(source_task(DEEP))
    assert BY_NAME[name].declines(problem(case, CUDA)) == ""
    assert "longer than the judge's limit" in BY_NAME[name].declines(problem(case, CUDA, seconds=1.0))
    assert BY_NAME["compiled_blocks"].declines(problem(case, CUDA, seconds=1.0)) == ""


def test_where_it_declines() -> None:
    plain = Case.of(source_task(DEEP.replace("range(5)", "range(2)")))
    assert "no list of 3 blocks" in BY_NAME["compiled_blocks"].declines(problem(plain, CPU, seconds=1.0))
    case = Case.of(source_task(DEEP))
    assert "little longer" in BY_NAME["compiled_blocks"].declines(problem(case, CPU))
    without = problem(case, DeviceFacts("cpu", "a CPU without a compiler", threads=2), seconds=1.0)
    assert "needs g++" in BY_NAME["compiled_blocks"].declines(without)
