"""What the child does for each command of the judge.

Does not know the expected outputs, the seeds or any clock that counts. The candidate can forge all
that this module says about itself, so the judge believes none of it.
"""

import copy
import importlib
import importlib.util
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from pike.judge.child.delivery import COMMITTING, Delivery, EncryptedMemory, HostDelivery
from pike.judge.child.donor import unpacked
from pike.judge.child.guard import confines
from pike.judge.child.memory import regions
from pike.judge.child.memory.layout import Layout, check_output, flatten_output, put_together, to_deliver, views
from pike.judge.child.orders import (
    FROM_REFERENCE,
    OVERWRITTEN,
    SEEDED,
    STATE_DICT,
    BuildOrder,
    HelloOrder,
    LoadOrder,
    MapOrder,
    ProfileOrder,
    Shape,
    told,
)
from pike.judge.child.profiling import Recorder
from pike.judge.child.skip_init import SkipInit

_FROM_MKL = "acos asin atan cos cosh erf erfc erfinv exp expm1 lgamma log log10 log1p log2 sin sinh sqrt tan tanh"


def choose_kernels() -> None:
    """Call each function that PyTorch's CPU build takes from MKL once, on one thread.

    MKL chooses a function's kernel at its first call. When several threads make that call at once, one of
    them may use a kernel with errors of 1e-4 (https://github.com/pytorch/pytorch/issues/188792).
    """
    for name, dtype in product(_FROM_MKL.split(), (torch.float32, torch.float64)):
        getattr(torch, name)(torch.full((1,), 0.5, dtype=dtype))


def preload(for_cpu: bool = False) -> None:
    """Import PyTorch's compilers; later imports of them cost nothing.

    For a CPU, also find out its vector instructions. Inductor compiles a program for each set of them
    that the CPU names; where the compiler knows the widest, the others are not tried. Where no candidate
    can write to it, compile the header too that Inductor includes in every kernel.
    """
    for name in ("torch.export", "torch._dynamo", "torch._inductor.compile_fx"):
        with suppress(Exception):  # a candidate that needs it will fail with a better message
            importlib.import_module(name)
    if for_cpu:
        with suppress(Exception), tempfile.TemporaryDirectory() as folder:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
            vectors, settings = map(importlib.import_module, ("torch._inductor.cpu_vec_isa", "torch._inductor.config"))
            flags = set(vectors.x86_isa_checker())
            widest = next((one for one in vectors.supported_vec_isa_list if flags.issuperset(str(one).split())), None)
            with settings.patch({"cpp.vec_isa_ok": bool(widest) or None}):
                vectors.valid_vec_isa_list()
            if confines():
                importlib.import_module("torch._inductor.codecache").CppPythonBindingsCodeCache.load_async("")


@dataclass(frozen=True, slots=True)
class _Slot:
    args: Any
    kwargs: Any
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]


@dataclass
class Stub:
    """The state of one child: a candidate module, then a model, then a mapped call."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    module: ModuleType | None = None
    model: Callable[..., Any] | None = None
    slots: list[_Slot] = field(default_factory=list)
    delivery: Delivery = field(default_factory=HostDelivery)
    guarded: list[torch.Tensor] = field(default_factory=list)
    layout: Layout | None = None
    resting: Any = None
    held: list[regions.Region] = field(default_factory=list)
    recorder: Recorder | None = None
    recorded: Callable[..., Any] | None = None

    def hello(self, order: HelloOrder) -> None:
        """Do what the order says ahead of time."""
        if order.compilers:
            preload()
            with suppress(Exception):  # the import starts them, unless it came before a fork
                sys.modules["torch._inductor.async_compile"].maybe_warm_pool()
        if order.device:
            torch.zeros(1, device=order.device)

    def build(self, order: BuildOrder) -> None:
        """Import the candidate; extensions that it compiles inline are compiled here."""
        self.device = torch.device(order.device)
        sys.path[:0] = list(order.import_paths)
        choose_kernels()
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

        def drawn() -> Any:
            torch.manual_seed(order.seed)
            with SkipInit() if order.skip_init else nullcontext():
                return kind(*(_unpickle(order.init_path) if order.init_path else ()))

        model = drawn()
        how = _load_state(model, order.state_path, not order.skip_init)
        if how == SEEDED and order.state_path:  # torch loads what fits before it refuses the rest
            del model
            model = drawn()
        self.model = _prepare(model, self.device)
        return how

    def map(self, order: MapOrder, fds: tuple[int, ...]) -> None:
        """Attach the shared regions and lay the call over them."""
        source = regions.attach(fds[0], order.input_bytes, self.device)
        target = regions.attach(fds[1], order.output_bytes, self.device)
        self.held += [source, target]  # earlier ones stay: a captured graph may still read them
        self.guarded = [] if order.shape.may_alias else [source.tensor]
        self.layout = order.shape.outputs
        self.slots = [_slot(order.shape, source.tensor, target.tensor, number) for number in range(order.shape.slots)]
        self.resting = None
        self.delivery = self._delivery(order, source.tensor, target.tensor, fds[2:])

    def run(self, count: int) -> int:
        """Call the model for the first `count` slots; returns nanoseconds by the child's clock."""
        return self._call(count, self._recorded_on, self._model_on)

    def rest(self, count: int) -> int:
        """The same with a kept answer instead of the model's; on a CPU that carries no copy.

        The judge measures this overhead and subtracts it.
        """
        if self.resting is None:
            with torch.no_grad():
                answer = self._model_on(self.slots[0])
                given = [leaf for leaf, _ in flatten_output(answer)]  # with a history they cannot be copied
                self.resting = copy.deepcopy(answer, {id(leaf): leaf.detach().clone() for leaf in given})
        return self._call(count, lambda _: self.resting, lambda _: self.resting)

    def run_twice(self) -> bool:
        """Call the model twice; returns whether the second call reused the first's output."""
        first, second = self.slots[:2]
        with torch.no_grad():
            self.delivery.begin(2, lambda: None)
            old = self._checked(self._model_on(first), first)
            self.delivery.deliver(old, 0, last=False)
            copies = [leaf.clone() for leaf in old]
            new = self._checked(self._model_on(second), second)
            self.delivery.deliver(new, 1, last=True)
            self._settle()
            own = slice(len(old) - len(self.layout.changed) - len(self.layout.varying) if self.layout else None)
            return is_reused(old[own], copies[own], new[own])

    def profile(self, order: ProfileOrder, fds: tuple[int, ...]) -> None:
        """Carry out one step of a profile of the calls in between."""
        assert self.model is not None, "PROFILE before LOAD"
        self.recorder = self.recorder or Recorder(self.device)
        self.recorded = self.recorder.obey(order, self.model, fds)

    def release(self) -> None:
        """Hand back the GPU memory that torch keeps for later calls."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def held_bytes(self) -> int:
        """What torch holds of the GPU for the model and its calls, 0 on a CPU."""
        return torch.cuda.memory_reserved(self.device) if self.device.type == "cuda" else 0

    def _call(self, count: int, answer: Callable[[_Slot], Any], rehearsal: Callable[[_Slot], Any]) -> int:
        slots = self.slots[:count]
        with torch.no_grad():
            self.delivery.begin(count, lambda: [self._checked(rehearsal(slot), slot) for slot in slots])
            started = time.perf_counter_ns()
            for number, slot in enumerate(slots, 1):
                self.delivery.deliver(self._checked(answer(slot), slot), number - 1, last=number == count)
            self._settle()
        return time.perf_counter_ns() - started

    def _model_on(self, slot: _Slot) -> Any:
        assert self.model is not None, "a call before LOAD"
        return self.model(*slot.args, **slot.kwargs)

    def _recorded_on(self, slot: _Slot) -> Any:
        return self.recorded(*slot.args, **slot.kwargs) if self.recorded else self._model_on(slot)

    def _checked(self, result: Any, slot: _Slot) -> list[torch.Tensor]:
        assert self.layout is not None, "a call before MAP"
        return to_deliver(check_output(result, self.layout, self.device, self.guarded), self.layout, slot.inputs)

    def _delivery(self, order: MapOrder, real: torch.Tensor, target: torch.Tensor, fds: tuple[int, ...]) -> Delivery:
        outputs = [slot.outputs for slot in self.slots]
        if order.cipher is None:
            return HostDelivery(outputs, told(target, order.shape) if order.fetched else None)
        noise = regions.attach(fds[0], order.cipher.noise_bytes, self.device)
        page = regions.attach(fds[1], order.cipher.page_bytes, torch.device("cpu"))
        self.held += [noise, page]
        memory = EncryptedMemory(noise.tensor, real, page.tensor, order.shape.inputs.nbytes)
        return COMMITTING[self.device.type](memory, outputs, self.device, order.cipher.kernels)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _original(self, order: LoadOrder) -> Any:
        if order.payload_path:
            return _prepare(_unpickle(order.payload_path)["module"], self.device)
        return _prepare(unpacked(Path(order.donor_path).read_bytes(), _state(order.state_path)), self.device)


def is_reused(old: list[torch.Tensor], copies: list[torch.Tensor], new: list[torch.Tensor]) -> bool:
    """Whether new outputs took the memory of old ones, or the old ones changed since."""
    try:
        memory = {leaf.untyped_storage().data_ptr() for leaf in old if leaf.numel()}
        if any(leaf.untyped_storage().data_ptr() in memory for leaf in new if leaf.numel()):
            return True
        pairs = zip(old, copies, strict=True)
        return not all(bool(((a == b) | (a.isnan() & b.isnan())).all()) for a, b in pairs)
    except RuntimeError:  # torch's CUDA graphs refuse that an output is read after it was overwritten
        return True


def _slot(shape: Shape, source: torch.Tensor, target: torch.Tensor, number: int) -> _Slot:
    inputs = views(source[number * shape.inputs.nbytes :], shape.inputs)
    args, kwargs = put_together(shape.inputs.structure, inputs)
    return _Slot(args, kwargs, inputs, views(target[number * shape.outputs.nbytes :], shape.outputs))


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
    return model.to(device).eval() if isinstance(model, nn.Module) else model


def _load_state(model: Any, state_path: str, drawn: bool) -> int:
    if not state_path or not isinstance(model, nn.Module):
        return SEEDED
    state = _state(state_path)
    if not state and not model.state_dict():
        return STATE_DICT
    own = model.state_dict()
    other = drawn and any(_differ(own[name], state[name]) for name in own.keys() & state.keys())
    try:
        model.load_state_dict(state, strict=True)
    except (RuntimeError, KeyError) as error:
        sys.stderr.write(f"weights: load_state_dict refused, so the same random seed has to do: {error}\n")
        return SEEDED
    return OVERWRITTEN if other else STATE_DICT


def _differ(own: Any, theirs: torch.Tensor) -> bool:
    with suppress(RuntimeError, ValueError, TypeError, AttributeError):  # without values yet, or not to be compared
        return not torch.equal(own.cpu(), theirs.cpu())
    return True


def _state(path: str) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(path, weights_only=True, mmap=True)
    return state
