"""The drop-in: the candidate answers judged calls with the right weights, the original answers everything else."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from api_material import CONSTRUCTS, CONVERTS, MARK, STATIC, Linear, Small, best_file, fast
from torch import nn

import pike
from pike import DropIn
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Weights

X = torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture
def original() -> Small:
    torch.manual_seed(0)
    return Small().eval()


@pytest.fixture
def dropin(original: Small, tmp_path: Path) -> DropIn:
    module = pike.load(best_file(tmp_path / "best.py", CONVERTS, (X,)), reference=original)
    assert isinstance(module, DropIn)
    return module


def check(dropin: nn.Module, original: nn.Module, x: torch.Tensor = X) -> None:
    """The candidate answers, with the original's current weights."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        out = dropin(x)
        assert fast(out)
        assert torch.allclose(out - MARK, original(x), atol=1e-3)


def falls_back(dropin: nn.Module, original: nn.Module, *args: object, **kwargs: object) -> str:
    """The original answers, and says why once."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        out = dropin(*args, **kwargs)
        dropin(*args, **kwargs)
    assert not fast(out)
    torch.testing.assert_close(out, original(*args, **kwargs))
    assert len(said) == 1
    return str(said[0].message)


def test_a_judged_call_is_answered_by_the_candidate(dropin: DropIn, original: Small) -> None:
    check(dropin, original)
    check(dropin, original)
    with torch.inference_mode():
        assert fast(dropin(X + 1))


@torch.no_grad()
@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((torch.zeros(3, 4),), {}, "float32[3, 4]"),
        ((torch.zeros(2, 4, dtype=torch.float32), 0.5), {}, "0.5"),
        ((X,), {"mask": torch.ones(2, 3)}, "mask=float32[2, 3]"),
        ((), {"x": X}, "x=float32[2, 4]"),
    ],
    ids=["shape", "scalar", "mask", "by keyword"],
)
def test_another_call_is_answered_by_the_original_which_says_so_once(dropin, original, args, kwargs, why) -> None:
    said = falls_back(dropin, original, *args, **kwargs)
    assert why in said
    assert "judged on (float32[2, 4])" in said
    check(dropin, original)


def test_another_dtype_is_answered_by_the_original(dropin: DropIn, original: Small) -> None:
    with torch.no_grad():
        dropin.double()
        assert "float64" in falls_back(dropin, original, X.double())
        dropin.float()
        check(dropin, original)


@torch.no_grad()
def test_weights_of_another_type_are_answered_by_the_original(tmp_path: Path) -> None:
    class Lookup(nn.Embedding):
        pass

    original, ids = Lookup(5, 3).eval(), torch.arange(4)
    dropin = pike.load(best_file(tmp_path / "best.py", CONVERTS, (ids,)), reference=original)
    check(dropin, original, ids)
    dropin.half()
    assert "weights of type float32, now they are float16" in falls_back(dropin, original, ids)
    dropin.float()
    check(dropin, original, ids)


def test_gradients_come_from_the_original(dropin: DropIn, original: Small) -> None:
    assert "torch.no_grad()" in falls_back(dropin, original, X)
    dropin(X).sum().backward()
    assert original.linear.weight.grad is not None


def test_without_trainable_weights_no_grad_is_not_needed(dropin: DropIn, original: Small) -> None:
    original.requires_grad_(False)
    assert fast(dropin(X))
    with pytest.warns(UserWarning, match="gradients"):
        assert not fast(dropin(X.clone().requires_grad_()))


@torch.no_grad()
def test_training_mode_is_the_original(dropin: DropIn, original: Small) -> None:
    dropin.train()
    assert original.training
    assert not fast(dropin(X))
    dropin.eval()
    check(dropin, original)
    original.linear.train()
    assert "submodule" in falls_back(dropin, original, X)


@torch.no_grad()
def test_autocast_is_the_original(dropin: DropIn, original: Small) -> None:
    check(dropin, original)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "autocast" in falls_back(dropin, original, X)


@torch.no_grad()
def test_weights_are_never_stale(dropin: DropIn, original: Small) -> None:
    check(dropin, original)
    original.linear.weight.add_(1.0)
    check(dropin, original)
    dropin.load_state_dict({name: tensor + 2 for name, tensor in original.state_dict().items()})
    check(dropin, original)
    original.linear.bias = nn.Parameter(torch.full((3,), 7.0))
    check(dropin, original)
    original.linear.weight.data = torch.zeros(3, 4)
    check(dropin, original)
    original.scale.fill_(3.0)
    check(dropin, original)
    original.linear.weight.data.add_(5.0)
    dropin.refresh()
    check(dropin, original)


def test_an_optimiser_step_is_followed(dropin: DropIn, original: Small) -> None:
    check(dropin, original)
    optimiser = torch.optim.SGD(dropin.parameters(), lr=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dropin(X).sum().backward()
    optimiser.step()
    dropin.refresh()
    check(dropin, original)
    optimiser.step()
    check(dropin, original)


def test_it_is_the_original_to_everybody_who_looks(dropin: DropIn, original: Small) -> None:
    assert list(dropin.state_dict()) == list(original.state_dict())
    assert [id(p) for p in dropin.parameters()] == [id(p) for p in original.parameters()]
    assert [name for name, _ in dropin.named_modules()] == [name for name, _ in original.named_modules()]
    assert dropin.config == {"hidden": 4}
    assert dropin.linear is original.linear
    with pytest.raises(AttributeError):
        dropin.nothing  # noqa: B018
    assert "judged on (float32[2, 4])" in repr(dropin)


@torch.no_grad()
def test_a_call_in_another_layout_is_made_like_the_judged_one(dropin: DropIn, original: Small) -> None:
    check(dropin, original, torch.linspace(0, 1, 8).reshape(4, 2).t())
    check(dropin, original, torch.linspace(0, 1, 9)[1:].reshape(2, 4))
    check(dropin, original, torch.linspace(0, 1, 16).reshape(4, 4)[::2])


@torch.no_grad()
def test_static_outputs_do_not_change_under_their_owner(original: Small, tmp_path: Path) -> None:
    dropin = pike.load(best_file(tmp_path / "best.py", STATIC, (X,)), reference=original)
    first = dropin(X)
    kept = first.clone()
    dropin(X + 1)
    torch.testing.assert_close(first, kept)


@torch.no_grad()
def test_code_that_fails_is_replaced_by_the_original(original: Small, tmp_path: Path) -> None:
    source = CONVERTS.replace("return cls(model)", "raise RuntimeError('no such kernel image')")
    dropin = pike.load(best_file(tmp_path / "best.py", source, (X,)), reference=original)
    assert "no such kernel image" in falls_back(dropin, original, X)


@torch.no_grad()
def test_a_candidate_that_is_constructed_takes_the_weights(tmp_path: Path) -> None:
    original = Linear(4, 3).eval()
    path = best_file(tmp_path / "best.py", CONSTRUCTS, (X,), weights=Weights.STATE_DICT, init_inputs=(4, 3))
    check(pike.load(path, reference=original), original)


@torch.no_grad()
def test_weights_of_the_same_random_seed_cannot_be_taken_over(tmp_path: Path) -> None:
    original = Linear(4, 3).eval()
    path = best_file(tmp_path / "best.py", CONSTRUCTS, (X,), weights=Weights.SEEDED, init_inputs=(4, 3))
    assert "random seed" in falls_back(pike.load(path, reference=original), original, X)


@torch.no_grad()
def test_constructor_arguments_can_be_given(tmp_path: Path) -> None:
    original = Linear(4, 3).eval()
    unknown = (object(),)
    path = best_file(tmp_path / "best.py", CONSTRUCTS, (X,), weights=Weights.STATE_DICT, init_inputs=unknown)
    assert "init_inputs" in falls_back(pike.load(path, reference=original), original, X)
    check(pike.load(path, reference=original, init_inputs=(4, 3)), original)


@torch.no_grad()
def test_copies_are_independent_and_it_can_be_saved(dropin: DropIn, original: Small) -> None:
    copied = copy.deepcopy(dropin)
    copied.linear.weight.zero_()
    check(copied, copied.original)
    check(dropin, original)
    buffer = io.BytesIO()
    torch.save(dropin, buffer)
    buffer.seek(0)
    check(torch.load(buffer, weights_only=False), original)


@torch.no_grad()
def test_a_call_that_could_not_be_described_needs_an_example(original: Small, tmp_path: Path) -> None:
    path = best_file(tmp_path / "best.py", CONVERTS)
    with pytest.raises(UserError, match="example_inputs"):
        pike.load(path, reference=original)
    check(pike.load(path, reference=original, example_inputs=X), original)


@torch.no_grad()
def test_forms_for_several_batches_answer_each_its_own(original: Small, tmp_path: Path) -> None:
    one, two, broken = X[:1], X, X.repeat(2, 1)
    failing = CONVERTS.replace("return self.inner", "raise ValueError('no rows')\n        return self.inner")
    paths = [
        best_file(tmp_path / f"{len(x)}.py", failing if x is broken else CONVERTS, (x,)) for x in (two, one, broken)
    ]
    dropin = pike.load(paths, reference=original)
    for x in (one, two, one):
        check(dropin, original, x)
    assert "no rows" in falls_back(dropin, original, broken)
    other = X.repeat(3, 1)
    assert torch.equal(dropin(other), original(other))
    said = (
        "it was judged on (float32[2, 4]), this call is (float32[6, 4]); other forms were judged on (float32[1, 4]), "
    )
    assert dropin.why_not((other,), {}).startswith(said)
    original.linear.weight.add_(1.0)
    for again in (dropin, copy.deepcopy(dropin)):
        check(again, again.original, one)
        check(again, again.original, two)
    best_file(paths[1], CONVERTS, (one,), device="cuda")
    with pytest.raises(UserError, match="different devices"):
        pike.load(paths, reference=original)
    with pytest.raises(UserError, match=r"path of a best\.py"):
        pike.load([], reference=original)


@torch.no_grad()
def test_it_works_inside_another_module(dropin: DropIn, original: Small) -> None:
    model = nn.Sequential(nn.Identity(), dropin).eval()
    assert fast(model(X))
    assert list(model.state_dict()) == ["1.scale", "1.linear.weight", "1.linear.bias"]
    model.train()
    assert original.training
    model.eval()
    assert fast(model(X))


@torch.no_grad()
def test_containers_come_back_as_they_were(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, pair: dict[str, torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
            return pair["a"] + 1, [pair["b"] * 2]

    source = CONVERTS.replace(
        "return self.inner(*args, **kwargs) + 1000.0", "a, b = self.inner(*args); return a + 1000.0, b"
    )
    pair = {"a": X, "b": X}
    dropin = pike.load(best_file(tmp_path / "best.py", source, (pair,), dtypes=""), reference=Two().eval())
    a, b = dropin(pair)
    assert fast(a)
    assert isinstance(b, list)
    with pytest.warns(UserWarning, match="judged on"):
        assert not fast(dropin({"b": X, "a": X})[0]), "the order of keys belongs to the structure"


@pytest.mark.parametrize("text", ["", "import torch\n", "# pike: {}\nx", "# pike: {not json\n"])
def test_a_file_that_pike_did_not_write_is_refused(original: Small, tmp_path: Path, text: str) -> None:
    path = tmp_path / "best.py"
    path.write_text(text)
    with pytest.raises(UserError, match=r"best\.py"):
        pike.load(path, reference=original)
    with pytest.raises(UserError, match="cannot be read"):
        pike.load(tmp_path / "none.py", reference=original)


def test_the_file_of_a_loaded_candidate_stays_for_the_life_of_its_process_only(tmp_path: Path) -> None:
    best = best_file(tmp_path / "best.py", CONVERTS, (X,))
    code = f"""
import os, sys, torch, pike
from pathlib import Path
faster = pike.load({str(best)!r}, reference=torch.nn.Linear(4, 3).eval())
with torch.no_grad():
    faster(torch.zeros(2, 4))
(found,) = [Path(module.__file__) for name, module in sys.modules.items() if name.startswith("pike_candidate_")]
if os.fork() == 0:
    raise SystemExit
os.wait()
assert found.is_file(), "a forked process took it away"
"""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(temporary)}, check=True, timeout=120)
    assert list(temporary.iterdir()) == []
