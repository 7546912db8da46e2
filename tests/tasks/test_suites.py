"""Every task of the paper's suites: the published sizes, outputs that mean something, and nothing trivial passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from pike import tasks
from pike.core.task import Task
from pike.core.verdict.evaluation import Precision
from pike.judge.child.memory.layout import flatten_output, take_apart
from pike.judge.lint import lint
from pike.judge.reference.in_process import InProcess
from pike.judge.reference.reference import Inputs, load
from pike.tasks.assumed_values import AssumedValues
from pike.tasks.outline import Outline, outline

PUBLISHED: dict[str, dict[str, dict[str, Any]]] = json.loads((Path(__file__).parent / "published.json").read_text())
"""Facts of the published tasks by suite and file name: parameters, and inputs and outputs of one call."""

SUITES = {"level3-pike": Precision.HALF, "level5": Precision.SAME}
"""Suites with the precision at which they are linted: Level 5 brings its own element types."""

TASKS = [task for suite in SUITES if suite in tasks.suites() for task in tasks.in_suite(suite)]
IDS = [task.id for task in TASKS]

CHANGED: dict[str, dict[str, list[str]]] = {
    "level3-pike/49_Mamba2ReturnFinalState": {"outputs": ["float32[16, 128, 8, 64]", "float32[16, 8, 64, 16]"]},
    "level5/1_deepseekv3_MLA_1gpu": {"inputs": ["float32[8, 1024, 2048]"]},
    "level5/2_stablediffusion3_mmdit": {"inputs": ["float32[8, 4, 256, 256]", "float32[8]", "float32[8, 8, 1792]"]},
    "level5/3_deepseek_v3_1gpu": {"outputs": ["bfloat16[2, 128, 32768]"]},
    "level5/7_deepseekv3_MOE_smallbatch": {"inputs": ["bfloat16[128, 1, 2048]"]},
    "level5/9_hunyuanvideo_transformer": {
        "inputs": ["bfloat16[1, 16, 3, 32, 32]", "float32[1]", "bfloat16[1, 10, 1024]", "bfloat16[1, 1024]"],
        "outputs": ["bfloat16[1, 16, 3, 32, 32]", "bfloat16[1, 10, 2048]"],
    },
    "level5/12_deepseekv3_MLA_decode": {
        "inputs": ["float32[2, 1, 2048]"],
        "outputs": ["float32[2, 1, 2048]"],
    },
}
"""What is meant to differ from the published task; the docstring of the task says why."""

MOST_LINT_SECONDS = 30.0


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=TASKS, ids=IDS)
def task(request: pytest.FixtureRequest) -> Task:
    return request.param


@pytest.fixture(scope="module")
def found(task: Task) -> Outline:
    return outline(task.source, task.origin)


@pytest.fixture(scope="module")
def small(task: Task) -> InProcess:
    """The small variant, ready for calls."""
    return InProcess(tasks.resolve(f"{task.id}:small"), torch.device("cpu"), SUITES[task.id.partition("/")[0]])


def published(task: Task, fact: str) -> Any:
    suite, _, name = task.id.partition("/")
    return CHANGED.get(task.id, {}).get(fact, PUBLISHED[suite][name][fact])


def call(subject: InProcess, inputs: Inputs) -> list[torch.Tensor]:
    with torch.no_grad():
        return [leaf.clone() for leaf, _ in flatten_output(subject.model(*inputs.args, **inputs.kwargs))]


def executed(task: Task) -> ModuleType:
    module = ModuleType("pike_suite_task")
    exec(compile(task.source, task.origin, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_has_every_published_task(suite):
    assert {entry.id for entry in tasks.load_suite(suite).entries} == PUBLISHED[suite].keys()


def test_it_has_the_published_parameters(task, found):
    assert found.parameters == published(task, "parameters"), found.problems
    assert found.parameter_tensors == published(task, "parameter_tensors")


def test_it_takes_and_returns_what_the_published_task_does(task, found):
    assert [slot.text for slot in found.inputs or ()] == published(task, "inputs"), found.problems
    assert [slot.text for slot in found.outputs or ()] == published(task, "outputs"), found.problems


def test_the_small_variant_has_the_same_structure(task, small):
    outputs = call(small, small.draw(1))
    wanted = [text.partition("[") for text in published(task, "outputs")]
    assert [str(output.dtype).removeprefix("torch.") for output in outputs] == [dtype for dtype, _, _ in wanted]
    assert [output.dim() for output in outputs] == [len(shape.split(",")) for _, _, shape in wanted]
    assert sum(p.numel() for p in small.model.parameters()) <= published(task, "parameters")


def test_outputs_are_of_order_one_and_no_numbers_are_lost(small):
    for output in call(small, small.draw(2)):
        assert torch.isfinite(output).all()
        assert 0.1 < float(output.double().std()) < 10


def test_every_input_matters(small):
    inputs, others = small.draw(3), small.draw(4)
    right = call(small, inputs)
    ours, _ = take_apart((inputs.args, inputs.kwargs))
    theirs, _ = take_apart((others.args, others.kwargs))
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        kept = one.clone()
        one.copy_(other if not torch.equal(one, other) else moved(one))
        assert any(differs(new, old) for new, old in zip(call(small, inputs), right, strict=True)), f"input {index}"
        one.copy_(kept)


def test_every_parameter_outside_of_layers_matters(small):
    """Lint drops whole layers; what belongs to none of them it cannot drop."""
    inputs = small.draw(10)
    right = call(small, inputs)
    for path, module in small.model.named_modules():
        own = module.named_parameters(recurse=False) if not path or any(module.children()) else ()
        for name, parameter in own:
            kept = parameter.detach().clone()
            parameter.detach().zero_()
            changed = any(differs(new, old) for new, old in zip(call(small, inputs), right, strict=True))
            parameter.detach().copy_(kept)
            assert changed, f"{path}.{name}"


def moved(tensor: torch.Tensor) -> torch.Tensor:
    """Another value for an input that is never drawn otherwise: its rows in another order, or half of it."""
    turned = tensor.roll(1, 0)
    return tensor * 0.5 if torch.equal(turned, tensor) else turned


def differs(new: torch.Tensor, old: torch.Tensor) -> bool:
    return float((new.double() - old.double()).square().mean().sqrt()) > 0.01 * float(old.double().std())


def test_a_seed_decides_weights_and_inputs(small):
    again = InProcess(small.task, small.device, Precision.SAME)
    states = small.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(one, states[1][key]) for key, one in states[0].items())
    first, second = (call(subject, subject.draw(5)) for subject in (small, again))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_call_changes_neither_its_inputs_nor_the_next_answer(small):
    inputs, others = small.draw(6), small.draw(7)
    before = [tensor.clone() for tensor in take_apart((inputs.args, inputs.kwargs))[0]]
    first = call(small, inputs)
    call(small, others)
    second = call(small, inputs)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    after = take_apart((inputs.args, inputs.kwargs))[0]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_held_out_inputs_run(small):
    for inputs in load(small.task).draw_held_out(8) if "get_held_out_inputs" in small.task.source else ():
        assert all(torch.isfinite(output).all() for output in call(small, inputs))


def test_the_least_work_is_not_more_than_the_work(task, small):
    """Of the small variant as it runs, and of the full size without values."""
    assert_least_work(executed(small.task), small.model, small.draw(9))
    module = executed(task)
    with torch.device("meta"):
        model = module.Model(*module.get_init_inputs()).eval()
        drawn = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), module.get_inputs())
        with AssumedValues(all_alike=False):  # experts get as many tokens as each other
            assert_least_work(module, model, Inputs(tuple(drawn), {}))


def test_weights_can_be_set_on_another_device(task, monkeypatch):
    """At full size without values: whatever stays on the CPU cannot be mixed with what does not."""
    monkeypatch.setattr(torch.Tensor, "__float__", lambda _: 1.0)  # batch norm asks how many batches came before
    module = executed(task)
    with torch.device("meta"), torch.no_grad():
        model = module.Model(*module.get_init_inputs())
        with AssumedValues(all_alike=False):
            module.initialise(model)
    assert {tensor.device.type for tensor in (*model.parameters(), *model.buffers())} == {"meta"}


def assert_least_work(module: ModuleType, model: torch.nn.Module, inputs: Inputs) -> None:
    given, _ = take_apart((inputs.args, inputs.kwargs))
    with torch.no_grad(), FlopCounterMode(display=False) as products, Elements() as others:
        outputs = [leaf for leaf, _ in flatten_output(model(*inputs.args, **inputs.kwargs))]
    held = [*model.parameters(), *model.buffers()]
    assert isinstance(module.LEAST_BYTES, int)
    assert 0 < module.LEAST_BYTES <= sum(tensor.nbytes for tensor in (*given, *held, *outputs))
    operations = getattr(module, "LEAST_OPERATIONS", 1)  # not every task is certain of them
    assert isinstance(operations, int)
    assert 0 < operations <= products.get_total_flops() + others.count


class Elements(TorchDispatchMode):
    """Counts an operation for each element that any operator reads or writes, whichever are more."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        read, written = (
            sum(leaf.numel() for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))
            for tree in (args, made)
        )
        self.count += max(read, written)
        return made


@pytest.mark.slow
def test_nothing_trivial_passes(small):
    report = lint(small, MOST_LINT_SECONDS)
    assert not report.passing, [answer.name for answer in report.passing]
    assert not report.untried, f"{report.untried} were not tried in {MOST_LINT_SECONDS:.0f} s: make the variant smaller"
