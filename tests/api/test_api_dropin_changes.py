"""The drop-in never differs from its original in silence, whatever is changed, switched on or called at once."""

from __future__ import annotations

import copy
import io
import warnings
from collections import deque
from contextlib import contextmanager

import pytest
import torch
from api_material import CONVERTS, Small, best_file, fast
from dropin_sequences import FORMS, MASK, SEQUENCES, STEPS, run, scene
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch.autograd import forward_ad
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import pike
from pike.api.dropin import DropIn, JudgedCalls
from pike.core.errors import UserError
from pike.engine.output.best_file import MARK as TERMS

X = torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads of torch that wait for each other on small tensors cost most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FOLLOWED = {
    *("call", "three calls", "a view", "in place", "by data", "one element by numpy", "SGD", "Adam", "AdamW"),
    *("Adagrad", "data swapped", "data replaced", "data transposed", "a new layer", "loaded", "buffer"),
    *("one buffer replaced by an equal one", "threads", "inference mode", "copied", "there and back", "refreshed"),
    *("a mask with zeros", "a mask edited in place", "a number", "gradients", "autocast", "vmap", "derivatives"),
    *("trained", "dictionary again"),
}
"""Steps after which a judged call is the optimised code's again."""


@pytest.mark.parametrize("step", STEPS)
def test_after_each_change_the_answer_is_the_originals(step: str) -> None:
    done = run((0, "itself"), [step, step])
    assert run((0, "itself"), []).fast == 1
    if step in FOLLOWED:
        assert done.fast >= 3, "the optimised code answers after the change"


@pytest.mark.parametrize("form", FORMS)
def test_answers_that_the_optimised_code_still_holds_are_copied(form: tuple[int, str]) -> None:
    assert run(form, ["three calls"] * 3).fast == 13


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(**SEQUENCES)
def test_no_sequence_of_changes_and_calls_makes_a_difference(form, steps, seed) -> None:
    run(form, steps, seed)


@torch.no_grad()
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: setattr(s.original, "last", nn.Linear(4, 4, bias=False)), "last.bias"),
        (lambda s: setattr(s.dropin, "power", 2.0), "power"),
        (lambda s: s.original.config.update(bias=2.0), "config['bias']"),
        (lambda s: s.original.act.register_forward_hook(lambda *_: None), "act.forward_hooks"),
        (lambda s: s.original.offset.fill_(1.0), "offset"),
        (lambda s: s.original.eval(), ""),
    ],
)
def test_what_changed_is_named(change, said: str) -> None:
    s = scene()
    change(s)
    why = s.dropin.why_not((X, MASK), {})
    assert (f"'{said}" in why and "since the drop-in was made" in why) if said else not why


class Slotted:
    __slots__ = ("value",)


class Odd(nn.Linear):
    """State in places that are seldom used."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.slotted, self.queue, self.hidden = Slotted(), deque([1]), [nn.Dropout().eval()]
        self.slotted.value = 1
        vars(self)["weight"] = "an attribute beside a weight of its name"


@torch.no_grad()
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: setattr(m.slotted, "value", 2), "slotted.value"),
        (lambda m: m.queue.append(2), "queue[1]"),
        (lambda m: m.hidden[0].train(), "hidden[0].training"),
        (lambda m: m._parameters.update(weight=nn.Parameter(torch.zeros(5, 4))), "weight"),
    ],
)
def test_state_in_odd_places_counts(change, said: str) -> None:
    original = Odd().eval()
    dropin = DropIn(original, nn.Identity, JudgedCalls("(float32[2, 4])", "cpu"))
    assert dropin.why_not((X,), {}) == ""
    change(original)
    assert f"'{said}' changed" in dropin.why_not((X,), {})


class Shy:
    @property
    def __dict__(self):
        raise ValueError("do not look")


@torch.no_grad()
def test_an_object_that_cannot_be_looked_at_leaves_the_answer_to_the_original() -> None:
    original = nn.Identity().eval()
    original.shy = Shy()
    dropin = DropIn(original, nn.Identity, JudgedCalls("(float32[2, 4])", "cpu"))
    assert "do not look" in dropin.why_not((X,), {})
    del original.shy
    assert dropin.why_not((X,), {}) == ""


@torch.no_grad()
def test_the_copy_is_made_again_for_new_weights_only() -> None:
    built: list[nn.Module] = []
    original = nn.Linear(4, 4).eval()
    dropin = DropIn(original, lambda model: built.append(model) or model, JudgedCalls("(float32[2, 4])", "cpu"))
    for change in (original.eval, original.train, original.eval, lambda: setattr(original, "in_features", 4)):
        change()
        dropin(X)
    assert len(built) == 1
    original.weight.add_(1.0)
    dropin(X)
    assert len(built) == 2


@torch.no_grad()
def test_a_negative_zero_is_another_number() -> None:
    dropin = DropIn(nn.Identity().eval(), nn.Identity, JudgedCalls("(float32[2, 4], 0.0)", "cpu"))
    assert dropin.why_not((X, 0.0), {}) == ""
    assert "-0.0" in dropin.why_not((X, -0.0), {})


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:The original")
def test_a_drop_in_inside_of_an_original_may_change_its_mind() -> None:
    inner = DropIn(nn.GELU().eval(), copy.deepcopy, JudgedCalls("(float32[2, 4])", "cpu"))
    outer = DropIn(nn.Sequential(inner).eval(), copy.deepcopy, JudgedCalls("(float32[2, 4])", "cpu"))
    inner(X[:1])
    assert outer.why_not((X,), {}) == ""


@torch.no_grad()
def test_a_copy_made_in_inference_mode_works_outside() -> None:
    s = scene(buffers=2)
    with torch.inference_mode():
        s.check()
    s.check()
    s.check()
    assert s.dropin.why_not((X, MASK), {}) == ""


class Halfway(torch.optim.SGD):
    """Fails after it has changed a weight without a trace."""

    def step(self, closure=None):
        self.param_groups[0]["params"][0].data[0, 1] += 1.0
        raise ValueError("halfway")


def test_a_large_model_follows_versions_and_steps_where_the_sample_sees_nothing() -> None:
    original, x = nn.Linear(64, 64).eval(), torch.ones(1, 64)
    dropin = DropIn(original, copy.deepcopy, JudgedCalls("(float32[1, 64])", "cpu"))

    def follows() -> bool:
        with torch.no_grad():
            return torch.equal(dropin(x), original(x))

    assert follows()
    with torch.no_grad():
        original.weight[0, 1].add_(1.0)
    assert follows()
    original.weight.grad = torch.zeros(64, 64)
    original.weight.grad[0, 1] = 1.0
    torch.optim.SGD([original.weight], lr=0.1, fused=True).step()
    assert follows()
    with pytest.raises(ValueError, match="halfway"):
        Halfway([original.weight], lr=0.1).step()
    assert follows()
    original.weight.data[0, 1] += 1.0
    assert not follows(), "the documented limit"
    dropin.refresh()
    assert follows()
    original.weight.data += 1.0
    assert follows()


@torch.no_grad()
def test_attributes_set_on_the_drop_in_are_the_originals() -> None:
    s = scene()
    s.dropin.power = 2.0
    assert s.original.power == 2.0 and "power" not in vars(s.dropin)
    s.dropin.extra = 1
    del s.dropin.extra
    assert not hasattr(s.original, "extra")
    s.dropin.training = True
    assert s.original.training
    seen = []
    s.dropin.eval().register_forward_hook(lambda *_: seen.append(1))
    s.dropin(X, MASK)
    assert seen == [1], "a hook on the drop-in sees the calls of both"


@torch.no_grad()
def test_a_changed_original_stays_changed_in_copies_and_files() -> None:
    s = scene()
    s.original.power = 2.0
    assert "power" in copy.deepcopy(s.dropin).why_not((X, MASK), {})
    small = Small().eval()
    buffer = io.BytesIO()
    dropin = DropIn(small, Small, JudgedCalls("(float32[2, 4])", "cpu"))
    small.config["hidden"] = 5
    torch.save(dropin, buffer)
    buffer.seek(0)
    assert "config['hidden']" in torch.load(buffer, weights_only=False).why_not((X,), {})


def test_a_drop_in_saved_before_constants_were_known_opens() -> None:
    judged = JudgedCalls.__new__(JudgedCalls)
    judged.__setstate__(["(float32[2, 4])", "cpu", "", "float32"])
    assert judged == JudgedCalls("(float32[2, 4])", "cpu", "", "float32")


@torch.no_grad()
@pytest.mark.parametrize("context", [torch.inference_mode, lambda: torch.device("meta"), torch.no_grad])
def test_contexts_that_change_no_answer_leave_it_to_the_optimised_code(context) -> None:
    s = scene()
    with context():
        assert s.dropin.why_not((X, MASK), {}) == ""


@torch.no_grad()
def test_what_cannot_be_watched_is_answered_by_the_original() -> None:
    with torch.inference_mode():
        frozen = DropIn(nn.Linear(4, 3).eval(), nn.Identity, JudgedCalls("(float32[2, 4])", "cpu"))
        assert "torch.inference_mode()" in frozen.why_not((X,), {})
    original = nn.Identity().eval()
    original.data_set = [[number] for number in range(60_000)]
    assert "too many" in DropIn(original, nn.Identity, JudgedCalls("(float32[2, 4])", "cpu")).why_not((X,), {})


@contextmanager
def _default_type():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@contextmanager
def _hooks_on_all_modules():
    handle = register_module_forward_hook(lambda *_: None)
    yield
    handle.remove()


@torch.no_grad()
@pytest.mark.parametrize(
    ("context", "said"),
    [
        (_default_type, "default type"),
        (_hooks_on_all_modules, "hooks are set on all modules"),
        (BaseTorchFunctionMode, "a mode"),
        (TorchDispatchMode, "a mode"),
        (forward_ad.dual_level, "forward mode"),
    ],
)
def test_what_no_judge_tries_is_answered_by_the_original(context, said: str) -> None:
    s = scene()
    with context():
        assert said in s.dropin.why_not((X, MASK), {})
    assert s.dropin.why_not((X, MASK), {}) == ""


@torch.no_grad()
def test_a_trace_holds_the_original_which_follows_its_weights() -> None:
    s = scene()
    s.check()
    traced = torch.jit.trace(s.dropin, (X, MASK), check_trace=False)
    s.original.first.weight.add_(1.0)
    torch.testing.assert_close(traced(X, MASK), s.original(X, MASK))


@torch.no_grad()
def test_a_lazy_conjugate_reaches_the_optimised_code_as_it_is_in_memory() -> None:
    class Memory(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(x.conj().numpy().copy()) if x.is_conj() else x.clone()

    x = torch.tensor([1 + 2j, 3 - 4j])
    dropin = DropIn(nn.Identity().eval(), lambda _: Memory(), JudgedCalls("(complex64[2])", "cpu"))
    torch.testing.assert_close(dropin(x), x)
    torch.testing.assert_close(dropin(x.conj()), x.conj().clone())


@torch.no_grad()
def test_a_block_is_checked_once_and_says_so_if_the_original_changed_in_it() -> None:
    s = scene()
    with s.dropin.checked_once():
        assert s.dropin.why_not((X, MASK), {}) == ""
        s.check()
    with pytest.raises(UserError, match="changed inside"), s.dropin.checked_once():
        s.original.first.weight.add_(1.0)
    s.check()

    def loads_and_calls() -> None:
        with s.dropin.checked_once():
            s.dropin.load_state_dict({name: tensor + 1 for name, tensor in s.dropin.state_dict().items()})
            s.check()

    with pytest.raises(UserError, match="changed inside"):
        loads_and_calls()


@torch.no_grad()
def test_a_file_of_an_earlier_version_warns_of_constants_that_it_does_not_name(tmp_path) -> None:
    path = best_file(tmp_path / "best.py", CONVERTS, (X,), {"mask": torch.ones(2, 3)}, constants=None)
    with pytest.warns(UserWarning, match="same in all judged calls"):
        faster = pike.load(path, reference=Small().eval())
    assert fast(faster(X, mask=torch.ones(2, 3)))
    (line,) = [line for line in path.read_text().splitlines() if line.startswith(TERMS)]
    path.write_text(path.read_text().replace(line, line.replace(', "constants": null', "")))
    with pytest.warns(UserWarning, match="same in all judged calls"):
        pike.load(path, reference=Small().eval())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pike.load(best_file(path, CONVERTS, (X,), constants=None), reference=Small().eval())
