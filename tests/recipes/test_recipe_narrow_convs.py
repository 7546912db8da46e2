"""`narrow_convs`: which convolutions it takes, what it leaves, and that its kernel computes them.

The kernel runs under Triton's interpreter and is compiled for Hopper, both without a GPU and where Triton is installed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from recipe_harness import CPU, CUDA, HALF, Case, alone, needs_triton, source_task

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import look
from pike.recipes.kernel_recipes import narrow_convs as recipe
from pike.recipes.search import explored

SAME = EvaluateOptions(precision=Precision.SAME)
TF32 = EvaluateOptions(precision=Precision.TF32)
NET = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.plain = nn.Conv2d(3, 20, (3, 1), stride=(1, 2), padding=(1, 0), bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.grouped = nn.Conv2d(3, 6, 3, groups=3)
        self.wide = nn.Conv2d(8, 8, 3)
        self.spread = nn.Conv2d(3, 8, 3, dilation=2)
        self.same = nn.Conv2d(3, 8, 3, padding="same")
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.randn(2, 3, 12, 14)]
def get_init_inputs():
    return []
"""
TAKEN = {
    "with what follows": ("return torch.relu(self.first(x))", [True]),
    "alone": ("return self.plain(x)", [False]),
    "read twice": ("y = self.first(x); return torch.relu(y) + y", [False]),
    "two": ("return torch.cat([torch.relu(self.first(x)).flatten(), self.plain(x).flatten()])", [True, False]),
    "behind its batch norm": ("return torch.relu(self.norm(self.first(x)))", [False]),
}
LEFT = {
    "groups": "return self.grouped(x)",
    "many taps": "return self.wide(torch.relu(self.grouped(x)).repeat(1, 2, 1, 1)[:, :8])",
    "dilation": "return self.spread(x)",
    "padding by name": "return self.same(x)",
    "filters that vary": "return torch.nn.functional.conv2d(x, x[:, :, :3, :3].reshape(2, 3, 3, 3))",
    "float64": "return torch.nn.functional.conv2d(x.double(), self.first.weight.double()).float()",
}


@pytest.fixture
def small_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "LEAST_NUMBERS", 1)


def case_of(body: str) -> Case:
    return Case.of(source_task(NET.replace("{body}", body)))


def problem(case: Case, facts: DeviceFacts = CUDA, options: EvaluateOptions = SAME) -> RecipeContext:
    return case.problem(facts, options)


def kernels(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if "pike_convolution" in str(node.target)]


@pytest.mark.parametrize("form", TAKEN)
def test_convolutions_of_few_channels_become_the_kernel(form: str, small_maps: None) -> None:
    body, rectified = TAKEN[form]
    case = case_of(body)
    assert recipe.RECIPE.declines(problem(case)) == ""
    inputs = case.reference.draw(4)
    graph = recipe.narrow_convs(case.reference.model, inputs.args, {})
    assert [kernel.args[5] for kernel in kernels(graph)] == rectified
    assert "conv2d" not in graph.code
    with torch.no_grad():
        assert torch.allclose(graph(*inputs.args), case.reference.model(*inputs.args), atol=1e-6)


@pytest.mark.parametrize("form", LEFT)
def test_other_convolutions_are_left(form: str, small_maps: None) -> None:
    case = case_of(LEFT[form])
    assert "few channels" in recipe.RECIPE.declines(problem(case))
    inputs = case.reference.draw(4)
    graph = recipe.narrow_convs(case.reference.model, inputs.args, {})
    assert not kernels(graph)


def test_where_it_declines(small_maps: None, monkeypatch: pytest.MonkeyPatch) -> None:
    case, declines = case_of(TAKEN["alone"][0]), recipe.RECIPE.declines
    for options in (SAME, TF32, HALF):
        assert declines(problem(case, options=options)) == ""
    assert "NVIDIA" in declines(problem(case, CPU))
    assert "triton 3.6" in declines(problem(case, replace(CUDA, versions=())))
    monkeypatch.setattr(recipe, "LEAST_NUMBERS", 1 << 22)
    assert "large map" in declines(problem(case))


def test_it_promises_more_where_these_maps_are_more_of_what_is_written(small_maps: None) -> None:
    most = look(recipe.RECIPE, problem(case_of(TAKEN["with what follows"][0]))).gain
    less = look(recipe.RECIPE, problem(case_of("return torch.relu(self.first(x)).sin().cos().sin()"))).gain
    assert 0 < less < most < 1


def test_a_search_never_puts_it_beside_16_bits(small_maps: None) -> None:
    case = case_of(TAKEN["with what follows"][0])
    found = explored.explore(problem(case, options=HALF)).space.ranked
    beside = [names for names in found if "narrow_convs" in names]
    assert beside
    assert not any({"half", "bf16", "autocast_half", "autocast_bf16"} & set(names) for names in beside)


@pytest.mark.parametrize("rectified", [False, True])
def test_what_is_said_of_the_operator_without_data_is_true(rectified: bool) -> None:
    operator = recipe.convolution_operator()
    assert recipe.convolution_operator() is operator
    image, weight = torch.randn(2, 3, 9, 11).to(memory_format=torch.channels_last), torch.randn(5, 3, 3, 2)
    args = (image, weight, torch.randn(5), [2, 3], [1, 0], rectified)
    assert operator(*args).is_contiguous()
    torch.library.opcheck(operator, args)


def test_the_candidate_works_beside_a_compiler_and_keeps_all_bits(small_maps: None, tmp_path: Path) -> None:
    case = case_of(TAKEN["behind its batch norm"][0])
    names = ("fold_batch_norm", "narrow_convs", "inductor")
    proposal = case.compose(*names, facts=CUDA, options=SAME)
    for options in (SAME, TF32):  # fewer bits were not enough where fewer are allowed, and writing takes longer anyway
        assert 'ARITHMETIC = "bf16x6"' in case.compose("narrow_convs", facts=CUDA, options=options).source
    least = "LEAST_NUMBERS = 1 << 22"
    assert least in proposal.source
    source = proposal.source.replace(least, "LEAST_NUMBERS = 1")
    built = case.loaded(replace(proposal, source=source), tmp_path)
    error, own = case.errors(built, case.reference.draw(5))
    assert error <= 2 * own + 5e-7


@pytest.fixture
def candidate_file(small_maps: None, tmp_path: Path) -> Path:
    file = tmp_path / "candidate.py"
    file.write_text(case_of(TAKEN["alone"][0]).compose("narrow_convs", facts=CUDA, options=SAME).source)
    return file


@needs_triton
def test_a_candidates_copy_of_the_kernel_computes_convolutions(candidate_file: Path) -> None:
    found = alone(candidate_file, "convolutions")
    assert len(found) == 4
    assert all(error < 2 for error in found.values()), found


@needs_triton
@pytest.mark.slow
def test_a_candidates_copy_of_the_kernel_fits_a_hopper_gpu(candidate_file: Path) -> None:
    found = alone(candidate_file, "compile_convolutions")
    assert len(found) == 8
    assert all(shared <= 227 * 1024 for shared in found.values()), found
