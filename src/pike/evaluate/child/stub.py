"""What the child does for each command of the judge.

Knows how to import a candidate, give it weights and shared buffers, run it and copy its outputs out. Does not know
the expected outputs, the seeds or any clock that counts: the judge holds those in another process. Everything that
this module says about itself may be forged by the candidate, and nothing of it is believed.
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import nn

from pike.evaluate.child import regions
from pike.evaluate.child.layout import Layout, check_output, put_together, views
from pike.evaluate.child.profiling import ProfileOrder, Recorder

STATE_DICT, FROM_REFERENCE, SEEDED = 1, 2, 3
"""How weights reached the candidate, as told in `Up.detail`."""


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """Body of BUILD: which file to import, and where.

    Attributes:
        path: the source file, or empty where the payload itself is the model.
        device: the torch device.
        threads: CPU threads, 0 for torch's choice.
        import_paths: put on `sys.path` first.
    """

    path: str
    device: str
    threads: int
    import_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """Body of LOAD: how to construct the model.

    Attributes:
        class_name: the class to construct, empty where the payload's own module is run.
        seed: seed of torch's generators before construction.
        init_path: pickle file with the constructor's arguments (a tuple), empty for none.
        state_path: `torch.save` file with the reference's state dict, empty for none.
        donor_path: pickle file with what `from_reference` receives.
        payload_path: pickle file with a live module (see `TaskKind.MODULE`), empty for none.
    """

    class_name: str
    seed: int
    init_path: str = ""
    state_path: str = ""
    donor_path: str = ""
    payload_path: str = ""


@dataclass(frozen=True, slots=True)
class MapOrder:
    """Body of MAP: how inputs and outputs lie in the two regions whose descriptors come along.

    Attributes:
        inputs: layout of (args, kwargs).
        outputs: layout of the reference's output.
        input_bytes: size of the input region.
        output_bytes: size of the output region.
        may_alias: whether the reference itself returns memory of its inputs.
        places: how many calls' data the regions hold, one behind the other.
    """

    inputs: Layout
    outputs: Layout
    input_bytes: int
    output_bytes: int
    may_alias: bool
    places: int = 1


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one call finds its inputs and leaves its outputs."""

    args: Any
    kwargs: Any
    outputs: list[torch.Tensor]


@dataclass
class Stub:
    """The state of one child: a candidate module, then a model, then a mapped call."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    module: ModuleType | None = None
    model: Callable[..., Any] | None = None
    places: list[_Place] = field(default_factory=list)
    guarded: list[torch.Tensor] = field(default_factory=list)
    layout: Layout | None = None
    resting: list[torch.Tensor] = field(default_factory=list)
    held: list[regions.Region] = field(default_factory=list)
    recorder: Recorder | None = None

    def hello(self, cuda: bool) -> None:
        """Do what every candidate needs and takes time: the device's context."""
        if cuda:
            torch.zeros(1, device="cuda")

    def build(self, order: BuildOrder) -> None:
        """Import the candidate; extensions that it compiles inline are compiled here."""
        self.device = torch.device(order.device)
        sys.path[:0] = list(order.import_paths)
        if order.threads:
            torch.set_num_threads(order.threads)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if order.path:
            self.module = _import_file(order.path)

    def load(self, order: LoadOrder) -> int:
        """Construct the model with the reference's weights; returns how they reached it."""
        torch.manual_seed(order.seed)
        if not order.class_name:
            self.model = _prepare(_unpickle(order.payload_path)["module"], self.device)
            return STATE_DICT
        kind = getattr(self.module, order.class_name)
        if hasattr(kind, "from_reference"):
            self.model = _prepare(kind.from_reference(self._original(order)), self.device)
            return FROM_REFERENCE
        if order.payload_path:
            raise TypeError(f"{order.class_name} must define the classmethod from_reference(cls, model)")
        model = kind(*(_unpickle(order.init_path) if order.init_path else ()))
        how = _give_state(model, order.state_path)
        self.model = _prepare(model, self.device)
        return how

    def map(self, order: MapOrder, fds: tuple[int, ...]) -> None:
        """Attach the shared regions and lay the call over them."""
        source = regions.attach(fds[0], order.input_bytes, self.device)
        target = regions.attach(fds[1], order.output_bytes, self.device)
        self.held += [source, target]  # the earlier ones stay: a graph that was captured over them may still read them
        self.guarded = [] if order.may_alias else [source.tensor]
        self.layout = order.outputs
        self.places = [_place(order, source.tensor, target.tensor, number) for number in range(order.places)]
        self.resting = [torch.zeros_like(view) for view in self.places[0].outputs]

    def run(self, count: int) -> int:
        """A call for each of the first `count` places; returns the nanoseconds that this side believes it took."""
        assert self.model is not None and self.layout is not None, "RUN before LOAD and MAP"
        started = time.perf_counter_ns()
        with torch.no_grad():
            for place in self.places[:count]:
                result = self.model(*place.args, **place.kwargs)
                _deliver(check_output(result, self.layout, self.device, self.guarded), place)
            self._settle()
        return time.perf_counter_ns() - started

    def run_twice(self) -> bool:
        """A call for each of the first two places; returns whether the second one reused the first one's output."""
        assert self.model is not None and self.layout is not None, "TWICE before LOAD and MAP"
        first, second = self.places[:2]
        with torch.no_grad():
            old = check_output(self.model(*first.args, **first.kwargs), self.layout, self.device, self.guarded)
            _deliver(old, first)
            copies = [leaf.clone() for leaf in old]
            new = check_output(self.model(*second.args, **second.kwargs), self.layout, self.device, self.guarded)
            _deliver(new, second)
            self._settle()
            return _is_reused(old, copies, new)

    def rest(self, count: int) -> int:
        """The hand-over alone, without a model: what the judge calibrates and subtracts; returns nanoseconds."""
        started = time.perf_counter_ns()
        for place in self.places[:count]:
            _deliver(self.resting, place)
        self._settle()
        return time.perf_counter_ns() - started

    def profile(self, order: ProfileOrder, fds: tuple[int, ...]) -> None:
        """One step of a profile of the calls in between."""
        assert self.model is not None, "PROFILE before LOAD"
        self.recorder = self.recorder or Recorder(self.device)
        self.model = self.recorder.obey(order, self.model, fds)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _original(self, order: LoadOrder) -> Any:
        if order.payload_path:
            return _prepare(_unpickle(order.payload_path)["module"], self.device)
        return _prepare(_unpickle(order.donor_path), self.device)


def _place(order: MapOrder, source: torch.Tensor, target: torch.Tensor, number: int) -> _Place:
    inputs = views(source[number * order.inputs.nbytes :], order.inputs)
    args, kwargs = put_together(order.inputs.structure, inputs)
    return _Place(args, kwargs, views(target[number * order.outputs.nbytes :], order.outputs))


def _deliver(leaves: list[torch.Tensor], place: _Place) -> None:
    for view, leaf in zip(place.outputs, leaves, strict=True):
        view.copy_(leaf)


def _is_reused(old: list[torch.Tensor], copies: list[torch.Tensor], new: list[torch.Tensor]) -> bool:
    try:
        memory = {leaf.untyped_storage().data_ptr() for leaf in old if leaf.numel()}
        if any(leaf.untyped_storage().data_ptr() in memory for leaf in new if leaf.numel()):
            return True
        pairs = zip(old, copies, strict=True)
        return not all(bool(((a == b) | (a.isnan() & b.isnan())).all()) for a, b in pairs)
    except RuntimeError:  # torch's CUDA graphs refuse that an output is read after it was overwritten
        return True


def _import_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module


def _unpickle(path: str) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)


def _prepare(model: Any, device: torch.device) -> Any:
    if isinstance(model, nn.Module):
        return model.to(device).eval()
    return model


def _give_state(model: Any, state_path: str) -> int:
    if not state_path or not isinstance(model, nn.Module):
        return SEEDED
    state = torch.load(state_path, weights_only=True, mmap=True)
    if not state and not model.state_dict():
        return STATE_DICT
    try:
        model.load_state_dict(state, strict=True)
    except (RuntimeError, KeyError) as error:
        sys.stderr.write(f"weights: load_state_dict refused, so the same random seed has to do: {error}\n")
        return SEEDED
    return STATE_DICT
