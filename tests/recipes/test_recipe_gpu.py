"""What recipes for GPUs decide and copy, shown where there is none: a recording that replays by calling again."""

from __future__ import annotations

import contextlib
import copy
import gc
import weakref
from dataclasses import replace

import pytest
import torch
from recipe_harness import CPU, CUDA, HALF, Case, source_task

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.recipes.framework.context import RecipeContext
from pike.recipes.layout.channels_last import channels_last
from pike.recipes.lowering.cuda_graph import CudaGraph, cannot_record, copies_are_small, cuda_graph
from pike.recipes.lowering.measured_kernels import odd_channels, shapes_to_measure, too_many_shapes
from pike.recipes.lowering.tuned_kernels import tuned_kernels
from pike.recipes.precision.full_float32 import full_float32
from pike.recipes.registry import BY_NAME
from pike.recipes.rewrites.grouped_products import grouped_convs, grouped_products
from pike.recipes.search import explored
from pike.recipes.search.composition import broken_rule

NET = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.conv = nn.Conv2d(8, 12, 1, groups=4)
        self.last = nn.Conv2d(12, 6, 1, groups=2, bias=False)
        self.mix = nn.Conv1d(8, 8, 1, groups=2)
        self.wide = nn.Conv2d(12, 12, 3, padding=1, groups=4)
        self.depth = nn.Conv2d(12, 12, 1, groups=12)
        self.strided = nn.Conv2d(12, 12, 1, stride=2, groups=4)
    def forward(self, x, i):
        {body}
def get_inputs():
    return [torch.randn(2, 8, 8), torch.randint(0, 8, (5,))]
def get_init_inputs():
    return []
"""


def case_of(body: str) -> Case:
    return Case.of(source_task(NET.replace("{body}", body)))


def problem_of(body: str, facts: DeviceFacts = CUDA, options: EvaluateOptions = HALF) -> RecipeContext:
    return case_of(body).problem(facts, options)


def called(graph: torch.fx.GraphModule) -> set[str]:
    return {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}


class Recording:
    """Stands in for a CUDA graph: what is recorded is called again at every replay."""

    replays = 0

    def replay(self) -> None:
        """Compute the outputs anew in place, as the recorded kernels would."""
        Recording.replays += 1
        again = torch.utils._pytree.tree_leaves(self.owner.function(*self.owner.arguments))
        for old, new in zip(torch.utils._pytree.tree_leaves(self.owner.outputs), again, strict=True):
            if isinstance(old, torch.Tensor):
                old.copy_(new)


@pytest.fixture
def recorded(monkeypatch):
    """`CudaGraph` on the CPU; gives a function that makes one."""
    nothing = lambda *_args, **_kwargs: contextlib.nullcontext()  # noqa: E731
    for name in ("device", "stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, nothing)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    stream = type("Stream", (), {"wait_stream": lambda *_: None})
    monkeypatch.setattr(torch.cuda, "Stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recording)

    def make(function, *args, **kwargs):
        made = CudaGraph(function, args, kwargs)
        made.graph.owner = made
        made.arguments, made.function = list(made.inputs), lambda *static: function(*static, **kwargs)
        return made

    return make


def test_inputs_are_copied_in_and_outputs_copied_out(recorded):
    def model(x, i):
        return {"y": x * 2, "n": (i + 1, "constant", i.sum())}

    x, i = torch.randn(3), torch.arange(4)
    graph = recorded(model, x, i)
    first = graph(x, i)
    other, more = torch.randn(3), torch.arange(4) * 5
    second = graph(other, more)
    assert torch.equal(first["y"], x * 2) and torch.equal(first["n"][0], i + 1)
    assert torch.equal(second["y"], other * 2) and torch.equal(second["n"][2], more.sum())
    assert second["n"][1] == "constant"


def test_a_call_with_another_scalar_of_the_host_is_not_answered_from_the_recording(recorded):
    """A recording keeps the number that a kernel was launched with; `meta` stands for the GPU."""
    given = []

    def model(x, scale):
        given.append(float(scale))
        return x * scale

    x = torch.empty(3, device="meta")
    graph = recorded(model, x, torch.tensor(2.0))
    before, given[:] = Recording.replays, []
    graph(x, torch.tensor(2.0))
    assert Recording.replays == before + 1
    graph(x, torch.tensor(3.0))
    assert Recording.replays == before + 1 and given[-1] == 3.0


def test_an_input_that_is_returned_is_not_the_recordings_own_memory(recorded):
    x = torch.randn(3)
    graph = recorded(lambda value: value, x)
    graph(x).add_(100)
    assert torch.equal(graph(x), x)


@pytest.mark.usefixtures("recorded")
def test_weights_that_kernels_read_live_as_long_as_the_recording():
    module = torch.nn.Linear(3, 3)
    watched = weakref.ref(module)
    graph = CudaGraph(module, (torch.randn(2, 3),), {})
    del module
    gc.collect()
    assert watched() is not None
    del graph
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return x * i.max().item()", "wait for values"),
        ("return x[x > 0]", "wait for values"),
        ("return x if x.sum() > 0 else -x", "wait for values"),
        ("return self.a(x)[:, i]", ""),
        ("return torch.where(x > 0, self.a(x), x)", ""),
    ],
)
def test_what_needs_the_host_is_not_recorded(body, reason):
    found = cannot_record(problem_of(body))
    assert (reason in found) if reason else not found


def test_a_cuda_graph_computes_constants_before_it_records(monkeypatch):
    """Copies of constants from the host cannot be recorded."""
    monkeypatch.setattr("pike.recipes.lowering.cuda_graph.CudaGraph", lambda function, _args, _kwargs: function)
    case = case_of("return self.a(x) * torch.tensor([2.0] * 8).to(x.device) * self.b.weight.sum()")
    model = copy.deepcopy(case.reference.model)
    inputs = case.reference.draw(1)
    with torch.no_grad():
        recorded = cuda_graph(model, inputs.args, {})
        assert torch.allclose(recorded(*inputs.args), model(*inputs.args))
    assert not {"aten.sum.default", "aten.lift_fresh_copy.default", "aten._to_copy.default"} & called(recorded)


def test_what_cannot_be_captured_is_recorded_as_it_is(monkeypatch):
    monkeypatch.setattr("pike.recipes.lowering.cuda_graph.CudaGraph", lambda function, _args, _kwargs: function)
    model = case_of("return x if x.sum() > 0 else -x").reference.model
    assert cuda_graph(model, (torch.ones(2, 8, 8), torch.arange(5)), {}) is model


def test_large_copies_speak_against_recording(monkeypatch):
    problem = problem_of("return self.a(x)")
    assert copies_are_small(problem) == 0.0
    monkeypatch.setattr("pike.recipes.lowering.cuda_graph.LARGE_COPIES", 100)
    monkeypatch.setattr("pike.recipes.lowering.cuda_graph.BYTES_OF_A_LAUNCH", 100)
    assert copies_are_small(problem) < 0
    assert copies_are_small(problem_of("return " + "self.a(" * 20 + "x" + ")" * 20)) == 0.0, "many launches are saved"


def test_measuring_kernels_declines_where_it_would_take_too_long():
    case = case_of("return self.b(self.a(self.b(x))) @ x")
    assert len(shapes_to_measure(problem_of("return self.b(self.a(self.b(x))) @ x"))) == 2
    hurried = EvaluateOptions(precision=Precision.HALF, timeout_seconds=10)
    assert "2 shapes" in case.compose("inductor", "measured_kernels", facts=CUDA, options=hurried).failure
    assert case.compose("inductor", "measured_kernels", facts=CUDA).source
    assert "CPUs" in case.compose("inductor", "measured_kernels", facts=CPU).failure
    assert "2 shapes" in case.compose("max_autotune", facts=CUDA, options=hurried).failure
    assert case.compose("max_autotune", facts=CPU, options=hurried).source, "it measures nothing there"


def convolutions(*convs: str, seconds: float = 200.0) -> RecipeContext:
    """A chain of convolutions, judged with a limit of so many seconds."""
    layers = "\n".join(f"        self.c{index} = torch.nn.Conv2d({conv})" for index, conv in enumerate(convs))
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"{layers}\n    def forward(self, x):\n        for layer in self.children():\n            x = layer(x)\n"
        "        return x\ndef get_inputs():\n    return [torch.randn(1, 3, 8, 8)]\n"
        "def get_init_inputs():\n    return []\n"
    )
    terms = EvaluateOptions(precision=Precision.HALF, timeout_seconds=seconds)
    return explored.problem_of(Case.of(source_task(source)).reference, CUDA, terms)


def test_measuring_promises_more_where_the_libraries_pad_channels_and_takes_longer_in_groups():
    even = convolutions("3, 8, 1", "8, 8, 1", "8, 8, 3", "8, 16, 1")
    assert odd_channels(convolutions("3, 6, 1", "6, 6, 1")) == 0.4
    assert 0.0 < odd_channels(even) < 0.4 / 4, "by their work, not by their number"
    assert not too_many_shapes(even)
    depthwise = convolutions("3, 16, 1", "16, 16, 3, groups=16", "16, 16, 1", "16, 16, 5, groups=16")
    assert "4 shapes" in too_many_shapes(depthwise)


def test_options_hold_while_lowering_and_unknown_ones_are_left_out(monkeypatch):
    import torch._inductor.config as config

    before = config.coordinate_descent_tuning
    with tuned_kernels():
        assert config.coordinate_descent_tuning and config.conv_1x1_as_mm
    assert config.coordinate_descent_tuning == before
    seen = {}

    class Older:
        coordinate_descent_tuning = False

        @staticmethod
        def patch(options):
            seen.update(options)
            return contextlib.nullcontext()

    monkeypatch.setattr(torch._inductor, "config", Older)
    with tuned_kernels():
        assert seen == {"coordinate_descent_tuning": True}


GROUPED = {
    "with bias": "return self.conv(x.reshape(2, 8, 2, 4))",
    "followed by another": "return self.last(torch.relu(self.conv(x.reshape(2, 8, 2, 4))))",
    "over a sequence": "return self.mix(x)",
    "a view of another layout": "return self.conv(x.reshape(2, 2, 4, 8).permute(0, 3, 1, 2))",
}


@pytest.mark.parametrize("form", GROUPED)
def test_grouped_convolutions_become_products(form):
    case = case_of(GROUPED[form])
    inputs = case.reference.draw(1)
    with torch.no_grad():
        graph = grouped_products(copy.deepcopy(case.reference.model), inputs.args, {})
        got, own = graph(*inputs.args), case.reference.model(*inputs.args)
    assert torch.allclose(got, own, atol=1e-6) and got.stride() == own.contiguous().stride()
    assert not any("conv" in target for target in called(graph))


def test_other_convolutions_are_left():
    body = "y = self.conv(x.reshape(2, 8, 2, 4)); return self.wide(y), self.depth(y), self.strided(y)"
    problem = problem_of(body)
    assert len(grouped_convs(problem.graph)) == 1
    assert "no grouped convolution" in BY_NAME["grouped_products"].declines(problem_of("return self.a(x)"))
    assert BY_NAME["grouped_products"].declines(problem_of(body, options=EvaluateOptions())) == ""


def test_full_float32_holds_while_the_candidate_is_built_and_runs_and_no_longer(tmp_path):
    body = "return self.conv(x.reshape(2, 8, 2, 4))"
    case, same = case_of(body), EvaluateOptions(precision=Precision.SAME)
    inputs = case.reference.draw(1)
    proposal = case.compose("inductor", "full_float32", facts=CUDA, options=same)
    source = proposal.source.replace("fast = inductor(", "fast = watched(") + WATCHED
    candidate = case.loaded(replace(proposal, source=source), tmp_path)
    before = torch.backends.cudnn.allow_tf32
    assert before
    with torch.no_grad():
        assert candidate(*inputs.args).tolist() == [False, False], "at building and at running"
    assert torch.backends.cudnn.allow_tf32 is before
    with pytest.raises(KeyError), full_float32():
        raise KeyError
    assert torch.backends.cudnn.allow_tf32 is before


def test_tf32_is_switched_in_every_call_only_where_no_recording_keeps_it():
    case, terms = case_of("return self.a(x)"), EvaluateOptions(precision=Precision.TF32)
    recorded, called = (
        case.compose(lower, "tf32", facts=CUDA, options=terms).source for lower in ("compiled_graph", "inductor")
    )
    assert "with tf32_products():\n            fast = compiled_graph(" in recorded
    switched = "with {}():\n            return fast("
    assert switched.format("tf32_products") not in recorded
    assert switched.format("tf32_products") in called
    float32 = EvaluateOptions(precision=Precision.SAME)
    network = case_of("return self.conv(x.reshape(2, 8, 2, 4))")
    restored = network.compose("cuda_graph", "full_float32", facts=CUDA, options=float32).source
    assert switched.format("full_float32") in restored, "a call that was not recorded would use fewer bits"


WATCHED = """


def watched(model, args, kwargs):
    built = torch.backends.cudnn.allow_tf32
    return lambda *args: torch.tensor([built, torch.backends.cudnn.allow_tf32])
"""


def test_full_float32_is_for_convolutions_that_may_use_fewer_bits():
    decide = BY_NAME["full_float32"].declines
    body, same = "return self.conv(x.reshape(2, 8, 2, 4))", EvaluateOptions(precision=Precision.SAME)
    assert decide(problem_of(body, options=same)) == ""
    assert "no TensorFloat-32" in decide(problem_of(body, facts=CPU, options=same))
    assert "16-bit" in decide(problem_of(body))
    assert "no convolution" in decide(problem_of("return self.a(x)", options=same))
    assert "exclude" in broken_rule(("inductor", "tf32", "full_float32"))


def test_only_images_that_reach_a_convolution_change_their_layout():
    source = NET.replace("{body}", "return self.conv(x) + 0, (i * 2).softmax(-1)").replace(
        "torch.randn(2, 8, 8), torch.randint(0, 8, (5,))", "torch.randn(2, 8, 3, 3), torch.randn(2, 4, 6, 6)"
    )
    case = Case.of(source_task(source))
    inputs = case.reference.draw(1)
    graph = channels_last(copy.deepcopy(case.reference.model), inputs.args, {})
    changed = [node.args[0].name for node in graph.graph.nodes if node.kwargs.get("memory_format")]
    assert changed == ["x"]


class Attending(torch.nn.Module):
    """Attention that may drop weights."""

    calls = 0

    def __init__(self, dropped: float) -> None:
        super().__init__()
        self.dropped = dropped

    def forward(self, x):
        Attending.calls += 1
        return torch.nn.functional.scaled_dot_product_attention(x, 2 * x, x + 1, dropout_p=self.dropped)


@pytest.mark.parametrize(("dropped", "calls", "reason"), [(0.0, 0, ""), (0.5, 2, "different answers")])
def test_a_large_model_is_called_only_if_it_may_draw_numbers(monkeypatch, dropped, calls, reason):
    monkeypatch.setattr("pike.recipes.framework.context.MOST_OPERATIONS_HERE", 10)
    problem = RecipeContext(Attending(dropped).eval(), (torch.randn(1, 2, 8, 8),), {}, CUDA)
    assert problem.graph is not None
    Attending.calls = 0
    assert reason in problem.unsteady and bool(problem.unsteady) == bool(reason)
    assert Attending.calls == calls
