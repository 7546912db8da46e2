"""What the correctness stage tries on real candidates in real children: distributions, two live outputs, held-out shapes."""

from dataclasses import replace

import pytest
import torch

from pike.core.errors import UserError
from pike.core.verdict.evaluation import Effort, Status
from pike.judge.child.stub import is_reused
from pike.judge.reference.boundary_shapes import boundary_shapes
from pike.judge.reference.reference import Inputs

STATIC = "\n        ".join(
    ("if not hasattr(self, 'out'): self.out = torch.empty_like(y)", "self.out.copy_(y)", "y = self.out")
)


@pytest.fixture
def final(task, verdict):
    """Like `verdict`, with the effort spent on finalists."""

    def judged(source, task=task, **options):
        return verdict(source, task, effort=Effort.FINAL, **options)

    return judged


@pytest.mark.parametrize(
    ("change", "distributions"),
    [
        ("y = y + 1e-4 * (x.abs().amax() < 0.1)", ["small values"]),
        (
            "y = self.second(torch.relu(self.first(x.clamp(-8, 8)))) * self.gain",
            ["large values", "an offset", "outliers", "a few extremes", "an unusual tail", "mixed rows"],
        ),
        ("y = y + 1e-2 * ((x == 0).sum() > 50)", ["one-hot rows", "mixed rows"]),
        ("y = y + 1e-2 * (x == x[..., :1]).all(-1, keepdim=True)", ["constant rows"]),
    ],
)
def test_a_finalist_right_only_on_the_drawn_kind_of_inputs_is_refused_and_told_which(
    final, rewrite, change, distributions
):
    """The kinds of inputs come in an order that nobody knows before."""
    found = final(rewrite(change))
    assert found.status is Status.WRONG_OUTPUT
    assert any(found.reason.startswith(f"on inputs with {distribution}, ") for distribution in distributions)


def test_an_honest_finalist_passes_and_the_distribution_that_the_reference_does_not_survive_is_named(
    final, task, rewrite
):
    forward = "self.second(torch.relu(self.first(x)))"
    finite = f"{forward} / (x.amax(-1, keepdim=True) > x.amin(-1, keepdim=True))"
    zero = replace(task, source=task.source.replace(forward, finite))
    found = final(zero.source.replace("class Model(", "class ModelNew("), zero)
    assert (found.status, found.labels) == (Status.VALID, ("untested: constant rows",)), found.reason


def test_memory_of_the_first_calls_length_is_wrong_where_the_length_depends_on_values(verdict, task, rewrite):
    length = "int(40 + 4 * x[0, 0])"
    source = task.source.replace("* self.gain", f"* self.gain)[: {length}]").replace("return self", "return (self")
    candidate = rewrite(f"self.length = getattr(self, 'length', {length})", "y[: self.length]")
    found = verdict(candidate, replace(task, source=source))
    assert found.status is Status.WRONG_OUTPUT and "it has shape [" in found.reason, found.reason


CONVOLUTION = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(8, 24, 3, padding=1), nn.GroupNorm(4, 24)

    def forward(self, x):
        y = self.convolution(x)
        return nn.functional.max_pool2d(nn.functional.silu(self.norm(y)), 2)


def get_inputs():
    return [torch.randn(4, 8, 32, 32)]


def get_init_inputs():
    return []
"""
SHIFTS = """y = self.convolution.bias.view(1, -1, 1, 1)
        x = nn.functional.pad(x, (1, 1, 1, 1))
        for i in range(9):
            part = x[:, :, i // 3 : i // 3 + 32, i % 3 : i % 3 + 32]
            y = y + torch.einsum("bchw,oc->bohw", part, self.convolution.weight[:, :, i // 3, i % 3])"""


def test_an_honest_finalist_that_adds_in_another_order_passes_where_the_model_is_ill_conditioned(final, task):
    hard = replace(task, id="convolution", source=CONVOLUTION)
    source = CONVOLUTION.replace("class Model(", "class ModelNew(").replace("y = self.convolution(x)", SHIFTS)
    found = final(source, hard)
    assert found.status is Status.VALID, found.reason


def test_a_static_output_buffer_is_allowed_and_labelled(verdict, rewrite):
    found = verdict(rewrite(STATIC))
    assert (found.status, found.labels) == (Status.VALID, ("reuses-output-buffer",)), found.reason
    assert found.flat()["labels"] == ["reuses-output-buffer"]


def test_an_output_that_changes_later_counts_as_reused():
    old, new = torch.ones(4), torch.zeros(4)
    nan = torch.full((4,), float("nan"))
    assert not is_reused([old, nan], [old.clone(), nan.clone()], [new, new.clone()])
    assert is_reused([old], [old + 1], [new])
    assert is_reused([old], [old.clone()], [old[2:]])


HELD_OUT = """

def get_held_out_inputs():
    return [[torch.randn(rows, 96)] for rows in (1, 77)]
"""


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ("y = y * (1.0 if len(x) in (64, 77) else 1.01)", Status.WRONG_OUTPUT, "on held-out shape [1, 96], output 0"),
        ("assert len(x) != 77, 'only sizes that I know'", Status.RUNTIME_ERROR, "on held-out shape [77, 96], Assert"),
        ("y = y[:64] if len(x) > 64 else y", Status.BAD_CONTRACT, "on held-out shape [77, 96], output 0 has shape"),
    ],
)
def test_a_finalist_that_knows_only_the_judged_shape_is_refused(final, task, rewrite, change, status, words):
    found = final(rewrite(change), replace(task, source=task.source + HELD_OUT))
    assert (found.status, found.reason[: len(words)]) == (status, words)


def test_shapes_at_the_edges_are_cut_along_the_axes_that_vary_and_from_numbers_only():
    drawn = Inputs((torch.randn(64, 96),), {"scale": torch.randn(96)})
    others = [Inputs((torch.randn(rows, 96),), {"scale": torch.randn(96)}) for rows in (8, 77)]
    one, less = boundary_shapes(drawn, others)
    assert (one.args[0].shape, less.args[0].shape) == ((1, 96), (63, 96))
    assert one.kwargs["scale"].shape == (96,)
    assert torch.equal(less.args[0], drawn.args[0][:63])
    assert boundary_shapes(drawn, [drawn]) == []
    counted = Inputs((torch.randn(64, 96),), {"scale": torch.arange(96)})
    assert boundary_shapes(counted, others) == []


def test_a_finalist_need_not_know_an_edge_that_the_reference_does_not_take(final, task, rewrite):
    picky = task.source.replace("def forward(self, x):", "def forward(self, x):\n        assert len(x) % 2 == 0", 1)
    even = HELD_OUT.replace("(1, 77)", "(32, 76)")
    assert final(rewrite(), replace(task, source=picky + even)).status is Status.VALID


def test_a_finalist_right_on_held_out_shapes_is_timed_on_the_judged_one(final, verdict, task, rewrite):
    held_out = replace(task, source=task.source + HELD_OUT)
    assert final(rewrite(), held_out).status is Status.VALID
    assert verdict(rewrite("y = y if len(x) == 64 else 0"), held_out).status is Status.VALID  # not while searching


def test_held_out_shapes_that_the_reference_does_not_take_are_the_tasks_fault(final, task, rewrite):
    broken = replace(task, source=task.source + HELD_OUT.replace("96", "95"))
    with pytest.raises(UserError, match="does not run"):
        final(rewrite(), broken)
