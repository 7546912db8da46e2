"""Faults that are the task's own: one sentence with the cure before any candidate, and never the judge's death."""

import copy
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy
import pytest
import torch

from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.judge.child.memory.layout import (
    ContractBroken,
    check_output,
    delivered,
    flatten_output,
    output_layout_of,
    to_deliver,
)
from pike.judge.reference.examination import checked_example, shape_of
from pike.judge.reference.reference import Inputs, load

FILE = """
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x, k=1.0):
        {body}


def get_inputs():
    return {inputs}


def get_init_inputs():
    return []
"""
INPUTS = "[torch.randn(16, 8)]"
CPU = torch.device("cpu")


def examined(body="return self.layer(x)", inputs=INPUTS):
    task = Task("made", "made", TaskKind.SOURCE, FILE.format(body=body, inputs=inputs), "made.py")
    reference = load(task)
    return shape_of(task, reference.model, checked_example(task, reference.draw), CPU, map(reference.draw, range(2)))


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ("[torch.randn(int(torch.randint(5, 99999, ())), 8)]", "differ in more than the values"),
        ("[torch.randn(16, 8), float(torch.rand(()))]", "keep Python numbers fixed"),
        ("[torch.randn(16, 8)] * int(torch.randint(1, 99999, ()))", "differ in more than the values"),
        ("[torch.randn(16, 8).to_sparse()]", "an input is a tensor of layout torch.sparse_coo; give dense"),
        ("[torch.nested.nested_tensor([torch.randn(3, 8)], layout=torch.jagged)]", "an input is a nested tensor"),
        ("[torch.randn(16, 8), lambda x: x]", "cannot be sent to another process"),
        ("[torch.randn(0, 8)]", "hold only empty tensors, so every call has the same answer; draw"),
        ("[]", "hold no tensor"),
        ("[3, 2.0]", "hold no tensor"),
        ("[__import__('numpy').ones((16, 8))]", "hold a value of type ndarray and no tensor; give tensors"),
        ("torch.randn(16, 8)", "get_inputs() returns a bare tensor; return a list of arguments or a dict"),
        ("[torch.from_numpy(__import__('numpy').random.default_rng().random((16, 8)))]", "for the same random seed"),
        ("None", "get_inputs() raised TypeError"),
        ("exit(3)", "get_inputs() raised SystemExit"),
    ],
)
def test_inputs_that_cannot_be_judged_are_the_tasks_fault(inputs, words, monkeypatch):
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115, exit() closes it
    with pytest.raises(UserError) as caught:
        examined(inputs=inputs)
    assert words in str(caught.value) and "'made'" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "return F.dropout(self.layer(x), 0.1)",
            "draws random numbers in forward(), so nothing can be compared with its answers; switch dropout off",
        ),
        ("return self.layer(x) + 1e-9 * torch.randn(8)", "take random tensors as inputs"),
        ("torch.manual_seed(0); return F.dropout(self.layer(x), 0.1)", "draws random numbers"),
        ("__import__('random').seed(0); return self.layer(x) * __import__('random').random()", "draws random numbers"),
        ("return self.layer(x) * __import__('random').random()", "draws random numbers"),
        ("return self.layer(x) * float(__import__('numpy').random.default_rng().random())", "gives two answers"),
        ("self.calls += 1; return self.layer(x).argmax(1) + self.calls", "gives two answers"),
        ("self.calls += 1; return self.layer(x) * self.calls", "keep no state between calls"),
        ("self.kept = getattr(self, 'kept', torch.zeros(3)); return self.kept.add_(1)", "keep no state between calls"),
        ("self.kept = getattr(self, 'kept', torch.zeros(3)); return self.kept.normal_()", "draws random numbers"),
        ("return self.layer(x) if torch.rand([]) < 0.5 else x", "draws random numbers"),
        ("self.calls += 1; torch.manual_seed(self.calls % 2); torch.rand(1); return self.layer(x)", "draws random"),
        ("self.calls += 1; return self.layer(x)[: self.calls]", "gives two answers"),
        ("return self.layer(x).to_sparse()", "an output is a tensor of layout torch.sparse_coo; return a dense"),
        ("return self.layer(x) if x[0, 0] > 10 else (print,)", "return only tensors, numbers"),
        (
            "return tuple(self.layer(x)[:1] for _ in range(int(x.abs().sum() * 1e4) % 999))",
            "depend on the values of its inputs",
        ),
        ("raise SystemExit(1)", "does not run"),
        ("raise ValueError('no such mask')", "does not run (ValueError: no such mask); call it on its inputs"),
        ("return x @ torch.empty(8, 1 << 50)", "take a smaller model or batch"),
        ("raise MemoryError", "take a smaller model or batch"),
        ("return None", "returns NoneType, in which there is nothing to compare; return a tensor or a number"),
        ("return None, {'loss': None, 'name': 'relu'}", "name='relu')), in which there is nothing to compare"),
        ("return self.layer(x)[:0]", "nothing to compare"),
        ("return self.layer(x) / 0 * 0, torch.full((3,), torch.inf)", "nothing but NaN and infinities"),
    ],
)
def test_a_reference_that_cannot_be_judged_is_the_tasks_fault(body, words):
    with pytest.raises(UserError) as caught:
        examined(body)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "return self.layer(x) if torch.rand([]) < 2 else x",
        "__import__('random').random(); return self.layer(x)",
        "self.calls += 1; torch.randn(3) if self.calls == 1 else None; return self.layer(x)",
        "torch.rand(1); return torch.complex(self.layer(x), x).conj()",
    ],
)
def test_random_numbers_that_no_answer_depends_on_do_not_matter(body):
    assert examined(body)


@pytest.mark.parametrize(("sleep", "calls"), [("3.0", 1), ("0.2 if self.calls > 1 else 0.9", 2)])
def test_an_original_too_slow_for_a_verdict_within_the_limit_is_refused_at_once(sleep, calls, tmp_path):
    """A call that takes longer than the limit ends it; otherwise the second counts, because the first may compile."""
    body = f"self.calls += 1; open({str(tmp_path / 'calls')!r}, 'a').write('x'); __import__('time').sleep({sleep}); "
    task = Task(
        "made", "made", TaskKind.SOURCE, FILE.format(body=body + "return self.layer(x)", inputs=INPUTS), "made.py"
    )
    reference = load(task)
    with pytest.raises(
        UserError, match=r"takes [\d.]+ s and a first verdict .* has 2.0 s; give it more time"
    ) as caught:
        shape_of(task, reference.model, checked_example(task, reference.draw), CPU, limit_seconds=2.0)
    assert "smaller inputs" in str(caught.value) and len((tmp_path / "calls").read_text()) == calls


def test_arguments_of_the_constructor_are_a_list():
    source = FILE.format(body="return x", inputs=INPUTS).replace("return []", "return {'width': 3}")
    with pytest.raises(UserError, match=r"get_init_inputs\(\) returns a dict; return a list of the constructor's"):
        load(Task("made", "made", TaskKind.SOURCE, source, "made.py"))


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ("nn.Linear(8, 8, device='meta')", "meta device and have no values; make them with to_empty"),
        ("nn.LazyLinear(8)", "makes weights in its first call; call it once before"),
    ],
)
def test_weights_without_values_are_the_tasks_fault(layer, words):
    body = FILE.replace("nn.Linear(8, 8)", layer).format(body="return x", inputs="[]")
    with pytest.raises(UserError, match=words):
        load(Task("made", "made", TaskKind.SOURCE, body, "made.py"))


@dataclass
class Detections:
    boxes: torch.Tensor
    scores: tuple[torch.Tensor, float]
    kind: str = "box"
    masks: torch.Tensor | None = None


Pair = namedtuple("Pair", "mean, scale")


class Output(OrderedDict):
    """What transformers' `ModelOutput` is: a mapping with a name of its own."""


@pytest.mark.parametrize(
    ("value", "structure", "other"),
    [
        (torch.ones(3), "T", (torch.ones(3),)),
        ((torch.ones(3), None), "tuple(T, NoneType)", (torch.ones(3),)),
        ([(torch.ones(3), [2, True]), {}], "list(tuple(T, list(int, bool)), dict())", [(torch.ones(3), [2, 1]), {}]),
        ({"a": torch.ones(3), "b": 1.5}, "dict(a=T, b=float)", {"b": 1.5, "a": torch.ones(3)}),
        (Output(logits=torch.ones(3), loss=None), "Output(logits=T, loss=NoneType)", {"logits": torch.ones(3)}),
        (Pair(torch.ones(3), 1j), "Pair(T, complex)", (torch.ones(3), 1j)),
        ((torch.ones(3), "relu"), "tuple(T, 'relu')", (torch.ones(3), "gelu")),
        (
            Detections(torch.ones(2, 4), (torch.ones(2), 0.5)),
            "Detections(boxes=T, scores=tuple(T, float), kind='box', masks=NoneType)",
            Detections(torch.ones(2, 4), (torch.ones(2), 0.5), kind="mask"),
        ),
        (numpy.float64(1.5), "float64", 1.5),
    ],
)
def test_an_output_is_judged_by_its_structure(value, structure, other):
    layout = output_layout_of(value)
    assert layout.structure == structure
    same = check_output(copy.deepcopy(value), layout, CPU, [])
    assert all(torch.equal(one, leaf) for one, (leaf, _) in zip(same, flatten_output(value), strict=True))
    with pytest.raises(ContractBroken, match="the reference returns"):
        check_output(other, layout, CPU, [])


def test_a_missing_number_among_the_inputs_is_a_value_like_any_other():
    assert examined("return torch.nan_to_num(x)", "[torch.full((16, 8), float('nan'))]").outputs.leaves


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("return self.layer(x)", ()),
        ("x.relu_(); return self.layer(x)", (0,)),
        ("k[:, 3] = self.layer(x); return k.mean(1)", (1,)),
    ],
)
def test_inputs_that_the_reference_changes_count_as_outputs(body, changed):
    found = examined(body, "[torch.randn(16, 8), torch.zeros(16, 4, 8)]").outputs
    assert found.changed == changed and len(found.leaves) == 1 + len(changed)


def test_an_output_whose_shape_depends_on_values_travels_with_its_shape():
    layout = examined("y = self.layer(x); return y[y > 0], y").outputs
    assert layout.varying == (0,)
    room = layout.leaves[0].shape[0]
    for count in (0, 7, room):
        leaves = check_output((torch.arange(float(count)), torch.ones(16, 8)), layout, CPU, [])
        first, second = delivered(to_deliver(leaves, layout, []), layout)
        assert first.tolist() == list(range(count)) and second.shape == (16, 8)
    with pytest.raises(ContractBroken, match="output 0 has shape"):
        check_output((torch.zeros(room + 1), torch.ones(16, 8)), layout, CPU, [])
    with pytest.raises(ContractBroken, match="output 0 has shape"):
        check_output((torch.zeros(2, 2), torch.ones(16, 8)), layout, CPU, [])
    for forged in (-1, room + 1):
        with pytest.raises(ContractBroken, match="cannot have shape"):
            delivered([torch.zeros(room), torch.ones(16, 8), torch.tensor([forged])], layout)


def test_a_layout_that_turns_out_too_narrow_grows_and_forgets_nothing():
    body = "y = self.layer(x)[: int(x[0, 0])]; return y, (x * 2)[: int(x[0, 1])]"
    task = Task("made", "made", TaskKind.SOURCE, FILE.format(body=body, inputs="[torch.ones(16, 8)]"), "made.py")
    model = load(task).model

    def inputs(first, second):
        x = torch.ones(16, 8)
        x[0, 0], x[0, 1] = first, second
        return Inputs((x,), {})

    def grown(*others, known=None):
        return shape_of(task, model, inputs(3, 2), CPU, others, known).outputs

    first = grown()
    assert first.varying == () and grown(inputs(3, 2), known=first) == first
    second = grown(inputs(5, 2), known=first)
    assert second.rooms == {0: 2 * 5 * 8}
    assert grown(inputs(10, 2), known=second) == second, "there was room"
    assert grown(inputs(11, 4), known=second).rooms == {0: 2 * 11 * 8, 1: 2 * 4 * 8}
