"""The child that runs the reference, so that both sides have the same overhead.

Its failures are the task's or the machine's, and never a verdict on a candidate.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from pike.core.errors import InfraError, UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Status
from pike.judge.calls.runner import Allowance, CallTimes, Misfit, Runner
from pike.judge.child.orders import BuildOrder, LoadOrder, Shape
from pike.judge.child.wire import Command
from pike.judge.process.child import Child, ChildPlan
from pike.judge.refusal import Refused, lacks_device_memory
from pike.judge.sandbox import BareProcess

_SECONDS = 24 * 3600.0


class ReferenceProcess(Runner):
    """A trusted child; its calls raise what the caller of the judge must hear."""

    def __init__(self, task: Task, device: torch.device, yield_device: Callable[[], float]) -> None:
        """Start the process, which is of use after `ready`."""
        child = Child(ChildPlan(BareProcess(), (), device.type == "cuda", trusted=True))
        super().__init__(child, device, Allowance(_SECONDS), yield_device)
        self._task = task

    def ready(self, threads: int, load: LoadOrder, shape: Shape) -> None:
        """Build, load and map the reference.

        Raises:
            UserError: the reference failed.
            torch.OutOfMemoryError: the device has too little memory.
            InfraError: the process died.
        """
        source, path = self.child.folder / "reference.py", ""
        if self._task.kind is TaskKind.SOURCE:
            source.write_text(self._task.source)
            path = str(source)
        with self._blamed():
            self.order(Command.BUILD, BuildOrder(path, str(self.device), threads, self._task.import_paths))
            self.order(Command.LOAD, load)
        self.map(shape)

    def map(self, shape: Shape) -> None:
        """See `Runner.map`; raises what `ready` does."""
        with self._blamed():
            super().map(shape)

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> CallTimes:
        """See `Runner.call`; raises `Misfit`, and what `ready` does."""
        with self._blamed():
            return super().call(packed, command)

    def outputs(self, snapshot: torch.Tensor | None = None) -> list[torch.Tensor]:
        """See `Runner.outputs`; raises what `ready` does."""
        with self._blamed():
            return super().outputs(snapshot)

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except Misfit as misfit:
            misfit.is_of_reference = True
            raise
        except Refused as refused:
            if lacks_device_memory(refused.reason):
                raise torch.OutOfMemoryError(refused.reason) from refused
            if refused.died or refused.status is Status.RESOURCE_LIMIT:
                raise InfraError(f"the reference of '{self._task.id}' failed: {refused.reason}") from refused
            words = f"{refused.reason}\n{self.child.log()}"
            raise UserError(f"The reference model of '{self._task.id}' does not run: {words}") from refused
