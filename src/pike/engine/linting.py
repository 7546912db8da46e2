"""Does a task test anything: asked in a judge process of its own.

Knows how to start one and end it. Does not know which answers are tried (`evaluate.lint`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pike.core.errors import BoundaryError, PikeError, UserError
from pike.core.evaluation import EvaluateOptions
from pike.core.lint import LintReport
from pike.core.task import Task


def lint_task(task: Task, options: EvaluateOptions) -> LintReport:
    """Whether every trivial answer to `task` is refused; takes seconds to minutes.

    Raises:
        UserError: the task or an option cannot be used.
        InfraError: the judge died.
    """
    (found,) = lint_tasks([lambda: task], options)
    if isinstance(found, PikeError):
        raise found
    return found


def lint_tasks(
    tasks: Iterable[Callable[[], Task]], options: EvaluateOptions
) -> Iterator[LintReport | UserError | BoundaryError]:
    """The reports on several tasks, one after the other in one judge; a task that fails gives its error instead.

    Args:
        tasks: each is read when its turn comes.
        options: `device`, `precision` and `threads` count.
    """
    from pike.evaluate.client import JudgeClient

    judge = JudgeClient()
    try:
        for read in tasks:
            try:
                yield judge.lint(read(), options)
            except (UserError, BoundaryError) as error:
                yield error
    finally:
        judge.close()
