"""The judge: tasks made ready, candidates tried one after the other, verdicts.

Knows what is kept between candidates and when one is tried a second time. Runs in a process that never imports a
candidate. Does not know the stages of a trial (`trial`), who asks or what happens with the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.evaluation import (
    EvaluateOptions,
    Evaluation,
    EvaluationRequest,
    Status,
)
from pike.core.lint import LintReport
from pike.core.task import Task
from pike.evaluate import device as devices
from pike.evaluate.bench import Bench
from pike.evaluate.ceilings import Ceilings, MeasuredCeilings
from pike.evaluate.child.cuda_driver import CudaDriverError
from pike.evaluate.holding import not_enforced
from pike.evaluate.lease import Lease
from pike.evaluate.lint import lint, refuse_trivial
from pike.evaluate.nursery import Nursery
from pike.evaluate.refusal import Refused, lacks_device_memory
from pike.evaluate.roofline import Roofline
from pike.evaluate.sandbox import choose
from pike.evaluate.subject import InProcess
from pike.evaluate.trial import OnStage, Trial

_ALONE_SECONDS = 300.0
"""The most that a candidate may take that is tried again with the device to itself: everybody waits for it."""

_Tried = Callable[[EvaluationRequest], Evaluation]


class Judge:
    """Judges candidates one after the other; keeps the last task ready for the next candidate."""

    def __init__(self, ceilings: Callable[[torch.device, int], Ceilings] = MeasuredCeilings) -> None:
        """A judge without a task.

        Args:
            ceilings: of a device with so many CPU threads.
        """
        self._ceilings = ceilings
        self._rooflines: dict[tuple[str, int], Roofline] = {}
        self._bench: Bench | None = None
        self._key: object = None
        self._nursery = Nursery()
        self._lease: Lease | None = None
        self._device = torch.device("cpu")

    def evaluate(self, request: EvaluationRequest, on_stage: OnStage = lambda _: None) -> Evaluation:
        """The verdict on one candidate.

        Args:
            request: task, source and terms.
            on_stage: told the name of each stage as it begins.

        Raises:
            UserError: the task or an option cannot be used.
        """
        options = request.options
        device = self._device = devices.resolve(options.device)
        known = devices.facts(device, options.threads)
        level = choose(options.sandbox, device.type == "cuda")
        lease = self._lease = Lease(devices.machine_name(device), hush=self._nursery.stand_still)

        def tried(request: EvaluationRequest) -> Evaluation:
            trial = Trial(request, device, level, self._nursery, on_stage, lease)
            return self._tried(trial, request, self._roofline_of(device, known.threads))

        with lease.present(self.make_room):
            found = tried(request)
            if not found.valid and self._nursery.remembered:  # it may have stumbled over what it left the last time
                found = tried(request)
        if _ran_out_of_device_memory(found):  # which somebody else may have had
            found = self._once_there_is_memory(found, request, tried, lease)
        return replace(
            found,
            tolerance=options.tolerance,
            precision=options.precision,
            device=devices.label(known),
            sandbox=f"{level.name} (not enforced: {not_enforced(level) or 'nothing known'})",
            torch_version=torch.__version__,
        )

    def _once_there_is_memory(
        self, found: Evaluation, request: EvaluationRequest, tried: _Tried, lease: Lease
    ) -> Evaluation:
        """The verdict on a candidate that found none: beside others where most is free, else with nobody there."""
        self.forget()  # or it would be in the way of whoever waits for all of it before us
        with lease.in_turn():
            if devices.has_room(self._device, lease.deserted):
                with lease.present(self.make_room):
                    found = tried(request)
        if not _ran_out_of_device_memory(found):
            return found
        self.forget()
        options = request.options
        shorter = replace(options, timeout_seconds=min(options.timeout_seconds, _ALONE_SECONDS))
        with lease.throughout():
            again = tried(replace(request, options=shorter))
        return found if again.status is Status.TIMEOUT else again

    def _tried(self, trial: Trial, request: EvaluationRequest, roofline: Roofline) -> Evaluation:
        is_broken = False
        try:
            trial.parse()
            trial.judge(self._bench_for(request, trial.device, trial.lease), roofline)
        except Refused as refused:
            trial.refused(refused.status, refused.reason)
        except (InfraError, CudaDriverError, OSError, torch.OutOfMemoryError) as error:
            trial.refused(Status.INFRA_ERROR, f"{type(error).__name__}: {error}")
            is_broken = True
        finally:
            trial.close()
        if is_broken:
            self.forget()  # only now: an error that is being handled keeps everything alive that its frames hold
        if self._bench and trial.device.type == "cuda":
            with trial.lease.shared():
                self._bench.release_memory()
        return trial.verdict()

    def facts(self, device: str) -> DeviceFacts:
        """What the device is.

        Raises:
            UserError: there is no such device.
        """
        return devices.facts(devices.resolve(device))

    def lint(self, task: Task, options: EvaluateOptions) -> LintReport:
        """Whether a task tests anything: trivial answers, and the reference with one part dropped.

        Raises:
            UserError: the task or an option cannot be used.
        """
        device = self._device = devices.resolve(options.device)
        with Lease(devices.machine_name(device)).shared():
            try:
                found = lint(InProcess(task, device, options.precision))
            except torch.OutOfMemoryError as error:
                raise UserError(f"{error}; lint it while nobody else uses the device, or as a smaller task") from error
            devices.release_memory(device)
        return replace(found, device=devices.label(devices.facts(device, options.threads)))

    def keep_pids(self) -> set[int]:
        """Processes that belong to the judge and must outlive a candidate."""
        return self._nursery.pids | ({self._bench.twin.child.pid} if self._bench else set())

    def make_room(self) -> None:
        """Between evaluations: hand back all of a device's memory if somebody waits for it."""
        if self._lease and (self._bench or devices.holds_memory(self._device)) and self._lease.room_wanted():
            self.forget()

    def forget(self) -> None:
        """Drop the prepared task and all processes, and hand back all of the device's memory."""
        self._nursery.give_up()
        self._put_away()
        devices.hand_back_memory(self._device)

    def _put_away(self) -> None:
        """Drop the prepared task; the next child may well fit the next one."""
        if self._bench:
            self._bench.close()
        self._bench = self._key = None

    def _roofline_of(self, device: torch.device, threads: int) -> Roofline:
        key = (str(device), threads)
        return self._rooflines.setdefault(key, Roofline(self._ceilings(device, threads)))

    def close(self) -> None:
        """Leave nothing behind; the judge is of no use afterwards."""
        self.forget()
        self._nursery.close()

    def _bench_for(self, request: EvaluationRequest, device: torch.device, lease: Lease) -> Bench:
        options = request.options
        key = (request.task, str(device), options.precision, options.threads, options.lint)
        if self._key != key or self._bench is None:
            self._put_away()
            with lease.shared():
                self._bench = Bench(request.task, device, options, lease)
                if options.lint:
                    refuse_trivial(self._bench)
                self._bench.release_memory()
            self._key = key
        return self._bench


def _ran_out_of_device_memory(found: Evaluation) -> bool:
    """Whether the candidate found none, or the judge itself beside somebody who holds it all."""
    return found.status in (Status.RESOURCE_LIMIT, Status.INFRA_ERROR) and lacks_device_memory(found.reason)
