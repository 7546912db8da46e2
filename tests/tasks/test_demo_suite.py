"""The demo tasks are meaningful: outputs of order one that depend on the input and on every layer."""

from __future__ import annotations

import pytest
import torch

from pike import tasks
from pike.judge.reference.reference import load

NAMES = [task.id for task in tasks.in_suite("demo")]


def small(id: str) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """The small variant and two of its inputs."""
    reference = load(tasks.resolve(f"{id}:small"))
    return reference.model, [reference.draw(seed).args[0] for seed in range(2)]


def test_the_suite_has_the_four_demo_tasks():
    assert NAMES == ["demo/attention", "demo/gpt_block", "demo/mobilenet", "demo/resnet18"]
    assert "demo" in tasks.suites()


@pytest.mark.parametrize("id", NAMES)
def test_outputs_are_of_order_one_and_depend_on_the_input(id):
    model, (x, other) = small(id)
    with torch.no_grad():
        y, z = model(x), model(other)
    assert 0.1 < float(y.std()) < 10
    assert float((y - z).std()) > 0.1 * float(y.std())


@pytest.mark.slow
@pytest.mark.parametrize("id", NAMES)
def test_every_layer_matters(id):
    model, (x, _) = small(id)
    with torch.no_grad():
        y = model(x)
        for name, layer in model.named_modules():
            if not isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
                continue
            kept = layer.weight.detach().clone()
            layer.weight.zero_()
            assert float((model(x) - y).abs().max()) > 1e-2, f"{name} can be zeroed unnoticed"
            layer.weight.copy_(kept)


@pytest.mark.parametrize("id", NAMES)
def test_weights_are_the_same_each_time(id):
    first, second = (small(id)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_the_resnet_is_the_published_one():
    reference = load(tasks.resolve("demo/resnet18"))
    assert sum(p.numel() for p in reference.model.parameters()) == 11_689_512
    assert [tuple(x.shape) for x in reference.draw(0).args] == [(2, 3, 224, 224)]


def test_the_mobilenet_has_the_published_parameters():
    model = load(tasks.resolve("demo/mobilenet")).model
    assert sum(p.numel() for p in model.parameters()) == 3_504_872
