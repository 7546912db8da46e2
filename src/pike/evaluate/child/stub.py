"""What the child does for each command of the judge.

Knows how to import a candidate, give it weights and shared buffers, run it and copy its outputs out. Does not know
the expected outputs, the seeds or any clock that counts: the judge holds those in another process. Everything that
this module says about itself may be forged by the candidate, and nothing of it is believed.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import pickle
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from pike.evaluate.child import regions
from pike.evaluate.child.blank import Blank
from pike.evaluate.child.delivery import CommittingOnDevice, CommittingOnHost, Copying, Delivery, LockedMemory
from pike.evaluate.child.donor import unpacked
from pike.evaluate.child.layout import Layout, check_output, put_together, views
from pike.evaluate.child.profiling import ProfileOrder, Recorder

STATE_DICT, FROM_REFERENCE, SEEDED = 1, 2, 3
"""How weights reached the candidate, as told in `Up.detail`."""


_COMPILERS = ("torch.export", "torch._dynamo", "torch._inductor.compile_fx")


@dataclass(frozen=True, slots=True)
class HelloOrder:
    """Body of HELLO: what to do while nobody waits.

    Attributes:
        device: make the context of this GPU, which every candidate needs and takes time; empty for none.
        compilers: import PyTorch's compiler, which takes seconds and which most candidates on a GPU need.
    """

    device: str = ""
    compilers: bool = False


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
        blank: whether random initialisation is skipped, because the reference's own weights are not what its
            constructor draws.
    """

    class_name: str
    seed: int
    init_path: str = ""
    state_path: str = ""
    donor_path: str = ""
    payload_path: str = ""
    blank: bool = False


@dataclass(frozen=True, slots=True)
class LockOrder:
    """The part of MAP that a locked hand-over adds, with two more regions: locked inputs, and the board.

    Attributes:
        kernels: `locks.cu` compiled for the device; empty on a CPU.
        noise_bytes: size of the region with the locked inputs.
        page_bytes: size of the board's region.
    """

    kernels: bytes
    noise_bytes: int
    page_bytes: int


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
        lock: how inputs are locked; None where they are copied.
    """

    inputs: Layout
    outputs: Layout
    input_bytes: int
    output_bytes: int
    may_alias: bool
    places: int = 1
    lock: LockOrder | None = None


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
    delivery: Delivery = field(default_factory=Copying)
    guarded: list[torch.Tensor] = field(default_factory=list)
    layout: Layout | None = None
    resting: Any = None
    held: list[regions.Region] = field(default_factory=list)
    recorder: Recorder | None = None
    recorded: Callable[..., Any] | None = None

    def hello(self, order: HelloOrder) -> None:
        """Be there, and do what the order says ahead of time."""
        if order.compilers:
            for name in _COMPILERS:
                with suppress(Exception):  # whoever needs it finds out, and says so
                    importlib.import_module(name)
        if order.device:
            torch.zeros(1, device=order.device)

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
        with Blank() if order.blank else nullcontext():
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
        self.resting = None
        self.delivery = self._delivery(order, source.tensor, fds[2:])

    def run(self, count: int) -> int:
        """A call for each of the first `count` places; returns the nanoseconds that this side believes it took."""
        return self._call(count, self._recorded_on, self._model_on)

    def rest(self, count: int) -> int:
        """The hand-over alone, with an answer that is there already instead of a model's: what the judge calibrates
        and subtracts; returns nanoseconds."""
        if self.resting is None:
            with torch.no_grad():
                self.resting = copy.deepcopy(self._model_on(self.places[0]))
        return self._call(count, lambda _: self.resting, lambda _: self.resting)

    def run_twice(self) -> bool:
        """A call for each of the first two places; returns whether the second one reused the first one's output."""
        first, second = self.places[:2]
        with torch.no_grad():
            self.delivery.begin(2, lambda: None)
            old = self._checked(self._model_on(first))
            self.delivery.deliver(old, 0, last=False)
            copies = [leaf.clone() for leaf in old]
            new = self._checked(self._model_on(second))
            self.delivery.deliver(new, 1, last=True)
            self._settle()
            return _is_reused(old, copies, new)

    def _call(self, count: int, answer: Callable[[_Place], Any], rehearsal: Callable[[_Place], Any]) -> int:
        places = self.places[:count]
        with torch.no_grad():
            self.delivery.begin(count, lambda: [self._checked(rehearsal(place)) for place in places])
            started = time.perf_counter_ns()
            for number, place in enumerate(places, 1):
                self.delivery.deliver(self._checked(answer(place)), number - 1, last=number == count)
            self._settle()
        return time.perf_counter_ns() - started

    def _model_on(self, place: _Place) -> Any:
        assert self.model is not None, "a call before LOAD"
        return self.model(*place.args, **place.kwargs)

    def _recorded_on(self, place: _Place) -> Any:
        return self.recorded(*place.args, **place.kwargs) if self.recorded else self._model_on(place)

    def _checked(self, result: Any) -> list[torch.Tensor]:
        assert self.layout is not None, "a call before MAP"
        return check_output(result, self.layout, self.device, self.guarded)

    def _delivery(self, order: MapOrder, real: torch.Tensor, fds: tuple[int, ...]) -> Delivery:
        outputs = [place.outputs for place in self.places]
        if order.lock is None:
            return Copying(outputs)
        noise = regions.attach(fds[0], order.lock.noise_bytes, self.device)
        page = regions.attach(fds[1], order.lock.page_bytes, torch.device("cpu"))
        self.held += [noise, page]
        memory = LockedMemory(noise.tensor, real, page.tensor, order.inputs.nbytes)
        if self.device.type == "cuda":
            return CommittingOnDevice(memory, outputs, self.device, order.lock.kernels)
        return CommittingOnHost(memory, outputs)

    def profile(self, order: ProfileOrder, fds: tuple[int, ...]) -> None:
        """One step of a profile of the calls in between."""
        assert self.model is not None, "PROFILE before LOAD"
        self.recorder = self.recorder or Recorder(self.device)
        self.recorded = self.recorder.obey(order, self.model, fds)

    def release(self) -> None:
        """Hand back a GPU's memory that torch keeps for later calls."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _original(self, order: LoadOrder) -> Any:
        if order.payload_path:
            return _prepare(_unpickle(order.payload_path)["module"], self.device)
        return _prepare(unpacked(Path(order.donor_path).read_bytes(), _state(order.state_path)), self.device)


def _place(order: MapOrder, source: torch.Tensor, target: torch.Tensor, number: int) -> _Place:
    inputs = views(source[number * order.inputs.nbytes :], order.inputs)
    args, kwargs = put_together(order.inputs.structure, inputs)
    return _Place(args, kwargs, views(target[number * order.outputs.nbytes :], order.outputs))


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
    state = _state(state_path)
    if not state and not model.state_dict():
        return STATE_DICT
    try:
        model.load_state_dict(state, strict=True)
    except (RuntimeError, KeyError) as error:
        sys.stderr.write(f"weights: load_state_dict refused, so the same random seed has to do: {error}\n")
        return SEEDED
    return STATE_DICT


def _state(path: str) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(path, weights_only=True, mmap=True)
    return state
