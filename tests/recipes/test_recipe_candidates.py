"""What a candidate file promises: it stands alone, keeps the weights' names and never answers wrongly."""

from __future__ import annotations

import ast
import copy
import pickle
import subprocess
import sys

import pytest
import torch
from recipe_harness import CUDA, Case, candidate_module, small_task, source_task

from pike.core.errors import UserError
from pike.recipes import RECIPES
from pike.recipes.framework.bundle import bundle
from pike.recipes.registry import BY_NAME

NET = """
'''A small net.'''
from __future__ import annotations
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width: int = 6):
        super().__init__()
        self.a = nn.Linear(4, width)
        self.norm = nn.BatchNorm1d(width)
        self.b = nn.Linear(width, 3)
    def forward(self, x: Missing) -> Missing:
        return self.b(torch.relu(self.norm(self.a(x))))
def get_inputs():
    return [torch.randn(5, 4)]
def get_init_inputs():
    return [6]
"""


@pytest.fixture(scope="module")
def net() -> Case:
    return Case.of(source_task(NET))


@pytest.mark.slow
def test_the_file_runs_where_pike_is_not_installed(net, tmp_path):
    path = tmp_path / "best.py"
    path.write_text(net.compose("fold_batch_norm", "trace_frozen").source)
    script = (
        "import sys, runpy, torch\n"
        "sys.modules['pike'] = None\n"
        f"scope = runpy.run_path({str(path)!r})\n"
        "model = scope['ModelNew'](*scope['get_init_inputs']()).eval()\n"
        "with torch.no_grad():\n"
        "    print(tuple(model(*scope['get_inputs']()).shape))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("(5, 3)")


@pytest.mark.parametrize("facts", [None, CUDA])
def test_the_file_parses_and_says_what_was_done(net, facts):
    names = (
        ("fold_batch_norm", "compile", "freeze") if facts is None else ("fold_batch_norm", "half", "reduce_overhead")
    )
    source = net.compose(*names, **({"facts": facts} if facts else {})).source
    tree = ast.parse(source)
    for name in names:
        assert f"{name}: {BY_NAME[name].summary}" in ast.get_docstring(tree)
    assert source.count("from __future__ import annotations") == 1
    assert "pike." not in source.replace("PIKE", "")


def test_every_recipe_can_be_bundled_beside_every_other():
    """Helpers of different recipes must not share a name."""
    parts = bundle(tuple(recipe.transform for recipe in RECIPES))
    text = "\n\n".join(["from __future__ import annotations", *parts.imports, *(text for _, text in parts.definitions)])
    scope: dict = {"__name__": "alone"}
    exec(compile(text, "<bundle>", "exec"), scope)
    assert all(recipe.call().partition("(")[0] in scope for recipe in RECIPES)
    assert not any(line.startswith("from pike") for line in parts.imports)


def test_other_shapes_training_and_gradients_run_the_original(net, tmp_path):
    candidate = net.build(tmp_path, "fold_batch_norm", "trace_frozen")
    model = net.reference.model
    first = torch.randn(5, 4)
    with torch.no_grad():
        candidate(first)
        fast = candidate.prepared[1]
        candidate.prepared = (candidate.prepared[0], lambda x: pytest.fail("the fast way ran"))
        for other in (torch.randn(3, 4), torch.randn(5, 4).double()):
            reference = copy.deepcopy(model).to(other.dtype)
            original, candidate.model = candidate.model, copy.deepcopy(model).to(other.dtype)
            assert torch.equal(candidate(other), reference(other))
            candidate.model = original
    assert candidate(first).requires_grad
    candidate.prepared = (candidate.prepared[0], fast)
    candidate.train()
    with torch.no_grad():
        candidate(first)
    assert int(candidate.model.norm.num_batches_tracked) == 1


def test_plain_values_are_part_of_what_must_agree(tmp_path):
    tiny = Case.of(
        source_task(
            NET.replace("def forward(self, x: Missing)", "def forward(self, x: Missing, flip: bool = False)").replace(
                "return self.b(", "return (-1 if flip else 1) * self.b("
            )
        )
    )
    candidate = tiny.build(tmp_path, "trace_frozen")
    x = torch.randn(5, 4)
    with torch.no_grad():
        plus = candidate(x)
        assert torch.allclose(candidate(x, flip=True), -plus, atol=1e-5)
        assert torch.allclose(candidate(x, True), -plus, atol=1e-5)


def test_new_weights_are_seen(net, tmp_path):
    candidate = net.build(tmp_path, "fold_batch_norm", "trace_frozen")
    torch.manual_seed(9)
    other = copy.deepcopy(net.reference.model)
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(5, 4)
    with torch.no_grad():
        candidate(x)
        candidate.load_state_dict(other.state_dict())
        assert torch.allclose(candidate(x), other(x), atol=1e-4)
        candidate.double()
        assert torch.allclose(candidate(x.double()), other.double()(x.double()), atol=1e-9)


def test_state_dicts_go_both_ways_under_the_original_names(net, tmp_path):
    candidate = net.build(tmp_path, "fold_batch_norm")
    with torch.no_grad():
        candidate(torch.randn(5, 4))
    state = candidate.state_dict()
    assert state.keys() == net.reference.model.state_dict().keys()
    assert all(torch.equal(state[key], value) for key, value in net.reference.model.state_dict().items())
    missing = {key: value for key, value in state.items() if key != "a.bias"}
    with pytest.raises(RuntimeError, match=r"a\.bias"):
        candidate.load_state_dict(missing)


def test_a_prepared_candidate_can_be_copied_and_pickled(net, tmp_path):
    candidate = net.build(tmp_path, "trace_frozen")
    x = torch.randn(5, 4)
    with torch.no_grad():
        y = candidate(x)
        for twin in (copy.deepcopy(candidate), pickle.loads(pickle.dumps(candidate))):
            assert torch.allclose(twin(x), y, atol=1e-6)


def test_the_users_weights_are_never_edited(net, tmp_path):
    case = Case.of(small_task("resnet18"))
    candidate = case.build(tmp_path, "fold_batch_norm", "bf16", "channels_last")
    before = {key: value.clone() for key, value in candidate.state_dict().items()}
    with torch.no_grad():
        candidate(*case.reference.draw(1).args)
    after = candidate.state_dict()
    assert all(torch.equal(after[key], value) and after[key].dtype == value.dtype for key, value in before.items())


def test_names_of_the_task_are_never_overwritten():
    clash = Case.of(source_task(NET + "\ndef capture_graph(x):\n    return x\n"))
    assert "already defines capture_graph" in clash.compose("fold_batch_norm").failure
    assert clash.compose("compile").source
    shadow = Case.of(
        source_task(NET.replace("from torch import nn", "from torch import nn\nfrom os.path import join as operator"))
    )
    assert "already defines operator" in shadow.compose("bf16").failure


def test_outputs_do_not_alias_across_calls(net, tmp_path):
    candidate = net.build(tmp_path, "trace_frozen")
    with torch.no_grad():
        first = candidate(torch.randn(5, 4))
        kept = first.clone()
        candidate(torch.randn(5, 4))
    assert torch.equal(first, kept)


def test_unknown_and_contradictory_names_are_user_errors(net):
    with pytest.raises(UserError, match="did you mean 'compile'"):
        net.compose("compil")
    with pytest.raises(UserError, match="exclude each other"):
        net.compose("compile", "trace_frozen")
    with pytest.raises(UserError, match="freeze needs one of"):
        net.compose("freeze")


def test_a_cuda_candidate_is_complete(net):
    """What cannot run here must at least be whole: every name it uses is defined."""
    every = [("cuda_graph",), ("tf32", "reduce_overhead", "freeze"), ("half", "max_autotune", "freeze")]
    for names in every:
        options = {"facts": CUDA}
        source = net.compose(*names, **options).source
        assert source, names
        candidate_module_names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
        assert "CudaGraph" in candidate_module_names or "FreshOutputs" in candidate_module_names


def test_loading_a_cuda_candidate_needs_no_gpu(net, tmp_path):
    module = candidate_module(net.compose("half", "reduce_overhead", "freeze", facts=CUDA).source, tmp_path)
    model = module.ModelNew(6).eval()
    assert model(torch.randn(5, 4)).shape == (5, 3)
