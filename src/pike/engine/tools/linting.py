"""Whether a task tests anything, found in a judge process of its own.

Knows how to start and end that process. Does not know which answers are tried (`judge`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from pike.core.errors import BoundaryError, PikeError, UserError
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions
from pike.core.verdict.lint import LintReport


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
    """The reports on several tasks, in order, by one judge; a task that fails gives its error.

    Args:
        tasks: each is read when its turn comes.
        options: `device`, `precision` and `threads` count.
    """
    from pike.judge.client import JudgeClient

    with closing(JudgeClient()) as judge:
        for read in tasks:
            try:
                yield judge.lint(read(), options)
            except (UserError, BoundaryError) as error:
                yield error
