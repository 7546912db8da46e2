"""The judge: prepares tasks, tries candidates one after the other, returns verdicts.

Knows what is kept between candidates and when one is tried again. Its process never imports one.
Does not know the stages of an evaluation (`candidate_evaluation`).
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import torch

from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import (
    DEVICE_MEMORY,
    FIRST_CALL,
    SET_UP,
    EvaluateOptions,
    Evaluation,
    EvaluationRequest,
    OnStage,
    Requests,
    Stage,
    Status,
)
from pike.core.verdict.lint import LintReport
from pike.judge import device as devices
from pike.judge.calls.runner import Misfit
from pike.judge.candidate_evaluation import CandidateEvaluation, JudgeTools
from pike.judge.child.memory.cuda_driver import CudaDriverError
from pike.judge.child.orders import Shape
from pike.judge.child.stub import choose_kernels
from pike.judge.lint import lint, look_for_trivial
from pike.judge.prepared_task import PreparedTask
from pike.judge.process.caches import Caches
from pike.judge.process.filters import not_enforced
from pike.judge.process.warm_processes import WarmProcesses
from pike.judge.reference.in_process import InProcess
from pike.judge.reference.task_files import TaskFiles
from pike.judge.refusal import Refused
from pike.judge.roofline.ceilings import MeasuredCeilings
from pike.judge.roofline.roofline import Roofline
from pike.judge.sandbox import Claim, SandboxSpec, choose
from pike.judge.sandbox.filesystem import visible_paths
from pike.judge.timing.device_lock import DeviceLock, Pause

_KEPT_OUTPUTS, _MOST_KEPT_BYTES = 40, 12 << 30
"""About how many timed outputs of a finalist are kept for verification, and the most bytes of all."""


class Judge:
    """Judges candidates one after the other, and keeps the last task prepared."""

    def __init__(
        self,
        ceilings: Callable[[torch.device, int], MeasuredCeilings] = MeasuredCeilings,
        lock_of: Callable[[str, Pause], DeviceLock] = DeviceLock,
        prepare: Callable[[EvaluationRequest, torch.device, DeviceLock], PreparedTask] | None = None,
    ) -> None:
        """A judge without a task.

        Args:
            ceilings: of a device with so many CPU threads.
            lock_of: the lock of a device, with what it pauses while it waits.
            prepare: prepares the task of a request, by default a `PreparedTask` that is linted if
                the options say so.
        """
        choose_kernels()  # originals answer in this process
        self._ceilings, self._lock_of, self._prepare = ceilings, lock_of, prepare or _prepared
        self._rooflines: dict[tuple[str, int], Roofline] = {}
        self._prepared: PreparedTask | None = None
        self._terms: object = None
        self._warm = WarmProcesses()
        self._device = torch.device("cpu")
        self._files = TaskFiles()

    def evaluate(self, request: EvaluationRequest, on_stage: OnStage = lambda _: None) -> Evaluation:
        """The verdict on one candidate; `on_stage` is told the name of each stage as it begins.

        A candidate that finds no device memory is refused as `resource-limit` with the label
        `device-memory`, and the judge hands back all that it holds. Only a scheduler knows when
        another try makes sense.

        Raises:
            UserError: the task or an option cannot be used, or a file of the task has changed.
        """
        with self._tools(request) as tools:
            found = self._tried(request, tools, on_stage, False)
            if self._warm.remembered and _may_have_stumbled(request, found):
                found = self._tried(request, tools, on_stage, False)
            if DEVICE_MEMORY in found.labels:
                self.release()
            return self._signed(found, request, tools)

    def evaluate_together(self, requests: Requests, on_stage: OnStage = lambda _: None) -> list[Evaluation]:
        """The verdicts on several candidates of one task on the same terms, timed in the same sessions.

        A candidate that is not valid in this company is judged alone, and that verdict counts. One that
        shares caches and whose time was over before anything was timed is not waited for again.

        Raises:
            UserError: the task or an option cannot be used, or a file of the task has changed.
        """
        found: list[Evaluation | None] = [None] * len(requests)
        if len(requests) > 1:
            with self._tools(requests[0]) as tools:
                verdicts = self._together(requests, tools, on_stage)
                found[: len(verdicts)] = [
                    self._signed(one, request, tools) if one.valid or _was_too_slow(request, one) else None
                    for request, one in zip(requests, verdicts, strict=False)
                ]
        return [one or self.evaluate(request, on_stage) for one, request in zip(found, requests, strict=True)]

    def preflight(self, request: EvaluationRequest) -> float:
        """Milliseconds of the original, once it was seen that a candidate of this task can be judged.

        The task stays prepared for the first candidate. The source of the request does not count.

        Raises:
            UserError: the task or an option cannot be used.
            InfraError: there is too little memory beside other judges, or the device failed.
        """
        known = {*sys.modules}
        with self._tools(request) as tools:
            try:
                prepared = self._prepared_for(request, tools)
                _require_importable(request.task, {*sys.modules} - known, tools)
                with tools.lock.shared():
                    return prepared.call_ms()
            except (CudaDriverError, OSError, torch.OutOfMemoryError, Refused) as error:
                raise InfraError(f"{type(error).__name__}: {error}") from error

    @contextmanager
    def _tools(self, request: EvaluationRequest) -> Iterator[JudgeTools]:
        """What an evaluation needs, while the files of its task stay as they are."""
        options = request.options
        self._files.require_unchanged(request.task)
        device, lock = self._use(options.device)
        known = devices.facts(device, options.threads)
        level = choose(options.sandbox, device.type == "cuda")
        yield JudgeTools(device, level, self._warm, lock, self._roofline_of(device, known.threads))
        self._files.require_unchanged(request.task)

    def _signed(self, found: Evaluation, request: EvaluationRequest, tools: JudgeTools) -> Evaluation:
        """The verdict with the terms on which it was reached."""
        options, level = request.options, tools.level
        gaps = not_enforced(level, tools.device.type == "cuda")
        return replace(
            found,
            tolerance=options.tolerance,
            precision=options.precision,
            device=devices.label(devices.facts(tools.device, options.threads)),
            sandbox=f"{level.name} (not enforced: {gaps or 'nothing known'})",
            torch_version=torch.__version__,
        )

    def _tried(self, request: EvaluationRequest, tools: JudgeTools, on_stage: OnStage, again: bool) -> Evaluation:
        began, evaluation, shape = time.monotonic(), CandidateEvaluation(request, tools, on_stage, again), None
        with _closing([evaluation]), _refusing(evaluation):
            evaluation.parse()
            prepared = self._prepared_for(request, tools)
            shape = prepared.shape
            evaluation.judge(prepared)
        if self._outgrew(shape, evaluation, tools) or evaluation.compiled_late:
            return self._tried(request, tools, on_stage, again or evaluation.compiled_late)
        (found,) = self._settled([evaluation], tools)
        rest = time.monotonic() - began - sum(seconds for name, seconds in found.seconds if name != FIRST_CALL)
        return replace(found, seconds=((SET_UP, round(max(0.0, rest), 3)), *found.seconds))

    def _outgrew(self, shape: Shape | None, evaluation: CandidateEvaluation, tools: JudgeTools) -> bool:
        """Whether the evaluation failed because outputs of the reference did not fit `shape`; now they do."""
        if evaluation.misfit is None or self._prepared is None:
            return False
        with tools.lock.shared():
            self._prepared.grow(evaluation.misfit)
        return self._prepared.shape != shape

    def _together(self, requests: Requests, tools: JudgeTools, on_stage: OnStage) -> list[Evaluation]:
        """The verdicts in company, on as many as there is room for outputs to keep.

        A call that fails while they are timed refuses all that are timed.
        """
        group, shape = [CandidateEvaluation(request, tools, on_stage) for request in requests], None
        admitted: list[CandidateEvaluation] = []
        with _closing(group), ExitStack() as waiting:
            with _refusing(*group):
                prepared = self._prepared_for(requests[0], tools)
                shape = prepared.shape
                room = max(1, _MOST_KEPT_BYTES // (_KEPT_OUTPUTS * max(1, prepared.shape.outputs.nbytes)))
                del group[room:]
                for one in group:
                    with _refusing(one):
                        one.parse()
                        one.admit(prepared)
                        waiting.enter_context(one.waiting())
                        admitted.append(one)
                    if one not in admitted:
                        one.close()  # what was refused may still run, beside all that are timed
            waiting.close()
            with _refusing(*admitted):
                found = admitted[0].clocked(admitted, prepared) if admitted else []
                for one, clocked in zip(admitted, found, strict=True):
                    with _refusing(one):
                        one.conclude(prepared, clocked)
                    one.close()  # it may hold memory that the next one needs
        if any(self._outgrew(shape, one, tools) for one in group):
            return self._together(requests, tools, on_stage)
        return self._settled(group, tools)

    def _settled(self, group: Sequence[CandidateEvaluation], tools: JudgeTools) -> list[Evaluation]:
        """The verdicts of closed evaluations; a judge that failed begins anew."""
        found = [evaluation.verdict() for evaluation in group]
        if any(one.status is Status.INFRA_ERROR for one in found):
            self.release()  # not earlier: while an error is handled, its frames keep everything alive
        if self._prepared and tools.device.type == "cuda":
            with tools.lock.shared():
                self._prepared.release_memory()
        return found

    def share_caches(self, folder: str, key: str) -> None:
        """Keep compilers' caches with the judges that know the key of this folder."""
        self._warm.close()
        self._warm = WarmProcesses(Caches(folder=folder, key=key))

    def facts(self, device: str) -> DeviceFacts:
        """What the device is.

        Raises:
            UserError: there is no such device.
        """
        return devices.facts(devices.resolve(device))

    def gpu_count(self) -> int:
        """How many CUDA devices torch sees."""
        return torch.cuda.device_count()

    def lint(self, task: Task, options: EvaluateOptions) -> LintReport:
        """Whether a task tests anything: trivial answers, and the reference with one part dropped.

        Raises:
            UserError: the task or an option cannot be used.
        """
        device, lock = self._use(options.device)
        with lock.shared():
            try:
                subject = InProcess(task, device, options.precision)
                found = lint(subject, yield_device=lambda: lock.yield_device(nullcontext))
            except torch.OutOfMemoryError as error:
                raise UserError(
                    f"{error}; lint it while no other program uses the device, or as a smaller task"
                ) from error
            devices.release_memory(device)
        return replace(found, device=devices.label(devices.facts(device, options.threads)))

    def keep_pids(self) -> set[int]:
        """Children that must outlive the current candidate."""
        return self._warm.pids | ({self._prepared.reference_process.child.pid} if self._prepared else set())

    def release(self) -> None:
        """Drop the prepared task and all processes, and hand back all of the device's memory."""
        self._warm.give_up()
        self._drop_task()
        devices.release_all_memory(self._device)

    def close(self) -> None:
        """Leave nothing behind; the judge is of no use afterwards."""
        self.release()
        self._warm.close()

    def _use(self, name: str) -> tuple[torch.device, DeviceLock]:
        """A device and its lock. A GPU is the current one from now on: kernels that are launched by the driver,
        an original's or the cipher's, run on that one, whatever memory they are given."""
        device = self._device = devices.resolve(name)
        lock = self._lock_of(devices.machine_name(device), self._warm.paused)
        if device.type == "cuda" and torch.cuda.current_device() != device.index:
            with lock.shared():  # a timer would feel a CUDA context being made
                torch.cuda.set_device(device)
        return device, lock

    def _drop_task(self) -> None:
        """Drop the prepared task; the warm process may well fit the next one."""
        if self._prepared:
            self._prepared.close()
        self._prepared = self._terms = None

    def _roofline_of(self, device: torch.device, threads: int) -> Roofline:
        key = (str(device), threads)
        return self._rooflines.setdefault(key, Roofline(self._ceilings(device, threads)))

    def _prepared_for(self, request: EvaluationRequest, tools: JudgeTools) -> PreparedTask:
        terms = request.task, str(tools.device), request.options.preparation
        # Without a sandbox, an earlier candidate may have changed what the next one loads.
        if self._terms != terms or self._prepared is None or not self._prepared.is_untouched:
            self._drop_task()
            with tools.lock.shared():
                self._prepared = self._prepare(request, tools.device, tools.lock)
            self._terms = terms
        return self._prepared


def _require_importable(task: Task, imported: set[str], tools: JudgeTools) -> None:
    """Refuse a live module of which the original imported a file that no candidate can see."""
    if task.kind is not TaskKind.MODULE or Claim.FILES not in tools.level.claims:
        return
    shown = [mount.path for mount in visible_paths(SandboxSpec("", (), False, task.import_paths))]
    for name in sorted(name for name in imported if name.partition(".")[0] != "pike"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and not any(Path(file).resolve().is_relative_to(path) for path in shown):
            raise UserError(
                f"Task '{task.id}': its model imports the module '{name}' in a way that candidates cannot follow; "
                f"write import {name} at the top of the model's file"
            )


@contextmanager
def _refusing(*evaluations: CandidateEvaluation) -> Iterator[None]:
    """A context in which what is raised ends these evaluations."""
    try:
        yield
    except Refused as refused:
        for one in evaluations:
            one.refused(refused.status, refused.reason)
            one.misfit = refused if isinstance(refused, Misfit) else None
    except (InfraError, CudaDriverError, OSError, torch.OutOfMemoryError) as error:
        for one in evaluations:
            one.refused(Status.INFRA_ERROR, f"{type(error).__name__}: {error}")


def _may_have_stumbled(request: EvaluationRequest, found: Evaluation) -> bool:
    """Whether a candidate may have failed because of the caches that it found.

    A shared cache holds what compilers left, which does not change what a candidate computes.
    """
    errors = (Status.BUILD_ERROR, Status.LOAD_ERROR, Status.RUNTIME_ERROR)
    return found.status in errors if request.caches else not found.valid


def _was_too_slow(request: EvaluationRequest, found: Evaluation) -> bool:
    """Whether the time of a candidate that PIKE wrote was over before it was timed, which had no company."""
    return bool(request.caches) and found.status is Status.TIMEOUT and Stage.TIME.value not in dict(found.seconds)


@contextmanager
def _closing(evaluations: Sequence[CandidateEvaluation]) -> Iterator[None]:
    """A context at whose end evaluations are closed. Where a device that failed refuses that, it hides no other error
    that is raised."""
    try:
        yield
    except BaseException:
        with suppress(RuntimeError):
            for one in evaluations:
                one.close()
        raise
    for one in evaluations:
        one.close()


def _prepared(request: EvaluationRequest, device: torch.device, lock: DeviceLock) -> PreparedTask:
    made = PreparedTask(request.task, device, request.options, lock, request.alone, request.limit_seconds)
    try:
        look_for_trivial(made, request.options.lint)
    except BaseException:
        with suppress(RuntimeError):  # a device that failed refuses this too
            made.close()
        raise
    made.release_memory()
    return made
