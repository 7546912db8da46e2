"""Does a drop-in ever answer differently from its original? Random changes and calls, many times over.

Knows a model with state of every sort, and fast forms of it that are right for the judged calls and
wrong for all others. `tests/api` runs a few sequences, the command line as many as it is told.

    python benchmarks/dropin_sequences.py --sequences 10000
"""

from __future__ import annotations

import argparse
import copy
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F

from pike.api.dropin import DropIn, JudgedCalls
from pike.engine.output.signature import describe, digest

MASK = torch.ones(2, 4)


class Host(nn.Module):
    """Weights, and state of every other sort that changes an answer."""

    gain = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("offset", torch.zeros(4), persistent=False)
        self.power, self.taps, self.config = 1.0, [0.5, 0.25], {"bias": 1.0}
        self.table, self.shift, self.hidden = np.ones(4, np.float32), torch.zeros(4), [nn.Linear(4, 4)]
        self.requires_grad_(False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, times: float = 1.0) -> torch.Tensor:
        out = self.last(self.act(self.first(x * mask))) * self.scale + self.offset
        out = out * self.power * self.gain + sum(self.taps) * self.config["bias"]
        return self.hidden[0](out * torch.from_numpy(self.table.copy()) + self.shift) * times


class Copied(nn.Module):
    """A fast form: its own weights, all else as it was judged, one work buffer and some answers in turn."""

    def __init__(self, model: Host, buffers: int = 0, how: str = "itself") -> None:
        super().__init__()
        self.weights = [p.detach().clone() for p in (*model.first.parameters(), *model.last.parameters())]
        self.after = [p.detach().clone() for p in model.hidden[0].parameters()]
        self.scale, self.work, self.how = model.scale.clone(), torch.empty(2, 4), how
        self.memory = [np.empty((2, 4), np.float32) for _ in range(buffers)]
        self.answers = [torch.from_numpy(memory) if how == "memory" else torch.empty(2, 4) for memory in self.memory]
        self.turn = cycle(range(buffers)) if buffers else None

    def forward(self, x: torch.Tensor, mask: torch.Tensor, times: float = 1.0) -> Any:
        first, bias, last, last_bias = self.weights
        self.work.copy_(x)
        out = F.linear(F.gelu(F.linear(self.work, first, bias)), last, last_bias) * self.scale + 0.75
        time.sleep(0)  # another thread's turn
        out = F.linear(out + self.work - x, *self.after)
        if self.turn is None:
            return out
        turn = next(self.turn)
        self.answers[turn].copy_(out)
        if self.how == "view":
            return self.answers[turn][:]
        return torch.from_numpy(self.memory[turn]) if self.how == "memory" else self.answers[turn]


class Wrapped(nn.Module):
    """A layer with something beside it, as LoRA does it."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner, self.weight, self.bias = inner, inner.weight, inner.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 0.5


@dataclass
class Scene:
    """A drop-in beside its original, and the answers that a caller kept."""

    original: Host
    dropin: DropIn
    chance: torch.Generator
    undo: dict[str, Callable[[], object]] = field(default_factory=dict)
    kept: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    fast: int = 0

    def draw(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.chance)

    def check(self, *args: Any, keep: bool = False, **kwargs: Any) -> None:
        args = args or (self.draw(2, 4), MASK)
        self.fast += not self.dropin.why_not(args, kwargs)
        want, got = self.original(*args, **kwargs), self.dropin(*args, **kwargs)
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        if keep:
            self.kept.append((got, got.clone()))

    def toggle(self, name: str, do: Callable[[], Callable[[], object]]) -> None:
        """Make a change, or undo it where it was made before."""
        if name in self.undo:
            self.undo.pop(name)()
        else:
            self.undo[name] = do()


def scene(buffers: int = 0, how: str = "itself", seed: int = 0) -> Scene:
    chance = torch.Generator().manual_seed(seed)
    original = Host().eval()
    for tensor in (*original.parameters(), *original.hidden[0].requires_grad_(False).parameters()):
        tensor.copy_(torch.randn(tensor.shape, generator=chance))
    judged = JudgedCalls(describe((MASK, MASK), {}), "cpu", "", "float32", ((1, digest(MASK)),))
    return Scene(original, DropIn(original, lambda model: Copied(model, buffers, how), judged), chance)


def _set(thing: Any, name: str, value: Any) -> Callable[[], object]:
    before = getattr(thing, name)
    setattr(thing, name, value)
    return lambda: setattr(thing, name, before)


def _fused(s: Scene, kind: str) -> None:
    weights = list(s.original.first.parameters())
    for weight in weights:
        weight.requires_grad_()
        weight.grad = s.draw(*weight.shape)
    getattr(torch.optim, kind)(weights, lr=0.1, fused=True).step()
    for weight in weights:
        weight.requires_grad_(False)


def _swap_data(s: Scene) -> None:
    one, two = s.original.first.weight, s.original.last.weight
    one.data, two.data = two.data, one.data


def _new_data(s: Scene) -> None:
    s.original.first.weight.data = s.draw(4, 4)


def _transpose(s: Scene) -> None:
    s.original.last.weight.data = s.original.last.weight.data.t()


def _by_numpy(s: Scene) -> None:
    s.original.first.weight.numpy()[1, 2] += 1.0


def _new_layer(s: Scene) -> None:
    s.original.first = nn.Linear(4, 4).requires_grad_(False).eval()


def _load(s: Scene) -> None:
    s.dropin.load_state_dict({name: s.draw(*tensor.shape) for name, tensor in s.dropin.state_dict().items()})


def _patch(s: Scene) -> Callable[[], object]:
    layer, forward = s.original.last, s.original.last.forward
    layer.forward = lambda x: forward(x) * 2
    return lambda: delattr(layer, "forward")


def _patch_class() -> Callable[[], object]:
    forward = Host.forward
    Host.forward = lambda self, *args, **kwargs: forward(self, *args, **kwargs) - 1  # type: ignore[method-assign]
    return lambda: setattr(Host, "forward", forward)


def _threads(s: Scene) -> None:
    inputs = [s.draw(2, 4) for _ in range(4)]
    wrong: list[float] = []

    def call(x: torch.Tensor) -> None:
        with torch.no_grad():
            want = s.original(x, MASK)
            for _ in range(5):
                wrong.extend([1.0] * (not torch.allclose(s.dropin(x, MASK), want, 1e-4, 1e-5)))

    threads = [threading.Thread(target=call, args=(x,)) for x in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _vmap(s: Scene) -> None:
    x = s.draw(3, 2, 4)
    torch.testing.assert_close(torch.vmap(s.dropin, (0, None))(x, MASK), torch.vmap(s.original, (0, None))(x, MASK))


def _derivative(s: Scene) -> None:
    x, at = s.draw(2, 4), s.draw(2, 4)
    for transform in (torch.func.jvp, torch.autograd.functional.jvp):
        got, want = (transform(lambda x, f=f: f(x, MASK), (x,), (at,)) for f in (s.dropin, s.original))
        torch.testing.assert_close(got, want)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, at)
        got, want = (forward_ad.unpack_dual(f(dual, MASK)).tangent for f in (s.dropin, s.original))
    torch.testing.assert_close(got, want)
    with torch.enable_grad():
        got, want = (torch.func.grad(lambda x, f=f: f(x, MASK).sum())(x) for f in (s.dropin, s.original))
    torch.testing.assert_close(got, want)


def _in(context: Callable[[], Any]) -> Callable[[Scene], None]:
    def check(s: Scene) -> None:
        with context():
            s.check()
            s.check()

    return check


def _autocast(s: Scene) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        s.check()


def _copy(s: Scene) -> None:
    other = copy.deepcopy(s.dropin)
    x = s.draw(2, 4)
    torch.testing.assert_close(other(x, MASK), s.original(x, MASK), rtol=1e-4, atol=1e-5)


def _half(s: Scene) -> None:
    s.dropin.to(torch.float64).to(torch.float32)


STEPS: dict[str, Callable[[Scene], object]] = {
    "call": lambda s: s.check(keep=True),
    "three calls": lambda s: [s.check(keep=True) for _ in range(3)],
    "a mask with zeros": lambda s: s.check(s.draw(2, 4), (s.draw(2, 4) > 0).float()),
    "a mask edited in place": lambda s: s.check(s.draw(2, 4), MASK.clone().fill_(0.5)),
    "a number": lambda s: s.check(s.draw(2, 4), MASK, times=2.0),
    "a view": lambda s: s.check(s.draw(4, 2).t(), MASK),
    "in place": lambda s: s.original.first.weight.add_(0.1),
    "by data": lambda s: s.original.first.weight.data.mul_(1.5),
    "one element by numpy": _by_numpy,
    "SGD": lambda s: _fused(s, "SGD"),
    "Adam": lambda s: _fused(s, "Adam"),
    "AdamW": lambda s: _fused(s, "AdamW"),
    "Adagrad": lambda s: _fused(s, "Adagrad"),
    "data swapped": _swap_data,
    "data replaced": _new_data,
    "data transposed": _transpose,
    "a new layer": _new_layer,
    "loaded": _load,
    "buffer": lambda s: s.original.scale.mul_(1.5),
    "one buffer replaced by an equal one": lambda s: setattr(s.original, "scale", s.original.scale.clone()),
    "buffer without state": lambda s: s.toggle("offset", lambda: _set(s.original, "offset", s.draw(4))),
    "wrapped": lambda s: s.toggle("last", lambda: _set(s.original, "last", Wrapped(s.original.last))),
    "another activation": lambda s: s.toggle("act", lambda: _set(s.original, "act", nn.ReLU())),
    "attribute": lambda s: s.toggle("power", lambda: _set(s.original, "power", 2.0)),
    "attribute by the drop-in": lambda s: s.toggle("power", lambda: _set(s.dropin, "power", 3.0)),
    "attribute of the class": lambda s: s.toggle("gain", lambda: _set(Host, "gain", 2.0)),
    "list": lambda s: s.original.taps.append(s.original.taps.pop(0) + 0.5),
    "dictionary": lambda s: s.original.config.update(bias=2.0),
    "dictionary again": lambda s: s.original.config.update(bias=1.0),
    "array": lambda s: s.original.table.__setitem__(0, 2.0),
    "plain tensor": lambda s: s.original.shift.add_(0.5),
    "hidden layer": lambda s: s.original.hidden[0].weight.mul_(0.5),
    "hook": lambda s: s.toggle("hook", lambda: s.original.act.register_forward_hook(lambda *a: a[2] + 1).remove),
    "hook before": lambda s: s.toggle(
        "pre", lambda: s.original.register_forward_pre_hook(lambda _, a: (a[0] * 2, *a[1:])).remove
    ),
    "patched": lambda s: s.toggle("patch", lambda: _patch(s)),
    "patched class": lambda s: s.toggle("class", _patch_class),
    "trained": lambda s: (s.dropin.train(), s.check(), s.dropin.eval()),
    "threads": _threads,
    "vmap": _vmap,
    "derivatives": _derivative,
    "inference mode": _in(torch.inference_mode),
    "gradients": _in(torch.enable_grad),
    "autocast": _autocast,
    "copied": _copy,
    "there and back": _half,
    "refreshed": lambda s: s.dropin.refresh(),
}

FORMS = [(0, "itself"), (1, "itself"), (2, "itself"), (3, "itself"), (3, "view"), (5, "memory")]
"""How many static answers a fast form has, and how it returns them."""


def run(form: tuple[int, str], steps: list[str], seed: int = 0) -> Scene:
    """Carry out steps, with a call after each; raises AssertionError where an answer differs."""
    s = scene(*form, seed)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s.check()
        try:
            for step in steps:
                STEPS[step](s)
                s.check(keep=True)
            for answer, was in s.kept:
                torch.testing.assert_close(answer, was, rtol=0, atol=0, msg="a kept answer changed")
        finally:
            for undo in reversed(s.undo.values()):
                undo()
    return s


SEQUENCES = {
    "form": st.sampled_from(FORMS),
    "steps": st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=12),
    "seed": st.integers(0, 999),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=10_000)
    wanted = parser.parse_args().sequences
    torch.set_num_threads(1)
    counts = {"sequences": 0, "steps": 0, "answers": 0, "by the fast form": 0}

    @settings(max_examples=wanted, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(**SEQUENCES)
    def sequences(form: tuple[int, str], steps: list[str], seed: int) -> None:
        done = run(form, steps, seed)
        counts["answers"] += len(done.kept)
        counts["by the fast form"] += done.fast
        counts["steps"] += len(steps)
        counts["sequences"] += 1

    began = time.monotonic()
    sequences()
    print(f"{counts}, no answer differed, {time.monotonic() - began:.0f} s, torch {torch.__version__}")


if __name__ == "__main__":
    main()
