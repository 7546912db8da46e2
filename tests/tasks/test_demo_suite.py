"""The demo tasks are meaningful: outputs of order one that depend on the input and on every layer."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from pike import tasks

SMALL = {
    "demo/resnet18": {"classes": 10, "widths": (8, 16)},
    "demo/mobilenet": {"classes": 10, "stages": ((1, 8, 1, 1), (2, 8, 2, 2))},
    "demo/gpt_block": {"width": 32, "heads": 4, "tokens": 512},
    "demo/attention": {"width": 32, "heads": 4, "tokens": 512},
}
NAMES = [task.id for task in tasks.in_suite("demo")]


def load(task) -> ModuleType:
    module = ModuleType(task.id.replace("/", "_"))
    sys.modules[module.__name__] = module
    exec(compile(task.source, task.origin, "exec"), module.__dict__)
    return module


def small(id: str) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """A narrow variant and two of its inputs."""
    module = load(tasks.resolve(id))
    torch.manual_seed(0)
    for name, value in SMALL[id].items():
        setattr(module, {"tokens": "TOKENS", "width": "WIDTH"}.get(name, "_"), value)
    model = module.Model(**SMALL[id]).eval()
    return model, [module.get_inputs()[0] for _ in range(2)]


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
def test_weights_follow_the_global_seed(id):
    first, second = (small(id)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_the_resnet_is_the_published_one():
    module = load(tasks.resolve("demo/resnet18"))
    model = module.Model(*module.get_init_inputs())
    assert sum(p.numel() for p in model.parameters()) == 11_689_512
    assert [tuple(x.shape) for x in module.get_inputs()] == [(2, 3, 224, 224)]


def test_the_mobilenet_has_the_published_parameters():
    module = load(tasks.resolve("demo/mobilenet"))
    assert sum(p.numel() for p in module.Model().parameters()) == 3_504_872
