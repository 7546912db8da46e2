"""`scan`: which recurrences it takes, what it leaves, and that its kernel computes them.

The kernel runs under Triton's interpreter and is compiled for Hopper, both without a GPU and where Triton is installed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from recipe_harness import CPU, CUDA, HALF, Case, alone, needs_triton, source_task

from pike import tasks
from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import look
from pike.recipes.kernel_recipes import scan as recipe

pytestmark = pytest.mark.slow
SAME = EvaluateOptions(precision=Precision.SAME)
NET = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.keep = nn.Parameter(torch.rand(1, 24))
    def forward(self, a, b, h):
        states = []
        {body}
def get_inputs():
    return [torch.rand(2, 6, 24), torch.randn(2, 6, 24), torch.randn(2, 24)]
def get_init_inputs():
    return []
"""


def loop(step: str, end: str = "torch.stack(states, 1)", steps: str = "range(6)") -> str:
    return f"for t in {steps}:\n            h = {step}\n            states.append(h)\n        return {end}"


STEP = "a[:, t] * h + b[:, t]"
TAKEN = {
    "stacked": (loop(STEP), 1),
    "in another order": (loop("b[:, t] + h * a[:, t]"), 1),
    "stacked behind": (loop(STEP, "torch.stack(states, -1)"), 1),
    "with the first state": (loop(STEP, "torch.stack([torch.zeros_like(h), *states], 1), h"), 1),
    "the first state and all but the last": ("states = [h]\n        " + loop(STEP, "torch.stack(states[:-1], 1)"), 1),
    "from the second on": (loop(STEP, "torch.stack(states[1:], 2)"), 1),
    "only the last": (loop(STEP, "h"), 1),
    "some in the midst": (loop(STEP, "states[1] + states[4].sin() * h"), 1),
    "read in the loop": ("y = 0\n        for t in range(6):\n            h = a[:, t] * h + b[:, t]\n            "
                         "y = y + (h * b[:, t].exp()).sum()\n        return y, h", 1),
    "not from the beginning": (loop(STEP, steps="range(1, 6)"), 1),
    "from the first whole state on": ("h = h[:, :1]\n        " + loop(STEP, "h"), 1),
    "the same decay": (loop("self.keep * h + b[:, t]"), 1),
    "decays that lie otherwise": ("c = a.permute(1, 0, 2)\n        " + loop("c[t] * h + b[:, t]"), 1),
    "one for several that lie otherwise": ("c = a[:, :, :1].permute(1, 0, 2)\n        " + loop("c[t] * h + b[:, t]"), 1),
    "one behind the other": ("for t in range(6):\n            h = a[:, t] * h + b[:, t]\n        "
                             "for t in range(6):\n            h = b[:, t] * h + a[:, t]\n        return h", 2),
    "one beside the other": ("g = h\n        for t in range(6):\n            h, g = a[:, t] * h + b[:, t], "
                             "b[:, t] * g + a[:, t]\n        return h - g", 2),
}  # fmt: skip
LEFT = {
    "backwards": loop(STEP, steps="reversed(range(6))"),
    "slices that come twice": loop("a[:, t // 2] * h + b[:, t]"),
    "decays that are more than slices": loop("a[:, t, :1] * h + b[:, t]"),
    "few": loop(STEP, steps="range(3)"),
    "not a product": loop("a[:, t] + h + b[:, t]"),
    "a function of the state": loop("a[:, t] * h.tanh() + b[:, t]"),
    "three times the drive": loop("torch.add(a[:, t] * h, b[:, t], alpha=3)"),
    "more bits": "a, b, h = a.double(), b.double(), h.double()\n        " + loop(STEP, "h.float()"),
    "crumbs": "a, b = (x.permute(0, 2, 1) for x in (a, b))\n        " + loop("a[..., t] * h + b[..., t]", "h"),
}


def case_of(body: str) -> Case:
    return Case.of(source_task(NET.replace("{body}", body)))


def problem(case: Case, facts: DeviceFacts = CUDA, options: EvaluateOptions = SAME) -> RecipeContext:
    return case.problem(facts, options)


def kernels(graph: torch.fx.GraphModule) -> int:
    return sum("pike_scan" in str(node.target) for node in graph.graph.nodes)


@pytest.mark.parametrize("form", TAKEN)
def test_steps_become_the_kernel_and_give_the_same_to_the_last_bit(form: str) -> None:
    body, count = TAKEN[form]
    case = case_of(body)
    assert recipe.RECIPE.declines(problem(case)) == ""
    inputs = case.reference.draw(4)
    graph = recipe.scan(case.reference.model, inputs.args, {})
    assert kernels(graph) == count
    with torch.no_grad():
        found, right = graph(*inputs.args), case.reference.model(*inputs.args)
    torch.testing.assert_close(found, right, rtol=0, atol=0)
    if "loop" not in form:
        assert len(graph.graph.nodes) < len(problem(case).graph.graph.nodes), "no step is left"


@pytest.mark.parametrize("form", LEFT)
def test_other_loops_are_left(form: str) -> None:
    case = case_of(LEFT[form])
    assert "no chain" in recipe.RECIPE.declines(problem(case))
    inputs = case.reference.draw(4)
    assert kernels(recipe.scan(case.reference.model, inputs.args, {})) == 0


def test_where_it_declines() -> None:
    case, declines = case_of(TAKEN["stacked"][0]), recipe.RECIPE.declines
    for options in (SAME, HALF):
        assert declines(problem(case, options=options)) == ""
    assert "GPUs" in declines(problem(case, CPU))
    assert "triton" in declines(problem(case, replace(CUDA, compilers=("g++",))))


def test_it_promises_more_where_steps_are_more_of_the_model() -> None:
    most = look(recipe.RECIPE, problem(case_of(TAKEN["stacked"][0]))).gain
    less = look(recipe.RECIPE, problem(case_of(loop(STEP, "h" + ".sin()" * 40)))).gain
    assert 0 < less < most < 2


def test_what_is_said_of_the_operator_without_data_is_true() -> None:
    operator = recipe.scan_operator()
    assert recipe.scan_operator() is operator
    drive = torch.randn(3, 5, 7).transpose(1, 2)
    args = (torch.rand(3, 7, 1), drive, torch.randn(3, 5), 1)
    assert operator(*args).is_contiguous()
    torch.library.opcheck(operator, args)


@pytest.mark.parametrize("names", [("scan",), ("half", "scan", "inductor")])
def test_a_selective_state_space_model_is_right(names: tuple[str, ...], tmp_path: Path) -> None:
    """Two of its layers, of which each has 24 steps."""
    case = Case.of(tasks.resolve("level5/11:small"))
    options = HALF if "half" in names else SAME
    built = case.loaded(case.compose(*names, facts=CUDA, options=options), tmp_path)
    error, own = case.errors(built, case.reference.draw(5))
    assert error <= (5e-3 if "half" in names else 2 * own + 1e-7)


def test_a_model_of_many_steps_can_be_compiled_whole_where_they_are_one_kernel() -> None:
    """Beside it stays what compiles a layer at a time, for which steps are what they are."""
    case = case_of(TAKEN["stacked"][0])
    limit = replace(SAME, timeout_seconds=1.5)
    on_gpu, on_cpu = problem(case, options=limit), problem(case, CPU, limit)
    assert on_gpu.compiling_seconds == on_cpu.compiling_seconds > limit.timeout_seconds
    assert on_gpu.compiler == ""
    assert "longer" in on_cpu.compiler


@pytest.fixture
def candidate_file(tmp_path: Path) -> Path:
    file = tmp_path / "candidate.py"
    file.write_text(case_of(TAKEN["stacked"][0]).compose("scan", facts=CUDA, options=SAME).source)
    return file


@needs_triton
def test_a_candidates_copy_of_the_kernel_computes_recurrences(candidate_file: Path) -> None:
    found = alone(candidate_file, "scans")
    assert len(found) == 4
    assert all(error < 1.5 for error in found.values()), found


@needs_triton
def test_a_candidates_copy_of_the_kernel_needs_no_shared_memory(candidate_file: Path) -> None:
    assert set(alone(candidate_file, "compile_scans").values()) == {0.0}
