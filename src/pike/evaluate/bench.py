"""A task made ready on one device: reference, answers, weights on disk, and the reference in a child of its own.

Knows everything about a task that all its candidates share, so that it is prepared once. The reference that is
timed runs in a child like a candidate's (the same stub, the same hand-over), so both sides carry the same overhead.
Does not know candidates.
"""

from __future__ import annotations

import pickle
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from textwrap import shorten

import torch
from torch import nn

from pike.core.errors import InfraError, UserError
from pike.core.evaluation import EvaluateOptions, Status
from pike.core.task import Task, TaskKind
from pike.evaluate.answers import Answers
from pike.evaluate.child.donor import donate, packed
from pike.evaluate.child.layout import Layout, layout_of, output_layout_of, put_together, take_apart
from pike.evaluate.child.stub import BuildOrder, LoadOrder
from pike.evaluate.child.wire import Command
from pike.evaluate.correctness import Expected
from pike.evaluate.device import release_memory
from pike.evaluate.launch import Child, ChildPlan, folder_prefix
from pike.evaluate.lease import Lease
from pike.evaluate.reference import WEIGHTS_SEED, Inputs, drawing_on, load
from pike.evaluate.refusal import Refused, lacks_device_memory
from pike.evaluate.regimes import neighbour
from pike.evaluate.roofline import Need, written_bytes
from pike.evaluate.runner import Allowance, Runner
from pike.evaluate.sandbox import BareProcess
from pike.evaluate.subject import checked_example

_REFERENCE_SECONDS = 24 * 3600.0
_MOST_PLACES, _MOST_PLACES_BYTES = 8, 256 << 20
_MOST_WORDS = 200
"""Characters of what PyTorch says of memory, which goes on to list every process."""


class Bench:
    """One task on one device under one precision.

    Attributes:
        call_seconds: how long the reference's child took for the last call that was expected of it.
    """

    def __init__(self, task: Task, device: torch.device, options: EvaluateOptions, lease: Lease) -> None:
        """Make it ready.

        Args:
            task: the problem.
            device: where.
            options: the terms of the judge.
            lease: held by whoever calls; the device is left to others for a moment while the child starts up.

        Raises:
            UserError: the task's own code fails, or finds no memory although no other judge is at work.
            InfraError, torch.OutOfMemoryError: there is no memory for it while others are at work.
        """
        self.task = task
        self.device = device
        self._lease = lease
        self.call_seconds = 0.0
        self._ready = False
        self._alone = lease.alone
        self.threads = options.threads
        self.folder = Path(tempfile.mkdtemp(prefix=folder_prefix()))
        child = Child(ChildPlan(BareProcess(), (), device.type == "cuda", trusted=True))  # starts up meanwhile
        self.twin = Runner(child, device, Allowance(_REFERENCE_SECONDS), self._make_way)
        try:
            self._reference = load(task, device)
            self._write_files()
            example = checked_example(task, self.draw)
            self.inputs = layout_of((example.args, example.kwargs))
            self.outputs, self.may_alias = self._measured(example)
            self.answers = Answers(self._reference.model, device, options.precision, example, self._alone)
            self._ready_twin()
        except BaseException as error:
            self.close()
            starved = isinstance(error, torch.OutOfMemoryError | InfraError) and lacks_device_memory(str(error))
            if starved and self._alone:
                raise UserError(
                    f"'{task.id}' finds too little memory on {device} although no other judge is at work: end other "
                    f"programs that use it, or take a smaller task ({shorten(str(error), _MOST_WORDS)})"
                ) from error
            raise
        self._written: int | None = None
        self._ready = True

    @property
    def model(self) -> nn.Module:
        """The reference in its own precision, on the device."""
        return self._reference.model

    @property
    def need(self) -> Need:
        """What any right candidate does at least in one call."""
        return Need(self._reference.least, 0 if self.may_alias else self.outputs.nbytes, self._written_bytes)

    def draw(self, seed: int) -> Inputs:
        """Inputs for one call from a secret seed, made on the device where the task allows it."""
        with drawing_on(self.device):
            return self._reference.draw(seed)

    def draw_held_out(self, seed: int) -> tuple[Inputs, ...]:
        """Inputs of the other shapes that the task declares; empty where it declares none."""
        with drawing_on(self.device):
            return self._reference.draw_held_out(seed)

    @contextmanager
    def laid_out_for(self, inputs: Inputs, candidate: Runner) -> Iterator[None]:
        """While inside, the reference's child and the candidate's take inputs of these shapes.

        Raises:
            UserError: the reference does not run on them.
        """
        outputs, may_alias = self._measured(inputs)
        try:
            for side in (self.twin, candidate):
                side.map(layout_of((inputs.args, inputs.kwargs)), outputs, may_alias)
            yield
        finally:
            self.twin.map(self.inputs, self.outputs, self.may_alias, self.places)
        candidate.map(self.inputs, self.outputs, self.may_alias, self.places)

    def expected(self, inputs: Inputs, sparing: bool = False) -> Expected:
        """What a call on `inputs` must return; the native outputs come from the reference's own child.

        Args:
            inputs: as the task's, in layout.
            sparing: whether that child hands back what memory it used before the other answers are worked out.
        """
        self.call_seconds = self.twin.call(self.twin.stage(inputs)).wall_ns / 1e9
        return self.answers.expected(inputs, self._native(sparing))

    def expected_or_none(self, inputs: Inputs, slack: float, sparing: bool = False) -> Expected | None:
        """The same for inputs of a kind that the task never draws; None where the reference cannot take them.

        Args:
            inputs: as the task's, in layout.
            slack: how many times wider than usual the error budget is.
            sparing: as for `expected`.
        """
        try:
            return replace(self.expected(inputs, sparing), slack=slack)
        except torch.OutOfMemoryError:
            raise  # it says nothing about the inputs: the judge tries again where there is more memory
        except Exception:  # the user's own model, on inputs it was not written for, may raise anything
            return None

    def nearby(self, inputs: Inputs, sparing: bool = False) -> list[list[torch.Tensor]]:
        """What the reference returns, at each allowed precision, on new inputs a unit in the last place away.

        Args:
            inputs: as the task's, in layout.
            sparing: as for `expected`.
        """
        moved = neighbour(inputs, secrets.randbits(63))
        self.twin.call(self.twin.stage(moved))
        return [self._native(sparing), *self.answers.variants(moved)]

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
            blank=self._reference.blank,
        )

    def release_memory(self) -> None:
        """Hand back a GPU's memory that nothing needs until the next candidate: other judges work there too."""
        release_memory(self.device)
        if self.device.type == "cuda":
            with suppress(Refused):  # whoever needs the child next finds out, and says so
                self.twin.order(Command.RELEASE)

    @property
    def places(self) -> int:
        """How many inputs, with their outputs, are released together when throughput is measured."""
        return max(1, min(_MOST_PLACES, _MOST_PLACES_BYTES // (self.inputs.nbytes + self.outputs.nbytes)))

    @property
    def readable(self) -> tuple[str, ...]:
        """What a candidate's child must be able to read, besides what it may import."""
        folder = str(self.folder)
        return (folder, self.task.payload_path) if self.task.payload_path else (folder,)

    @property
    def hidden(self) -> tuple[str, ...]:
        """What it must not read: the reference's source, unless the model itself is imported from there."""
        return () if self.task.kind is TaskKind.MODULE else (self.task.origin,)

    def close(self) -> None:
        """Kill the reference's child and remove the task's files."""
        self.twin.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _native(self, sparing: bool) -> list[torch.Tensor]:
        """What the reference's child just returned."""
        outputs = self.twin.outputs()
        if sparing:
            self.release_memory()
        return outputs

    def _make_way(self) -> float:
        """Stop the reference's child while somebody else times, and say for how many seconds; only while it starts up,
        because later a candidate is near, which would go on."""
        if self._ready or not self._lease.wanted():
            return 0.0
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.twin.child.freeze()
        try:
            return self._lease.make_way()
        finally:
            self.twin.child.thaw()

    def _write_files(self) -> None:
        if self.task.kind is TaskKind.MODULE:
            return
        model = self._reference.model
        torch.save(model.state_dict(), self.folder / "state.pt")
        (self.folder / "init.pkl").write_bytes(pickle.dumps(self._reference.init_inputs))
        (self.folder / "donor.pkl").write_bytes(packed(donate(model), model.state_dict()))

    def _written_bytes(self) -> int:
        if self._written is None:
            found = []
            for _ in range(2):
                self.twin.call(self.twin.stage(self.draw(secrets.randbits(63))))
                found += self.twin.snapshots()
            self._written = written_bytes(found[0], found[1], self.outputs)
        return self._written

    def _measured(self, inputs: Inputs) -> tuple[Layout, bool]:
        """The layout of what the reference returns on `inputs`, and whether that lies in memory of the inputs."""
        tensors, structure = take_apart((inputs.args, inputs.kwargs))
        moved = [tensor.to(self.device) for tensor in tensors]
        args, kwargs = put_together(structure, moved)
        try:
            with torch.no_grad():
                value = self._reference.model.to(self.device)(*args, **kwargs)
            layout = output_layout_of(value)
        except Exception as error:  # the reference is the user's own code and may raise anything
            if isinstance(error, torch.OutOfMemoryError):
                raise  # others may have the memory: the judge tries again when it is alone
            raise UserError(f"The reference model of '{self.task.id}' does not run: {error}") from error
        ours = {tensor.untyped_storage().data_ptr() for tensor in moved}
        leaves, _ = take_apart(value)
        return layout, any(leaf.untyped_storage().data_ptr() in ours for leaf in leaves)

    def _ready_twin(self) -> None:
        runner, child = self.twin, self.twin.child
        source = child.folder / "reference.py"
        module = self.task.kind is TaskKind.MODULE
        try:
            if not module:
                source.write_text(self.task.source)
            path = "" if module else str(source)
            runner.order(Command.BUILD, BuildOrder(path, str(self.device), self.threads, self.task.import_paths))
            runner.order(Command.LOAD, self.load_order("" if module else "Model"))
            runner.map(self.inputs, self.outputs, self.may_alias, self.places)
        except Refused as refused:
            log = child.log()
            if refused.status is Status.RESOURCE_LIMIT:
                raise InfraError(f"the reference of '{self.task.id}' ran out of memory: {refused.reason}") from refused
            words = f"{refused.reason}\n{log}"
            raise UserError(f"The reference model of '{self.task.id}' does not run: {words}") from refused
