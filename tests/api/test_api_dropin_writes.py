"""The drop-in of a model that writes into its inputs: the caller's tensors end up as after the original, once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from pike.api.dropin import DropIn, FromSource, JudgedCalls
from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import Weights
from pike.engine.output import originals
from pike.engine.output.signature import describe
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.write import write
from pike.tasks.modules import from_module

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Caching(nn.Module):
    """Adds to a cache that the caller gives."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache += self.linear(x)
        return cache.sum(-1)


class Fast(nn.Module):
    """The same model; while `fails` is set it raises after it wrote."""

    fails = False

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        out = self.inner(x, cache)
        if Fast.fails:
            raise RuntimeError("no such kernel image")
        return out


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.ones(2, 4),
    "unaligned": lambda: torch.ones(9)[1:].view(2, 4),
    "strided": lambda: torch.ones(2, 10)[:, 2:6],
    "transposed": lambda: torch.ones(4, 2).t(),
}


def agree(dropin: nn.Module, original: nn.Module, make: Callable[[], torch.Tensor]) -> None:
    """Both answer alike, and leave the cache and what lies around it alike."""
    ours, theirs = make(), make()
    torch.testing.assert_close(dropin(X, ours), original(X, theirs))
    torch.testing.assert_close(ours, theirs)
    whole = [cache.as_strided((cache.untyped_storage().nbytes() // 4,), (1,), 0) for cache in (ours, theirs)]
    torch.testing.assert_close(*whole)


def dropin_for(original: nn.Module) -> DropIn:
    return DropIn(original, Fast, JudgedCalls(describe((X, X), {}), "cpu"))


@pytest.mark.filterwarnings("ignore:The original")
@pytest.mark.parametrize("inference", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_written_into_an_input_arrives_once(layout: str, inference: bool) -> None:
    original = Caching().eval()
    dropin = dropin_for(original)
    with torch.inference_mode() if inference else torch.no_grad():
        for _ in range(3):
            agree(dropin, original, LAYOUTS[layout])
        with torch.no_grad():
            original.linear.weight.add_(1.0)
        agree(dropin, original, LAYOUTS[layout])
        assert dropin.explain().startswith("Calls that the optimised code answered: 4, the original: 0")
        shared = X.clone(), X.clone()
        torch.testing.assert_close(dropin(shared[0], shared[0]), original(shared[1], shared[1]))
        torch.testing.assert_close(*shared)
        assert "share memory" in dropin.why_not((shared[0], shared[0]), {})
        agree(dropin, original, LAYOUTS[layout])
        assert "answered: 5, the original: 1" in dropin.explain()


@torch.no_grad()
def test_code_that_fails_after_it_wrote_leaves_the_inputs_to_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Caching().eval()
    dropin = dropin_for(original)
    agree(dropin, original, LAYOUTS["plain"])
    monkeypatch.setattr(Fast, "fails", True)
    with pytest.warns(UserWarning, match="no such kernel image"):
        agree(dropin, original, LAYOUTS["plain"])


@torch.no_grad()
def test_code_that_writes_nothing_gets_the_callers_own_tensors() -> None:
    seen: list[int] = []
    original = nn.Linear(4, 4).eval()
    dropin = DropIn(original, Seeing, JudgedCalls(describe((X,), {}), "cpu"))
    Seeing.seen = seen
    for _ in range(2):
        dropin(X)
    assert [place == X.data_ptr() for place in seen] == [False, False, True, True], "both trials work on copies"


class Seeing(nn.Module):
    """Notes where its input lies."""

    seen: list[int]

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.data_ptr())
        return self.inner(x)


@torch.no_grad()
def test_a_file_of_recipes_warms_up_on_copies(tmp_path: Path) -> None:
    original = Caching().eval()
    task = from_module(original, (X, X.clone()), {}, folder=tmp_path)
    source = write(task, ())
    for make in LAYOUTS.values():
        candidate = FromSource(source, Weights.FROM_REFERENCE, None)(copy.deepcopy(original)).eval()
        agree(candidate, original, make)
    reference = originals.load(task).reference
    before = X.clone()
    problem = RecipeContext(reference.model, (X, before), {}, DeviceFacts("cpu", "test", threads=2))
    assert problem.unsteady == ""
    assert torch.equal(before, X)
