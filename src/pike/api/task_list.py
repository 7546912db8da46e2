"""Suites as people look at them and register them: each task with its outline and its lint.

Knows where outlines and kept verdicts come from. Does not know how any of it is shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pike import tasks
from pike.api.options import Options, compose_config
from pike.core.errors import UserError
from pike.core.task import Task, is_held_out
from pike.core.verdict.evaluation import Precision
from pike.core.verdict.lint import LintReport
from pike.engine.output.commit import commit
from pike.engine.tools.linting import lint_tasks
from pike.tasks.lint_verdicts import LintVerdict, keep, known, verdict_of
from pike.tasks.loaders.registered import RegisteredSuite as RegisteredSuite
from pike.tasks.loaders.registered import add as _add
from pike.tasks.loaders.registered import registered as registered
from pike.tasks.loaders.registered import remove
from pike.tasks.outline import Outline
from pike.tasks.outline import TensorOutline as TensorOutline
from pike.tasks.outline_process import Inspector

remove_suite = remove


@dataclass(frozen=True, slots=True)
class SuiteInfo:
    """A suite in a list of suites.

    Attributes:
        name: what is typed for it.
        tasks: how many it has.
    """

    name: str
    tasks: int


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """One task in a list of tasks.

    Attributes:
        id: the task's id.
        name: what people read.
        path: the file or data set that it comes from.
        outline: what it takes and returns.
        lint: what lint found, None if it has not been asked.
        family: the kind of model that its file declares, empty where it declares none.
        held_out: whether it is in the half of a zoo on which no recipe is developed.
    """

    id: str
    name: str
    path: str
    outline: Outline
    lint: LintVerdict | None = None
    family: str = ""
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Linted:
    """One task of a suite that is being linted.

    Attributes:
        id: the task's id.
        verdict: what was found, None where the task failed.
        was_known: whether it had been found before.
        problem: why it failed.
    """

    id: str
    verdict: LintVerdict | None
    was_known: bool = False
    problem: str = ""


def known_suites() -> tuple[SuiteInfo, ...]:
    """The suites that come with PIKE, and those that the user registered."""
    shipped = [SuiteInfo(name, len(tasks.load_suite(name).entries)) for name in tasks.suites()]
    return (*shipped, *(SuiteInfo(suite.name, len(suite.tasks)) for suite in registered().values()))


def add_suite(name: str, place: str) -> tuple[RegisteredSuite, ...]:
    """Register the suites of a checkout, a folder or a data set, with the checkout's commit.

    Raises:
        UserError: the name is taken or cannot be one, or no task is at the place.
        StoreError: the registrations cannot be written.
    """
    folder = Path(place).expanduser()
    return _add(name, place, commit(folder) if folder.is_dir() else "")


def is_suite(name: str) -> bool:
    """Whether a name stands for a suite, not for a task.

    Raises:
        UserError: it stands for a place in which no task can be found.
    """
    return tasks.suite_of(name) is not None


def look_into(name: str, precision: Precision | None = None) -> Iterator[TaskInfo]:
    """Every task of a suite, or one task, with its outline; a task that cannot be read says why.

    Args:
        name: a suite or a task, as for `pike.optimize`.
        precision: of the lint results that are shown; the loosest known by default.

    Raises:
        UserError: there is neither a suite nor a task of that name.
    """
    suite = tasks.suite_of(name)
    with Inspector() as inspector:
        if suite is None:
            yield _looked_at(tasks.resolve(name), inspector, precision)
            return
        for entry in suite.entries:
            try:
                task = entry.read()
            except UserError as error:
                yield TaskInfo(entry.name, entry.id, entry.where, Outline(problems=(str(error),)))
            else:
                yield _looked_at(task, inspector, precision)


def lint_suite(name: str, options: Options) -> Iterator[Linted]:
    """Lint the tasks of a suite whose verdict at that precision is unknown; keep each verdict.

    Args:
        name: the suite.
        options: `device`, `precision` and `settings` count.

    Raises:
        UserError: there is no such suite, or an option cannot be used.
        StoreError: a verdict cannot be kept.
    """
    terms = compose_config(name, options).evaluate
    entries = tasks.load_suite(name).entries
    waiting: list[tasks.SuiteEntry] = []
    for entry in entries:
        verdict = _verdict(entry, terms.precision)
        if verdict is None:
            waiting.append(entry)
        else:
            yield Linted(entry.name, verdict, was_known=True)
    for entry, found in zip(waiting, lint_tasks([entry.read for entry in waiting], terms), strict=True):
        if isinstance(found, LintReport):
            yield Linted(entry.name, remember(entry.read(), found, terms.precision))
        else:
            yield Linted(entry.name, None, problem=str(found))


def remember(task: Task, report: LintReport, precision: Precision) -> LintVerdict:
    """Keep what lint found.

    Raises:
        StoreError: it cannot be written.
    """
    verdict = verdict_of(report, precision)
    keep(task, verdict)
    return verdict


def _verdict(entry: tasks.SuiteEntry, precision: Precision) -> LintVerdict | None:
    try:
        return known(entry.read(), precision)
    except UserError:
        return None


def _looked_at(task: Task, inspector: Inspector, precision: Precision | None) -> TaskInfo:
    if task.payload_path is not None:
        outline = Outline(problems=("a live module is not looked into",))
    else:
        outline = inspector.outline(task)
    lint, family = known(task, precision), task.family
    return TaskInfo(task.id, task.name, task.origin, outline, lint, family, bool(family) and is_held_out(task.id))
