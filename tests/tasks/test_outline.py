"""What a task takes and returns is known without running it, and a task that misbehaves costs only its own outline."""

from __future__ import annotations

import pytest

from pike.core.task import Task, TaskKind
from pike.tasks.outline import TensorOutline, outline
from pike.tasks.outline_process import Inspector

FILE = """
import torch
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        {made}
        self.layer = torch.nn.Linear(width, 2 * width, dtype=torch.bfloat16)
    def forward(self, x, times=1):
        {first}
        y = self.layer(x) * times
        return {{"whole": y, "rest": [y.argmax(-1), {second}]}}
def get_inputs():
    return {inputs}
def get_init_inputs():
    return [1 << 17]
"""
INPUTS = "[torch.rand(8, 1 << 17, dtype=torch.bfloat16), 3]"


def task(made: str = "pass", first: str = "pass", second: str = "times", inputs: str = INPUTS, top: str = "") -> Task:
    source = top + FILE.format(made=made, first=first, second=second, inputs=inputs)
    return Task("made", "made", TaskKind.SOURCE, source, "made.py")


def of(task: Task):
    return outline(task.source, task.origin)


def test_a_model_beyond_the_memory_of_a_machine_has_an_outline():
    found = of(task())
    assert (found.parameters, found.parameter_tensors) == ((1 << 17) * (1 << 18) + (1 << 18), 2)
    assert found.inputs == (TensorOutline("bfloat16[8, 131072]", "bfloat16", (8, 131072)), TensorOutline("3"))
    assert [slot.text for slot in found.outputs] == ["bfloat16[8, 262144]", "int64[8]", "3"]
    assert found.problems == ()


def test_keyword_arguments_have_their_names():
    found = of(task(inputs='{"x": torch.rand(2, 1 << 17, dtype=torch.bfloat16)}'))
    assert found.inputs == (TensorOutline("x=bfloat16[2, 131072]", "bfloat16", (2, 131072), "x"),)
    assert found.outputs[0].shape == (2, 262144)


def test_values_that_do_not_come_from_torch_have_shapes_all_the_same():
    drawn = "[torch.from_numpy(__import__('numpy').zeros((4, 1 << 17), 'float32')).bfloat16()]"
    assert of(task(inputs=drawn)).outputs[0].text == "bfloat16[4, 262144]"


def test_a_constructor_that_needs_values_is_run_where_there_are_some():
    source = task(made="self.rates = [x.item() for x in torch.linspace(0, 1, 3)]").source.replace("1 << 17", "1 << 5")
    found = outline(source, "made.py")
    assert found.parameters == 32 * 64 + 64
    assert found.outputs is not None


@pytest.mark.parametrize(
    "first",
    [
        "x = x * 2 if x.sum() > 0 else x",
        "x[torch.where(x[:, 0] > 0)] += 1",
        "x[x > 0] = 0",
        "x = torch.cat(x.split(torch.bincount(x.argmax(-1) % 4, minlength=4).tolist()))",
    ],
)
def test_what_is_returned_whatever_the_values_are_is_known(first):
    found = of(task(first=first))
    assert found.problems == ()
    assert [slot.text for slot in found.outputs] == ["bfloat16[8, 262144]", "int64[8]", "3"]


@pytest.mark.parametrize(
    ("changed", "known", "words"),
    [
        (task(first="x.tolist()"), ("inputs", "parameters"), "outputs: "),
        (task(second="x.sum().item()"), ("inputs", "parameters"), "outputs: "),
        (task(second="x[x > 0]"), ("inputs", "parameters"), "outputs: "),
        (task(second="y.argmax(-1).bincount()"), ("inputs", "parameters"), "outputs: "),
        (task(second="x if x.sum() else x[0]"), ("inputs", "parameters"), "outputs: "),
        (task(inputs="1 / 0"), ("parameters",), "get_inputs(): ZeroDivisionError"),
        (task(made="raise OSError('no weights')"), ("inputs",), "Model(*get_init_inputs()): OSError: no weights"),
        (task(top="import no_such_package\n"), (), "the file: ModuleNotFoundError"),
    ],
)
def test_what_fails_is_unknown_and_the_rest_is_not(changed, known, words):
    found = of(changed)
    assert words in found.problems[0]
    assert {name for name in ("inputs", "outputs", "parameters") if getattr(found, name) is not None} == set(known)


@pytest.mark.slow
def test_a_task_that_kills_its_process_or_prints_spoils_no_other():
    good = task(top="print('{}')\n")
    with Inspector() as inspector:
        first, second, third = map(inspector.outline, [good, task(top="import os; os._exit(3)\n"), good])
    assert first == third and first.parameters is not None
    assert second.problems == ("its code ended the process",)


def test_a_task_that_never_ends_is_given_up():
    with Inspector(most_seconds=20.0) as inspector:
        assert inspector.outline(task()).parameters  # torch is imported by now
        inspector.most_seconds = 0.5
        assert inspector.outline(task(top="while True: pass\n")).problems == ("took more than 0.5 s",)
