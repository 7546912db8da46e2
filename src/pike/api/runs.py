"""The verbs for runs: optimize, resume, watch and estimate.

Knows the order in which the engine's parts are used for each. Does not know how any of them works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from pike.api.options import ConfigSource, ModelNames, compose_config, given
from pike.api.outputs import load, report
from pike.api.targets import (
    ExampleInputs,
    Target,
    kept_if_begun,
    new_folder,
    task_for_now,
    task_of,
    tasks_at,
    words_for,
)
from pike.api.waiting import run_to_end, watched
from pike.core import figures
from pike.core.errors import UserError
from pike.core.task import Task
from pike.engine import Observer, RunResult, Wiring, resume_run, start
from pike.engine.output.result import result_of
from pike.engine.state.models import require_keys as require_keys
from pike.engine.state.watching import WatchedRun
from pike.engine.tools import estimate as estimates
from pike.engine.tools.buckets import Bucket, best_files, judge_buckets
from pike.reporting import has_results

if TYPE_CHECKING:
    from torch import nn


class Optimized:
    """What `optimize` brought.

    Attributes:
        result: the outcome of the run.
        folder: the run's folder with the journal, `result.json`, `report.html`, and `best.py`
            where something faster was found.
        buckets: what the winner came to at other batch sizes, where `optimize` was asked for some.
    """

    def __init__(
        self, result: RunResult, task: Task, original: nn.Module | None = None, buckets: tuple[Bucket, ...] = ()
    ) -> None:
        self.result = result
        self.buckets = buckets
        self.folder = Path(result.folder)
        self._task = task
        self._original = original
        self._module: nn.Module | None = None

    @property
    def module(self) -> nn.Module:
        """A drop-in for the original (`DropIn`); the original itself where nothing was faster."""
        if self._module is None:
            original = self._original if self._original is not None else _original(self._task, self.result)
            path = self.result.best_path
            self._module = original if path is None else load([path, *best_files(self.folder)], original)
        return self._module

    def report(self) -> Path:
        """Write `report.html` again and give its path."""
        return report(self.folder)

    def _repr_html_(self) -> str:
        """The result as a notebook shows it."""
        result, timing = self.result, self.result.evaluation.timing if self.result.evaluation else None
        rows = [
            ("original", figures.ms(timing.reference_ms if timing else None)),
            ("best", figures.ms(timing.candidate_ms if timing and result.improved else None)),
            ("speedup", f"{figures.times(result.speedup)} {figures.interval(timing.speedup_ci95 if timing else None)}"),
            ("written by", f"{result.best.author}: {' + '.join(result.best.recipes)}" if result.best else ""),
            ("page", str(self.folder / "report.html")),
        ]
        cells = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in rows)
        return f"<table><caption>{escape(result.name)}</caption>{cells}</table>"

    def __repr__(self) -> str:
        speedup = f"{self.result.speedup:.2f}x" if self.result.speedup is not None else "no valid candidate"
        return f"<Optimized {self.result.name}: {speedup}, in {self.folder}>"


def optimize(
    target: Target,
    example_inputs: ExampleInputs | None = None,
    *,
    strategy: str | None = None,
    llm: ModelNames | None = None,
    efa_llm: ModelNames | None = None,
    iba_llm: ModelNames | None = None,
    plan_llm: ModelNames | None = None,
    code_llm: ModelNames | None = None,
    debug_llm: ModelNames | None = None,
    seed_recipes: bool | None = None,
    query_budget: int | None = None,
    usd_budget: float | None = None,
    max_minutes: float | None = None,
    device: str | None = None,
    devices: str | Sequence[str] | None = None,
    executor: str | None = None,
    tolerance: str | None = None,
    precision: str | None = None,
    concurrency: int | None = None,
    run_seed: int | None = None,
    dynamic_batch: Sequence[int] = (),
    config: ConfigSource | None = None,
    settings: Sequence[str] = (),
    out: str | Path | None = None,
    track: Sequence[str] = (),
    observer: Observer | None = None,
    progress: bool = True,
) -> Optimized:
    """Search for a faster form of a model and return it with the evidence.

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).eval()
    >>> example = torch.randn(32, 64)
    >>> quick = ["evaluate.max_timing_seconds=0.3", "engine.finalists=1"]
    >>> done = pike.optimize(model, example, query_budget=1, settings=quick, out="runs/example")
    >>> done.result.finished
    True
    >>> with torch.no_grad():
    ...     done.module(example).shape
    torch.Size([32, 64])

    Args:
        target: a `torch.nn.Module`, a KernelBench-format file, `SUITE/ID`,
            `package.module:callable`, or a `Task`.
        example_inputs: for a module: a tensor, a tuple of arguments, a dict of keyword arguments,
            or a function without arguments that draws such inputs. Without a function, further
            inputs are drawn like these.
        strategy: a preset, for example `pike-b`, or a strategy that `config` defines; by default
            `pike-b`, without a model `recipes`.
        llm: the model of the optimising agent, or several to choose from; `none` for recipes.
        efa_llm: the model of the error fixing agent, by default that of `llm`.
        iba_llm: the model of the brainstorming agent, by default that of `llm`.
        plan_llm: the model of STARK's planning agent, by default that of `llm`.
        code_llm: the model of STARK's coding agent, by default that of `llm`.
        debug_llm: the model of STARK's debugging agent, by default that of `efa_llm`.
        seed_recipes: put valid recipes into the library first; they use no query.
        query_budget: the most calls to models; without a model, the most candidates.
        usd_budget: the most US dollars.
        max_minutes: the time of the run. Part of it is kept for the finalists; without models the
            run ends at most a minute later, on an idle machine. Steps in flight are still judged,
            but those of recipes, which cost nothing, are dropped.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. A live module is judged where it is.
        devices: GPUs of one model that judge side by side, `all` or `cuda:N` each.
        executor: where judges work, `local`, `ray`, `ray:ADDRESS` or `http://HOST:PORT`.
        tolerance: the rule of correctness, `strict` or `paper`.
        precision: the arithmetic that candidates may use: `same`, `tf32` or `half`.
        concurrency: steps in flight at once.
        run_seed: the seed of every random stream.
        dynamic_batch: for a module: further batch sizes, for example `[1, 8, 32]`. The winner is
            judged again for each. The original answers where it fails, and calls of other sizes.
        config: a TOML file, or a whole configuration to start from.
        settings: `a.b=c` settings, which win over everything else.
        out: the run's folder, by default a new one under `runs/`.
        track: trackers that follow the run: `mlflow`, `wandb`, `trackio`, `tensorboard`. One that
            fails does not disturb it.
        observer: called with a `Progress` whenever something changed.
        progress: without an observer, say in one line on stderr where the run stands.

    Raises:
        UserError: the target, an option or a setting cannot be used.
        ProviderError: a provider could not be reached at the start.
        InfraError: no judge could be started.
        StoreError: the journal cannot be written; the run can be resumed.
    """
    terms = compose_config(words_for(target), given(locals()))
    folder = Path(out) if out is not None else new_folder(words_for(target))
    live = None if isinstance(target, str | Path | Task) else target
    others = tasks_at(target, example_inputs, dynamic_batch)
    task = task_of(target, example_inputs, folder.resolve())
    if live is not None and not terms.engine.devices:
        terms = replace(terms, evaluate=replace(terms.evaluate, device=_device_for(live, terms.evaluate.device)))
    with kept_if_begun(task, folder), watched(observer, progress, folder, track) as seen:
        result = run_to_end(start(task, terms, folder.resolve(), Wiring(observer=seen)))
        buckets = run_to_end(judge_buckets(result, terms, others, Wiring(observer=seen)))
    report(folder)
    return Optimized(result, task, live, buckets)


def resume(
    folder: str | Path, *, track: Sequence[str] = (), observer: Observer | None = None, progress: bool = True
) -> Optimized:
    """Continue a run where it stopped; a finished one is only read.

    >>> pike.resume("runs/example").result.finished
    True

    Args:
        folder: the folder of a run.
        track: as for `optimize`.
        observer: called with a `Progress` whenever something changed.
        progress: as for `optimize`.

    Raises:
        UserError: there is no run in `folder`, another process holds it, this version decides
            otherwise, or the run was imported.
        BoundaryError: as for `optimize`.
    """
    with watched(observer, progress, Path(folder), track) as seen:
        result = run_to_end(resume_run(Path(folder).resolve(), Wiring(observer=seen)))
    report(folder)
    return Optimized(result, task_in(folder))


def watch(folder: str | Path, observer_of: Callable[[Callable[[], float]], Observer]) -> RunResult:
    """Watch a run until no process works on it; one that ended is only read.

    Args:
        folder: the folder of a run.
        observer_of: makes who is told, from a clock of the run's own seconds.

    Raises:
        UserError: there is no run in `folder`, it ended before it had begun, or it was imported.
        StoreError: the journal cannot be read.
    """
    if has_results(Path(folder)):
        raise UserError(f"The folder '{folder}' is a suite's: watch one of the runs below it")
    run = WatchedRun(Path(folder).resolve())
    if run.state.started and (imported := run.state.started.imported):
        raise UserError(f"The run in {folder} was imported from {imported.tool}: see it with pike report")
    run.until_it_ends(observer_of(lambda: run.seconds))
    return result_of(run.state, run.folder, run.state.seconds)


def estimate(
    target: Target,
    *,
    example_inputs: ExampleInputs | None = None,
    strategy: str | None = None,
    llm: ModelNames | None = None,
    efa_llm: ModelNames | None = None,
    iba_llm: ModelNames | None = None,
    plan_llm: ModelNames | None = None,
    code_llm: ModelNames | None = None,
    debug_llm: ModelNames | None = None,
    seed_recipes: bool | None = None,
    query_budget: int | None = None,
    usd_budget: float | None = None,
    max_minutes: float | None = None,
    device: str | None = None,
    devices: str | Sequence[str] | None = None,
    executor: str | None = None,
    tolerance: str | None = None,
    precision: str | None = None,
    concurrency: int | None = None,
    run_seed: int | None = None,
    config: ConfigSource | None = None,
    settings: Sequence[str] = (),
) -> estimates.Estimate:
    """Say what a run would take: queries, tokens, money and hours; nothing is asked or started.

    The options mean what they mean for `optimize`.

    >>> expected = pike.estimate("demo/gpt_block", llm="openai:gpt-5", query_budget=50)
    >>> expected.calls
    51

    Raises:
        UserError: the target or an option cannot be used.
    """
    terms = compose_config(words_for(target), given(locals()))
    with task_for_now(target, example_inputs) as task:
        return estimates.estimate(task, terms)


def task_in(folder: str | Path) -> Task:
    """Read the problem of the run in `folder`."""
    from pike.engine.state.resume import read_state

    return read_state(Path(folder)).task


def _device_for(module: nn.Module, wanted: str) -> str:
    """Where a live module's candidates are judged: where it is, unless the user says otherwise."""
    if wanted != "auto":
        return wanted
    tensor = next(iter((*module.parameters(), *module.buffers())), None)
    return "auto" if tensor is None else str(tensor.device)


def _original(task: Task, result: RunResult) -> nn.Module:
    """Load the original of a task that was no live module, on the device of the winner."""
    from pike.engine.output import originals

    model: nn.Module = originals.load(task).reference.model
    return model.to("cuda") if result.device.is_cuda else model
