"""16 bits inside: what is awkward in a model survives, what would break stays in float32, and the rest declines."""

from __future__ import annotations

import ast
import copy
from dataclasses import replace

import pytest
import torch
from recipe_harness import CUDA, HALF, Case, source_task
from torch import nn

from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import look
from pike.recipes.precision import narrowing
from pike.recipes.precision.casts import ALL_BUT_PRODUCTS, FRAGILE
from pike.recipes.precision.sixteen_bits import HALF_RECIPE, bf16, half
from pike.recipes.registry import BY_NAME
from pike.recipes.search.explored import explore

NET = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.table = nn.Embedding(10, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.register_buffer("turn", torch.polar(torch.ones(4, 4), torch.randn(4, 4)))
        self.register_buffer("causal", torch.ones(4, 4).tril())
        self.unregistered = torch.tensor(3.0)
        {own}
    def forward(self, x, i, b):
        {body}
def get_inputs():
    return [torch.randn(2, 4, 8), torch.randint(0, 10, (2, 4)), torch.rand(2, 4) > 0.5]
def get_init_inputs():
    return []
"""

AWKWARD = {
    "tensors made in forward": "return self.a(x + torch.zeros(2, 4, 8)) @ torch.eye(8) + torch.ones_like(x) + torch.full((8,), 0.5)",
    "tensor constants": "return self.a(x) * torch.tensor(2.0) + torch.tensor([1.0, 2.0] * 4) + self.unregistered",
    "mask of minus infinity": "s = self.a(x) @ x.mT + torch.full((4, 4), float('-inf')).triu(1); return s.softmax(-1) @ x",
    "fills beyond the range": "s = (self.a(x) @ x.mT).masked_fill(self.causal == 0, -1e10); return s.softmax(-1) @ x",
    "positions": "return self.a(x) + torch.sin(torch.arange(4)[:, None] * 700.0 + torch.arange(8))",
    "integers": "return self.b(self.table(i)) + i[..., None] / 3, i + 1, i.float().mean()",
    "booleans": "return torch.where(b[..., None], self.a(x), 0.0), ~b, (x > 0).sum()",
    "complex numbers": "z = torch.view_as_complex(self.a(x).float().reshape(2, 4, 4, 2)) * self.turn; return torch.view_as_real(z).flatten(2).type_as(x), z",
    "updates in place": "y = self.a(x); y[:, 0] = y[:, 1] * 2; y += 1; y.relu_(); return self.b(y)",
    "nested outputs": "y = self.a(x); return {'y': y, 'parts': (y.split(3, -1), [i, y.topk(2)[0]]), 'more': y.chunk(2)[1]}",
    "a recurrent layer": "h = torch.zeros(1, 2, 8); y, h = self.rnn(x, h); return y, h",
    "a loop over steps": "h = torch.zeros(2, 8)\\n        for t in range(4):\\n            h = torch.tanh(self.a(torch.cat([x[:, t], h], -1)[:, :8]) + h)\\n        return h",
    "views of images": "y = self.conv(x.reshape(2, 2, 4, 4)); return self.norm(y).view(2, 8, 8) + self.a(x).view(2, 4, 8).repeat(1, 2, 1)",
    "softmax in float32": "return (self.a(x) @ x.mT).softmax(-1, dtype=torch.float32) @ x",
    "own casts": "y = self.a(x).to(torch.float32); return (y.double() * 2).float() + torch.zeros(8, dtype=x.dtype)",
    "squares beyond the range": "y = self.a(x) * 1000; return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)",
    "long sums": "y = self.a(x); return (y.abs() * 3000).cumsum(-1) / 3000, (y * 4).exp().log()",
    "the input itself": "return x, self.a(x)",
}


def awkward(body: str, own: str = "pass") -> Case:
    return Case.of(source_task(NET.replace("{body}", body.replace("\\n", "\n")).replace("{own}", own)))


def problem_of(case: Case) -> RecipeContext:
    return case.problem(CUDA, HALF)


def assert_near(got, own, share: float) -> None:
    """Same structure, shapes and dtypes; numbers near by the size of the largest, the rest equal."""
    (found, structure), (right, expected) = (torch.utils._pytree.tree_flatten(each) for each in (got, own))
    assert structure == expected
    size = max(float(leaf.abs().max()) for leaf in right if leaf.is_floating_point())
    for mine, theirs in zip(found, right, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        if theirs.is_floating_point() or theirs.is_complex():
            assert float((mine - theirs).abs().max()) <= share * size
        else:
            assert torch.equal(mine, theirs)


@pytest.mark.parametrize("form", AWKWARD)
def test_what_is_awkward_runs_in_16_bits_and_keeps_its_contract(form):
    """The outputs keep dtype, shape and structure; integers and booleans are exact."""
    case = awkward(AWKWARD[form])
    problem = problem_of(case)
    assert not narrowing.refusal(problem, torch.float16)
    keep = narrowing.plan(problem, torch.float16).keep
    for recipe, ulp, names in ((half, 1e-3, keep), (half, 1e-3, (ALL_BUT_PRODUCTS,)), (bf16, 8e-3, (FRAGILE,))):
        inputs = case.reference.draw(3)
        with torch.no_grad():
            fast = recipe(copy.deepcopy(case.reference.model), inputs.args, inputs.kwargs, names)
            for rng in (3, 4):
                inputs = case.reference.draw(rng)
                assert_near(fast(*inputs.args), case.reference.model(*inputs.args), 8 * ulp)
    assert any(leaf.dtype == torch.bfloat16 for leaf in fast.buffers()), "nothing was narrowed"


def test_complex_numbers_and_integers_are_never_narrowed():
    case = awkward(AWKWARD["complex numbers"])
    inputs = case.reference.draw(1)
    with torch.no_grad():
        graph = half(copy.deepcopy(case.reference.model), inputs.args, {}, ())
        graph(*inputs.args)
    around = [node for node in graph.graph.nodes if "complex" in str(node.target)]
    assert around and all(node.args[0].meta["val"].dtype == torch.float32 for node in around)


def test_the_users_weights_stay_as_they_are():
    case = awkward(AWKWARD["updates in place"])
    model = copy.deepcopy(case.reference.model)
    with torch.no_grad():
        half(model, case.reference.draw(1).args, {})
    for name, value in case.reference.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], value) and model.state_dict()[name].dtype == value.dtype


def test_an_output_is_never_memory_that_a_later_call_shares():
    case = awkward("return self.b(self.a.weight), self.a(x)")
    inputs = case.reference.draw(1)
    with torch.no_grad():
        graph = half(copy.deepcopy(case.reference.model), inputs.args, {})
        first = graph(*inputs.args)[0]
        kept = first.clone()
        first.add_(1)
        assert torch.equal(graph(*inputs.args)[0], kept)


def test_float16_declines_where_the_range_does_not_suffice_and_bfloat16_does_not():
    """The values between the layers are beyond 65504 and no choice of nodes but the range would help the second one."""
    problem = problem_of(awkward("y = self.a(x) * 1e5; return self.b(y) / 1e5"))
    keep = narrowing.plan(problem, torch.float16)
    assert keep.refusal or ALL_BUT_PRODUCTS in keep.keep
    assert narrowing.plan(problem, torch.bfloat16).keep == (FRAGILE,)


def test_layers_that_overflow_stay_in_float32_and_the_others_do_not():
    own = "[nn.init.constant_(self.b.weight, w) for w in (3e4,)]"
    body = "y = self.b(self.a(x).relu() + 1) / 1e5\n        for _ in range(6):\n            y = torch.tanh(self.a(y))\n        return y"
    plan = narrowing.plan(problem_of(awkward(body, own)), torch.float16)
    assert not plan.refusal and plan.measured
    assert ALL_BUT_PRODUCTS in plan.keep and "linear_1" in plan.keep
    assert len([name for name in plan.keep if name.startswith("linear")]) < 8


def test_what_was_found_out_is_written_into_the_candidate(tmp_path):
    own = "[nn.init.constant_(self.b.weight, w) for w in (3e4,)]"
    case = awkward("y = self.b(self.a(x).relu() + 1) / 1e5; return torch.tanh(self.a(y))", own)
    source = case.compose("half", facts=CUDA).source
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    call = next(node for node in calls if getattr(node.func, "id", "") == "half")
    keep = ast.literal_eval(next(item.value for item in call.keywords if item.arg == "keep"))
    assert keep == narrowing.plan(problem_of(case), torch.float16).keep
    assert "linear_1" in keep


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: model.bfloat16(), "computes in 16 bits already"),
        (lambda model: model.double(), "no matrix product or convolution is in float32"),
    ],
)
def test_models_of_another_dtype_decline(change, reason):
    case = awkward("return self.a(x)")
    inputs = case.reference.draw(1)
    model = change(copy.deepcopy(case.reference.model))
    dtype = next(model.parameters()).dtype
    problem = RecipeContext(model, (inputs.args[0].to(dtype), *inputs.args[1:]), {}, CUDA, HALF)
    assert reason in narrowing.refusal(problem, torch.float16)


def test_large_models_are_not_measured(monkeypatch):
    monkeypatch.setattr(narrowing, "MOST_OPERATIONS", 10)
    plan = narrowing.plan(problem_of(awkward("return self.a(x)")), torch.float16)
    assert plan.keep == (FRAGILE,) and not plan.measured


@pytest.mark.parametrize(("width", "pays"), [(64, False), (4096, True)])
def test_16_bits_promise_nothing_where_casts_cost_more_than_they_save(width, pays):
    """On a GPU; a CPU launches nothing."""
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).eval()
    problem = RecipeContext(model, (torch.randn(8, width),), {}, CUDA, HALF)
    names = ("half", "autocast_half", "bf16", "autocast_bf16")
    for name in names:
        found = look(BY_NAME[name], problem)
        assert not found.declined
        assert (found.gain > 0) is pays, name
    space = explore(problem).space
    assert bool({*names} & {*space.ranked[0]}) is pays
    assert sorted(names, key=lambda name: -space.gain[name]) == list(names), "what promised most still comes first"


@pytest.mark.parametrize("why", ["a slower GPU", "recurrent layers"])
def test_16_bits_keep_their_promise_where_it_is_not_known_what_they_save(why):
    facts = replace(CUDA, capability="8.0") if why == "a slower GPU" else CUDA
    model = nn.Linear(8, 8) if why == "a slower GPU" else nn.GRU(8, 8, batch_first=True)
    found = look(BY_NAME["half"], RecipeContext(model.eval(), (torch.randn(2, 4, 8),), {}, facts, HALF))
    assert (found.declined, found.gain) == ("", HALF_RECIPE.prior_cuda)


def test_precision_same_declines_before_anything_is_measured():
    case = awkward("return self.a(x)")
    problem = case.problem(CUDA)
    assert "not allowed" in HALF_RECIPE.declines(problem)
    assert not problem.notes
