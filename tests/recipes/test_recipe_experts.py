"""Experts that a router chooses: captured once, right for every number of rows, and the foundation of other recipes."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from recipe_harness import CPU, CUDA, HALF, Case, alone, needs_triton, source_task

from pike import tasks
from pike.core.verdict.evaluation import EvaluateOptions
from pike.recipes.framework.context import RecipeContext
from pike.recipes.kernel_recipes.routed_experts import routed_experts
from pike.recipes.kernel_recipes.routing import capture_experts
from pike.recipes.kernels.experts_operator import experts_operator, kernel_calls
from pike.recipes.registry import BY_NAME
from pike.recipes.search.composition import legal_compositions, ordered
from pike.recipes.search.space import Space

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
class Network(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, dtype=torch.bfloat16)
        self.up = nn.Linear(width, hidden, bias=False, dtype=torch.bfloat16)
        self.down = nn.Linear(hidden, width, bias=False, dtype=torch.bfloat16)
    def forward(self, x):
        {network}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(32, 5, bias=False, dtype=torch.bfloat16)
        self.experts = nn.ModuleList(Network(32, 20) for _ in range(5))
    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2)
        {join}
def get_inputs():
    return [torch.randn(24, 32, dtype=torch.bfloat16)]
def get_init_inputs():
    return []
"""
NETWORK = "return self.down(F.silu(self.gate(x)) * self.up(x))"
SORTED = """
        order = chosen.flatten().argsort(stable=True)
        parts = torch.split(x[order // 2], torch.bincount(chosen.flatten(), minlength=5).tolist())
        made = torch.cat([expert(part) for expert, part in zip(self.experts, parts) if len(part)])
        made = torch.empty_like(made).index_copy(0, order, made).view(*chosen.shape, -1)
        return (made * weights[..., None]).sum(1)
"""
LOOP = """
        y = torch.zeros_like(x)
        counts = torch.bincount(chosen.flatten(), minlength=5).tolist()
        for place, expert in enumerate(self.experts):
            if counts[place] == 0:
                continue
            token, choice = torch.where(chosen == place)
            assert weights[chosen[:, 0], 0 * chosen[:, 1]].shape == x[:, 0].shape  # other indices are left alone
            y[token] += expert(x[token]) * weights[token, choice, None]
        return y + x
"""
FORMS = {"sorted and split": SORTED, "a loop that picks": LOOP}


def experts(network: str = NETWORK, form: str = SORTED) -> Case:
    return Case.of(source_task(HEAD.replace("{network}", network).replace("{join}", form)))


def problem(case: Case, facts=CPU) -> RecipeContext:
    return replace(case.problem(facts), model=copy.deepcopy(case.reference.model))


NETWORKS = {
    "gated, with a bias": NETWORK,
    "plain": "return self.down(torch.relu(self.gate(x)).square() + 1.0)",
    "in more bits between": "return self.down((self.gate(x).to(torch.float32) * 0.5).to(torch.bfloat16))",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("network", NETWORKS)
def test_what_was_captured_holds_for_other_numbers_of_rows(network, form):
    case = experts(NETWORKS[network], FORMS[form])
    model, inputs = case.reference.model, case.reference.draw(1)
    graph = capture_experts(copy.deepcopy(model), inputs.args, inputs.kwargs)
    sizes = set()
    for seed in range(2, 8):
        (x,) = case.reference.draw(seed).args
        x[:, :] += 10 * (seed % 3) * model.router.weight[seed % 5]  # some experts get everything and some nothing
        with torch.no_grad():
            wanted, found = model(x), graph(x)
            sizes.add(tuple(torch.bincount(model.router(x).topk(2)[1].flatten(), minlength=5).tolist()))
        torch.testing.assert_close(found, wanted, rtol=0.02, atol=0.02 * float(wanted.abs().max()))
    assert len(sizes) > 4 and any(0 in each for each in sizes)


def test_weights_are_not_held_twice():
    case = experts()
    model, inputs = copy.deepcopy(case.reference.model), case.reference.draw(1)
    graph = capture_experts(model, inputs.args, inputs.kwargs)
    stacks = {buffer.untyped_storage().data_ptr() for _, buffer in graph.named_buffers()}
    for mine, original in zip(model.experts.parameters(), case.reference.model.experts.parameters(), strict=True):
        assert torch.equal(mine, original)
        assert mine.untyped_storage().data_ptr() in stacks


@pytest.mark.parametrize(
    ("network", "form", "why"),
    [
        ("return self.down(self.gate(x).softmax(0))", SORTED, "softmax"),
        ("return self.down(self.gate(x)) + x.mean(0)", LOOP, "mean"),
        ("return self.down(self.gate(x) * self.gate.bias)", LOOP, "mul"),
        (NETWORK, SORTED.replace("zip(self.experts, parts)", "zip(self.experts[::-1], reversed(parts))"), "order"),
        (NETWORK, LOOP.replace("enumerate(self.experts)", "reversed(list(enumerate(self.experts)))"), "order"),
        (NETWORK, LOOP.replace("y[token] +=", "y[token] = 2 * y[token] +"), "what was there"),
        (NETWORK, LOOP.replace("return y + x", "return x + 1"), "never reads"),
    ],
)
def test_experts_that_do_more_than_rows_alone_are_left_as_they_are(network, form, why):
    case = experts(network, form)
    inputs = case.reference.draw(1)
    with pytest.raises((RuntimeError, AttributeError), match=why):
        capture_experts(copy.deepcopy(case.reference.model), inputs.args, inputs.kwargs)
    assert "cannot be captured" in BY_NAME["routed_experts"].declines(problem(case))


def of_numbers(numbers: str, form: str = SORTED) -> Case:
    """The same experts in other numbers than bfloat16."""
    return Case.of(source_task(experts(form=form).task.source.replace("bfloat16", numbers)))


@pytest.mark.parametrize("form", FORMS)
def test_experts_in_float32_are_captured_for_the_kernel(form):
    case = of_numbers("float32", FORMS[form])
    model, inputs = case.reference.model, case.reference.draw(1)
    graph = routed_experts(copy.deepcopy(model), inputs.args, inputs.kwargs, ("bf16x3",))
    assert [call.args[-1] for call in kernel_calls(graph)] == ["bf16x3"] * 3
    assert graph.code.count("'bf16x3'") == 3
    for seed in (2, 3):
        (x,) = case.reference.draw(seed).args
        x[:, :] += 3 * model.router.weight[seed]  # one expert gets everything and some nothing
        with torch.no_grad():
            torch.testing.assert_close(graph(x), model(x))


def test_experts_in_float32_are_left_where_the_kernel_does_not_run():
    case, recipe = of_numbers("float32"), BY_NAME["routed_experts"]
    assert recipe.declines(problem(case, CUDA)) == ""
    for facts in (CPU, replace(CUDA, versions=()), replace(CUDA, capability="7.5")):
        assert "cannot be captured" in recipe.declines(problem(case, facts))
    assert "keep=('bf16x6',)" in case.compose("routed_experts", facts=CUDA, options=EvaluateOptions()).source
    assert "keep=('bf16x3',)" in case.compose("routed_experts", facts=CUDA, options=HALF).source


def test_no_product_of_all_experts_takes_float64():
    case = of_numbers("float64")
    inputs = case.reference.draw(1)
    with pytest.raises(RuntimeError, match=r"experts at once of torch\.float64"):
        capture_experts(copy.deepcopy(case.reference.model), inputs.args, inputs.kwargs)
    assert "cannot be captured" in BY_NAME["routed_experts"].declines(problem(case, CUDA))


def test_what_is_said_of_the_operator_without_data_is_true():
    operator = experts_operator()
    assert experts_operator() is operator
    ends = torch.tensor([3, 3, 7], dtype=torch.int32)
    multiply = torch.ops.pike_experts.multiply
    for rows_of, number in ((torch.float32,) * 2, (torch.float16,) * 2, (torch.float16, torch.float32)):
        rows, weights = torch.randn(7, 12).to(rows_of), torch.randn(3, 5, 12).to(number)
        torch.library.opcheck(multiply.default, (rows, weights, ends, "bf16x6"))
        last = rows[3:].to(number) @ weights[2].t()
        torch.testing.assert_close(multiply(rows, weights, ends, "bf16x6")[3:], last)


COMPILED = pytest.param(("routed_experts", "inductor"), marks=pytest.mark.slow)


@pytest.mark.parametrize("names", [("routed_experts",), ("routed_experts", "half"), COMPILED])
def test_a_candidate_in_float32_gives_the_reference_s_answers(names, tmp_path):
    case = of_numbers("float32")
    candidate = case.loaded(case.compose(*names, facts=CUDA, options=HALF), tmp_path)
    error, own = case.errors(candidate, case.reference.draw(5))
    assert error <= 2 * own + (5e-3 if "half" in names else 5e-7)
    assert candidate.prepared is not None


@pytest.fixture
def candidate_file(tmp_path):
    file = tmp_path / "candidate.py"
    file.write_text(of_numbers("float32").compose("routed_experts", facts=CUDA, options=HALF).source)
    return file


@needs_triton
def test_a_candidate_s_copy_of_the_kernel_multiplies_rows_with_their_expert_s_weights(candidate_file):
    found = alone(candidate_file, "experts")
    assert len(found) == 6
    assert all(error < 3 for error in found.values()), found


@needs_triton
@pytest.mark.slow
def test_a_candidate_s_copy_of_the_kernel_fits_a_hopper_gpu(candidate_file):
    found = alone(candidate_file, "compile_experts")
    assert len(found) == 6
    assert all(shared <= 227 * 1024 for shared in found.values()), found


@pytest.mark.parametrize("form", FORMS)
def test_a_candidate_gives_the_reference_s_answers(form, tmp_path):
    case = experts(form=FORMS[form])
    candidate = case.build(tmp_path, "routed_experts")
    for seed in (1, 2):
        error, own = case.errors(candidate, case.reference.draw(seed))
        assert error <= 2 * own
    assert candidate.prepared is not None


def test_every_other_recipe_builds_on_it(tmp_path):
    found = problem(experts())
    applicable = [name for name, recipe in BY_NAME.items() if not recipe.declines(found)]
    assert {"routed_experts", "inductor", "fold_constants"} <= set(applicable)
    everything = legal_compositions(applicable)
    assert ("routed_experts",) in everything and ("inductor",) not in everything
    assert all(names[0] == "routed_experts" and names == ordered(names) for names in everything)
    space = Space(everything, dict.fromkeys(applicable, 0.1))
    near = space.neighbours(("routed_experts", "inductor"))
    assert near and all("routed_experts" in names for names in near)


def test_a_model_that_can_be_captured_anyway_does_not_need_it():
    case = experts(form="\n        return self.experts[0](x) * weights.sum(-1, keepdim=True)\n")
    assert BY_NAME["routed_experts"].declines(problem(case, CUDA)) == "no experts whose rows the host counts"


@pytest.fixture(scope="module")
def of_transformers() -> Case:
    pytest.importorskip("transformers")
    return Case.of(tasks.resolve("zoo/olmoe:small"))


@pytest.mark.slow
def test_experts_of_transformers_ask_the_host_for_nothing(of_transformers):
    problem = of_transformers.problem(CUDA, HALF)
    assert any("grouped_mm_fallback" in str(node.target) for node in problem.nodes)
    model, inputs = of_transformers.reference.model, of_transformers.reference.draw(1)
    graph = routed_experts(copy.deepcopy(model), inputs.args, inputs.kwargs, ("bf16x6",))
    assert len(kernel_calls(graph)) == 4
    assert not any("grouped_mm_fallback" in str(node.target) for node in graph.graph.nodes)
    for seed in (2, 3):
        ids = of_transformers.reference.draw(seed).args
        with torch.no_grad():
            torch.testing.assert_close(graph(*ids), model(*ids), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_experts_of_transformers_are_a_foundation_where_the_kernel_runs(of_transformers):
    old = replace(CUDA, capability="6.0")
    assert not BY_NAME["routed_experts"].declines(of_transformers.problem(CUDA, HALF))
    assert BY_NAME["routed_experts"].declines(of_transformers.problem(old, HALF))
    proposed = of_transformers.compose("routed_experts", "half", "fold_constants", "cuda_graph", facts=CUDA)
    assert proposed.source
