"""The verbs: optimize, evaluate, resume, load, estimate, lint, doctor, self_test, report and export.

Knows the order in which the engine's parts are used for each. Does not know how any of them works.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from pike.api.options import Options, compose_config
from pike.api.suites import remember
from pike.api.targets import call_of, task_of, words_for
from pike.core.config import EngineConfig
from pike.core.errors import StoreError, UserError
from pike.core.evaluation import Effort, Evaluation, EvaluationRequest
from pike.core.lint import LintReport
from pike.core.task import Task, TaskKind
from pike.engine import LocalExecutor, Observer, RunResult, Wiring, read_result, resume_run, start
from pike.engine.doctor import Check, examine
from pike.engine.estimate import Estimate
from pike.engine.estimate import estimate as estimate_run
from pike.engine.executors import OnStage
from pike.engine.linting import lint_task
from pike.engine.selftest import Trial, self_test

if TYPE_CHECKING:
    from torch import nn

    from pike.engine.openevolve import Checkpoint

T = TypeVar("T")

RUNS = Path("runs")
"""Where runs go that are not told otherwise."""


class Optimized:
    """What `optimize` brought.

    Attributes:
        result: the outcome of the run.
        folder: the run's folder: journal, `best.py` (where something faster was found), `result.json`, `report.html`.
    """

    def __init__(self, result: RunResult, task: Task, original: nn.Module | None = None) -> None:
        self.result = result
        self.folder = Path(result.folder)
        self._task = task
        self._original = original
        self._module: nn.Module | None = None

    @property
    def module(self) -> nn.Module:
        """A drop-in for the original (see `pike.api.DropIn`); the original itself where nothing faster was found."""
        if self._module is None:
            original = self._original if self._original is not None else _loaded(self._task, self.result)
            path = self.result.best_path
            self._module = original if path is None else load(path, original)
        return self._module

    def report(self) -> Path:
        """Write `report.html` again and say where it is."""
        return report(self.folder)

    def __repr__(self) -> str:
        speedup = f"{self.result.speedup:.2f}x" if self.result.speedup is not None else "no valid candidate"
        return f"<Optimized {self.result.name}: {speedup}, in {self.folder}>"


def optimize(
    target: Any,
    example_inputs: Any = None,
    *,
    out: str | Path | None = None,
    observer: Observer | None = None,
    **options: Unpack[Options],
) -> Optimized:
    """Search for a faster form of a model and return it with the evidence.

    Args:
        target: a `torch.nn.Module`, a KernelBench-format file, `SUITE/ID`, `package.module:callable`, or a `Task`.
        example_inputs: for a module: a tensor, a tuple of arguments, a dict of keyword arguments, or a function
            without arguments that draws such inputs. Without a function, further inputs are drawn like these.
        out: the run's folder, by default a new one under `runs/`.
        observer: called with a `Progress` whenever something changed.
        **options: see `Options`.

    Raises:
        UserError: the target, an option or a setting cannot be used.
        ProviderError: a provider could not be reached at the start.
        InfraError: no judge could be started.
        StoreError: the journal cannot be written; the run can be resumed.
    """
    config = compose_config(words_for(target), options)
    folder = Path(out) if out is not None else new_folder(words_for(target))
    task = task_of(target, example_inputs, folder.resolve())
    live = target if task.kind is TaskKind.MODULE and not isinstance(target, str | Path | Task) else None
    if live is not None:
        config = replace(config, evaluate=replace(config.evaluate, device=_device_for(live, config.evaluate.device)))
    result = run_to_end(start(task, config, folder.resolve(), Wiring(observer=observer)))
    report(folder)
    return Optimized(result, task, live)


def resume(folder: str | Path, *, observer: Observer | None = None) -> Optimized:
    """Continue a run where it stopped; a finished one is only read.

    Raises:
        UserError: there is no run in `folder`, another process holds it, or this version decides otherwise.
        BoundaryError: as for `optimize`.
    """
    result = run_to_end(resume_run(Path(folder).resolve(), Wiring(observer=observer)))
    report(folder)
    return Optimized(result, task_in(Path(folder)))


def evaluate(
    target: Any,
    source: str | Path,
    *,
    example_inputs: Any = None,
    effort: Effort = Effort.SEARCH,
    profile: bool = False,
    on_stage: OnStage | None = None,
    **options: Unpack[Options],
) -> Evaluation:
    """Judge one candidate: is it right, is it fast.

    Args:
        target: as for `optimize`.
        source: the candidate's text, or the path of its file (as a `Path`).
        example_inputs: for a module.
        effort: how much measuring is done.
        profile: also say where the time of a valid candidate goes.
        on_stage: told each stage as it begins.
        **options: `device`, `tolerance`, `precision`, `config` and `settings` count here; see `Options`.

    Raises:
        UserError: the target, an option or the candidate's path cannot be used.
    """
    import tempfile

    config = compose_config(words_for(target), options)
    with tempfile.TemporaryDirectory(prefix="pike-") as folder:
        task = task_of(target, example_inputs, Path(folder))
        request = EvaluationRequest(task, _text_of(source), config.evaluate, effort, profile=profile)
        return run_to_end(_evaluated(request, on_stage))


def load(
    path: str | Path,
    reference: nn.Module,
    example_inputs: Any = None,
    *,
    init_inputs: tuple[Any, ...] | None = None,
) -> nn.Module:
    """The candidate in a `best.py` as a drop-in for `reference`; the file's code runs in this process.

    Args:
        path: a `best.py` that PIKE wrote.
        reference: the original model, with the weights to use; it is not copied, and answers other calls.
        example_inputs: what calls will look like, where the file does not say; as for `optimize`.
        init_inputs: constructor arguments of `ModelNew`, where the file does not say.

    Raises:
        UserError: the file is missing or was not written by PIKE.
    """
    from pike.api.dropin import DropIn, Judged
    from pike.api.loading import from_terms
    from pike.engine import bestfile
    from pike.engine.signature import describe

    path = Path(path)
    terms = bestfile.read(path)
    call = terms.call
    if call is None:
        if example_inputs is None:
            raise UserError(f"The file {path} does not say what calls look like: give example_inputs to pike.load")
        example = call_of(example_inputs)
        call = describe(example.args, example.kwargs)
    gpu = terms.evaluation.device if terms.device == "cuda" else ""
    return DropIn(
        reference, from_terms(path.read_text(), terms, init_inputs), Judged(call, terms.device, gpu, terms.dtypes)
    )


def estimate(target: Any, *, example_inputs: Any = None, **options: Unpack[Options]) -> Estimate:
    """What a run would take: queries, tokens, money and hours; nothing is asked or started.

    Raises:
        UserError: the target or an option cannot be used.
    """
    import tempfile

    config = compose_config(words_for(target), options)
    with tempfile.TemporaryDirectory(prefix="pike-") as folder:
        return estimate_run(task_of(target, example_inputs, Path(folder)), config)


def lint(target: Any, *, example_inputs: Any = None, **options: Unpack[Options]) -> LintReport:
    """Whether a task tests anything: answers that need no model, or only a part of it, must all be refused.

    What was found about a file is kept in the user's cache, for `pike tasks SUITE`.

    Args:
        target: as for `optimize`.
        example_inputs: for a module.
        **options: `device`, `precision`, `config` and `settings` count here; see `Options`.

    Raises:
        UserError: the target or an option cannot be used.
        BoundaryError: the judge died.
    """
    import tempfile

    config = compose_config(words_for(target), options)
    with tempfile.TemporaryDirectory(prefix="pike-") as folder:
        task = task_of(target, example_inputs, Path(folder))
        found = lint_task(task, config.evaluate)
    with contextlib.suppress(StoreError):  # the answer is had, though it will be asked for again
        remember(task, found, config.evaluate.precision)
    return found


def doctor() -> tuple[Check, ...]:
    """What works on this machine, what is missing, and what to do; keys are never shown."""
    return examine()


def report(folder: str | Path) -> Path:
    """Write the page of a run, finished or not, and say where it is.

    Raises:
        UserError: there is no run in `folder`.
    """
    from pike.report import write

    return write(Path(folder))


def export(folder: str | Path, out: str | Path | None = None) -> Checkpoint:
    """Write a run, finished or not, as a checkpoint that the tools of OpenEvolve open.

    Args:
        folder: the run's folder.
        out: where `checkpoints/checkpoint_N` goes, by default `openevolve` inside the run's folder.

    Raises:
        UserError: there is no run in `folder`, the extra `openevolve` is missing, or the checkpoint cannot be written.
    """
    from pike.engine import openevolve

    return openevolve.export(Path(folder), Path(out) if out is not None else None)


async def _evaluated(request: EvaluationRequest, on_stage: OnStage | None) -> Evaluation:
    executor = LocalExecutor(EngineConfig(judges=1))
    try:
        return await executor.evaluate(request, on_stage)
    finally:
        await executor.aclose()


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, also where an event loop is running already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="pike")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def new_folder(words: str, root: Path = RUNS) -> Path:
    """A folder under `root` that does not exist yet, named by what runs in it and the time."""
    named = words.replace(":small", "-small")
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in named.rpartition(":")[2].removesuffix(".py"))
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = root / f"{stem.strip('-')[-60:] or 'run'}-{stamp}"
    count = 1
    while folder.exists():
        count += 1
        folder = folder.with_name(f"{folder.name.partition('~')[0]}~{count}")
    return folder


def _device_for(module: nn.Module, wanted: str) -> str:
    """Where a live module's candidates are judged: where it is, unless the user says otherwise."""
    if wanted != "auto":
        return wanted
    tensor = next(iter((*module.parameters(), *module.buffers())), None)
    return "auto" if tensor is None else str(tensor.device)


def _text_of(source: str | Path) -> str:
    if isinstance(source, str):
        return source
    try:
        return source.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The candidate {source} cannot be read: {error}; give the path of a Python file") from error


def task_in(folder: Path) -> Task:
    """The problem of the run in `folder`."""
    from pike.engine.outputs import remember_task

    return remember_task(folder)


def _loaded(task: Task, result: RunResult) -> nn.Module:
    """The original of a task that did not come as a live module, where the winner was judged."""
    from pike.engine import originals

    model: nn.Module = originals.load(task).reference.model
    return model.to("cuda") if result.device.is_cuda else model


__all__ = [
    "Check",
    "Estimate",
    "Optimized",
    "Trial",
    "doctor",
    "estimate",
    "evaluate",
    "export",
    "lint",
    "load",
    "optimize",
    "read_result",
    "report",
    "resume",
    "self_test",
]
