"""A task prepared on one device: reference, answers, weights on disk, and the reference process.

All candidates share it. The reference is timed in a child like theirs, so that both sides have the
same overhead. Does not know candidates.
"""

import pickle
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from textwrap import shorten

import torch

from pike.core.errors import InfraError, UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions
from pike.judge.calls.reference_process import ReferenceProcess
from pike.judge.calls.runner import CallTimes, Misfit, Runner
from pike.judge.child.donor import donate, packed
from pike.judge.child.orders import LoadOrder, Shape
from pike.judge.child.wire import Command
from pike.judge.correctness.compare import Expected
from pike.judge.device import release_memory
from pike.judge.process.caches import seal
from pike.judge.process.leftovers import folder_prefix
from pike.judge.reference.examination import is_alike, shape_of
from pike.judge.reference.in_process import InProcess
from pike.judge.reference.reference import WEIGHTS_SEED, Inputs
from pike.judge.refusal import Refused, lacks_device_memory
from pike.judge.roofline.roofline import Need, written_bytes
from pike.judge.timing.device_lock import DeviceLock
from pike.judge.timing.stats import net_ns

_MOST_SLOTS, _MOST_SLOTS_BYTES = 8, 256 << 20
_LEAST_LOOKS, _LOOKS, _LOOK_SECONDS, _LEAST_NS = 3, 8, 0.5, 1e3
_MOST_WORDS = 200
"""Characters kept of PyTorch's message about memory, which goes on to list every process."""


class PreparedTask(InProcess):
    """One task on one device under one precision; its reference runs in a process of its own.

    Attributes:
        call_seconds: how long the reference process took for its last answer.
        tests_nothing: a trivial answer would pass.
        first_call_seconds: how long it took for its first one.
    """

    def __init__(
        self,
        task: Task,
        device: torch.device,
        options: EvaluateOptions,
        lock: DeviceLock,
        alone: bool = False,
        limit_seconds: float = 0.0,
    ) -> None:
        """Prepare the task while the caller holds the lock, which is yielded meanwhile.

        `alone` says whether all of the device's memory is there for this task, and `limit_seconds`
        when the first verdict is too late (0 for never).

        Raises:
            UserError: the task cannot be judged, or the device is too small for it.
            InfraError, torch.OutOfMemoryError: there is too little memory beside other judges.
        """
        self.device = device
        self._lock = lock
        self.call_seconds = 0.0
        self.first_call_seconds = 0.0
        self.tests_nothing = False
        self._ready = False
        self._written: int | None = None
        self.folder = Path(tempfile.mkdtemp(prefix=folder_prefix()))
        self.reference_process = ReferenceProcess(task, device, self._yield_device)  # starts up meanwhile
        try:
            super().__init__(task, device, options.precision, alone, limit_seconds)
            self.shape = _with_slots(self.shape)
            name = "" if task.kind is TaskKind.MODULE else "Model"
            self._seal = seal(self.folder)
            self.reference_process.ready(options.threads, self.load_order(name), self.shape)
        except BaseException as error:
            self.close()
            starved = isinstance(error, torch.OutOfMemoryError | InfraError) and lacks_device_memory(str(error))
            if starved and alone:
                raise UserError(
                    f"'{task.id}' finds too little memory on {device} although no other judge is at work: end other "
                    f"programs that use it, or take a smaller task ({shorten(str(error), _MOST_WORDS)})"
                ) from error
            raise
        self._ready = True

    def call_ms(self) -> float:
        """About how long a call of the reference takes beyond an empty transfer: the best of a few each.

        Raises:
            UserError: it does not run.
        """
        deadline, calls, empty = time.monotonic() + _LOOK_SECONDS, list[CallTimes](), list[CallTimes]()
        while len(calls) < _LEAST_LOOKS or (len(calls) < _LOOKS and time.monotonic() < deadline):
            drawn = self.draw(secrets.randbits(63))
            self._native(drawn)
            calls.append(self._call)
            empty.append(self.reference_process.call(self.reference_process.stage(drawn), Command.NULL))
        return net_ns(_best(calls), _best(empty), _LEAST_NS) / 1e6

    @property
    def is_untouched(self) -> bool:
        """Whether the files from which candidates load are those that the judge wrote."""
        return seal(self.folder) == self._seal

    @property
    def need(self) -> Need:
        """The least work of any right candidate in one call."""
        outputs = self.shape.outputs
        unknown = self.shape.may_alias or outputs.varying
        return Need(self._reference.least, 0 if unknown else outputs.nbytes, self._written_bytes)

    @contextmanager
    def laid_out_for(self, inputs: Inputs, candidate: Runner) -> Iterator[None]:
        """A context in which the reference process and the candidate take inputs of these shapes.

        Raises:
            UserError: the reference does not run on them.
        """
        shape = shape_of(self.task, self.model, inputs, self.device, known=self.shape.outputs)
        try:
            for side in (self.reference_process, candidate):
                side.map(shape)
            yield
        finally:
            self.reference_process.map(self.shape)
        candidate.map(self.shape)

    def grow(self, misfit: Misfit) -> bool:
        """Make the layout of the outputs fit the reference's own on these inputs.

        Returns:
            False if it fitted: then the misfit is the candidate's.

        Raises:
            UserError: the reference gives outputs of another form than it did before.
        """
        ours = [inputs for inputs in misfit.inputs if is_alike(inputs, self.shape.inputs)]
        example, known = self.trial.example, self.shape.outputs
        shape = shape_of(self.task, self.model, example, self.device, ours, known)
        if shape.outputs != known:
            self.shape = _with_slots(shape)
            self.reference_process.map(self.shape)
            return True
        if misfit.is_of_reference:
            raise UserError(f"Task '{self.task.id}': its reference gives two answers for the same inputs: {misfit}")
        return False

    def expected_or_none(self, inputs: Inputs, slack: float) -> Expected | None:
        """The same with a wider error budget; None if the reference does not run on such inputs.

        Nor does it if its outputs do not fit: room for them would cost both sides time in every call.
        """
        try:
            found = self.answers.expected(inputs, lambda: self._called(inputs))
            return replace(found, slack=slack, unsteady=self._flips.allowed(found.native))
        except InfraError:
            raise
        except Exception as error:  # the user's own model, on inputs it was not written for, may raise anything
            if lacks_device_memory(str(error)):
                raise  # this says nothing about the inputs
            return None

    def load_order(self, class_name: str) -> LoadOrder:
        """How a candidate class receives this task's weights."""
        module = self.task.kind is TaskKind.MODULE
        return LoadOrder(
            class_name=class_name,
            seed=WEIGHTS_SEED,
            init_path="" if module else str(self.folder / "init.pkl"),
            state_path="" if module else str(self.folder / "state.pt"),
            donor_path="" if module else str(self.folder / "donor.pkl"),
            payload_path=(self.task.payload_path or "") if module else "",
            skip_init=self._reference.skip_init,
        )

    def release_memory(self) -> None:
        """Hand back the GPU memory that both processes cache."""
        release_memory(self.device)
        if self.device.type == "cuda":
            with suppress(Refused):  # the next call of the process finds out, and says so
                self.reference_process.order(Command.RELEASE)

    @property
    def readable(self) -> tuple[str, ...]:
        """Files that a candidate must be able to read, besides what it may import."""
        folder = str(self.folder)
        return (folder, self.task.payload_path) if self.task.payload_path else (folder,)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Files that it must not read: the reference's source, unless the model is imported."""
        return () if self.task.kind is TaskKind.MODULE else (self.task.origin,)

    def close(self) -> None:
        """End the reference process and remove the task's files."""
        self.reference_process.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _native(self, inputs: Inputs) -> list[torch.Tensor]:
        try:
            return self._called(inputs)
        except Misfit as misfit:
            self.grow(misfit)
            return self._called(inputs)

    def _called(self, inputs: Inputs) -> list[torch.Tensor]:
        release_memory(self.device)  # which that process may need
        self._call = self.reference_process.call(self.reference_process.stage(inputs))
        self.call_seconds = self._call.wall_ns / 1e9
        self.first_call_seconds = self.first_call_seconds or self.call_seconds
        return self.reference_process.outputs()

    def _yield_device(self) -> float:
        """Yield only while the task is prepared: later a candidate would go on."""
        return 0.0 if self._ready else self._lock.yield_device(self._paused)

    def _between_steps(self) -> None:
        self._yield_device()

    @contextmanager
    def _paused(self) -> Iterator[None]:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        with self.reference_process.child.paused():
            yield

    def _loaded(self) -> None:
        if self.task.kind is TaskKind.MODULE:
            return
        model = self.model
        torch.save(model.state_dict(), self.folder / "state.pt")
        (self.folder / "init.pkl").write_bytes(pickle.dumps(self._reference.init_inputs))
        (self.folder / "donor.pkl").write_bytes(packed(donate(model), model.state_dict()))

    def _written_bytes(self) -> int:
        if self._written is None:
            found = []
            for _ in range(2):
                self.reference_process.call(self.reference_process.stage(self.draw(secrets.randbits(63))))
                found += self.reference_process.snapshots()
            self._written = written_bytes(found[0], found[1], self.shape.outputs)
        return self._written


def _with_slots(shape: Shape) -> Shape:
    """As many inputs released together as memory bears."""
    size = shape.inputs.nbytes + shape.outputs.nbytes
    return replace(shape, slots=max(1, min(_MOST_SLOTS, _MOST_SLOTS_BYTES // size)))


def _best(calls: list[CallTimes]) -> CallTimes:
    """The least of each clock: other programs only ever make a call longer."""
    return CallTimes(min(call.wall_ns for call in calls), min(call.child_ns for call in calls))
